"""Results of training where nothing is given but the graph, on generated graphs of kinds that no rule was made for,
beside the best baseline.

`python experiments/accuracy/unseen_graphs.py` makes every graph of `unseen_kinds.KINDS`, trains it by `python -m hetjax.train --data.format store --data.path ...
--train.seed N`, and writes `experiments/accuracy/results/unseen_graphs.csv` after every run, and the table. A seed draws another graph and other weights. Of those
named `in mini-batches` that mode is given, and the rest is chosen. `test` is what predictions have: the stack of the model with baselines where it is kept, `alone` the model.
With `--runs FOLDER` runs are kept, and those that are there are not trained again.
"""

import argparse
import statistics
import tempfile
from pathlib import Path

from tqdm import tqdm

from experiments.accuracy.unseen_kinds import KINDS, made
from experiments.runs import markdown, read_rows, replace_rows, train
from hetjax.graph import store

OUT = Path(__file__).parent / "results" / "unseen_graphs.csv"


def run(name: str, seed: int, folder: Path, more: list[str]) -> dict:
    """Train once."""
    where = folder / f"{name.replace(' ', '_').replace(',', '')}_{seed}"
    if not where.exists():
        store.save(made(KINDS[name], seed), where)
    options = {"data.format": "store", "data.path": str(where.absolute()), "train.seed": str(seed)}
    if KINDS[name].mode:
        options |= {"sampling.mode": KINDS[name].mode, "train.recipe": "graph"}
    options |= dict(pair.split("=", 1) for pair in more)
    summary = train(folder / f"{where.name}_run", "", options)
    found = {key: row["micro_f1"] for key, row in summary["baselines"].items() if row.get("micro_f1") is not None}
    best = max(found, key=lambda key: found[key])
    alone = summary["test_micro_f1"]
    row = {"graph": name, "seed": seed, "test": round(100 * summary["stacking"].get("test_micro_f1", alone), 2)}
    row |= {"alone": round(100 * alone, 2), "best_baseline": best}
    return row | {"baseline": round(100 * found[best], 2), "epoch": summary["epoch"], "seconds": summary["seconds"]}


def table(file: Path) -> str:
    """Return the mean, and the worst distance to the best baseline, of every graph."""
    lines = []
    for name in KINDS:
        rows = [row for row in read_rows(file) if row["graph"] == name]
        if rows:
            test = [float(row["test"]) for row in rows]
            beyond = [float(row["test"]) - float(row["baseline"]) for row in rows]
            spread = f" ± {statistics.stdev(test):.2f}" if len(test) > 1 else ""
            cells = {"graph": name, "test (%)": f"{statistics.mean(test):.2f}{spread}", "runs": len(rows)}
            cells["alone"] = f"{statistics.mean(float(row['alone']) for row in rows):.2f}"
            cells["best baseline"] = f"{statistics.mean(float(row['baseline']) for row in rows):.2f}"
            cells["which"] = " or ".join(sorted({row["best_baseline"] for row in rows}))
            lines.append(cells | {"worst run beside its baseline": f"{min(beyond):+.2f}"})
    return markdown(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", nargs="+", default=list(KINDS), choices=list(KINDS))
    parser.add_argument("--seeds", nargs="+", type=int, default=list(range(3)))
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="an option that all runs have")
    parser.add_argument("--out", type=Path, default=OUT, help="the file of all runs")
    parser.add_argument("--runs", type=Path, help="where the graphs and the runs' folders are kept; default: nowhere")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as made_here:
        folder = options.runs or Path(made_here)
        folder.mkdir(parents=True, exist_ok=True)
        for seed in options.seeds:
            for name in tqdm(options.graphs, f"seed {seed}", unit="run"):
                replace_rows(options.out, ("graph", "seed"), [run(name, seed, folder, options.set)])
    print(table(options.out))


if __name__ == "__main__":
    main()
