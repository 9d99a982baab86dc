"""Seconds from the command to the first epoch's record, from an empty cache and from a full one.

`HETJAX_DATA=FOLDER python benchmarks/first_minute.py` trains an epoch of every case of `--cases`, `--rounds` times:
first with empty folders for compiled programs (XDG_CACHE_HOME) and kernels (NUMBA_CACHE_DIR), then again with what that left
there. A case is a file of `examples/`, or a real graph of `experiments/accuracy/no_options.py` and a model, all other options of which are chosen by
the graph, or the graph alone: `aifb_rgat`, `Cora hgt`, `Cora`. Prints a table, and writes `benchmarks/results/first_minute.{json,md}` after each; rows of
other cases stay there. A record is there when it can be read in the work directory, so reading the graph, compiling, the epoch
and its evaluation all count. Seconds of work are those of all cores, until the run has ended: what else the machine does changes them little.
`--package DIR` is another checkout to time beside this one, in turns. `--others N` has as many programs of other runs in the first folder
already, as a user's has who trained other models before.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent
from experiments.accuracy.no_options import ROWS, yelp

EXAMPLES = [graph + model for graph in ("aifb", "mutag", "dblp", "imdb") for model in ("", "_rgat", "_hgt")]
EXAMPLES += ["cora_gcn", "cora_gat", "citeseer_gcn", "citeseer_gat", "coauthor_sage", "tolokers_gat"]
CASES = [f"{graph} {model}" for graph in ROWS for model in ("rgcn", "rgat", "hgt")]
CASES += [graph for graph, row in ROWS.items() if row.family == "GCN"] + EXAMPLES
STATES = {"cold": 20, "warm": 8}  # and the seconds that we want
OTHER = 300_000  # bytes of another run's program
LIMIT = 1200  # seconds, after which a run counts as that long


def given(case: str, package: Path, folder: Path) -> list[str]:
    """Return the options of a case."""
    if case in EXAMPLES:
        return ["--config", str(package / "examples" / f"{case}.yaml"), "--train.epochs", "1"]
    graph, _, model = (case, "", "") if case in ROWS else case.rpartition(" ")
    options = ROWS[graph].options | {"train.recipe": "graph", "train.epochs": "1"}
    if options["data.format"] == "store":
        options["data.path"] = str(yelp(folder).absolute())
    options |= {"model.name": model} if model else {}
    return [word for key, value in options.items() for word in (f"--{key}", value)]


def worked() -> float:
    """Return the seconds of work of processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def first_record(package: Path, options: list[str], caches: Path, folder: Path) -> tuple[float, float]:
    """Return the seconds until a run's first record is written, and the seconds of work until the run has ended."""
    command = [sys.executable, "-m", "hetjax.train", *options, "--workdir", str(folder / "run")]
    environment = os.environ | {
        "PYTHONPATH": str(package),
        "XDG_CACHE_HOME": str(caches),
        "NUMBA_CACHE_DIR": str(caches / "numba"),
    }
    errors = folder / "errors"
    with errors.open("w") as into:
        started, before = time.perf_counter(), worked()
        process = subprocess.Popen(command, stdout=into, stderr=into, env=environment, cwd=package)
        records = folder / "run" / "metrics.jsonl"
        try:
            while not (records.exists() and records.stat().st_size) and time.perf_counter() - started < LIMIT:
                if process.poll() not in (None, 0):
                    sys.exit(f"{' '.join(command)}\n{errors.read_text()[-2000:]}")
                time.sleep(0.02)
            seconds = time.perf_counter() - started
            process.wait(LIMIT)  # so that what it compiled is kept
        finally:
            process.kill()
    return round(seconds, 2), round(worked() - before, 2)


def keep_others(caches: Path, count: int) -> None:
    """Write programs of other runs into the folder of today's checkouts, and into that of older ones, where jax also
    noted when each was used."""
    if not count:
        return
    for name, notes in (("programs", True), ("compiled", False)):
        folder = caches / "hetjax" / name
        folder.mkdir(parents=True)
        for number in range(count):
            with (folder / f"jit_other-{number:064x}-cache").open("wb") as file:
                file.truncate(OTHER)
            if notes:
                (folder / f"jit_other-{number:064x}-atime").write_bytes(time.time_ns().to_bytes(8, "little"))


def table(rows: list[dict]) -> str:
    lines = [
        "| case | package | cold, s | warm, s | cold, s of work | warm, s of work |",
        "|---|---|---|---|---|---|",
    ]
    for case, package in dict.fromkeys((row["case"], row["package"]) for row in rows):
        found = [row for row in rows if (row["case"], row["package"]) == (case, package)]
        cells = []
        for state in (*STATES, *(f"{state}_work" for state in STATES)):
            times = [row[state] for row in found]
            cells.append(f"{statistics.median(times):.1f} ({min(times):.1f} to {max(times):.1f})")
        lines.append(f"| {case} | {package} | {' | '.join(cells)} |")
    return "\n".join(lines)


def over_cases(rows: list[dict]) -> str:
    """Return a line for every package and state: the median of the cases, the least and the most, and how many are as fast as we want."""
    lines = []
    for package in dict.fromkeys(row["package"] for row in rows):
        for state, wanted in STATES.items():
            times: dict[str, list[float]] = {}
            for row in rows:
                if row["package"] == package:
                    times.setdefault(row["case"], []).append(row[state])
            medians = {case: statistics.median(own) for case, own in times.items()}
            least, most = min(medians, key=medians.__getitem__), max(medians, key=medians.__getitem__)
            under = sum(seconds < wanted for seconds in medians.values())
            lines.append(
                f"- {package}, {state}: {statistics.median(medians.values()):.1f} s in the median of {len(medians)} cases, "
                f"{medians[least]:.1f} ({least}) to {medians[most]:.1f} ({most}); under {wanted} s in {under}"
            )
    return "\n".join(lines)


def page(rows: list[dict], others: int) -> str:
    among = f", among {others:,} kept programs of other runs" if others else ""
    return f"# The first minute: seconds to the first epoch's record{among}\n\n{over_cases(rows)}\n\n{table(rows)}\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", nargs="+", default=CASES, choices=CASES, metavar="CASE", help="default: all")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--package", type=Path, nargs="+", default=[ROOT], help="checkouts; default: this one")
    parser.add_argument("--others", type=int, default=0, help="programs of other runs that are kept already")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "first_minute", help="without its suffix")
    options = parser.parse_args()
    kept = options.out.with_suffix(".json")
    rows: list[dict] = json.loads(kept.read_text()) if kept.exists() else []
    if any(row.get("others", 0) != options.others for row in rows):
        parser.error(f"{kept} has readings among another number of --others; give another --out")
    rows = [row for row in rows if row["case"] not in options.cases]
    for case in options.cases:
        for _ in range(options.rounds):
            for package in options.package:
                row: dict = {
                    "case": case,
                    "package": package.resolve().name if len(options.package) > 1 else "hetjax",
                    "others": options.others,
                }
                with tempfile.TemporaryDirectory() as caches:
                    keep_others(Path(caches), options.others)
                    said = given(case, package.resolve(), Path(caches))
                    for state in STATES:
                        with tempfile.TemporaryDirectory() as folder:
                            found = first_record(package.resolve(), said, Path(caches), Path(folder))
                            row[state], row[f"{state}_work"] = found
                rows.append(row)
                print(json.dumps(row), flush=True)
                kept.write_text(json.dumps(rows, indent=1) + "\n")
                options.out.with_suffix(".md").write_text(page(rows, options.others))
    print(over_cases(rows), table(rows), sep="\n\n")


if __name__ == "__main__":
    main()
