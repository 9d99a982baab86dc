"""What a model is to be better than: the larger class, logistic regression on the target's own features, label propagation.

Each is computed in seconds on one core, reads the training labels alone, and chooses what it has to choose on the validation nodes.
"""

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy  # which imports its parts when they are first used

from hetjax import label_propagation
from hetjax.graph.hetgraph import HetGraph
from hetjax.metrics import Quality, quality
from hetjax.ranking import AREAS

NAMES = ("larger class", "logistic regression", "label propagation")
MOST_EDGE_CLASSES = 10**9  # edges times classes that labels are propagated along
MOST_VALUES = 10**8  # numbers of features read times classes, at every step of logistic regression
PENALTIES = (1.0, 10.0, 100.0, 1000.0)  # one over the factor of half the sum of squares
ITERATIONS = 50  # for each of these
FEW = 0.2  # share of features that are not zero, up to which the zeros are left out
AT_ONCE = 2**22  # numbers of features
SMALLEST = 1e-12  # share of a class that has a logarithm


class Baseline(NamedTuple):
    """A baseline of a graph.

    Attributes:
      logits: `[nodes of the target type, classes]`, rows of other nodes than those of the validation and test splits are of no use.
      how: what it read, in words.
    """

    logits: np.ndarray
    how: str

    def score(self, graph: HetGraph, split: str, metric: str) -> float | None:
        """Its quality by one metric; None where a split says nothing of it."""
        return _quality(graph, self.logits, split, metric).get(metric)


def baselines(graph: HetGraph, metric: str, test: bool = True) -> dict[str, dict[str, Any]]:
    """Quality on the test nodes by name of the baseline, with `how`, the validation's (`validation_NAME`) and `seconds`.

    What would take longer than seconds is left out, or reads some training nodes alone: then `how` says it.

    Args:
      graph: without label inputs and metapaths.
      metric: of `metrics.quality`, by which baselines choose.
      test: whether the test nodes' labels are read; if not, the validation's quality is all there is.
    """
    found: dict[str, dict[str, Any]] = {}
    for name, make in zip(NAMES, (larger_class, logistic, walk)):
        started = time.perf_counter()
        made = make(graph, metric)
        if isinstance(made, str):
            found[name] = {"how": made}
            continue
        reached = _quality(graph, made.logits, "test", metric) if test else {}
        validation = _quality(graph, made.logits, "validation", metric)
        found[name] = {"how": made.how, **reached, **{f"validation_{key}": value for key, value in validation.items()}}
        found[name]["seconds"] = round(time.perf_counter() - started, 2)
    return found


def _quality(graph: HetGraph, logits: np.ndarray, split: str, metric: str) -> Quality:
    ids = graph.splits[split]
    return quality(logits[ids], graph.labels[ids], ordered=metric in AREAS)


def prior(graph: HetGraph) -> np.ndarray:
    """Share of the training nodes that have each class, `[classes]`."""
    labels = graph.labels[graph.splits["train"]]
    if graph.multilabel:
        return labels.mean(axis=0)
    return np.bincount(labels, minlength=graph.schema.classes) / len(labels)


def _logits(share: np.ndarray, multilabel: bool) -> np.ndarray:
    log = np.log(np.maximum(share, SMALLEST))
    return log - np.log(np.maximum(1 - share, SMALLEST)) if multilabel else log


def larger_class(graph: HetGraph, metric: str) -> Baseline:
    """The same for every node: the class that most training nodes have; of several labels those that at least half of them have."""
    logits = np.broadcast_to(_logits(prior(graph), graph.multilabel), (len(graph.labels), graph.schema.classes))
    return Baseline(logits, "the class of most training nodes")


def walk(graph: HetGraph, metric: str) -> Baseline | str:
    """Label propagation, along all relations or along one: what does best on the validation nodes."""
    if graph.edges * graph.schema.classes > MOST_EDGE_CLASSES:
        return f"left out: {graph.edges:,} edges times {graph.schema.classes} classes > {MOST_EDGE_CLASSES:,}"
    start, share = label_propagation.known(graph, graph.splits["train"]), prior(graph)
    tried = []
    for name, relations in label_propagation.ways(graph).items():
        spread = label_propagation.Propagation(graph, relations)(start)
        logits = _logits(label_propagation.shares(spread, share, graph.multilabel), graph.multilabel)
        made = Baseline(logits, f"along {name}")
        score = made.score(graph, "validation", metric)
        tried.append((-1.0 if score is None else score, made))
    return max(tried, key=lambda pair: pair[0])[1]


def logistic(graph: HetGraph, metric: str) -> Baseline | str:
    """Multinomial logistic regression, of several labels one per class, with an L2 penalty; by L-BFGS."""
    features = graph.features.get(graph.schema.target)
    if features is None:
        return "left out: the target type has no features"
    train = graph.splits["train"]
    most = max(1, MOST_VALUES // (features.shape[1] * graph.schema.classes))
    some = np.sort(np.random.default_rng(0).permutation(train)[:most])
    scaled = _Scale(features[some])
    x, y = scaled(features[some]), label_propagation.known(graph, some)[some][:, : graph.schema.classes]
    tried, weights = [], np.zeros((x.shape[1] + 1, y.shape[1]))
    for penalty in PENALTIES:
        weights = _fit(x, y, graph.multilabel, penalty, weights)
        tried.append(weights)
    validation, test = (_apply(features, graph.splits[split], scaled, tried) for split in ("validation", "test"))
    labels = graph.labels[graph.splits["validation"]]
    scores = [quality(found, labels, ordered=metric in AREAS).get(metric) for found in validation]
    number = int(np.argmax([-1.0 if score is None else score for score in scores]))
    logits = np.zeros((len(graph.labels), y.shape[1]), np.float32)
    for split, found in (("validation", validation), ("test", test)):
        logits[graph.splits[split]] = found[number]
    read = "" if len(some) == len(train) else f", on {len(some):,} of {len(train):,} training nodes"
    return Baseline(logits, f"on the features of {graph.schema.target}{read}")


class _Scale:
    """Scales features as those of some nodes are: to rows whose squares add up to 1 on average; columns with negative numbers or few zeros
    are brought to mean 0 and standard deviation 1 before, so that units do not matter."""

    def __init__(self, rows: np.ndarray):
        self.few = np.count_nonzero(rows) <= FEW * rows.size
        plain = self.few or (rows.min() >= 0 and rows.dtype.kind in "biu")
        wide = rows.astype(np.float64)
        spread = np.ones(rows.shape[1]) if plain else wide.std(axis=0)
        self.mean = np.zeros(rows.shape[1]) if plain else wide.mean(axis=0)
        self.scale = 1 / np.where(spread > 0, spread, 1)
        self.scale /= np.sqrt(np.mean(np.sum(((wide - self.mean) * self.scale) ** 2, axis=1))) or 1

    def __call__(self, rows: np.ndarray) -> Any:
        if self.few:
            return scipy.sparse.csr_matrix(rows).multiply(self.scale).tocsr()
        return (rows - self.mean) * self.scale


def _apply(features: np.ndarray, ids: np.ndarray, scaled: _Scale, tried: Sequence[np.ndarray]) -> np.ndarray:
    """Logits `[weights, ids, classes]`, of so many nodes at a time."""
    logits = np.zeros((len(tried), len(ids), tried[0].shape[1]), np.float32)
    rows = max(1, AT_ONCE // features.shape[1])
    for start in range(0, len(ids), rows):
        x = scaled(features[ids[start : start + rows]])
        for number, weights in enumerate(tried):
            logits[number, start : start + rows] = x @ weights[:-1] + weights[-1:]
    return logits


def _fit(x: Any, y: np.ndarray, multilabel: bool, penalty: float, first: np.ndarray) -> np.ndarray:
    """Weights `[width + 1, classes]`, the last row of which is added to every node; `first` is where they start."""
    shape = first.shape

    def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        weights = flat.reshape(shape)
        scores = x @ weights[:-1] + weights[-1:]
        if multilabel:
            value, guess = np.sum(np.logaddexp(0, scores) - y * scores), scipy.special.expit(scores)
        else:
            log = scipy.special.log_softmax(scores, axis=1)
            value, guess = -np.sum(y * log), np.exp(log)
        off = guess - y
        gradient = np.concatenate([x.T @ off + weights[:-1] / penalty, off.sum(axis=0, keepdims=True)])
        return value + np.sum(weights[:-1] ** 2) / (2 * penalty), gradient.ravel()

    options = {"maxiter": ITERATIONS}
    done = scipy.optimize.minimize(loss, first.ravel(), jac=True, method="L-BFGS-B", options=options)
    return done.x.reshape(shape)
