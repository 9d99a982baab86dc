"""The seeds of labelled pairs of nodes, and heads that read the embeddings of both ends."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from hetjax.graph.hetgraph import HetGraph
from hetjax.kernels.linear import Dense
from hetjax.system.arrays import Array
from hetjax.system.errors import InputError
from hetjax.tasks.links.decoders import DenseBiDecoder

Decoder = Literal["bilinear", "mlp", "product"]


class Places(NamedTuple):
    """The positions of the ends of examples among the seeds of their types, int32 `[n]` each, and the arrays of the labels."""

    source: Array
    target: Array
    labels: Any


class LabelledPairs:
    """The labelled pairs of a graph's target relation; an example's number is that of its pair.

    Args:
      graph: a graph whose labels are of pairs.
      name: of the task, for an error.

    Attributes:
      types: the types of the ends.
      roots: these, each once.
      ends: the source and target node ids, int32 `[pairs]` each.

    Raises:
      InputError: its labels are of nodes.
    """

    def __init__(self, graph: HetGraph, name: str):
        if graph.relation is None or graph.ends is None:
            kind = name.replace("edge", "node")
            raise InputError(
                f"task.name is {name}, and task.target {graph.target!r} has labels of nodes, not of a relation's pairs: --task.name {kind} predicts them"
            )
        self.types, self.ends = (graph.relation.source, graph.relation.target), graph.ends
        self.roots = tuple(dict.fromkeys(self.types))

    def seeds(self, examples: np.ndarray) -> tuple[dict[str, np.ndarray], tuple[np.ndarray, np.ndarray]]:
        """Return the distinct nodes of some pairs per root type, and the positions of either end among them."""
        ends = [ids[examples] for ids in self.ends]
        nodes = {
            t: np.unique(np.concatenate([ids for of, ids in zip(self.types, ends) if of == t])) for t in self.roots
        }
        source, target = (np.searchsorted(nodes[t], ids).astype(np.int32) for t, ids in zip(self.types, ends))
        return nodes, (source, target)

    def node_values(self, examples: np.ndarray, values: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return the value of the target of each pair."""
        return values[self.types[1]][self.ends[1][examples]]


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
            return DenseBiDecoder(self.outputs, self.bases, name="bilinear")(source, target) + bias
        if self.decoder == "product":
            return Dense(self.outputs, name="dense")(source * target)
        both: Sequence[jax.Array] = [source, target, source * target]
        hidden = Dense(source.shape[1], name="hidden")(jnp.concatenate(both, axis=1))
        return Dense(self.outputs, name="dense")(nn.relu(hidden))
