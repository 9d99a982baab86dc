"""The effect of class weights, stacking and the metric where one class is rare: test results of a generated graph with
7 % of its nodes in the rare class.

`python experiments/accuracy/imbalance.py` draws the graph for each of `--seeds`, trains it with each of `CASES`, everything else chosen by the graph, and writes
`experiments/accuracy/results/imbalance.csv`: precision, recall and F1 of the rare class at the class that is predicted, accuracy, and the areas under
the ROC curve and the precision-recall curve, which need no threshold. A precision of no predictions counts as 0.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np

import hetjax
from experiments.accuracy.unseen_kinds import Kind, Other, made
from experiments.runs import markdown, read_rows, replace_rows, train
from hetjax.graph import store
from hetjax.tasks.class_scores import per_class

OUT = Path(__file__).parent / "results" / "imbalance.csv"
RARE = 1
KIND = Kind(0.5, "few words", (Other("none", 0.5, 3),), shares=(0.93, 0.07), per_class=0, training=1000, nodes=4000)
BALANCED = {"node_classification.class_weights": "balanced"}
CASES = {
    "nothing given": {},
    "class_weights balanced": BALANCED,
    "stacking false": {"train.stacking": "false"},
    "class_weights balanced, stacking false": BALANCED | {"train.stacking": "false"},
    "metric average_precision": {"node_classification.metric": "average_precision"},
    "metric macro_f1": {"node_classification.metric": "macro_f1"},
}
SCORES = "recall", "precision", "f1", "accuracy", "roc_auc", "average_precision"


def run(case: str, seed: int, folder: Path) -> dict:
    """Train once, and measure the predictions of the test nodes."""
    graph, where, workdir = made(KIND, seed), folder / f"graph_{seed}", folder / f"{case} {seed}"
    if not where.exists():
        store.save(graph, where)
    given = {"data.format": "store", "data.path": str(where), "train.recipe": "graph", "train.seed": str(seed)}
    summary = train(workdir, "", given | CASES[case])
    test = graph.splits["test"]
    found = per_class(graph.labels[test], np.asarray(hetjax.predict(workdir).classes)[test], 2)
    rare = {name: float(np.nan_to_num(getattr(found, name)[RARE])) for name in ("recall", "precision", "f1")}
    areas = {name: summary[f"test_{name}"] for name in ("accuracy", "roc_auc", "average_precision")}
    return {"case": case, "seed": seed} | {name: round(100 * value, 1) for name, value in (rare | areas).items()}


def table(rows: list[dict]) -> list[dict]:
    """Return the means over the seeds, in per cent."""
    kept = []
    for case in CASES:
        some = [row for row in rows if row["case"] == case]
        means = {name: f"{np.mean([float(row[name]) for row in some]):.1f}" for name in SCORES} if some else {}
        kept += [{"case": case, "seeds": len(some)} | means] if some else []
    return kept


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for seed in given.seeds:
            for case in CASES:
                replace_rows(OUT, ("case", "seed"), [run(case, seed, Path(folder))])
    print(markdown(table(read_rows(OUT))))


if __name__ == "__main__":
    main()
