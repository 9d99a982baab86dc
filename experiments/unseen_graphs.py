"""What training reaches where nothing is given but the graph, on generated graphs of kinds that no rule was made for, beside the best baseline.

`python experiments/unseen_graphs.py` makes every graph of `GRAPHS`, trains it by `python -m hetjax.train --data.format store --data.path ... --train.seed N`, and
writes `experiments/results/unseen_graphs.csv` after every run, and the table. A seed draws another graph and other weights. In each graph one thing tells the
labels, and others say nothing: edges that follow the labels or do not, features that do or do not, or none. There are 60 training nodes a class. Of those
named `in mini-batches` that mode is given, and the rest is chosen.
"""

import argparse
import statistics
import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
from runs import markdown, read_rows, replace_rows, train
from tqdm import tqdm

import hetjax
from hetjax.graph import store
from hetjax.graph.hetgraph import HetGraph

OUT = Path(__file__).parent / "results" / "unseen_graphs.csv"
SHARES = (0.537, 0.263, 0.2)  # of the nodes that have each class
NODES, PER_CLASS, VALIDATION = 3000, 60, 500


class Kind(NamedTuple):
    """A kind of graph.

    Attributes:
      follows: share of the edges whose other end is sought among the nodes of the same class; 0: edges say nothing.
      features: of the target: `none`, `noise`, or `words`, of which some are of a class.
      others: types besides the target, of which each edge has one; 0: edges join nodes of the target.
      other_features: of these types.
      mode: of the steps; empty: as is chosen.
    """

    follows: float
    features: str
    others: int = 0
    other_features: str = "none"
    mode: str = ""


GRAPHS = {
    "citations": Kind(0.75, "none"),
    "citations, numbers that say nothing": Kind(0.75, "noise"),
    "citations that say nothing, words": Kind(0.0, "words"),
    "citations, words": Kind(0.75, "words"),
    "sales": Kind(0.75, "none", 2),
    "sales, products with prices": Kind(0.75, "none", 2, "noise"),
    "sales, customers with ages too": Kind(0.75, "noise", 2, "noise"),
    "sales that say nothing, customers with words": Kind(0.0, "words", 2),
    "citations in mini-batches": Kind(0.75, "none", mode="minibatch"),
    "sales in mini-batches": Kind(0.75, "none", 2, "noise", "minibatch"),
}


def partners(rng: np.random.Generator, follows: float, one: np.ndarray, two: np.ndarray, degree: int) -> np.ndarray:
    """Edges `[2, len(one) * degree]` from nodes of classes `one` to some of classes `two`, most of them to those of the same class."""
    sources = np.repeat(np.arange(len(one)), degree)
    targets = rng.integers(0, len(two), len(sources))
    for number in range(len(SHARES)):
        alike = np.flatnonzero(two == number)
        here = (one[sources] == number) & (rng.uniform(size=len(sources)) < follows)
        targets[here] = rng.choice(alike, here.sum())
    return np.stack([sources, targets])


def features_of(rng: np.random.Generator, kind: str, classes: np.ndarray) -> dict[str, np.ndarray]:
    """Features of some nodes, or nothing: `noise` is two columns of any size, `words` 300 of 0 and 1, of which each class has 100 that are more often its own."""
    if kind == "none":
        return {}
    if kind == "noise":
        return {"features": rng.gamma(2.0, 100.0, (len(classes), 2)).astype(np.float32)}
    own = np.arange(300)[None] // 100 == classes[:, None]
    return {"features": (rng.uniform(size=own.shape) < np.where(own, 0.12, 0.03)).astype(np.float32)}


def made(kind: Kind, seed: int) -> HetGraph:
    """A graph of a kind."""
    rng = np.random.default_rng(seed)
    classes = rng.choice(len(SHARES), NODES, p=SHARES)
    train = np.concatenate([rng.permutation(np.flatnonzero(classes == c))[:PER_CLASS] for c in range(len(SHARES))])
    rest = rng.permutation(np.setdiff1d(np.arange(NODES), train))
    splits = {"train": np.sort(train), "validation": rest[:VALIDATION], "test": rest[VALIDATION:]}
    drawn, edges, counts = {"node": features_of(rng, kind.features, classes)}, {}, {"node": NODES}
    for number in range(kind.others):
        name = f"other_{number}"
        theirs = rng.choice(len(SHARES), NODES // 5, p=SHARES)
        counts[name], drawn[name] = len(theirs), features_of(rng, kind.other_features, theirs)
        edges["node", f"has_{number}", name] = partners(rng, kind.follows, classes, theirs, 2)
    if not kind.others:
        ends = partners(rng, kind.follows, classes, classes, 2)
        edges["node", "cites", "node"] = np.concatenate([ends, ends[::-1]], axis=1)
    features = {name: of["features"] for name, of in drawn.items() if of}
    return hetjax.from_arrays(edges, features, {"node": classes}, splits, counts, reverse=bool(kind.others))


def run(name: str, seed: int, folder: Path, more: list[str]) -> dict:
    """Train once."""
    where = folder / f"{name.replace(' ', '_').replace(',', '')}_{seed}"
    if not where.exists():
        store.save(made(GRAPHS[name], seed), where)
    options = {"data.format": "store", "data.path": str(where.absolute()), "train.seed": str(seed)}
    if GRAPHS[name].mode:
        options |= {"sampling.mode": GRAPHS[name].mode, "train.recipe": "graph"}
    options |= dict(pair.split("=", 1) for pair in more)
    summary = train(folder / f"{where.name}_run", "", options)
    found = {key: row["micro_f1"] for key, row in summary["baselines"].items() if row.get("micro_f1") is not None}
    best = max(found, key=lambda key: found[key])
    row = {"graph": name, "seed": seed, "test": round(100 * summary["test_micro_f1"], 2), "best_baseline": best}
    return row | {"baseline": round(100 * found[best], 2), "epoch": summary["epoch"], "seconds": summary["seconds"]}


def table(file: Path) -> str:
    """Mean, and the worst distance to the best baseline, of every graph."""
    lines = []
    for name in GRAPHS:
        rows = [row for row in read_rows(file) if row["graph"] == name]
        if rows:
            test = [float(row["test"]) for row in rows]
            beyond = [float(row["test"]) - float(row["baseline"]) for row in rows]
            spread = f" ± {statistics.stdev(test):.2f}" if len(test) > 1 else ""
            cells = {"graph": name, "test (%)": f"{statistics.mean(test):.2f}{spread}", "runs": len(rows)}
            cells["best baseline"] = f"{statistics.mean(float(row['baseline']) for row in rows):.2f}"
            cells["which"] = " or ".join(sorted({row["best_baseline"] for row in rows}))
            lines.append(cells | {"worst run beside its baseline": f"{min(beyond):+.2f}"})
    return markdown(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", nargs="+", default=list(GRAPHS), choices=list(GRAPHS))
    parser.add_argument("--seeds", nargs="+", type=int, default=list(range(3)))
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="an option that all runs have")
    parser.add_argument("--out", type=Path, default=OUT, help="the file of all runs")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for seed in options.seeds:
            for name in tqdm(options.graphs, f"seed {seed}", unit="run"):
                replace_rows(options.out, ("graph", "seed"), [run(name, seed, Path(folder), options.set)])
    print(table(options.out))


if __name__ == "__main__":
    main()
