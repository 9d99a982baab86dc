"""Results of training where nothing is given but the graph, beside published figures and beside the baselines of every run.

`HETJAX_DATA=... python experiments/accuracy/no_options.py` trains every graph of its table, 5 seeds each, by `python -m hetjax.train
--data.format ... --data.path ... --train.seed N`, and writes `experiments/accuracy/results/no_options.csv` after every run, and the table.
A seed also decides which nodes are held out where the files do not say, and which of several splits is taken.
Where HGB's files are read, the test nodes are those of `label.dat.test`: 70 % of the labelled ones. `--cost` trains nothing, and measures what choosing
the options takes instead (processor time, `experiments/accuracy/results/no_options_cost.csv`). `--label_inputs` trains the same graphs with `data.label_inputs true`, and
writes what that wins over the rows that are there without (`experiments/accuracy/results/label_inputs.csv`).
"""

import argparse
import importlib
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
from tqdm import tqdm

import hetjax
from experiments.runs import markdown, read_rows, replace_rows, train
from hetjax.datasets.load import load, read_ahead
from hetjax.graph import inputs, store
from hetjax.options import owners
from hetjax.options.config import Config
from hetjax.recipe import choices
from hetjax.tasks import baselines

RESULTS = Path(__file__).parent / "results"
OUT = RESULTS / "no_options.csv"


class Row(NamedTuple):
    """A graph.

    Attributes:
      options: the format and the path, and a split where the files have none.
      published: of the same family of models, per cent.
      family: which.
      seeded: the option besides `train.seed` that a seed decides.
    """

    options: dict[str, str]
    published: float | None
    family: str = "R-GCN"
    seeded: str = ""  # empty: the split seed of the format


ROWS = {
    "HGB DBLP": Row({"data.format": "hgb", "data.path": "hgb_dblp"}, 92.07),
    "HGB IMDB": Row({"data.format": "hgb", "data.path": "hgb_imdb"}, 62.05),
    "Yelp (HGSL)": Row({"data.format": "store"}, None),
    "AIFB": Row({"data.format": "rdf", "data.path": "aifb"}, 95.83),
    "MUTAG": Row({"data.format": "rdf", "data.path": "mutag"}, 73.23),
    "Cora": Row({"data.format": "npz", "data.path": "cora"}, 81.5, "GCN"),
    "Citeseer": Row({"data.format": "npz", "data.path": "citeseer"}, 70.3, "GCN"),
    "Coauthor Physics": Row(
        {"data.format": "npz", "data.path": "coauthor_physics", "npz.split": "shchur"}, 92.8, "GCN"
    ),
    "Tolokers": Row({"data.format": "npz", "data.path": "tolokers"}, 83.64, "GCN", "npz.split_number"),
}


def yelp(folder: Path) -> Path:
    """Return the store of the Yelp subset, whose arrays are in no format that hetjax reads."""
    where = folder / "yelp"
    if not where.exists():
        arrays = np.load(Path(os.environ["HETJAX_DATA"]) / "yelp_hgsl" / "yelp.npz")
        labels = np.full(len(arrays["features_business"]), -1)
        for name in ("train", "validation", "test"):
            labels[arrays[name][:, 0]] = arrays[name][:, 1]
        splits = {name: arrays[name][:, 0] for name in ("train", "validation", "test")}
        features = {name.removeprefix("features_"): arrays[name] for name in arrays if name.startswith("features_")}
        edges = {("business", "to", end): arrays[f"business_{end}"] for end in ("user", "service", "level")}
        graph = hetjax.from_arrays(edges, features, {"business": labels}, splits, reverse=True)
        store.save(graph, where)
    return where


def given(name: str, seed: int, folder: Path) -> dict[str, str]:
    """Return the options of a run: the graph, and those that a seed decides."""
    row = ROWS[name]
    if row.options["data.format"] == "store":
        return row.options | {"train.seed": str(seed), "data.path": str(yelp(folder).absolute())}
    return row.options | {"train.seed": str(seed), row.seeded or f"{row.options['data.format']}.split_seed": str(seed)}


def run(name: str, seed: int, folder: Path, more: list[str]) -> dict:
    """Train once."""
    options = given(name, seed, folder) | dict(pair.split("=", 1) for pair in more)
    summary = train(folder / f"{name.replace(' ', '_')}_{seed}", "", options)
    metric = summary["chosen_by"]
    baselines = {key: found[metric] for key, found in summary["baselines"].items() if found.get(metric) is not None}
    best = max(baselines, key=lambda key: baselines[key])
    alone = summary[f"test_{metric}"]
    reached = summary["stacking"].get(f"test_{metric}", alone)
    return {
        "graph": name,
        "seed": seed,
        "metric": metric,
        "test": round(100 * reached, 2),
        "alone": round(100 * alone, 2),
        "best_baseline": best,
        "baseline": round(100 * baselines[best], 2),
        "epoch": summary["epoch"],
        "seconds": summary["seconds"],
    }


def cost(name: str, folder: Path) -> dict:
    """Return the seconds of the processor that choosing a graph's options adds, beside the median of its trainings' seconds.

    That is all that choosing does, but for what is not done again later: baselines that are looked at are those of the summary, and features that are
    normalised for them are those that are trained on. Nor is the import of what trains, and of what the baselines are computed with, a cost of choosing.
    """
    for module in ("hetjax.train", "hetjax.models.hgnn", "scipy.optimize"):
        importlib.import_module(module)
    options = dict(ROWS[name].options)
    if options["data.format"] == "store":
        options["data.path"] = str(yelp(folder).absolute())
    config = Config(data=owners.made_data(**{key.partition(".")[2]: value for key, value in options.items()}))
    load(config.data)  # what is compiled and cached at first is not of choosing
    started = time.process_time()
    graph, ahead = read_ahead(config.data)
    read, spent = time.process_time(), dict.fromkeys(("baselines", "normalised"), 0.0)

    def timed(module: Any, function: str) -> Any:
        """Return a patch of the module's function that adds its seconds to `spent`."""
        plain = getattr(module, function)

        def call(*given: Any, **named: Any) -> Any:
            before = time.process_time()
            try:
                return plain(*given, **named)
            finally:
                spent[function] += time.process_time() - before

        return mock.patch.object(module, function, call)

    with timed(baselines, "baselines"), timed(inputs, "normalised"):
        chosen = list(choices.choose(config, graph, set(options), ahead))
    done = time.process_time()
    training = [float(row["seconds"]) for row in read_rows(OUT) if row["graph"] == name]
    return {
        "graph": name,
        "choices": len(chosen),
        "read_seconds": round(read - started, 2),
        "choose_seconds": round(done - read - sum(spent.values()), 3),
        "baselines_seconds": round(spent["baselines"], 2),
        "normalising_seconds": round(spent["normalised"], 2),
        "training_seconds": round(statistics.median(training), 1) if training else "",
    }


def alone(row: dict) -> float:
    """Return the result of the model alone; a row without it is of a run without stacking."""
    return float(row.get("alone") or row["test"])


def gains(without: Path, with_labels: Path) -> str:
    """Return the gain of label inputs, in points, seed by seed, for models alone, without stacking: mean and sample standard deviation."""
    plain = {(row["graph"], row["seed"]): alone(row) for row in read_rows(without)}
    lines = []
    for name in ROWS:
        found = {row["seed"]: alone(row) for row in read_rows(with_labels) if row["graph"] == name}
        won = [test - plain[name, seed] for seed, test in found.items() if (name, seed) in plain]
        if won:
            spread = f" ± {statistics.stdev(won):.2f}" if len(won) > 1 else ""
            cells = {"graph": name, "runs": len(won), "with label inputs": f"{statistics.mean(found.values()):.2f}"}
            lines.append(cells | {"won": f"{statistics.mean(won):+.2f}{spread}", "worst": f"{min(won):+.2f}"})
    return markdown(lines)


def table(file: Path) -> str:
    """Return the mean and sample standard deviation of every graph."""
    written, lines = read_rows(file), []
    for name, row in ROWS.items():
        found = [line for line in written if line["graph"] == name]
        if found:
            test = [float(line["test"]) for line in found]
            spread = f" ± {statistics.stdev(test):.2f}" if len(test) > 1 else ""
            lines.append(
                {
                    "graph": name,
                    "metric": found[0]["metric"],
                    "test (%)": f"{statistics.mean(test):.2f}{spread}",
                    "runs": len(test),
                    "worst": f"{min(test):.2f}",
                    "alone": f"{statistics.mean(map(alone, found)):.2f}",
                    "published": "" if row.published is None else f"{row.family} {row.published}",
                    "best baseline": f"{statistics.mean(float(line['baseline']) for line in found):.2f}",
                    "worst beside its baseline": f"{min(float(line['test']) - float(line['baseline']) for line in found):+.2f}",
                }
            )
    return markdown(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", nargs="+", default=list(ROWS), choices=list(ROWS), help="rows of the table")
    parser.add_argument("--seeds", nargs="+", type=int, default=list(range(5)))
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="an option that all runs have")
    parser.add_argument("--runs", type=Path, help="where the runs' folders are kept; default: nowhere")
    parser.add_argument("--out", type=Path, help="the file of all runs")
    parser.add_argument("--cost", action="store_true", help="measure the choice of options alone")
    parser.add_argument("--label_inputs", action="store_true", help="train with data.label_inputs true")
    options = parser.parse_args()
    labels = ["data.label_inputs=true"] if options.label_inputs else []
    out = options.out or (RESULTS / "label_inputs.csv" if labels else OUT)
    with tempfile.TemporaryDirectory() as made_here:
        folder = options.runs or Path(made_here)
        folder.mkdir(parents=True, exist_ok=True)
        if options.cost:
            for name in options.graphs:
                replace_rows(options.out or RESULTS / "no_options_cost.csv", ("graph",), [cost(name, folder)])
            print(markdown(read_rows(options.out or RESULTS / "no_options_cost.csv")))
            return
        for seed in options.seeds:
            for name in tqdm(options.graphs, f"seed {seed}", unit="run"):
                replace_rows(out, ("graph", "seed"), [run(name, seed, folder, options.set + labels)])
    print(gains(OUT, out) if labels else table(out))


if __name__ == "__main__":
    main()
