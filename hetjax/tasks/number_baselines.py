"""The baselines that predicted numbers of nodes have to beat: the training nodes' mean and median, ridge regression on the nodes' own features, and the mean of their neighbours.

Each reads the training values alone, and makes its choices on the validation nodes.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hetjax.graph import label_propagation
from hetjax.graph.hetgraph import HetGraph
from hetjax.tasks.number_scales import Scale, fitted
from hetjax.tasks.ridge import Ridge, ridges

NAMES = ("mean", "median", "ridge regression", "neighbours' mean")
MOST_EDGE_NUMBERS = 10**9  # edges times columns that values are propagated along
MOST_ROWS = 4096  # that a regression reads, where features are as wide
MOST_VALUES = 10**8  # of features that it reads
ENOUGH = 10  # validation nodes that residuals are taken from; of fewer, the training nodes


@dataclass(frozen=True)
class NumberBaseline:
    """A baseline of numbers.

    Attributes:
      points: the predictions in the unit of the labels, float64 `[nodes of the split, numbers]`, by split.
      how: a description of what it read.
      seconds: the time that it took.
    """

    points: Mapping[str, np.ndarray]
    how: str
    seconds: float = 0.0

    def quantiles(self, values: Mapping[str, np.ndarray], levels: Sequence[float]) -> np.ndarray:
        """Return predicted quantiles of the test nodes, float64 `[nodes, numbers, levels]`: the prediction plus the quantile of its residuals.

        The residuals are those of the validation nodes, of the training nodes where these are few.

        Args:
          values: the values of every split, `[nodes, numbers]`.
          levels: the quantiles, rising.
        """
        split = "validation" if len(values["validation"]) >= ENOUGH else "train"
        off = values[split] - self.points[split]
        known = [column[~np.isnan(column)] for column in off.T]
        shifts = np.array([np.quantile(column, levels) if len(column) else np.zeros(len(levels)) for column in known])
        return self.points["test"][:, :, None] + shifts


Score = Callable[[np.ndarray, str], float | None]  # of predictions on a split, higher is better


def baselines(
    graph: HetGraph, values: np.ndarray, scale: Scale, score: Score, names: Sequence[str] = NAMES
) -> dict[str, NumberBaseline | str]:
    """Return baselines by name, or why one is left out.

    Args:
      graph: with the features as the user gave them.
      values: `[nodes, numbers]`, NaN where one is not known; only those of training nodes are read, and by `score` those of validation nodes.
      scale: that of the task.
      score: how good predictions of a split are.
      names: those that are wanted, of `NAMES`.
    """
    found: dict[str, NumberBaseline | str] = {}
    made_by = dict(zip(NAMES, (_mean, _median, _ridge, _neighbours)))
    for name, make in ((name, made_by[name]) for name in names):
        started = time.perf_counter()
        made = make(graph, values, scale, score)
        seconds = round(time.perf_counter() - started, 2)
        found[name] = made if isinstance(made, str) else replace(made, seconds=seconds)
    return found


def _mean(graph: HetGraph, values: np.ndarray, scale: Scale, score: Score) -> NumberBaseline:
    return _constant(graph, np.nanmean, values, "the mean of the training nodes")


def _median(graph: HetGraph, values: np.ndarray, scale: Scale, score: Score) -> NumberBaseline:
    return _constant(graph, np.nanmedian, values, "the median of the training nodes")


def _constant(graph: HetGraph, average: Callable, values: np.ndarray, how: str) -> NumberBaseline:
    point = average(values[graph.splits["train"]].astype(np.float64), axis=0)
    return NumberBaseline({name: np.tile(point, (len(ids), 1)) for name, ids in graph.splits.items()}, how)


def _best(tried: Iterator[NumberBaseline], score: Score) -> NumberBaseline:
    """Return the baseline that is best on the validation nodes, of equal ones the first."""
    return max(tried, key=lambda one: -np.inf if (s := score(one.points["validation"], "validation")) is None else s)


def _ridge(graph: HetGraph, values: np.ndarray, scale: Scale, score: Score) -> NumberBaseline | str:
    """Fit each number, as it is standardised, with the penalty that is best on the validation nodes for all."""
    features, target = graph.features.get(graph.schema.target), graph.schema.target
    if features is None:
        return "left out: the target type has no features"
    most = max(2, MOST_VALUES // features.shape[1])
    if features.shape[1] > MOST_ROWS:
        most = min(most, MOST_ROWS)
    train, numbers = graph.splits["train"], scale.standardised(values)
    some = np.sort(np.random.default_rng(0).permutation(train)[:most])
    read = "" if len(some) == len(train) else f", on {len(some):,} of {len(train):,} training nodes"
    rows, fits = features[some], list[list[Ridge]]()
    for column in numbers[some].T:
        known = ~np.isnan(column)
        fits.append(ridges(rows[known], column[known]))
    tried = (
        _everywhere(graph, lambda ids: scale.restored(np.stack([fit(features, ids) for fit in one], axis=1)))
        for one in zip(*fits)
    )
    return _best((NumberBaseline(points, f"on the features of {target}{read}") for points in tried), score)


def _neighbours(graph: HetGraph, values: np.ndarray, scale: Scale, score: Score) -> NumberBaseline | str:
    """Propagate the training values along all relations or along one: the choice is the best on the validation nodes."""
    width = 2 * values.shape[1]
    if graph.edges * width > MOST_EDGE_NUMBERS:
        return f"left out: {graph.edges:,} edges times {width} columns > {MOST_EDGE_NUMBERS:,}"
    if not len(graph.splits["validation"]):
        return "left out: there are no validation nodes to choose relations by"
    train = graph.splits["train"]
    plain = fitted(values[train])
    numbers = plain.standardised(values[train])
    start = np.zeros((len(values), width), np.float32)
    start[train] = np.concatenate([np.nan_to_num(numbers), ~np.isnan(numbers)], axis=1)

    def along(relations: Sequence) -> dict[str, np.ndarray]:
        sums = label_propagation.Propagation(graph, relations)(start).astype(np.float64)
        sums, counts = sums[:, : width // 2], sums[:, width // 2 :]
        means = np.divide(sums, counts, out=np.zeros_like(sums), where=counts > 0)
        return _everywhere(graph, lambda ids: plain.restored(means[ids]))

    ways = label_propagation.ways(graph)
    return _best(
        (NumberBaseline(along(relations), f"of the training values, along {name}") for name, relations in ways.items()),
        score,
    )


def _everywhere(graph: HetGraph, predict: Callable[[np.ndarray], np.ndarray]) -> dict[str, np.ndarray]:
    """Return the predictions of the nodes of every split."""
    return {name: predict(ids) for name, ids in graph.splits.items()}
