"""The effect of features that nobody scaled and of a learning rate that is far too high: the nine graphs of
`no_options.py`, with nothing else given.

`HETJAX_DATA=... python experiments/accuracy/spikes.py` trains each with its features times 1000, if it has any, and at a rate of 10, and writes `experiments/accuracy/results/spikes.csv` after every run:
the exit status, the last of what was said that names the learning rate, what the run has on the test nodes, the best baseline there, how often the guard lowered the rate, and whether
any number of the run is not finite. `a rate of 10, no recipe` has the other options as by default.
"""

import argparse
import json
import math
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
from tqdm import tqdm

from experiments.accuracy.no_options import ROWS, yelp
from experiments.runs import ROOT, environment, markdown, read_rows, records, replace_rows
from hetjax.datasets.load import load
from hetjax.graph import store
from hetjax.options import owners

OUT = Path(__file__).parent / "results" / "spikes.csv"
RATE = {"train.learning_rate": "10"}
CASES = {
    "features times 1000": (1000, {}),
    "a rate of 10": (1, RATE),
    "a rate of 10, no recipe": (1, RATE | {"train.recipe": "none"}),
}
BARE = "AIFB", "MUTAG"  # which have no features
NAMED = "train.learning_rate"  # by what is said of it


def stored(name: str, factor: int, folder: Path) -> Path:
    """Return the store of a graph whose features are so many times as large."""
    where = folder / f"{name} {factor}"
    if not where.exists():
        options = {key.partition(".")[2]: value for key, value in ROWS[name].options.items()}
        if options["format"] == "store":
            options["path"] = str(yelp(folder).absolute())
        graph = load(owners.made_data(**options))
        larger = {t: np.asarray(x, np.float32) * np.float32(factor) for t, x in graph.features.items()}
        store.save(replace(graph, features=larger), where)
    return where


def finite(value: object) -> bool:
    """Return whether all numbers in a value are finite."""
    if isinstance(value, dict | list):
        return all(map(finite, value.values() if isinstance(value, dict) else value))
    return not isinstance(value, float) or math.isfinite(value)


def run(name: str, case: str, folder: Path) -> dict:
    """Train once, however it ends."""
    factor, options = CASES[case]
    options = ROWS[name].options | options
    if factor != 1 or options["data.format"] == "store":
        options = {key: value for key, value in options.items() if not key.startswith("data.")}
        options |= {"data.format": "store", "data.path": str(stored(name, factor, folder).absolute())}
    workdir = folder / f"{name} {case}"
    command = [sys.executable, "-m", "hetjax.train", "--workdir", str(workdir)]
    command += [f"--{key}={value}" for key, value in options.items()]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(folder), cwd=ROOT)
    said = [line for line in (done.stdout + done.stderr).splitlines() if NAMED in line and f"{NAMED} 0.0" not in line]
    row = {"graph": name, "case": case, "status": done.returncode}
    row |= dict.fromkeys(("metric", "test", "alone", "baseline", "rate_lowered"), "")
    written = records(workdir)
    largest = max((line["train_loss"] for line in written if "train_loss" in line), default=math.nan)
    if done.returncode == 0:
        summary = json.loads((workdir / "summary.json").read_text())
        metric = summary["chosen_by"]
        alone = summary[f"test_{metric}"]
        reached = summary["stacking"].get(f"test_{metric}", alone)
        best = max(row[metric] for row in summary["baselines"].values() if row.get(metric) is not None)
        figures = {"test": reached, "alone": alone, "baseline": best}
        row |= {"metric": metric} | {key: round(100 * value, 2) for key, value in figures.items()}
        row["rate_lowered"] = summary["learning_rate_lowered"]
        written = [*written, summary]
    return row | {"largest_loss": f"{largest:.3g}", "all_finite": finite(written), "said": "; ".join(said[-2:])}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", nargs="+", default=list(ROWS), choices=list(ROWS))
    parser.add_argument("--cases", nargs="+", default=list(CASES), choices=list(CASES))
    parser.add_argument("--out", type=Path, default=OUT, help="the file of all runs")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for name in tqdm(options.graphs, unit="graph"):
            for case in options.cases:
                if name not in BARE or CASES[case][0] == 1:
                    replace_rows(options.out, ("graph", "case"), [run(name, case, Path(folder))])
    print(markdown(read_rows(options.out)))


if __name__ == "__main__":
    main()
