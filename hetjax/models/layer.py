"""The layer of a heterogeneous GNN.

A layer is three functions and its traits: `relation` returns the partial aggregate of one relation's edges, `aggregate_self` that of a
node itself, and `finish` turns the combined aggregate into an embedding. A model file defines one layer and names it `MODEL`.
"""

import functools
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from typing import Any, ClassVar

import flax.linen as nn
import jax
import jax.numpy as jnp

from hetjax.graph.schema import Relation
from hetjax.models import aggregate
from hetjax.models.activations import relu
from hetjax.models.dropout import Masks, NodeMasks, dropped
from hetjax.models.exchange import LOCAL, Exchange
from hetjax.models.traits import Traits
from hetjax.sampling.blocks import Adjacency, Block


class Layer(nn.Module):
    """One layer of a heterogeneous GNN.

    The fields after `learned` are the model's options; the configuration's keys of the same names set them.

    Attributes:
      relations: the relations to aggregate; a block may hold fewer.
      selves: the node types whose nodes are aggregated into themselves; like a relation, each is owned by one partition.
      targets: the node types that get an embedding.
      widths: widths of the source embeddings, per node type.
      features: width of the embeddings that the layer makes.
      learned: per node type whose source embeddings are learnable features (there are none above the first layer) the
        relations that read it, in the model as a whole.
      traits: facts about the layer. A class states those of its default options; an instance has those of its own options.
    """

    relations: tuple[Relation, ...]
    selves: tuple[str, ...]
    targets: tuple[str, ...]
    widths: Mapping[str, int]
    features: int
    learned: Mapping[str, tuple[Relation, ...]] = field(default_factory=dict)
    traits = Traits()

    def with_options(self, traits: Traits) -> Traits:
        """Return the traits of the class as this instance's options change them."""
        return traits

    def relation(
        self, relation: Relation, adjacency: Adjacency, sources: Any, targets: Any, masks: NodeMasks | None
    ) -> Any:
        """Return the partial aggregates of the targets of one relation's edges, or of a group of them.

        Args:
          relation: the relation.
          adjacency: `T` targets by `S` sources.
          sources: the sources' `[S, width of the source type]`, or what `Traits.source_inputs` made of them.
          targets: the targets' own embeddings of the layer below, `[T, width of the target type]`, or what
            `Traits.target_inputs` made of them; None unless the layer reads its targets.
          masks: of the targets, in training, if the layer drops entries.
        """
        raise NotImplementedError

    def aggregate_self(self, node_type: str, targets: jax.Array) -> Any:
        """Return the partial aggregates of nodes from themselves: a relation from every node to itself."""
        raise NotImplementedError

    def finish(self, node_type: str, total: jax.Array, targets: Any, masks: NodeMasks | None) -> jax.Array:
        """Return the embeddings, `[T, features]`.

        Args:
          node_type: of the targets.
          total: the combined aggregate after `Monoid.total`, `[T, features]`; zeros for a type that nothing is aggregated into.
          targets: `[T, width of the type]`, their own embeddings of the layer below; may be None unless the layer reads its targets.
          masks: as in `relation`.
        """
        raise NotImplementedError

    def __call__(
        self, block: Block, x: Mapping[str, jax.Array], masks: Masks | None = None, exchange: Exchange = LOCAL
    ) -> dict[str, jax.Array]:
        """Return the embeddings `[targets, features]` per target type of the block, from source embeddings `x`."""
        x, sources = exchange.before(x, functools.partial(aggregate.source_inputs, self))
        own = aggregate.own_embeddings(block, x)
        combined = aggregate.aggregate(self, block, sources, own, own, masks, exchange)
        partials, finished, targets = exchange.after(combined, own, block.targets)
        type_masks = {t: masks and masks.of(targets[t]) for t in finished}
        return {t: aggregate.finished(self, t, partials.get(t), rows, type_masks[t]) for t, rows in finished.items()}


class PlainLayer(Layer):
    """A layer with the usual `finish`: bias or normalisation, activation, dropout and residual.

    Attributes:
      norm, dropout, residual, bias: as in `Finish`.
      logits: whether the layer makes the logits itself.
      activation: of every entry of the embeddings.
    """

    norm: str = "none"
    dropout: float = 0.0
    residual: bool = False
    bias: bool = True
    logits: bool = False
    activation: ClassVar[Callable] = staticmethod(relu)

    def with_options(self, traits: Traits) -> Traits:
        return replace(traits, reads_target=traits.reads_target or self.residual, skip=self.residual)

    def setup(self):
        options = (self.norm, self.dropout, self.residual, self.bias, self.logits)
        self.finishing = {t: Finish(type(self).activation, *options) for t in self.targets}

    def finish(self, node_type: str, total: jax.Array, targets: jax.Array, masks: NodeMasks | None) -> jax.Array:
        return self.finishing[node_type](total, targets, masks)


class Finish(nn.Module):
    """Bias or normalisation, activation, dropout and residual: the step from a node type's combined aggregates to embeddings.

    Attributes:
      activation: of every entry.
      norm: `none`, or `layer`: layer normalisation with a scale and a bias per node type.
      dropout: share of the entries that are dropped in training.
      residual: add the node's own embedding of the layer below, where that has the same width.
      bias: whether there is one; a normalisation has its own.
      logits: whether these are the logits: then there is at most a bias.
    """

    activation: Callable
    norm: str
    dropout: float
    residual: bool
    bias: bool
    logits: bool

    @nn.compact
    def __call__(self, total: jax.Array, targets: jax.Array, masks: NodeMasks | None) -> jax.Array:
        h = total
        if self.norm == "layer" and not self.logits:
            h = nn.LayerNorm()(total)
        elif self.bias:
            h = total + jnp.expand_dims(self.param("bias", nn.initializers.zeros_init(), total.shape[-1:]), 0)
        if self.logits:
            return h
        h = dropped(self.activation(h), self.dropout, masks, self.path)
        return h + targets if self.residual and targets.shape == h.shape else h


def glorot(rows: int, columns: int) -> float:
    """Return the standard deviation of the entries of a matrix that is initialised as Glorot and Bengio (2010) do."""
    return (2 / (rows + columns)) ** 0.5
