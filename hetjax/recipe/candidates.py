"""The candidates that a graph has: what the rules choose, and what differs from it in scaling, model, recipe or inputs."""

import itertools
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any, NamedTuple

import numpy as np

from hetjax import models
from hetjax.graph import inputs, label_inputs
from hetjax.graph.hetgraph import HetGraph
from hetjax.graph.statistics import Statistics
from hetjax.metapaths.paths import bearable
from hetjax.metapaths.star import of_metapaths
from hetjax.options.config import Config, Scaling
from hetjax.recipe.baseline_scores import ENOUGH
from hetjax.recipe.candidate import Candidate, differing
from hetjax.recipe.choices import choose, model_options
from hetjax.recipe.compatible import Choice, applied
from hetjax.system.errors import InputError
from hetjax.system.logs import counted
from hetjax.tasks import registry as tasks
from hetjax.tasks.logistic import FEW

OF_ONE = ("gcn", "sage")  # models of one relation
APART = ("sage",)  # which keep them apart
OF_SEVERAL = ("rgcn", "sage", "rgat")  # of several relations
SCALED = {"auto": "features scaled by kind", "columns": "columns scaled", "none": "features as they are"}
DEEPER = (5, 10)  # layers
HOPS = 2  # of SeHGNN's metapaths


class Problem(NamedTuple):
    """The run that candidates are for.

    Attributes:
      config: of the run.
      graph: as it was read.
      given: options that are given, or chosen already.
      stats: of the graph.
      kinds: of the features' numbers, as `inputs.kinds_of` gives them.
    """

    config: Config
    graph: HetGraph
    given: Set[str]
    stats: Statistics
    kinds: Mapping[str, str]


def candidates(
    problem: Problem, rules: Sequence[Choice], scalings: Sequence[str], smooth: bool = True
) -> list[Candidate]:
    """Return what is tried, the rules' own choice first; no two are alike.

    Args:
      rules: what the rules choose.
      scalings: values of `data.normalize_features`, the most promising first.
      smooth: whether models that mix a node's own features with its neighbours' are tried.
    """
    found = [Candidate(name_of(problem, rules), tuple(rules))]
    for pins, few in _pins(problem, {choice.key: choice.value for choice in rules}, scalings, smooth):
        if one := candidate(problem, pins, few):
            found.append(one)
    return differing(problem.config, found)


def candidate(problem: Problem, pins: Mapping[str, Any], few: bool | None = None) -> Candidate | None:
    """Return a candidate with some options pinned, the others by the rules; None where they do not go together, or not with what is given.

    Args:
      few: whether the recipe for few labels is taken; None: as the number of labels says.
    """
    pinned = [Choice(key, value, "") for key, value in pins.items() if key not in problem.given]
    fixed = problem.given | {"data.label_inputs", "model.name"} | {choice.key for choice in pinned}
    try:
        found = choose(applied(problem.config, pinned), problem.graph, fixed, few=few, kinds=problem.kinds)
        choices = (*pinned, *found)
        return Candidate(name_of(problem, choices), choices)
    except InputError:
        return None


def depths(problem: Problem, winner: Candidate) -> Iterator[Candidate]:
    """Yield the winner with one layer, and with more than it has, if it has residuals, by which deeper ones learn."""
    chosen = applied(problem.config, winner.choices)
    fixed = "model.layers" in problem.given or chosen.sampling.mode != "full" or chosen.data.metapath_hops
    if fixed or any(choice.key == "rgcn.one_hot" for choice in winner.choices):
        return
    deeper = [layers for layers in DEEPER if layers > chosen.model.layers and chosen.model.residual]
    others = [choice for choice in winner.choices if choice.key != "model.layers"]
    for layers in [*deeper, 1] if chosen.model.layers > 1 else deeper:
        changed = Choice("model.layers", layers, "")
        yield Candidate(f"{winner.name}, {counted(layers, 'layer')}", (*others, changed))


def _pins(
    problem: Problem, rules: Mapping[str, Any], scalings: Sequence[str], smooth: bool
) -> Iterator[tuple[dict[str, Any], bool | None]]:
    """Yield what candidates pin, and their recipe, the most promising first."""
    config, graph, given, stats, _ = problem
    labels = rules.get("data.label_inputs", config.data.label_inputs)
    without = {} if "data.label_inputs" in given else {"data.label_inputs": False}
    ways: tuple[bool | None, ...] = (True, False) if stats.plain and stats.featured else (None,)
    if not stats.bare:
        for scaling, name, few in itertools.product(scalings, _models(problem, smooth), ways):
            yield {"data.normalize_features": scaling, "model.name": name, **without}, few
    elif labels:
        yield {"model.name": "rgcn", **without}, None  # one-hot inputs, where there are few nodes
    read = tasks.find(config.task.name).options
    if "data.label_inputs" not in read or given & {"model.name", "data.label_inputs"}:
        return
    if len(graph.splits["validation"]) < ENOUGH:  # labels as inputs need training nodes that are no validation nodes
        return
    if not labels and not label_inputs.obstacle(graph) and not (stats.plain and stats.featured):
        yield {"model.name": "rgcn", "data.label_inputs": True}, None
    hops = given & {"data.metapath_hops", "data.metapath_label_hops"}
    if stats.relations > 1 and not hops and not of_metapaths(graph.schema) and bearable(graph, HOPS):
        yield {"model.name": "sehgnn", "data.label_inputs": False}, None


def _models(problem: Problem, smooth: bool) -> list[str]:
    """Return the models that are tried: the one that is given, or those that have all options of models that are given."""
    if "model.name" in problem.given:
        return [problem.config.model.name]
    asked = model_options(problem.given)
    return [
        name
        for name in (OF_SEVERAL if not problem.stats.plain else OF_ONE if smooth else APART)
        if asked <= models.takes(name)
    ]


def scalings_of(graph: HetGraph, kinds: Mapping[str, str]) -> list[Scaling]:
    """Return the values of `data.normalize_features` that may differ on a graph, the rules' own first.

    Args:
      kinds: as `inputs.kinds_of` gives them.
    """
    rules = inputs.needed(graph, kinds)[0]
    if not kinds or inputs.unscaled(graph):  # numbers of any size are never trained on as they are
        return [rules]
    others: list[Scaling] = ["auto", "none"]
    if len(graph.schema.nodes) > 1:  # of several types those of 0 and 1 are never scaled
        others = ["none"]
    elif "numbers" not in kinds.values():
        others.insert(1 if _dense(graph) else 2, "columns")
    return [rules, *(one for one in others if one != rules)]


def _dense(graph: HetGraph) -> bool:
    """Return whether most rows of the target's features look alike unless their columns are centred, as rows of many ones do."""
    features = graph.features.get(graph.schema.target)
    return features is not None and bool(np.count_nonzero(features) > FEW * features.size)


def name_of(problem: Problem, choices: Sequence[Choice]) -> str:
    """Return a name of some choices, for lines.

    Raises:
      InputError: they do not go together.
    """
    stats, chosen = problem.stats, applied(problem.config, choices)
    parts = [chosen.model.name]
    if chosen.data.label_inputs:
        parts.append("labels as inputs")
    elif stats.plain and stats.featured:
        parts.append("for few labels" if chosen.train.l2 else "for many labels")
    if any(choice.key == "rgcn.one_hot" for choice in choices):
        parts.append("one-hot inputs")
    if not stats.bare:
        value = chosen.data.normalize_features
        by_rows = value == "auto" and set(problem.kinds.values()) <= {"binary", "counts"}
        parts.append("rows divided by their sums" if by_rows else SCALED.get(value, value))
    return ", ".join(parts)
