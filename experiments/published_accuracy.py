"""Test accuracy on real graphs, beside the published figures: 5 seeds of every example configuration.

`HETJAX_DATA=... python experiments/published_accuracy.py` trains every row of its table, prints it, and writes
`experiments/results/published_accuracy.{csv,md,png}`. Every run is a work directory of its own under `--runs`, so an
interrupted table continues where it stopped. A seed decides both the weights and which nodes are held out for validation.
"""

import argparse
import csv
import json
import statistics
import subprocess
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot
from tqdm import tqdm

ROOT = Path(__file__).parent.parent
MINIBATCH = ["--sampling.mode", "minibatch"]
HELD_OUT = ["--data.validation_fraction", "0.2", "--train.evaluate_every", "5"]
ROWS = {
    # name: (example, further options, published R-GCN)
    "AIFB, full graph": ("aifb", [], 95.83),
    "MUTAG, full graph": ("mutag", [], 73.23),
    "HGB DBLP, full graph": ("dblp", [], 92.07),
    "AIFB, mini-batch": ("aifb", MINIBATCH, 95.83),
    "MUTAG, mini-batch": ("mutag", MINIBATCH, 73.23),
    "AIFB, full graph, a fifth held out": ("aifb", HELD_OUT, 95.83),
}


def run(example: str, options: list[str], seed: int, workdir: Path) -> dict:
    """Train one configuration, or read what it gave before."""
    config = ROOT / "examples" / f"{example}.yaml"
    seeds = ["--train.seed", str(seed), "--data.split_seed", str(seed)]
    command = [
        sys.executable,
        "-m",
        "hetjax.train",
        "--config",
        str(config),
        "--workdir",
        str(workdir),
        *options,
        *seeds,
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stderr}")
    return json.loads((workdir / "summary.json").read_text())


def table(results: dict[str, list[dict]]) -> str:
    """A Markdown table: mean, sample standard deviation and every run."""
    lines = [
        "| graph | test accuracy, mean ± standard deviation (%) | every run | macro-F1 (%) | published R-GCN | seconds a run | peak MiB |"
    ]
    lines.append("|---|---|---|---|---|---|---|")
    for name, runs in results.items():
        scores = [100 * run["test_accuracy"] for run in runs]
        spread = statistics.stdev(scores) if len(scores) > 1 else 0.0
        lines.append(
            f"| {name} | {statistics.mean(scores):.2f} ± {spread:.2f} | {', '.join(f'{score:.2f}' for score in scores)}"
            f" | {100 * statistics.mean(run['test_macro_f1'] for run in runs):.2f} | {ROWS[name][2]}"
            f" | {statistics.median(run['seconds'] for run in runs):.0f} | {max(run['peak_memory_bytes'] for run in runs) / 2**20:.0f} |"
        )
    return "\n".join(lines)


def draw(results: dict[str, list[dict]], file: Path) -> None:
    """Every run as a dot, the mean as a bar, the published figure as a line."""
    figure, axis = pyplot.subplots(figsize=(8, 4), layout="constrained")
    for place, (name, runs) in enumerate(results.items()):
        scores = [100 * run["test_accuracy"] for run in runs]
        axis.plot([place] * len(scores), scores, "o", color="tab:blue", alpha=0.6, label="a run" if not place else None)
        axis.plot(
            [place - 0.2, place + 0.2],
            [statistics.mean(scores)] * 2,
            color="tab:blue",
            label="mean" if not place else None,
        )
        axis.plot([place - 0.3, place + 0.3], [ROWS[name][2]] * 2, "k:", label="published R-GCN" if not place else None)
    axis.set_xticks(range(len(results)), [name.replace(", ", ",\n") for name in results])
    axis.set_ylabel("test accuracy (%)")
    axis.grid(axis="y", alpha=0.3)
    axis.legend()
    figure.savefig(file, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5, help="runs of every row")
    parser.add_argument("--rows", nargs="+", choices=list(ROWS), default=list(ROWS), help="rows of the table")
    parser.add_argument(
        "--runs", type=Path, default=ROOT / "runs" / "published_accuracy", help="where the work directories are"
    )
    parser.add_argument(
        "--out", type=Path, default=Path(__file__).parent / "results", help="where the table is written"
    )
    options = parser.parse_args()
    results: dict[str, list[dict]] = {}
    with tqdm(total=len(options.rows) * options.seeds, unit="run") as bar:
        for name in options.rows:
            example, more, _ = ROWS[name]
            for seed in range(options.seeds):
                bar.set_description(f"{name}, seed {seed}")
                workdir = options.runs / f"{name.replace(', ', '-').replace(' ', '-')}-{seed}"
                results.setdefault(name, []).append(run(example, more, seed, workdir))
                bar.update()
    options.out.mkdir(parents=True, exist_ok=True)
    with open(options.out / "published_accuracy.csv", "w", newline="") as stream:
        keys = [
            "test_accuracy",
            "test_macro_f1",
            "validation_accuracy",
            "epoch",
            "seconds",
            "peak_memory_bytes",
            "compiled_programs",
            "seed",
        ]
        writer = csv.DictWriter(stream, ["graph", *keys])
        writer.writeheader()
        writer.writerows(
            {"graph": name, **{key: run[key] for key in keys}} for name, runs in results.items() for run in runs
        )
    (options.out / "published_accuracy.md").write_text(table(results) + "\n")
    draw(results, options.out / "published_accuracy.png")
    print(table(results))


if __name__ == "__main__":
    main()
