"""Seconds from the command to the first epoch's record, from an empty cache and from a full one.

`HETJAX_DATA=FOLDER python benchmarks/first_minute.py` trains an epoch of every configuration of `--configs` in `examples/` `--rounds` times:
first with empty folders for compiled programs (XDG_CACHE_HOME) and kernels (NUMBA_CACHE_DIR), then again with what that left
there. Prints a table, and writes `benchmarks/results/first_minute.{json,md}` after each; rows of other configurations stay there. A
record is there when it can be read in the work directory, so reading the graph, compiling, the epoch and its evaluation all count.
Seconds of work are those of all cores, until the run has ended: what else the machine does changes them little.
`--package DIR` is another checkout to time beside this one, in turns.
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
CONFIGS = [graph + model for graph in ("aifb", "mutag", "dblp", "imdb") for model in ("", "_rgat", "_hgt")]
STATES = "cold", "warm"
LIMIT = 1200  # seconds, after which a run counts as that long


def worked() -> float:
    """Seconds that processes worked which have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def first_record(package: Path, config: str, caches: Path, folder: Path) -> tuple[float, float]:
    """Seconds until a run's first record is written, and of work until the run has ended."""
    command = [sys.executable, "-m", "hetjax.train", "--config", str(package / "examples" / f"{config}.yaml")]
    command += ["--workdir", str(folder / "run"), "--train.epochs", "1"]
    given = os.environ | {
        "PYTHONPATH": str(package),
        "XDG_CACHE_HOME": str(caches),
        "NUMBA_CACHE_DIR": str(caches / "numba"),
    }
    errors = folder / "errors"
    with errors.open("w") as into:
        started, before = time.perf_counter(), worked()
        process = subprocess.Popen(command, stdout=into, stderr=into, env=given, cwd=package)
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


def table(rows: list[dict]) -> str:
    lines = [
        "| configuration | package | cold, s | warm, s | cold, s of work | warm, s of work |",
        "|---|---|---|---|---|---|",
    ]
    for config, package in dict.fromkeys((row["config"], row["package"]) for row in rows):
        found = [row for row in rows if (row["config"], row["package"]) == (config, package)]
        cells = []
        for state in (*STATES, *(f"{state}_work" for state in STATES)):
            times = [row[state] for row in found]
            cells.append(f"{statistics.median(times):.1f} ({min(times):.1f} to {max(times):.1f})")
        lines.append(f"| {config} | {package} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--configs", nargs="+", default=CONFIGS, help="names of files in examples/")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--package", type=Path, nargs="+", default=[ROOT], help="checkouts; default: this one")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "first_minute", help="without its suffix")
    options = parser.parse_args()
    kept = options.out.with_suffix(".json")
    rows: list[dict] = json.loads(kept.read_text()) if kept.exists() else []
    rows = [row for row in rows if row["config"] not in options.configs]
    for config in options.configs:
        for _ in range(options.rounds):
            for package in options.package:
                row: dict = {
                    "config": config,
                    "package": package.resolve().name if len(options.package) > 1 else "hetjax",
                }
                with tempfile.TemporaryDirectory() as caches:
                    for state in STATES:
                        with tempfile.TemporaryDirectory() as folder:
                            found = first_record(package.resolve(), config, Path(caches), Path(folder))
                            row[state], row[f"{state}_work"] = found
                rows.append(row)
                print(json.dumps(row), flush=True)
                kept.write_text(json.dumps(rows, indent=1) + "\n")
                words = f"# The first minute: seconds to the first epoch's record\n\n{table(rows)}\n"
                options.out.with_suffix(".md").write_text(words)
    print(table(rows))


if __name__ == "__main__":
    main()
