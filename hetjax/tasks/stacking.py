"""A trained model's logits, weighted with those of the baselines: a stacked generalisation (Wolpert, Neural Networks 1992).

`s = a_0 log p_0 + sum over baselines k of a_k log p_k + b`: `p_0` is the model's probability, `p_k` a baseline's, `b` a scalar per class. The few
scalars `a >= 0` and `b` are fitted to the validation nodes, and kept only where that helps (`stack_fit`). So the knowledge of a baseline that
the model lacks is not lost. Training is not touched: a run's weights are the same with it and without it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from hetjax.datasets.npz import Archive
from hetjax.graph.hetgraph import HetGraph
from hetjax.system import durable
from hetjax.system.errors import InputError, reading, short
from hetjax.tasks import baselines
from hetjax.tasks.metrics import HALF
from hetjax.tasks.weigh import log_probabilities

FILE = "stacking.npz"
MODEL = "model"
WEIGHED = "weighed"  # the array of the names of what has a weight
MOST_WEIGHT, LARGEST = 1e6, 1e30  # of weights and the bias, and of what logistic regression learned
AT_ONCE = 2**20  # logits that are weighed at a time
LARGER, REGRESSED, WALKED = baselines.NAMES


@dataclass(frozen=True)
class Stacked:
    """The weights that stack a model's logits with those of baselines.

    Attributes:
      weights: `a`, by `model` or the name of a baseline; weights of 0 are left out.
      bias: `b`, float64 `[classes]`.
      learned: as `Baseline.learned`, by the name of a baseline.
      threshold: the probability above which each of several labels is predicted.
    """

    weights: Mapping[str, float]
    bias: np.ndarray
    learned: Mapping[str, Mapping[str, np.ndarray]]
    threshold: float = HALF

    @property
    def chosen(self) -> Mapping[str, float]:
        """The way in which outputs are read, as `Task.quality` takes it."""
        return {"threshold": self.threshold}

    def __call__(self, logits: np.ndarray, others: Mapping[str, np.ndarray], several: bool) -> np.ndarray:
        """Return logits float32 `[nodes, classes]`, from the model's and, by their names, the baselines' of the same nodes."""
        result = np.empty(logits.shape, np.float32)
        rows = max(1, AT_ONCE // len(self.bias))
        for part in (slice(start, start + rows) for start in range(0, len(logits), rows)):
            members = {MODEL: logits} | {name: others[name] for name in self.weights if name != MODEL}
            result[part] = self.weighed({name: log_probabilities(x[part], several) for name, x in members.items()})
        return result

    def weighed(self, members: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return the weighted sum of logarithms of probabilities by name, with the bias, float64 `[nodes, classes]`."""
        rows = len(next(iter(members.values())))
        total = np.repeat(self.bias[None], rows, axis=0)
        for name, a in self.weights.items():
            total += a * members[name]
        return total


@dataclass(frozen=True)
class Applied:
    """The stack of a run with a graph, which need not be the one that was trained on.

    Attributes:
      stacked: the weights of the stack.
      graph: the graph, without metapaths and label inputs.
    """

    stacked: Stacked
    graph: HetGraph

    def __call__(self, ids: np.ndarray, logits: np.ndarray) -> np.ndarray:
        """Return logits float32 `[ids, classes]`, from the model's."""
        others = {
            name: self._walked[ids] if name == WALKED else baselines.again(name, learned, self.graph, ids)
            for name, learned in self.stacked.learned.items()
        }
        found = self.stacked(logits, others, self.graph.multilabel)
        if not np.isfinite(found).all():
            raise InputError(f"{FILE}: its numbers give logits that are not finite; it is damaged")
        return found

    @cached_property
    def _walked(self) -> np.ndarray:
        """The logits of label propagation for all nodes, which take as long as those of one."""
        return baselines.again(WALKED, self.stacked.learned[WALKED], self.graph, np.arange(len(self.graph.labels)))


def save(stacked: Stacked | None, folder: Path) -> None:
    """Write the stack beside a run, whole or not at all; None: there is none, and the file of another is deleted."""
    if stacked is None:
        (folder / FILE).unlink(missing_ok=True)
        return
    arrays: dict[str, Any] = {name: np.float64(weight) for name, weight in stacked.weights.items()}
    for name, learned in stacked.learned.items():
        arrays |= {f"{name}.{key}": array for key, array in learned.items()}
    arrays |= {
        "bias": stacked.bias,
        "threshold": np.float64(stacked.threshold),
        WEIGHED: np.array([*stacked.weights], str),
    }
    with durable.new_file(folder / FILE) as partial, open(partial, "wb") as stream:
        np.savez(stream, **arrays)


def saved(folder: Path, classes: int, graph: HetGraph | None = None) -> Stacked | None:
    """Return the stack that `save` wrote beside a run; None if it wrote none.

    Args:
      classes: the number of classes of the graph that was trained on.
      graph: the graph that the baselines read; None: not known, so features and relations are not compared with it.

    Raises:
      InputError: an array is damaged or missing, or of another graph; the line names the file, the array and the value.
    """
    file = folder / FILE
    if not file.exists():
        return None
    archive = Archive(file)
    known = (MODEL, *baselines.NAMES)
    names = (
        archive.array(WEIGHED, "U", ("names",)).tolist() if WEIGHED in archive else [n for n in known if n in archive]
    )
    for name in names:
        if name not in known:
            raise InputError(f"{archive.place(WEIGHED)}: {short(repr(name), 40)}, and known are {', '.join(known)}")
    weights = {name: float(_finite(archive, name, (), 0, MOST_WEIGHT)) for name in names}
    bias = _finite(archive, "bias", (classes,), -MOST_WEIGHT, MOST_WEIGHT)
    threshold = float(_finite(archive, "threshold", (), 0, 1))
    if not 0 < threshold < 1:
        raise InputError(f"{archive.place('threshold')} is {threshold}, and should be between 0 and 1")
    learned: dict[str, Mapping[str, np.ndarray]] = {}
    if LARGER in weights:
        learned[LARGER] = {"prior": _finite(archive, f"{LARGER}.prior", (classes,), 0, 1)}
    if REGRESSED in weights:
        learned[REGRESSED] = _regression(archive, classes, graph)
    if WALKED in weights:
        learned[WALKED] = _propagation(archive, classes, graph)
    return Stacked(weights, bias, learned, threshold)


def _finite(archive: Archive, name: str, shape: tuple[int | str, ...], least: float, most: float) -> np.ndarray:
    """Return an array of values from `least` to `most`."""
    with reading(archive.place(name)):
        values = archive.array(name, "f", shape)
    flat = np.ravel(values)
    wrong = np.flatnonzero(~((flat >= least) & (flat <= most)))  # as NaN is
    if len(wrong):
        at = f" {list(map(int, np.unravel_index(wrong[0], values.shape)))}" if shape else ""
        words = f"{flat[wrong[0]]}, and should be a finite number in {least:.3g}..{most:.3g}"
        raise InputError(f"{archive.place(name)}{at} is {words}")
    return values


def _regression(archive: Archive, classes: int, graph: HetGraph | None) -> Mapping[str, np.ndarray]:
    """Return the arrays that logistic regression learned from the features of a graph's target."""
    target = graph and graph.schema.target
    features = graph.features.get(target) if graph and target else None
    if graph and features is None:
        raise InputError(f"{archive.place(REGRESSED)}: a weight of features, and nodes of type {target!r} have none")
    width = "width" if features is None else features.shape[1]
    kernel = _finite(archive, f"{REGRESSED}.kernel", (width, classes), -LARGEST, LARGEST)
    mean = _finite(archive, f"{REGRESSED}.mean", (len(kernel),), -LARGEST, LARGEST)
    bias = _finite(archive, f"{REGRESSED}.bias", (classes,), -LARGEST, LARGEST)
    by_rows = _finite(archive, f"{REGRESSED}.by_rows", (), 0, 1)
    return {"mean": mean, "kernel": kernel, "bias": bias, "by_rows": by_rows}


def _propagation(archive: Archive, classes: int, graph: HetGraph | None) -> Mapping[str, np.ndarray]:
    """Return the arrays of label propagation: its relations, and what its logits are multiplied by and shifted by."""
    scale = _finite(archive, f"{WALKED}.scale", (), 0, MOST_WEIGHT)
    shift = _finite(archive, f"{WALKED}.shift", (classes,), -MOST_WEIGHT, MOST_WEIGHT)
    return {"relations": _relations(archive, graph), "scale": scale, "shift": shift}


def _relations(archive: Archive, graph: HetGraph | None) -> np.ndarray:
    """Return the relations that labels are propagated along, `[relations, 3]`, of a graph if one is given."""
    name = f"{WALKED}.relations"
    with reading(archive.place(name)):
        relations = archive.array(name, "U", ("relations", 3))
    known = {tuple(relation) for relation in graph.schema.relations} if graph else set(map(tuple, relations.tolist()))
    for relation in map(tuple, relations.tolist()):
        if relation not in known:
            raise InputError(f"{archive.place(name)}: {short(str(relation), 200)}, and the graph has no such relation")
    return relations


def weighed(weights: Mapping[str, float]) -> str:
    """Return in words the weights of the model and of baselines by name."""
    words = " + ".join(f"{weight:.2f} {name}" for name, weight in weights.items()) or "a constant for each class"
    return words + ("" if "model" in weights else ", and the model has no part in it")
