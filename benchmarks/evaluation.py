"""The time of an epoch's training, and that of the evaluation after it.

`HETJAX_DATA=FOLDER python benchmarks/evaluation.py` runs `hetjax.train` on real graphs and on synthetic ones, on the whole graph and in mini-batches, with an
evaluation after every epoch, and prints a table: of each case the median milliseconds of both but for the first epoch's, and the peak of memory. It writes
`benchmarks/results/evaluation.{json,md}` after each; rows of other cases stay there. `--package DIR ...` are checkouts that are timed in turns.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent
GRAPHS = {
    "AIFB": ("rdf", "--data.path", "aifb", "--rdf.validation_fraction", "0.2"),
    "MUTAG": ("rdf", "--data.path", "mutag", "--rdf.validation_fraction", "0.2"),
    "HGB DBLP": ("hgb", "--data.path", "hgb_dblp"),
    "HGB IMDB": ("hgb", "--data.path", "hgb_imdb"),
    "Freebase's shape, a tenth": ("synthetic", "--synthetic.schema", "freebase", "--synthetic.scale", "0.1"),
    "Donor's shape, a tenth": ("synthetic", "--synthetic.schema", "donor", "--synthetic.scale", "0.1"),
    "IGB-HET's shape, a hundredth": ("synthetic", "--synthetic.schema", "igb-het", "--synthetic.scale", "0.01"),
    "ogbn-mag's shape, a tenth": ("synthetic", "--synthetic.schema", "ogbn-mag", "--synthetic.scale", "0.1"),
}
MODELS, MODES = ("rgcn", "rgat", "hgt"), ("full", "minibatch")
EPOCHS = {"full": 8, "minibatch": 4}
OPTIONS = (
    "--train.recipe",
    "none",
    "--train.baselines",
    "false",
    "--train.evaluate_every",
    "1",
    "--sampling.fanout",
    "[10,10]",
)
PARTS = {"train_epoch": "training", "validate": "evaluation"}  # functions of `hetjax.train`


def timed(options: list[str]) -> None:
    """Train, and print the time of each part as a line of JSON."""
    from hetjax.system import runtime

    runtime.prepare()
    import hetjax.train as command

    times: dict[str, list[float]] = {part: [] for part in PARTS.values()}

    def timing(function, into):
        def called(*given):
            started = time.perf_counter()
            found = function(*given)
            into.append(1000 * (time.perf_counter() - started))
            return found

        return called

    for name, part in PARTS.items():
        setattr(command, name, timing(getattr(command, name), times[part]))
    command.main(options)
    print(json.dumps({part: own[1:] for part, own in times.items()} | {"peak_mib": runtime.peak_memory() >> 20}))


def measured(package: Path, graph: str, model: str, mode: str) -> dict:
    """Return the results of one run of a checkout."""
    with tempfile.TemporaryDirectory() as folder:
        options = ["--data.format", *GRAPHS[graph], "--model.name", model, "--sampling.mode", mode, *OPTIONS]
        options += ["--train.epochs", str(EPOCHS[mode]), "--workdir", f"{folder}/run"]
        command = [sys.executable, __file__, "--run", *options]
        environment = os.environ | {"PYTHONPATH": str(package)}
        done = subprocess.run(command, env=environment, cwd=package, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stderr[-2000:]}")
    found = json.loads(done.stdout.splitlines()[-1])
    return found | {"package": package.absolute().name, "graph": graph, "model": model, "mode": mode}


def table(rows: list[dict]) -> str:
    lines = [
        "| graph | model | mode | package | training, ms | evaluation, ms | peak, MiB |",
        "|---|---|---|---|---|---|---|",
    ]
    keys = ("graph", "model", "mode", "package")
    for case in dict.fromkeys(tuple(row[key] for key in keys) for row in rows):
        own = [row for row in rows if tuple(row[key] for key in keys) == case]
        times = [statistics.median(t for row in own for t in row[part]) for part in PARTS.values()]
        peaks = [row["peak_mib"] for row in own]
        lines.append(
            f"| {' | '.join(case)} | {' | '.join(f'{t:.1f}' for t in times)} | {min(peaks):,} to {max(peaks):,} |"
        )
    return "\n".join(lines)


def main() -> None:
    if sys.argv[1:2] == ["--run"]:
        timed(sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--graphs",
        nargs="+",
        default=list(GRAPHS),
        choices=list(GRAPHS),
        metavar="GRAPH",
        help=f"of {', '.join(GRAPHS)}",
    )
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=MODELS)
    parser.add_argument("--modes", nargs="+", default=list(MODES), choices=MODES)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--package", type=Path, nargs="+", default=[ROOT], help="checkouts; default: this one")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "evaluation", help="without its suffix")
    options = parser.parse_args()
    if len({package.absolute().name for package in options.package}) < len(options.package):
        parser.error("checkouts need folders of different names, by which rows are called")
    kept = options.out.with_suffix(".json")
    rows = json.loads(kept.read_text()) if kept.exists() else []
    for graph in options.graphs:
        for model in options.models:
            for mode in options.modes:
                rows = [row for row in rows if (row["graph"], row["model"], row["mode"]) != (graph, model, mode)]
                for _ in range(options.rounds):
                    rows += [measured(package.absolute(), graph, model, mode) for package in options.package]
                kept.write_text(json.dumps(rows))
                options.out.with_suffix(".md").write_text(
                    f"# An epoch's training, and the evaluation after it\n\n{table(rows)}\n"
                )
    print(table(rows))


if __name__ == "__main__":
    main()
