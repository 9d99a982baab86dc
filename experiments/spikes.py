"""Whether training stands features that nobody scaled and a rate that is far too high: three published graphs, with the other options as the graph chooses them.

`HETJAX_DATA=... python experiments/spikes.py` trains HGB DBLP, Citeseer and Tolokers with their features as they are, with these times 1000, and at a learning rate of 10, and
writes `experiments/results/spikes.csv` after every run: what the run has on the test nodes, stacked and alone, the best baseline, how often the guard lowered the rate, and the
largest and the last loss of an epoch. `lines` are what the run said of it.
"""

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
from runs import ROOT, markdown, read_rows, records, replace_rows, train
from tqdm import tqdm

from hetjax.config import Data
from hetjax.graph import store
from hetjax.load import load
from hetjax.results import lines

OUT = ROOT / "experiments" / "results" / "spikes.csv"
GRAPHS = {"HGB DBLP": ("hgb", "hgb_dblp"), "Citeseer": ("npz", "citeseer"), "Tolokers": ("npz", "tolokers")}
CASES = {"as it is": (1, None), "features times 1000": (1000, None), "a rate of 10": (1, 10)}


def stored(name: str, factor: int, folder: Path) -> Path:
    """The store of a graph whose features are so many times as large."""
    where = folder / f"{name} {factor}"
    if not where.exists():
        graph = load(Data(GRAPHS[name][0], GRAPHS[name][1]))
        larger = {t: np.asarray(x, np.float32) * np.float32(factor) for t, x in graph.features.items()}
        store.save(graph if factor == 1 else replace(graph, features=larger), where)
    return where


def run(name: str, case: str, folder: Path) -> dict:
    """Train once."""
    factor, rate = CASES[case]
    options = {
        "data.format": "store",
        "data.path": str(stored(name, factor, folder).absolute()),
        "train.recipe": "graph",
    }
    workdir = folder / f"{name} {case}"
    summary = train(workdir, "", options | ({"train.learning_rate": str(rate)} if rate else {}))
    metric = summary["chosen_by"]
    best = max(row[metric] for row in summary["baselines"].values() if row.get(metric) is not None)
    losses = [row["train_loss"] for row in records(workdir) if "train_loss" in row]
    said = [line for line in lines(summary, workdir, False) if "does worse" in line]
    return {
        "graph": name,
        "case": case,
        "metric": metric,
        "test": round(100 * summary[f"test_{metric}"], 2),
        "alone": round(100 * summary["stacking"]["model_alone"][f"test_{metric}"], 2),
        "baseline": round(100 * best, 2),
        "rate_lowered": summary["learning_rate_lowered"],
        "largest_loss": round(max(losses), 3),
        "last_loss": round(losses[-1], 3),
        "lines": "; ".join(said),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", nargs="+", default=list(GRAPHS), choices=list(GRAPHS))
    parser.add_argument("--cases", nargs="+", default=list(CASES), choices=list(CASES))
    parser.add_argument("--out", type=Path, default=OUT, help="the file of all runs")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as made_here:
        for name in tqdm(options.graphs, unit="graph"):
            for case in options.cases:
                replace_rows(options.out, ("graph", "case"), [run(name, case, Path(made_here))])
    print(markdown(read_rows(options.out)))


if __name__ == "__main__":
    main()
