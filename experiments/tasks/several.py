"""One run of several targets against a run for each of them: seconds per epoch of training, on a synthetic graph.

    python experiments/tasks/several.py --epochs 20

The graph has 2,000 users, 1,000 items, 20,000 rated pairs, a class of each user, a number of each item and a class of each pair. Every
run trains an R-GCN of two layers with the same options, in mini-batches; the first epoch, which compiles, is left out.
"""

import argparse
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np

import hetjax
from hetjax.graph.hetgraph import HetGraph

USERS, ITEMS, PAIRS = 2000, 1000, 20000
TARGETS = {
    "user.kind": "node_classification",
    "item.price": "node_regression",
    "user--rates--item.likes": "edge_classification",
}


def shop() -> HetGraph:
    """Return the graph."""
    rng = np.random.default_rng(1)
    left, right = rng.standard_normal((USERS, 16), np.float32), rng.standard_normal((ITEMS, 16), np.float32)
    source, target = rng.integers(0, USERS, PAIRS), rng.integers(0, ITEMS, PAIRS)
    likes = ((left[source] * right[target]).sum(1) > 0).astype(np.int32)

    def splits(count: int, train: int) -> dict[str, np.ndarray]:
        parts = np.split(rng.permutation(count)[: train + 400], (train, train + 200))
        return dict(zip(("train", "validation", "test"), parts))

    kind, price, pairs = TARGETS
    return hetjax.from_arrays(
        {("user", "rates", "item"): (source, target), ("item", "rev_rates", "user"): (target, source)},
        features={"user": left, "item": right},
        labels={
            kind: (left[:, 0] > 0).astype(np.int32),
            price: right[:, 0],
            pairs: {"source": source, "target": target, "labels": likes},
        },
        splits={kind: splits(USERS, 1000), price: splits(ITEMS, 500), pairs: splits(PAIRS, 1000)},
        numbers=[price],
    )


def epoch_seconds(graph: HetGraph, folder: Path, mode: str, epochs: int, **options: object) -> tuple[float, float]:
    """Return the median seconds of an epoch, without the first, and the seconds of the whole run."""
    given = {"model": "rgcn", "hidden": 64, "train.recipe": "none", "train.baselines": False, "sampling.mode": mode}
    given |= {"train.epochs": epochs, "train.evaluate_every": epochs, "sampling.batch_size": 512, "fanout": (10, 10)}
    started = time.perf_counter()
    run = hetjax.train(graph, workdir=folder, **given | options)
    whole = time.perf_counter() - started
    ends = [record["seconds"] for record in run.records if "epoch" in record][:-1]
    return median(np.diff(ends)), whole


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--modes", nargs="+", default=["full", "minibatch"])
    options = parser.parse_args()
    graph = shop()
    print("| mode | " + " | ".join(TARGETS) + " | sum | all at once | ratio of an epoch | ratio of whole runs |")
    print("|" + "---|" * (len(TARGETS) + 5))
    for mode in options.modes:
        with tempfile.TemporaryDirectory() as folder:
            alone = [
                epoch_seconds(graph, Path(folder, name), mode, options.epochs, task=name, target=target)
                for target, name in TARGETS.items()
            ]
            both = epoch_seconds(
                graph, Path(folder, "several"), mode, options.epochs, task="several", targets=list(TARGETS)
            )
        sums = [sum(column) for column in zip(*alone)]
        cells = [f"{1e3 * one:.1f} ms" for one, _ in (*alone, (sums[0], 0), both)]
        print(f"| {mode} | {' | '.join(cells)} | {both[0] / sums[0]:.2f} | {both[1] / sums[1]:.2f} |", flush=True)


if __name__ == "__main__":
    main()
