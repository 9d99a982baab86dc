"""Train on the graph of `examples.f1.graph`, predict who will be on the podium, and report how well, beside simpler ways.

    python -m examples.f1.predict --data F1 --graph stores/f1 --workdir runs/f1

Races before 2010 train, those before 2015 validate, later ones test. Beside the model: the majority; the share of podiums among a
driver's last races; and gradient boosting (LightGBM if it is installed, scikit-learn's otherwise) on the flat table of entries, alone
and with what the events before each entry say on average.
"""

import argparse
from pathlib import Path

import numpy as np

import hetjax
from examples.f1.graph import EVENTS, read
from hetjax.graph import store
from hetjax.graph.hetgraph import HetGraph
from hetjax.tasks.ranking import roc_auc

OPTIONS = {
    "recipe": "none",
    "model": "rgcn",
    "mode": "full",
    "hidden": 64,
    "epochs": 80,
    "learning_rate": 0.01,
    "dropout": 0.3,
    "metric": "roc_auc",
}


def flat(graph: HetGraph, data: Path) -> np.ndarray:
    """Return the table of entries, `[entries, columns]`: driver, constructor, race's year, round, circuit."""
    results, races = read(data, "results"), read(data, "races")
    place = {race: row for row, race in enumerate(races["raceId"].to_pylist())}
    rows = np.array([place[race] for race in results["raceId"].to_pylist()])
    columns = [results[name].to_numpy() for name in ("driverId", "constructorId")]
    columns += [races[name].to_numpy()[rows] for name in ("year", "round", "circuitId")]
    row_of = {key: row for row, key in enumerate(results["resultId"].to_pylist())}
    order = [row_of[key] for key in graph.names.nodes["entries"].values.to_pylist()]
    return np.stack(columns, axis=1)[order].astype(float)


def history(graph: HetGraph) -> np.ndarray:
    """Return the means of the features of the events before each entry, NaN where there are none."""
    parts = []
    for relation, csc in graph.relations.items():
        if relation.source in EVENTS and relation.target == "entries":
            matrix = graph.features[relation.source].astype(np.float64)[csc.indices]
            sums = np.add.reduceat(np.vstack([matrix, np.zeros(matrix.shape[1])]), csc.indptr[:-1])
            count = np.diff(csc.indptr)[:, None]
            parts.append(np.where(count > 0, sums / np.maximum(count, 1), np.nan))
    return np.concatenate(parts, axis=1)


def boosted(table: np.ndarray, graph: HetGraph, positive: np.ndarray) -> np.ndarray:
    """Return the score of every entry, by gradient boosting with early stopping on the validation nodes."""
    train, validation = graph.splits["train"], graph.splits["validation"]
    various = [len(np.unique(column[~np.isnan(column)])) > 1 for column in table[train].T]
    table = table[:, various]  # without columns that say nothing yet, which scikit-learn refuses
    try:
        import lightgbm

        model = lightgbm.LGBMClassifier(n_estimators=1000, learning_rate=0.03, verbose=-1, random_state=0)
        stop = [lightgbm.early_stopping(50, verbose=False)]
        model.fit(table[train], positive[train], eval_set=[(table[validation], positive[validation])], callbacks=stop)
    except ImportError:
        from sklearn.ensemble import HistGradientBoostingClassifier

        best = None
        for trees in (50, 100, 200, 400):
            model = HistGradientBoostingClassifier(
                max_iter=trees, learning_rate=0.05, early_stopping=False, random_state=0
            )
            model.fit(table[train], positive[train])
            area = roc_auc(model.predict_proba(table[validation])[:, 1], positive[validation]) or 0
            best = max(best or (area, trees, model), (area, trees, model), key=lambda one: one[0])
        model = best[2]
    return model.predict_proba(table)[:, 1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="the folder of the tables, csv.gz")
    parser.add_argument("--graph", type=Path, required=True, help="the store")
    parser.add_argument(
        "--workdir", type=Path, required=True, help="the run's folder; predictions.csv is written there too"
    )
    given = parser.parse_args()
    graph = store.open(given.graph)
    run = hetjax.train(given.graph, given.workdir, **OPTIONS)
    found = run.predict()
    if not (given.workdir / "predictions.csv").exists():
        found.write(given.workdir / "predictions.csv")
    podium = found.class_names.index("podium")
    positive, test = graph.labels == podium, graph.splits["test"]
    before = graph.relations["results", "before_of_driver", "entries"]
    of = {key: row for row, key in enumerate(graph.names.nodes["entries"].values.to_pylist())}
    earlier = positive[[of[key] for key in graph.names.nodes["results"].values.to_pylist()]][before.indices]
    count = np.diff(before.indptr)
    share = np.add.reduceat(np.r_[earlier, False].astype(int), before.indptr[:-1]) * (count > 0) / np.maximum(count, 1)
    table = flat(graph, given.data)
    scores = {
        "the majority": np.zeros(len(positive)),
        "share of podiums in the last races": share,
        "gradient boosting, the flat table": boosted(table, graph, positive),
        "gradient boosting, with means of what was before": boosted(np.c_[table, history(graph)], graph, positive),
        "hetjax, R-GCN": found.probabilities[:, podium],
    }
    print(
        f"{test.size} entries from 2015 on, {positive[test].mean():.1%} of them on the podium; area under the ROC curve:"
    )
    areas = {name: roc_auc(score[test], positive[test]) for name, score in scores.items()}
    lines = [f"{name},{area:.4f}" for name, area in areas.items()]
    (given.workdir / "scores.csv").write_text(
        "\n".join(["way,area under the ROC curve", *lines]).replace(", ", "; ") + "\n"
    )
    for name, area in areas.items():
        print(f"  {name:50} {area:.3f}")


if __name__ == "__main__":
    main()
