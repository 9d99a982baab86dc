"""Heterogeneous GNNs as stacks of folds.

A layer says three things: what one relation contributes to a node (`relation`), what the node contributes itself
(`itself`), and how the combined total becomes an embedding (`finish`). A model file defines one layer.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

import flax.linen as nn
import jax
import jax.numpy as jnp

from hetjax.graph.schema import Relation
from hetjax.models.carriers import SUM, Monoid
from hetjax.sampling.blocks import Adjacency, Block


class Layer(nn.Module):
    """One layer of a heterogeneous GNN.

    Attributes:
      relations: the relations that it folds; a block may hold fewer.
      selves: the node types whose nodes it folds into themselves; like a relation, one partition owns each.
      targets: the node types that get an embedding.
      widths: of the source embeddings, per node type.
      features: width of the embeddings that it makes.
      monoid: how carriers combine, over relations and wherever they were folded.
    """

    relations: tuple[Relation, ...]
    selves: tuple[str, ...]
    targets: tuple[str, ...]
    widths: Mapping[str, int]
    features: int
    monoid: ClassVar[Monoid] = SUM

    def relation(self, relation: Relation, adjacency: Adjacency, sources: jax.Array, targets: jax.Array) -> Any:
        """The carriers that one relation's edges give its targets.

        Args:
          relation: which.
          adjacency: `T` targets by `S` sources.
          sources: `[S, width of the source type]`.
          targets: `[T, width of the target type]`, the targets' own embeddings of the layer below.
        """
        raise NotImplementedError

    def itself(self, node_type: str, targets: jax.Array) -> Any:
        """The carriers that nodes give themselves: a relation from every node to itself."""
        raise NotImplementedError

    def finish(self, node_type: str, carrier: Any, train: bool) -> jax.Array:
        """Embeddings `[T, features]` from combined carriers."""
        raise NotImplementedError

    def carriers(self, block: Block, x: Mapping[str, jax.Array]) -> dict[str, Any]:
        """Fold every relation of the block and combine, per target type of the block."""
        own = {
            t: x[t] if rows is None else x[t].at[rows].get(mode="fill", fill_value=0)
            for t, rows in block.itself.items()
        }
        given = [(node_type, self.itself(node_type, own[node_type])) for node_type in self.selves if node_type in own]
        for relation in self.relations:
            if relation.key in block.adjacency:
                adjacency, target = block.adjacency[relation.key], relation.target
                given.append((target, self.relation(relation, adjacency, x[relation.source], own[target])))
        total: dict[str, Any] = {}
        for target, carrier in given:
            total[target] = self.monoid.combine(total[target], carrier) if target in total else carrier
        return total

    def __call__(self, block: Block, x: Mapping[str, jax.Array], train: bool = False) -> dict[str, jax.Array]:
        """Embeddings `[targets, features]` per target type of the block, from source embeddings `x`."""
        return {node_type: self.finish(node_type, total, train) for node_type, total in self.carriers(block, x).items()}


class Finish(nn.Module):
    """Bias, optional normalisation, ReLU and dropout: how R-GCN, and others like it, finish a node type's embeddings.

    Attributes:
      logits: whether these are the logits: then there is a bias, and nothing else.
      norm: `none`, or `layer`: layer normalisation with a scale and a bias per node type.
      dropout: share of the entries that are dropped in training.
    """

    norm: str
    dropout: float
    logits: bool = False

    @nn.compact
    def __call__(self, total: jax.Array, train: bool) -> jax.Array:
        if self.norm == "layer" and not self.logits:
            h = nn.LayerNorm()(total)
        else:
            h = total + jnp.expand_dims(self.param("bias", nn.initializers.zeros_init(), total.shape[-1:]), 0)
        return h if self.logits else nn.Dropout(self.dropout)(nn.relu(h), deterministic=not train)


class HGNN(nn.Module):
    """A stack of layers, and a linear head from the target's embeddings to class logits, unless the last layer makes these.

    Attributes:
      layers: the first reads the nodes' features, the last makes embeddings of the target type alone.
      target: the node type to classify.
      classes: number of logits.
      linear_head: whether there is a head; without one the last layer's `features` are the logits.
    """

    layers: tuple[Layer, ...]
    target: str
    classes: int
    linear_head: bool = True

    def setup(self):
        if self.linear_head:
            self.head = nn.Dense(self.classes)

    def __call__(self, blocks: tuple[Block, ...], x: Mapping[str, jax.Array], train: bool = False) -> jax.Array:
        """Logits `[targets of the last block, classes]`.

        Args:
          blocks: one per layer, the first layer's first.
          x: `[rows, width]` per node type, the rows that the first block's edges point at.
          train: apply dropout, from the random stream named `dropout`.
        """
        for depth, block in enumerate(blocks):
            x = self.embed(depth, block, x, train)
        return self.classify(x[self.target])

    def embed(self, depth: int, block: Block, x: Mapping[str, jax.Array], train: bool = False) -> dict[str, jax.Array]:
        """What layer `depth` makes of the embeddings below it."""
        return self.layers[depth](block, x, train)

    def classify(self, h: jax.Array) -> jax.Array:
        """Logits from the target's last embeddings."""
        return self.head(h) if self.linear_head else h
