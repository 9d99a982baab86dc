"""The seeds of labelled pairs of nodes, and heads that read the embeddings of both ends."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from hetjax.graph.hetgraph import HetGraph
from hetjax.graph.label_rows import Ends
from hetjax.graph.names import Names
from hetjax.graph.schema import Schema
from hetjax.kernels.linear import Dense
from hetjax.system.arrays import Array
from hetjax.system.errors import InputError
from hetjax.tasks.links.decoders import DenseBiDecoder
from hetjax.tasks.task import Seeds, Task

Decoder = Literal["bilinear", "mlp", "product"]
PAIR, MOST_VALUES = "pair", 2 * 10**8  # the type that pairs are in baselines; most values of features that these read


class Places(NamedTuple):
    """The positions of the ends of examples among the seeds of their types, int32 `[n]` each, and the arrays of the labels."""

    source: Array
    target: Array
    labels: Any


class PairHead(nn.Module):
    """Outputs of pairs from the embeddings of both ends.

    Attributes:
      types: the types of the ends.
      outputs: number of outputs of a pair.
      decoder: `bilinear`: `h Q_c t` with `Q_c` from a basis of matrices (GCMC, van den Berg et al. 2017; GraphStorm's DenseBiDecoder), and a
        bias; `mlp`: two layers on both embeddings and their product, as GraphStorm's MLPEdgeDecoder but for the product; `product`: a matrix on
        the elementwise product.
      bases: the number of matrices of `bilinear`.
    """

    types: tuple[str, str]
    outputs: int
    decoder: Decoder = "bilinear"
    bases: int = 2

    @nn.compact
    def __call__(self, embeddings: Mapping[str, jax.Array], arrays: Places) -> jax.Array:
        """Return outputs `[pairs, outputs]`, from embeddings `[seeds, width]` per root type."""
        source, target = (embeddings[t][at] for t, at in zip(self.types, (arrays.source, arrays.target)))
        if self.decoder == "bilinear":
            bias = self.param("bias", nn.initializers.zeros_init(), (self.outputs,))
            return DenseBiDecoder(self.outputs, self.bases, name="bilinear")(source, target) + bias[None]
        if self.decoder == "product":
            return Dense(self.outputs, name="dense")(source * target)
        both: Sequence[jax.Array] = [source, target, source * target]
        hidden = Dense(source.shape[1], name="hidden")(jnp.concatenate(both, axis=1))
        return Dense(self.outputs, name="dense")(nn.relu(hidden))


def pairs_of(graph: HetGraph, name: str) -> "LabelledPairs | None":
    """Return the labelled pairs of a graph, for a task on pairs; None for one on nodes.

    Args:
      name: of the task.

    Raises:
      InputError: the task is on pairs and labels are of nodes, or the other way.
    """
    of_pairs, labelled = name.startswith("edge"), graph.relation is not None
    if of_pairs != labelled:
        rows = ("nodes", f"pairs of relation {graph.relation}")
        kind = "regression" if graph.numeric else "classification"
        other = f"{'edge' if labelled else 'node'}_{kind}"
        raise InputError(
            f"task.name is {name}, and {graph.target!r} has labels of {rows[labelled]}, which --task.name {other} predicts; task.target names another column"
        )
    if graph.relation is None or graph.ends is None:
        return None
    return LabelledPairs((graph.relation.source, graph.relation.target), graph.ends)


class LabelledPairs:
    """Pairs of nodes of a relation's types; an example's number is that of its pair.

    Args:
      types: the types of the ends.
      ends: the source and target node ids, int32 `[pairs]` each.

    Attributes:
      roots: the types, each once.
    """

    def __init__(self, types: tuple[str, str], ends: Ends):
        self.types, self.ends, self.roots = types, ends, tuple(dict.fromkeys(types))

    def seeds(self, examples: np.ndarray) -> tuple[dict[str, np.ndarray], tuple[np.ndarray, np.ndarray]]:
        """Return the distinct nodes of some pairs per root type, and the positions of either end among them."""
        ends = [ids[examples] for ids in self.ends]
        nodes = {
            t: np.unique(np.concatenate([ids for of, ids in zip(self.types, ends) if of == t])) for t in self.roots
        }
        source, target = (np.searchsorted(nodes[t], ids).astype(np.int32) for t, ids in zip(self.types, ends))
        return nodes, (source, target)

    def relocated(self, arrays: Places, rows: Mapping[str, np.ndarray]) -> Places:
        """Return the arrays of pairs for other seeds; arguments as of `Task.relocated`."""
        source, target = (rows[t][at] for t, at in zip(self.types, (arrays.source, arrays.target)))
        return arrays._replace(source=source, target=target)

    def head(self, name: str, linear: bool, outputs: int, decoder: Decoder, bases: int) -> PairHead:
        """Return the head of a task of a name; arguments as of `Task.head` and `PairHead`.

        Raises:
          InputError: the last layer is to make outputs, of which a pair has none.
        """
        if not linear:
            raise InputError(
                f"model.head is false, and task.name {name} needs a head, which reads the embeddings of both ends"
            )
        return PairHead(self.types, outputs, decoder, bases)

    def node_values(self, examples: np.ndarray, values: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return the value of the target of each pair."""
        return values[self.types[1]][self.ends[1][examples]]


class OfPairs(Task):
    """The methods of a task on labelled pairs, which stand before those of the same task on nodes.

    The task on nodes has `labels_of`, the arrays of some examples, and its loss and weight read these.

    Attributes:
      decoder: the options `decoder` and `bases` of `PairHead`.
    """

    name: str
    pairs: "LabelledPairs | None"
    decoder: tuple[Decoder, int]
    labels_of: Callable[[np.ndarray], Any]

    @property
    def own_pairs(self) -> LabelledPairs:
        """The pairs, which a task on pairs has."""
        assert self.pairs is not None
        return self.pairs

    def seeds(self, examples: np.ndarray) -> Seeds:
        nodes, (source, target) = self.own_pairs.seeds(examples)
        return Seeds(nodes, Places(source, target, self.labels_of(examples)))

    def relocated(self, arrays: Any, rows: Mapping[str, np.ndarray]) -> Any:
        return self.own_pairs.relocated(arrays, rows)

    def node_values(self, examples: np.ndarray, values: Mapping[str, np.ndarray]) -> np.ndarray:
        return self.own_pairs.node_values(examples, values)

    def head(self, linear: bool, normalised: bool = False) -> nn.Module:
        return self.own_pairs.head(self.name, linear, self.outputs, *self.decoder)

    def loss(self, outputs: jax.Array, arrays: Any) -> jax.Array:
        return super().loss(outputs, arrays.labels)  # type: ignore[safe-super]

    def weight(self, arrays: Any) -> Any:
        return super().weight(arrays.labels)  # type: ignore[safe-super]


def ends_features(graph: HetGraph) -> HetGraph | str:
    """Return a graph without edges of the labelled pairs, with the features of both ends side by side; or why there is none.

    Baselines of nodes read it.
    """
    assert graph.relation is not None and graph.ends is not None
    types, count = graph.target_types, len(graph.labels)
    found = [(graph.features[t], ids) for t, ids in zip(types, graph.ends) if t in graph.features]
    if not found:
        return "left out: neither end has features"
    if count * sum(matrix.shape[1] for matrix, _ in found) > MOST_VALUES:
        return f"left out: {count:,} pairs times the features of both ends > {MOST_VALUES:,} values"
    rows = np.concatenate([np.asarray(matrix[ids], np.float32) for matrix, ids in found], axis=1)
    return replace(without_edges(graph), features={PAIR: rows})


def without_edges(graph: HetGraph) -> HetGraph:
    """Return a graph of the labelled pairs alone, which are its nodes."""
    schema = Schema({PAIR: len(graph.labels)}, (), PAIR, graph.schema.classes)
    names = Names(classes=graph.names.classes)
    return HetGraph(schema, {}, {}, graph.labels, graph.splits, names)
