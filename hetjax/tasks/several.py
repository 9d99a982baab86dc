"""Several targets: columns of labels of nodes or of pairs that one model learns together, each with a task of its own."""

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import replace
from pathlib import Path
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from hetjax.graph.hetgraph import HetGraph
from hetjax.graph.names import Names
from hetjax.options.config import Config
from hetjax.system.errors import InputError
from hetjax.tasks import registry
from hetjax.tasks.predictions import Predictions
from hetjax.tasks.quality import Metric, Quality
from hetjax.tasks.report_parts import Part
from hetjax.tasks.sub_tasks import (
    Arrays,
    Heads,
    SubTask,
    chosen_by,
    config_of,
    kinds_of,
    options_of,
    row_of_target,
    spread_rows,
    weights_of,
)
from hetjax.tasks.task import OF_CLASSES, OPTIONS, Seeds, Task, own_options

LARGEST = 2**31 - 1  # number of an example


class Several(Task):
    """Several targets; examples are those of all, and the loss is the weighted sum of the targets' mean losses.

    With weights `w_k`, and `N_k` the weight of all training examples of target `k`, the losses of its examples are multiplied by
    `w_k sum(N) / N_k`, so that their sum over all examples, divided by `sum(N)`, is `sum_k w_k mean_k`; in a mini-batch
    this holds on average. Weights that are learned are `exp(-s_k)`, and `s_k / 2` is added to each mean (Kendall, Gal and Cipolla, CVPR 2018,
    eq. 10); `s_k` is the logarithm of the variance, a parameter of the head. For a squared loss that is their eq. 5 with `s_k` less `log 2`.

    Args:
      graph, config: as of `Task`.

    Attributes:
      parts: the targets with their tasks, in the order of the options.
      factors: that the losses of a target's examples are multiplied by, per target.

    Raises:
      InputError: a target is no column, or does not go with its task.
    """

    name = "several"
    options = OPTIONS - OF_CLASSES

    def __init__(self, graph: HetGraph, config: Config):
        kinds, self.parts = kinds_of(graph, config), list[SubTask]()
        first = start = 0
        for number, (target, kind) in enumerate(kinds.items()):
            aimed, alone = graph.with_target(target), config_of(config, target, kind)
            task = registry.alone(alone, aimed, f"several.targets: {target}")
            self.parts.append(SubTask(number, target, alone, task, first, start, aimed.names.classes))
            first, start = first + len(aimed.labels), start + task.outputs
        if first > LARGEST:
            raise InputError(f"several.targets: {first:,} labels in all > {LARGEST:,}")
        self.roots = tuple(dict.fromkeys(root for part in self.parts for root in part.task.roots))
        self.learned = options_of(config).weights == "learned"
        self.outputs = start + self.learned * len(self.parts)
        self.weights = weights_of(config, len(self.parts))
        totals = [_weight(part.task, "train") for part in self.parts]
        self.factors = [w * sum(totals) / of if of else 0.0 for w, of in zip(self.weights.tolist(), totals)]
        chosen = chosen_by(graph, config, kinds)
        by = {part.target: part.task for part in self.parts}
        order = sorted(by, key=lambda target: target != chosen)
        self.metrics = {
            f"{target}.{name}": _named(target, of) for target in order for name, of in by[target].metrics.items()
        }
        self.metrics |= {"loss": Metric("loss", "", higher=False)}
        self.headline, *beside = (f"{target}.{by[target].headline}" for target in order)
        self.metric = f"{chosen}.{by[chosen].metric}" if chosen else "loss"
        self.beside = tuple(beside)
        self.compared_by, *others = (f"{target}.{by[target].compared_by}" for target in order)
        self.also_compared_by, self.targets = tuple(others), tuple(order)

    @classmethod
    def options_for(cls, graph: HetGraph, config: Config) -> frozenset[str]:
        kinds = map(registry.find, kinds_of(graph, config).values())
        return own_options(cls.name).union(*(kind.options for kind in kinds)) - OF_CLASSES

    @classmethod
    def check(cls, graph: HetGraph, config: Config) -> None:
        kinds = kinds_of(graph, config)
        weights_of(config, len(kinds))
        chosen = chosen_by(graph, config, kinds)
        for target, kind in kinds.items():
            aimed = graph.with_target(target)
            if not len(aimed.splits["train"]):
                raise InputError(f"several.targets: {target} has 0 training rows among {len(aimed.labels)}")
            if target == chosen and not len(aimed.splits["validation"]):
                raise InputError(f"several.chosen_by is {target}, which has no validation rows")
            try:
                registry.find(kind).check(aimed, config_of(config, target, kind))
            except InputError as error:
                raise InputError(f"several.targets: {target}: {error}") from None

    @classmethod
    def choices(cls, graph: HetGraph, config: Config, given: Set[str]) -> Iterator[tuple[str, Any, str]]:
        found: dict[str, tuple[str, Any, str]] = {}
        for target, kind in kinds_of(graph, config).items():
            for choice in registry.find(kind).choices(
                graph.with_target(target), config_of(config, target, kind), given
            ):
                found.setdefault(choice[0], choice)
        yield from found.values()

    def part(self, target: str) -> SubTask:
        """Return a target by its full name; the first of an empty name.

        Raises:
          InputError: there is no such target.
        """
        for part in self.parts:
            if target in ("", part.target):
                return part
        raise InputError(f"target is {target}, and this run predicts {', '.join(part.target for part in self.parts)}")

    def apart(self, examples: np.ndarray) -> Iterator[tuple[SubTask, np.ndarray, np.ndarray]]:
        """Yield each target with the places of its examples among some, and their numbers in its task."""
        of = np.searchsorted([part.first for part in self.parts], examples, side="right") - 1
        for part in self.parts:
            places = np.flatnonzero(of == part.number)
            yield part, places, (examples[places] - part.first).astype(np.int32)

    def examples(self, split: str) -> np.ndarray:
        return np.concatenate([part.task.examples(split) + np.int32(part.first) for part in self.parts])

    def seeds(self, examples: np.ndarray) -> Seeds:
        found = [(part, places, part.task.seeds(own)) for part, places, own in self.apart(examples)]
        nodes = {}
        for root in self.roots:
            ids = [seeds.nodes[root] for _, _, seeds in found if root in seeds.nodes]
            nodes[root] = np.unique(np.concatenate(ids)).astype(np.int32)
        arrays = []
        for part, places, (own, of_task) in found:
            rows = {t: np.searchsorted(nodes[t], ids).astype(np.int32) for t, ids in own.items()}
            index = None
            if part.task.aligned:
                index = spread_rows(rows[part.task.root], places, len(examples))
            else:
                of_task = part.task.relocated(of_task, rows)
            spread = jax.tree.map(lambda leaf: spread_rows(leaf, places, len(examples)), of_task)
            arrays.append(Arrays(index, spread))
        return Seeds(nodes, tuple(arrays))

    def node_values(self, examples: np.ndarray, values: Mapping[str, np.ndarray]) -> np.ndarray:
        found = np.zeros(len(examples), np.result_type(*values.values()))
        for part, places, own in self.apart(examples):
            found[places] = part.task.node_values(own, values)
        return found

    def head(self, linear: bool, normalised: bool = False) -> nn.Module:
        if not linear:
            raise InputError("model.head is false, and task.name several needs a head for each target")
        heads = tuple(part.task.head(linear, normalised) for part in self.parts)
        return Heads(heads, tuple(part.task.roots[0] for part in self.parts), self.learned)

    def loss(self, outputs: jax.Array, arrays: Any) -> jax.Array:
        total = jnp.zeros((), outputs.dtype)
        for part, own in zip(self.parts, arrays):
            loss = part.task.loss(part.own(outputs), own.arrays)
            if self.learned:
                s = outputs[0, part.number - len(self.parts)]
                loss = jnp.exp(-s) * loss + s / 2 * part.task.weight(own.arrays)
            total = total + self.factors[part.number] * loss
        return total

    def weight(self, arrays: Any) -> Any:
        return sum(part.task.weight(own.arrays) for part, own in zip(self.parts, arrays))

    def quality(self, outputs: np.ndarray, examples: np.ndarray, chosen: Mapping[str, float] | None = None) -> Quality:
        found: Quality = {}
        losses = []
        for part, places, own in self.apart(examples):
            its = chosen if chosen is None else inner(part.target, chosen)
            quality = part.task.quality(part.own(outputs)[places], own, its)
            found |= {f"{part.target}.{name}": value for name, value in quality.items()}
            if quality["loss"] is not None:
                s = float(outputs[0, part.number - len(self.parts)]) if self.learned else 0.0
                losses.append(self.weights[part.number] * (np.exp(-s) * quality["loss"] + s / 2))
        return found | {"loss": float(sum(losses)) if losses else None}

    def chosen(self, quality: Mapping[str, Any]) -> Mapping[str, float]:
        found: dict[str, float] = {}
        for part in self.parts:
            chosen = part.task.chosen(inner(part.target, quality))
            found |= {f"{part.target}.{name}": value for name, value in chosen.items()}
        return found

    def shown(self, quality: Mapping[str, Any]) -> list[str]:
        by = {part.target: part.task.shown(inner(part.target, quality)) for part in self.parts}
        names = [f"{target}.{name}" for target in by for name in by[target]]
        return sorted(names, key=lambda name: name != self.headline)

    def baselines(self, graph: HetGraph) -> Mapping[str, Any]:
        found: dict[str, Any] = {}
        for part in self.parts:
            its = part.task.baselines(graph.with_target(part.target))
            found |= {f"{part.target}: {name}": one for name, one in its.items()}
        return found

    def compared(self, baselines: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        rows: dict[str, dict[str, Any]] = {}
        for part in self.parts:
            its = part.task.compared(inner(part.target, baselines, ": "))
            rows |= {f"{part.target}: {name}": row_of_target(part.target, row) for name, row in its.items()}
        return rows

    def predictions(self, outputs: np.ndarray, names: Names, chosen: Mapping[str, float], **more: Any) -> Predictions:
        """Return the predictions of the first target, of its examples' outputs of all targets."""
        part = self.parts[0]
        named = replace(names, classes=part.classes)
        return part.task.predictions(part.own(outputs), named, inner(part.target, chosen), **more)

    def report_of(
        self, outputs: np.ndarray, names: Names, chosen: Mapping[str, float], examples: np.ndarray, folder: Path
    ) -> Sequence[Part]:
        parts: list[Part] = []
        for part, places, own in self.apart(examples):
            named, its = replace(names, classes=part.classes), inner(part.target, chosen)
            of_target = part.task.report_of(part.own(outputs)[places], named, its, own, folder)
            parts += [one._replace(heading=f"{part.target}: {one.heading}") for one in of_target]
        return parts


def inner(target: str, values: Mapping[str, Any], between: str = ".") -> dict[str, Any]:
    """Return the values of one target, by their names in its task."""
    prefix = f"{target}{between}"
    return {name.removeprefix(prefix): value for name, value in values.items() if name.startswith(prefix)}


def _named(target: str, metric: Metric) -> Metric:
    return metric._replace(label=f"{target} {metric.label}")


def _weight(task: Task, split: str) -> float:
    """Return the weight of all examples of a split."""
    return float(task.weight(task.seeds(task.examples(split)).arrays))
