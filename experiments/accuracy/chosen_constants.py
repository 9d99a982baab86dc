"""Validation results of the constants that hetjax/recipe/choices.py gives, beside others in their place, one changed at a time.

`HETJAX_DATA=... python experiments/accuracy/chosen_constants.py` trains every graph of `VARIED` with the options that the graph chooses, and again with each other value of each
option, with the same seeds, and writes `experiments/accuracy/results/chosen_constants.csv`: a row per value, with what it has on the validation
nodes in the mean of the seeds, and by how many points that is above what is chosen, seed by seed. No run reads the test nodes, and nothing is stacked.
"""

import argparse
import statistics
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tqdm import tqdm

from experiments.accuracy.no_options import given
from experiments.runs import markdown, records, replace_rows, train

OUT = Path(__file__).parent / "results" / "chosen_constants.csv"
CHOSEN = ("", "")
FEW_LABELS = {
    "model.hidden": "8 16 32 128",
    "model.dropout": "0.2 0.8",
    "model.input_dropout": "0 0.8",
    "train.l2": "0 0.0001 0.001",
    "train.learning_rate": "0.003 0.03",
}
FEATURES = {
    "model.hidden": "32 128",
    "model.layers": "1 {layers} 4",
    "model.dropout": "0 {dropout}",
    "model.norm": "none",
    "model.input_projection": "false",
    "train.learning_rate": "0.001 {rate} 0.03",
}
ONE_RELATION = {"layers": "2", "dropout": "0.5", "rate": "0.003"}  # is given 3, 0.2 and 0.01
SEVERAL = {"layers": "3", "dropout": "0.2", "rate": "0.01"}  # are given 2, 0.5 and 0.003
LEARNED = {"model.feature_width": "16", "train.feature_learning_rate": "0 0.01"}


def _filled(words: dict[str, str]) -> dict[str, str]:
    return {key: values.format(**words) for key, values in FEATURES.items()}


VARIED = {
    "Cora": FEW_LABELS,
    "Citeseer": FEW_LABELS,
    "Coauthor Physics": FEW_LABELS,
    "Yelp (HGSL)": _filled(SEVERAL),
    "Tolokers": _filled(ONE_RELATION),
    "HGB DBLP": _filled(SEVERAL) | LEARNED,
    "HGB IMDB": _filled(SEVERAL) | LEARNED,
}


def reached(graph: str, key: str, value: str, seed: int, folder: Path) -> tuple[str, float]:
    """Return the metric that the epoch was chosen by, and its value on the validation nodes then, in per cent."""
    options = given(graph, seed, folder) | {"train.recipe": "graph", "train.stacking": "false", "train.test": "false"}
    options |= {key: value} if key else {}
    workdir = folder / f"{graph}_{key}_{value}_{seed}".replace(" ", "_")
    summary = train(workdir, "", options)
    metric = summary["chosen_by"]
    chosen = next(record for record in records(workdir) if record.get("epoch") == summary["epoch"])
    return metric, 100 * chosen[f"validation_{metric}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", nargs="+", default=list(VARIED), choices=list(VARIED), help="rows of the table")
    parser.add_argument("--seeds", type=int, default=3, help="seeds of every value: 0, 1 and so on")
    parser.add_argument("--at_once", type=int, default=1, help="runs at a time; seconds are not measured")
    parser.add_argument("--runs", type=Path, help="where the runs' folders are kept; default: nowhere")
    parser.add_argument("--out", type=Path, default=OUT, help="the table")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as made_here, ThreadPoolExecutor(options.at_once) as threads:
        folder = options.runs or Path(made_here)
        folder.mkdir(parents=True, exist_ok=True)
        for graph in options.graphs:
            pairs = [CHOSEN, *((key, value) for key, values in VARIED[graph].items() for value in values.split())]
            cells = [(graph, *pair, seed, folder) for pair in pairs for seed in range(options.seeds)]
            done = list(tqdm(threads.map(lambda cell: reached(*cell), cells), graph, len(cells), unit="run"))
            found = {pair: done[n * options.seeds : (n + 1) * options.seeds] for n, pair in enumerate(pairs)}
            rows = [row(graph, pair, of, found[CHOSEN]) for pair, of in found.items()]
            replace_rows(options.out, ("graph", "option", "value"), rows)
            print(markdown(rows), flush=True)


def row(graph: str, pair: tuple[str, str], found: list[tuple[str, float]], chosen: list[tuple[str, float]]) -> dict:
    """Return the row of one value: the mean over seeds, and the mean, least and largest difference to the chosen value."""
    values = [value for _, value in found]
    more = [value - other for value, (_, other) in zip(values, chosen)]
    return {
        "graph": graph,
        "option": pair[0] or "as chosen",
        "value": pair[1],
        "metric": found[0][0],
        "seeds": len(found),
        "validation": round(statistics.mean(values), 2),
        "deviation": round(statistics.stdev(values), 2) if len(values) > 1 else "",
        "more": round(statistics.mean(more), 2),
        "least": round(min(more), 2),
        "most": round(max(more), 2),
    }


if __name__ == "__main__":
    main()
