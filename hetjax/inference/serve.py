"""A trained model that answers for a few nodes at a time, from all of their neighbours: `hetjax.load("runs/x")`."""

import os
import threading
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from hetjax.graph.carry import NewNodes
from hetjax.graph.hetgraph import HetGraph
from hetjax.graph.label_rows import Pairs
from hetjax.graph.schema import Relation
from hetjax.inference.restored import Restored, restore
from hetjax.kernels.orders import forward_only
from hetjax.models.traits import width_made
from hetjax.sampling.blocks import Capacities, measure, pad_sample
from hetjax.sampling.ladder import Ladder
from hetjax.sampling.sampler import ALL, Sampler
from hetjax.sharding.evaluate import Evaluator, ReadOut
from hetjax.system.errors import InputError, short
from hetjax.system.mapped import gather, on_host
from hetjax.tasks.labelled_pairs import LabelledPairs, Places
from hetjax.tasks.predictions import Predictions

AT_ONCE = 64  # nodes that are computed together; more of them are divided
TRIALS = 32  # nodes whose neighbourhoods the smallest sizes are taken from
SEEDS = "seeds"  # the size of what is asked for, among those of a sample


def load(
    workdir: str | os.PathLike,
    graph: HetGraph | str | os.PathLike = "",
    new_nodes: NewNodes = "neighbours",
    ahead: bool = False,
    trust: bool = False,
    target: str = "",
) -> "Served":
    """Return a trained model, ready to answer for a few nodes.

    Args:
      workdir: the folder of a run.
      graph: another graph, or its store, as of `hetjax.predict`; empty: the run's own.
      new_nodes: as of `hetjax.predict`.
      ahead: compute the layers below the last for all nodes now, in memory `[nodes, hidden]` per type. A node then costs its own
        neighbours alone; for graphs in which two hops from a node are a large share of the graph.
      trust, target: as of `hetjax.predict`.

    Raises:
      InputError: as `hetjax.predict`.
    """
    other = graph if isinstance(graph, HetGraph) else os.fspath(graph)
    return Served(restore(workdir, other, new_nodes, trust=trust, target=target), ahead)


class Served:
    """A trained model with a graph. Several threads may ask it.

    It computes the model's definition on full neighbourhoods, as `hetjax.predict` computes it for all nodes. Arrays
    are padded to the sizes of a `Ladder`, so that there are a few programs in all. The first question waits for those of
    the sizes that nodes here and there need, and one of another size waits for its own.

    Args:
      restored: the model and the graph.
      ahead: as of `load`.
    """

    def __init__(self, restored: Restored, ahead: bool = False):
        self.graph, self.chosen, self.new = restored.graph, restored.chosen, restored.new
        self._model, self._params = restored.model, jax.device_put(restored.params)
        self._sampler = Sampler(self.graph, reads_own=self._model.reads_own)
        self._needed = self.graph.schema.layer_types(self._model.roots, len(self._model.layers), self._model.reads_own)
        self._task, self._read_by, self._final = restored.task, restored.read_by, restored.final
        self._read: Mapping[str, Any] = restored.features
        self._first = 0  # the layer that reads them
        self._lock, self._ladders = threading.Lock(), dict[tuple[str, int, bool], Ladder]()
        if ahead and len(self._model.layers) > 1:
            evaluator = Evaluator(self._model, self.graph, restored.config.sampling.evaluation_edges)
            below = evaluator.below(restored.params, restored.features)
            self._read, self._first = {t: np.asarray(rows) for t, rows in below.items()}, len(self._model.layers) - 1
        self._shapes: set[tuple] = set()
        self._read_out = ReadOut(self._model)
        self._apply = jax.jit(self._applied, static_argnames=("node_type", "depth", "classify"))

    @property
    def target(self) -> str:
        """The node type that is predicted; of pairs the relation's key."""
        return self.graph.relation.key if self.graph.relation else self._model.roots[0]

    @property
    def class_names(self) -> list[str]:
        """A text per class: its name, or its number; empty where numbers are predicted."""
        return [] if self.graph.numeric else self.graph.names.class_names(self.graph.schema.classes)

    @property
    def programs(self) -> int:
        """The number of programs that were compiled for the nodes so far."""
        return len(self._shapes)

    def predict(self, ids: Any) -> np.ndarray:
        """Return the classes of nodes of the target type, `[nodes]`: their names where the graph has some, otherwise int32 numbers.

        Where a node may have several labels, they are 0 and 1, int8 `[nodes, classes]`. Predicted numbers are in the unit of
        the labels, float32 `[nodes]`, or `[nodes, numbers]` of several.

        Args:
          ids: your own, or hetjax's numbers where the graph has none; a sequence, or a single one. One may be there twice. Where pairs are
            predicted, `(source, target)` each, which need not be edges or labelled.

        Raises:
          InputError: there is no such node.
        """
        return self._predictions(ids).answers

    def proba(self, ids: Any) -> np.ndarray:
        """Return the probability of every class, float32 `[nodes, classes]`, in the order of `class_names`; arguments as of `predict`."""
        return self._predictions(ids).probabilities

    def logits(self, ids: Any) -> np.ndarray:
        """Return the logits of every class, float32 `[nodes, classes]`; arguments as of `predict`."""
        return self._predictions(ids).logits

    def intervals(self, ids: Any) -> np.ndarray:
        """Return predicted quantiles in the unit of the labels, float32 `[nodes, quantiles]`, or `[nodes, numbers, quantiles]`; arguments as of `predict`.

        Raises:
          InputError: there is no such node, or the run predicts no quantiles.
        """
        return self._predictions(ids).intervals

    def embeddings(self, node_type: str, ids: Any) -> np.ndarray:
        """Return embeddings of nodes of one type, float32 `[nodes, width]`: of the last layer that makes any of that type.

        That is the last one for the target type, and the one below for a type that is an edge away from it, and so on.

        Raises:
          InputError: there is no such node or node type, or no layer makes embeddings of it.
        """
        depth = self._depth(node_type)
        return self._answer(node_type, self._numbers(node_type, ids), depth, False)

    def _predictions(self, ids: Any) -> Predictions:
        if self.graph.relation is not None:
            return self._of_pairs(ids, self.graph.relation)
        numbers = self._numbers(self.target, ids)
        logits = self._final(numbers, self._answer(self.target, numbers, len(self._model.layers) - 1, True))
        return self._task.predictions(logits, self.graph.names, self._read_by)

    def _of_pairs(self, ids: Any, relation: Relation) -> Predictions:
        asked = (
            [ids] if isinstance(ids, tuple) and len(ids) == 2 and isinstance(ids[0], str | int | np.integer) else ids
        )
        wrong = [one for one in asked if not isinstance(one, tuple | list | np.ndarray) or len(one) != 2]
        if wrong:
            raise InputError(
                f"pairs of {relation} are predicted: give (source, target) each, and not {short(repr(wrong[0]))}"
            )
        types = relation.source, relation.target
        columns = zip(*asked) if len(asked) else ((), ())
        source, target = (self._numbers(t, list(end)).astype(np.int32) for t, end in zip(types, columns))
        pairs, last = LabelledPairs(types, (source, target)), len(self._model.layers) - 1
        nodes, places = pairs.seeds(np.arange(len(source)))
        embeddings = {t: self._answer(t, numbers, last, False) for t, numbers in nodes.items()}
        outputs = self._read_out(self._params, embeddings, Places(*places, None))
        return self._task.predictions(outputs, self.graph.names, self._read_by, pairs=Pairs(types, pairs.ends))

    def _depth(self, node_type: str) -> int:
        """Return the last layer that makes embeddings of a type."""
        schema = self.graph.schema
        if node_type not in schema.nodes:
            raise InputError(f"node type {short(repr(node_type))} is not among {sorted(schema.nodes)}")
        depths = [depth for depth, types in enumerate(self._needed[1:]) if node_type in types]
        if not depths:
            raise InputError(
                f"no layer of the model makes embeddings of type {node_type!r}; it reads them of others alone"
            )
        return depths[-1]

    def _numbers(self, node_type: str, ids: Any) -> np.ndarray:
        """Return hetjax's numbers of nodes, int64 `[ids]`."""
        asked = [ids] if isinstance(ids, str | int | np.integer) else ids
        names, count = self.graph.names.nodes.get(node_type), self.graph.schema.nodes[node_type]
        if names is not None:
            numbers = names.find(asked)
        else:
            numbers = np.asarray(asked)
            if numbers.ndim != 1 or (numbers.dtype.kind not in "iu" and len(numbers)):
                raise InputError(f"type {node_type!r} has no ids of yours: give whole numbers, [nodes]")
            numbers = np.where((numbers >= 0) & (numbers < count), numbers, -1).astype(np.int64)
        unknown = np.flatnonzero(numbers < 0)
        if len(unknown):
            raise InputError(f"type {node_type!r} has no node {short(repr(list(asked)[unknown[0]]))}")
        return numbers

    def _answer(self, node_type: str, numbers: np.ndarray, depth: int, classify: bool) -> np.ndarray:
        """Return logits, or the embeddings of layer `depth`, of nodes in any order, each computed once."""
        width = self._model.outputs if classify else width_made(self._model.layers[depth], node_type)
        distinct, places = np.unique(numbers, return_inverse=True)
        if depth < self._first:  # it was computed ahead
            return gather(self._read[node_type], distinct)[places]
        pieces = (distinct[start : start + AT_ONCE] for start in range(0, len(distinct), AT_ONCE))
        found = [self._computed(node_type, nodes.astype(np.int32), depth, classify) for nodes in pieces]
        return np.concatenate(found)[places] if found else np.empty((0, width), np.float32)

    def _computed(self, node_type: str, nodes: np.ndarray, depth: int, classify: bool) -> np.ndarray:
        ladder = self._ladder(node_type, depth, classify)
        with self._lock:
            sample = self._sample(node_type, nodes, depth)
        capacities = ladder.fitting(self._needs(sample, node_type, len(nodes)))
        return self._padded(sample, capacities, node_type, depth, classify)[: len(nodes)]

    def _padded(
        self, sample: Any, capacities: dict[str, int], node_type: str, depth: int, classify: bool
    ) -> np.ndarray:
        self._shapes.add((node_type, depth, classify, *capacities.values()))
        blocks, ids = pad_sample(Capacities(capacities), "", sample, {node_type: capacities[SEEDS]}, self.graph)
        x = {t: gather(on_host(self._read[t]), real, len(ids[t])) for t, real in sample.inputs.items()}
        return np.asarray(self._apply(self._params, blocks, x, node_type=node_type, depth=depth, classify=classify))

    def _sample(self, node_type: str, nodes: np.ndarray, depth: int):
        return self._sampler.sample({node_type: nodes}, (ALL,) * (depth + 1 - self._first), (), gradients=False)

    def _needs(self, sample: Any, node_type: str, nodes: int) -> dict[str, tuple[int, int]]:
        needs = {name: (size, most) for name, size, most in measure("", sample, self.graph)}
        return needs | {SEEDS: (nodes, self.graph.schema.nodes[node_type])}

    def _ladder(self, node_type: str, depth: int, classify: bool) -> Ladder:
        """Return the sizes of samples for a type: the lowest from nodes here and there, whose programs are all compiled now."""
        key = node_type, depth, classify
        with self._lock:
            if key not in self._ladders:
                count = self.graph.schema.nodes[node_type]
                trials = np.unique(np.linspace(0, count - 1, min(TRIALS, count)).astype(np.int32))
                nodes = [trials[n : n + 1] for n in range(len(trials))]
                needs = [self._needs(self._sample(node_type, node, depth), node_type, 1) for node in nodes]
                ladder = Ladder(needs)
                rungs = {tuple(fit.items()): node for fit, node in zip(map(ladder.fitting, needs), nodes)}
                for fit, node in rungs.items():
                    self._padded(self._sample(node_type, node, depth), dict(fit), node_type, depth, classify)
                self._ladders[key] = ladder
            return self._ladders[key]

    @forward_only()
    def _applied(self, params, blocks, x, node_type: str, depth: int, classify: bool):
        for layer, block in enumerate(blocks, start=depth + 1 - len(blocks)):
            x = self._model.apply(params, layer, block, x, method="embed")
        return self._model.apply(params, x, None, method="read_out") if classify else x[node_type]
