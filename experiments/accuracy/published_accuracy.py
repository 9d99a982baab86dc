"""Test accuracy on real graphs, beside the published figures: 5 seeds of every row, and 10 of R-GCN on MUTAG, as its paper.

`HETJAX_DATA=... python experiments/accuracy/published_accuracy.py` trains every row of its table, prints it, and writes
`experiments/accuracy/results/published_accuracy.{csv,md,png}` after each; `--rows` replaces some and leaves the others as they were.
Every run is a work directory of its own under `--runs`, so an interrupted table continues where it stopped. A seed decides
both the weights and which nodes are held out for validation.
"""

import argparse
import csv
import statistics
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot
from tqdm import tqdm

from experiments.runs import ROOT, train
from hetjax.system import yaml_file


class Row(NamedTuple):
    """One row of the table.

    Attributes:
      example: its configuration, `examples/NAME.yaml`.
      published: test micro-F1 (for one label a node: the accuracy) in the literature, and of which model.
      options: what differs from the example.
      seeds: how many runs.
    """

    example: str
    published: tuple[float, str]
    options: dict[str, str]
    seeds: int = 5


MINIBATCH = {"sampling.mode": "minibatch"}
AS_MANY_STEPS = {"train.epochs": "10"}  # of 5 mini-batches, as the whole graph's 50 epochs of one step
AIFB, MUTAG = (95.83, "R-GCN"), (73.23, "R-GCN")
ROWS = {
    "AIFB, R-GCN": Row("aifb", AIFB, {}),
    "MUTAG, R-GCN": Row("mutag", MUTAG, {}, seeds=10),
    "AIFB, R-GAT": Row("aifb_rgat", AIFB, {}),
    "AIFB, HGT": Row("aifb_hgt", AIFB, {}),
    "MUTAG, R-GAT": Row("mutag_rgat", MUTAG, {}),
    "MUTAG, HGT": Row("mutag_hgt", MUTAG, {}),
    "HGB DBLP, R-GCN": Row("dblp", (92.07, "R-GCN"), {}),
    "HGB DBLP, R-GAT": Row("dblp_rgat", (93.39, "GAT"), {}),
    "HGB DBLP, HGT": Row("dblp_hgt", (93.49, "HGT"), {}),
    "HGB IMDB, R-GCN": Row("imdb", (62.05, "R-GCN"), {}),
    "HGB IMDB, R-GAT": Row("imdb_rgat", (64.86, "GAT"), {}),
    "HGB IMDB, HGT": Row("imdb_hgt", (67.20, "HGT"), {}),
    "AIFB, R-GCN, mini-batch": Row("aifb", AIFB, MINIBATCH),
    "MUTAG, R-GCN, mini-batch": Row("mutag", MUTAG, MINIBATCH | AS_MANY_STEPS),
}
COLUMNS = (
    "test_micro_f1",
    "test_macro_f1",
    "test_accuracy",
    "validation_accuracy",
    "epoch",
    "weights",
    "learnable_features",
    "seconds",
    "peak_memory_bytes",
    "compiled_programs",
    "seed",
)
COUNTS = ("epoch", "weights", "learnable_features", "peak_memory_bytes", "compiled_programs", "seed")  # whole numbers


def scores(runs: list[dict]) -> list[float]:
    return [100 * run["test_micro_f1"] for run in runs]


def table(results: dict[str, list[dict]]) -> str:
    """Return a Markdown table: mean, sample standard deviation and every run."""
    lines = [
        "| graph, model | test micro-F1, mean ± standard deviation (%) | every run | macro-F1 (%) | published"
        " | weights + learnable features | seconds a run | peak MiB |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, runs in results.items():
        found, (figure, model) = scores(runs), ROWS[name].published
        spread = statistics.stdev(found) if len(found) > 1 else 0.0
        cells = [
            name,
            f"{statistics.mean(found):.2f} ± {spread:.2f}",
            ", ".join(f"{score:.2f}" for score in found),
            f"{100 * statistics.mean(run['test_macro_f1'] for run in runs):.2f}",
            f"{model} {figure}",
            f"{runs[0]['weights']:,} + {runs[0]['learnable_features']:,}",
            f"{statistics.median(run['seconds'] for run in runs):.0f}",
            f"{max(run['peak_memory_bytes'] for run in runs) / 2**20:.0f}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def draw(results: dict[str, list[dict]], file: Path) -> None:
    """Draw every run as a dot, the mean as a bar, the published figure as a line."""
    figure, axis = pyplot.subplots(figsize=(10, 0.45 * len(results) + 1.5), layout="constrained")
    for place, (name, runs) in enumerate(results.items()):
        found, (published, _) = scores(runs), ROWS[name].published
        label = {"run": "a run", "mean": "mean", "published": "published"} if not place else {}
        axis.plot(found, [place] * len(found), "o", color="tab:blue", alpha=0.5, label=label.get("run"))
        axis.plot(statistics.mean(found), place, "|", color="tab:blue", ms=18, mew=2, label=label.get("mean"))
        axis.plot(published, place, "|", color="black", ms=18, mew=1.5, label=label.get("published"))
    axis.set_yticks(range(len(results)), list(results))
    axis.invert_yaxis()
    axis.set_xlabel("test micro-F1 (%), for one label a node the accuracy")
    axis.grid(axis="x", alpha=0.3)
    axis.legend()
    figure.savefig(file, dpi=110)


def read(out: Path) -> dict[str, list[dict]]:
    """Return the runs of every row that were written before."""
    results: dict[str, list[dict]] = {}
    file = out / "published_accuracy.csv"
    if file.exists():
        with open(file, newline="") as stream:
            for line in csv.DictReader(stream):
                run = {column: float(value) if value else None for column, value in line.items() if column != "row"}
                whole = {column: int(run[column]) for column in COUNTS}
                results.setdefault(line["row"], []).append(run | whole)
    return results


def write(found: dict[str, list[dict]], out: Path) -> None:
    """Write the table in its three forms, in the order of `ROWS`."""
    out.mkdir(parents=True, exist_ok=True)
    results = {name: found[name] for name in ROWS if name in found}
    with open(out / "published_accuracy.csv", "w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["row", *COLUMNS])
        for name, runs in results.items():
            writer.writerows([name, *(run[column] for column in COLUMNS)] for run in runs)
    (out / "published_accuracy.md").write_text(table(results) + "\n")
    draw(results, out / "published_accuracy.png")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, help="runs of every row; default: as many as the table has")
    about = f"rows of the table: {'; '.join(ROWS)}"
    parser.add_argument("--rows", nargs="+", choices=list(ROWS), default=list(ROWS), metavar="ROW", help=about)
    parser.add_argument(
        "--jobs", type=int, default=1, help="runs at a time; more than one makes each one's seconds longer"
    )
    parser.add_argument(
        "--runs", type=Path, default=ROOT / "runs" / "published_accuracy", help="where the work directories are"
    )
    parser.add_argument(
        "--out", type=Path, default=Path(__file__).parent / "results", help="where the table is written"
    )
    options = parser.parse_args()
    seeds = {name: options.seeds or ROWS[name].seeds for name in options.rows}
    tasks = [(name, seed) for name in options.rows for seed in range(seeds[name])]
    results = read(options.out)
    with tqdm(total=len(tasks), unit="run") as bar, ThreadPoolExecutor(options.jobs) as pool:

        def run(task: tuple[str, int]) -> dict:
            name, seed = task
            row, folder = ROWS[name], f"{name.replace(', ', '-').replace(' ', '-')}-{seed}"
            kind = yaml_file.read(ROOT / "examples" / f"{row.example}.yaml")["data"]["format"]
            seeded = {"train.seed": str(seed), f"{kind}.split_seed": str(seed)}
            summary = train(options.runs / folder, row.example, row.options | seeded)
            bar.set_description(f"{name}, seed {seed}")
            bar.update()
            return summary

        made = pool.map(run, tasks)
        for name in options.rows:
            results[name] = [next(made) for _ in range(seeds[name])]
            write(results, options.out)
    print((options.out / "published_accuracy.md").read_text(), end="")


if __name__ == "__main__":
    main()
