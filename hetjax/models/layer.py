"""What a model says of one layer.

A layer says three things: what one relation contributes to a node (`relation`), what the node contributes itself
(`aggregate_self`), and how the combined total becomes an embedding (`finish`). A model file defines one layer and names it `MODEL`.
"""

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import field
from typing import Any, ClassVar

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from hetjax.graph.schema import Relation
from hetjax.kernels import orders, partials
from hetjax.kernels.partials import Monoid
from hetjax.kernels.tables import rows_at
from hetjax.models.activations import relu
from hetjax.models.dropout import Masks, NodeMasks, dropped
from hetjax.sampling.blocks import Adjacency, Block
from hetjax.system.arrays import Array


class Exchange:
    """What devices that share a layer's work give each other; here nothing, as on one device.

    A layer calls `before` once, before it folds its relations, and `after` once, before the total becomes an embedding. A
    way of distributing says here which rows, or which columns, of the embeddings below are on this device, and how partial
    aggregates are combined with those of others. Layers know nothing else of it.
    """

    def enter(self, x: Mapping[str, jax.Array]) -> Mapping[str, jax.Array]:
        """The features that the model is given, `[rows, width]` per node type, from those that are on this device."""
        return x

    def total(self, product: jax.Array) -> jax.Array:
        """What is linear in the embeddings below, `[rows, ...]`, from what this device's columns of them give."""
        return product

    def before(
        self, x: Mapping[str, jax.Array], prepare: Callable[[Mapping[str, jax.Array]], Mapping[str, Any]]
    ) -> tuple[Mapping[str, jax.Array], Mapping[str, Any]]:
        """What the layer reads.

        Args:
          x: the embeddings below that are on this device, `[rows, width]` per node type.
          prepare: the dense work per source row, which may come before an exchange or after it, whichever is less to send.

        Returns:
          `(x, sources)`: the embeddings below that the block's rows number, and what relations fold, as `prepare` makes it.
        """
        return x, prepare(x)

    def pieces(self, block: Block, sources: Any) -> Sequence[tuple[Mapping[str, Adjacency], Mapping[str, Any]]]:
        """Groups of the block's edges, by where their sources come from: each is folded without waiting for the others.

        Only of a layer that has an `edge_monoid`; an adjacency then has `whole`.

        Args:
          sources: as `before` gives them.

        Returns:
          Of every group the edges per relation, and what `prepare` made of the rows that these number.
        """
        return [(block.adjacency, sources)]

    def after(
        self, totals: Mapping[str, Any], own: Mapping[str, jax.Array], targets: Mapping[str, Any]
    ) -> tuple[Mapping[str, Any], Mapping[str, jax.Array], Mapping[str, Any]]:
        """What becomes an embedding on this device, which need not be what was folded here.

        Args:
          totals: partial aggregates of the targets that were folded here, per node type.
          own: these targets' own embeddings of the layer below, `[T, width]` per node type.
          targets: their ids, as the block has them.

        Returns:
          The same three of the targets that this device finishes.
        """
        return totals, own, targets


LOCAL = Exchange()


class Layer(nn.Module):
    """One layer of a heterogeneous GNN.

    The fields that come after `learned` are the model's options; the configuration's keys of the same names set them.

    Attributes:
      relations: the relations that it folds; a block may hold fewer.
      selves: the node types whose nodes it folds into themselves; like a relation, one partition owns each.
      targets: the node types that get an embedding.
      widths: of the source embeddings, per node type.
      features: width of the embeddings that it makes.
      learned: per node type whose source embeddings are learnable features (there are none above the first layer) the
        relations that read it, in the model as a whole.
      self_term: whether nodes are folded into themselves; if not, `selves` is empty.
      reads_weights: whether edges' weights are read; if not, a graph that has some is refused.
      linear_fold: `neighbour_sum` or `neighbour_mean`, if that is what `relation` makes of its sources times a matrix, by `fold_product`;
        None: anything else.
      shares_products: whether relations out of a type may share what sources are multiplied to (`share`).
      changed_edges: what a relation's edges are changed to before anything is drawn of them, `(relation, edges, number of
        sources) -> edges`; for each relation alone, so that it is the same wherever that is folded. None: nothing.
      propagation: what the layer folds once its matrices are taken out, of models that can be decoupled (`models.decoupled`).
      multiplies_input: whether what `relation` and `aggregate_self` do with the embeddings below is to multiply them by matrices, by
        `fold_product`, `times` and `Dense` of `models.linear`; the first layer's may be `SparseRows` then.
      linear_input: whether partial aggregates are linear in the embeddings below, of sources and targets, once logits are known:
        what slices of their columns give then adds up (`sharding.push_pull`). A bias beside a matrix of theirs is no obstacle.
    """

    relations: tuple[Relation, ...]
    selves: tuple[str, ...]
    targets: tuple[str, ...]
    widths: Mapping[str, int]
    features: int
    learned: Mapping[str, tuple[Relation, ...]] = field(default_factory=dict)
    self_term: ClassVar[bool] = True
    reads_weights: ClassVar[bool] = True
    linear_fold: ClassVar[Callable | None] = None
    multiplies_input: ClassVar[bool] = False
    shares_products: ClassVar[bool] = False
    changed_edges: ClassVar[Callable | None] = None
    propagation: ClassVar[Any] = None

    @property
    def linear_input(self) -> bool:
        return False

    @property
    def products(self) -> int:
        """With how many matrices a relation multiplies its sources, or what they fold to, whichever costs less; 0: it does something else."""
        return 1 if self.linear_fold else 0

    @property
    def monoid(self) -> Monoid:
        """How partial aggregates combine, over relations and wherever they were folded."""
        return partials.SUM

    @property
    def edge_monoid(self) -> Monoid | None:
        """How what `relation` gives combines over groups of one relation's edges; None: its edges are folded together."""
        return partials.SUM if self.linear_fold else None

    def relation(
        self, relation: Relation, adjacency: Adjacency, sources: Any, targets: Any, masks: NodeMasks | None
    ) -> Any:
        """The partial aggregates that one relation's edges, or a group of them, give its targets.

        Args:
          relation: which.
          adjacency: `T` targets by `S` sources.
          sources: what `prepare` made of the sources' `[S, width of the source type]`.
          targets: what `ask` made of the targets' own embeddings of the layer below, `[T, width of the target type]`; None
            unless the layer `reads_target`.
          masks: of the targets, in training, if the layer `drops`.
        """
        raise NotImplementedError

    def alike(self, relation: Relation) -> Any:
        """What relations that `fold_together` folds in one operation have in common; None: this is folded alone."""
        return None

    @property
    def joint(self) -> bool:
        """Whether targets attend over the edges of all relations that `fold_together` folds at once, not over each relation's."""
        return False

    def together_weights(self, relation: Relation) -> list[tuple[str, ...]]:
        """Of the weights that `fold_together` stacks the paths among the layer's parameters, of one relation."""
        raise NotImplementedError

    def fold_together(self, group: Any, sources: Mapping[str, Any], asked: Mapping[str, Any]) -> dict[str, Any]:
        """The partial aggregates that the relations of a `models.together.Together` give all targets, per node type.

        Of a `joint` layer its edges go straight to the targets.

        Args:
          sources: as `prepared` gives them.
          asked: what `ask` made of the targets' own embeddings, per node type, of a layer that `reads_target`.
        """
        raise NotImplementedError

    def no_edges(self, targets: int, dtype: DTypeLike) -> Any:
        """What `relation` gives of no edges, of a layer that has an `edge_monoid`."""
        return jnp.zeros((targets, self.features), dtype)

    def relation_total(self, relation: Relation, partial: Any) -> Any:
        """What relations combine, from what `relation` gave, of all of the relation's edges: that itself, unless the model says more."""
        return partial

    def prepare(self, node_type: str, sources: jax.Array) -> Any:
        """What all relations out of a type read, from its `[S, width]`: that itself, unless they share some work."""
        return sources

    def share(self, adjacency: Mapping[str, Adjacency], sources: Mapping[str, Any]) -> Mapping[str, Any]:
        """What relations read of the sources: these, unless relations out of a type share some work that depends on their edges.

        Args:
          adjacency: per relation key, or groups of their edges.
          sources: what `prepare` made of them, per node type.
        """
        return sources

    def ask(self, node_type: str, targets: jax.Array, relations: Sequence[Relation], exchange: Exchange = LOCAL) -> Any:
        """What relations into a type read of its targets' own `[T, width]`: that itself, unless they share some work.

        Args:
          relations: those into the type that `relation` folds; none if all are folded together.
          exchange: by whose `total` a product goes that relations do not read linearly.
        """
        return targets

    def aggregate_self(self, node_type: str, targets: jax.Array) -> Any:
        """The partial aggregates that nodes give themselves: a relation from every node to itself."""
        raise NotImplementedError

    def finish(self, node_type: str, partial: Any, targets: Any, masks: NodeMasks | None) -> jax.Array:
        """Embeddings `[T, features]`.

        Args:
          node_type: of the targets.
          partial: all partial aggregates combined; None for a type that no relation leads to and that has no self term.
          targets: `[T, width of the type]`, their own embeddings of the layer below; may be None unless the layer
            `reads_target`.
          masks: as of `relation`.
        """
        raise NotImplementedError

    def finish_reads(self, node_type: str) -> bool:
        """Whether `finish` reads the targets' own embeddings of a type."""
        return self.reads_target

    def makes(self, node_type: str) -> int:
        """Width of the embeddings of a type."""
        return self.features

    def total(self, partial: Any, targets: jax.Array) -> jax.Array:
        """What the combined partial aggregates amount to, `[T, features]`; zeros if there are none."""
        if partial is None:
            return jnp.zeros((len(targets), self.features), jnp.result_type(targets, jnp.float32))
        return self.monoid.total(partial)

    @classmethod
    def learnable_width(cls, node_type: str, feature_width: int, **fields: Any) -> int:
        """Width of the learnable features of a type that has none: `feature_width`, unless a model needs its own.

        Args:
          **fields: the first layer's.
        """
        return feature_width

    def learnable_scale(self, nodes: int) -> float | None:
        """Standard deviation of the entries that learnable features start from; None: the configuration says.

        Args:
          nodes: of all types that have learnable features.
        """
        return None

    def own_embeddings(self, block: Block, x: Mapping[str, jax.Array]) -> dict[str, Any]:
        """The targets' own embeddings of the layer below, `[T, width]` per target type of the block; floats, whatever the features are.

        A type that nothing reads them of may be absent from `x`, and has width 0 then, or None where every row is a target.
        """
        return {t: _own(x.get(t), rows) for t, rows in block.self_rows.items()}

    @property
    def reads_target(self) -> bool:
        """Whether `relation` or `finish` reads a target's own embedding; what a self term reads does not count.

        If so, whoever folds a relation must know its targets' embeddings of the layer below. If not, they are never
        given: a layer that says so and reads them all the same fails at once.
        """
        return True

    @property
    def drops(self) -> bool:
        """Whether training drops anything; if not, the layer is never given masks."""
        return bool(getattr(self, "dropout", 0) or getattr(self, "attention_dropout", 0))

    def prepared(self, x: Mapping[str, jax.Array]) -> dict[str, Any]:
        """What relations read of source embeddings, per node type."""
        return {t: self.prepare(t, rows) for t, rows in x.items()}

    def fold_relations(
        self,
        block: Block,
        sources: Any,
        own: Mapping[str, jax.Array],
        selves: Container[str],
        masks: Masks | None = None,
        exchange: Exchange = LOCAL,
    ) -> dict[str, Any]:
        """Fold every relation of the block and combine, per target type that anything is folded into.

        Args:
          block: of which the adjacency, and what the targets are, are read.
          sources: as `prepared` gives them, or the exchange.
          own: the targets' own embeddings of the layer below, `[T, width]` per type.
          selves: the types whose targets are folded into themselves.
          masks: of the step, in training; then the block names its targets.
          exchange: that says in which groups edges are folded.
        """
        pieces = [(of, self.share(of, rows)) for of, rows in exchange.pieces(block, sources)]
        contributions = [(t, self.aggregate_self(t, own[t])) for t in self.selves if t in selves]
        found = {r: [(of[r.key], sources[r.source]) for of, sources in pieces if r.key in of] for r in self.relations}
        alone = {relation: edges for relation, edges in found.items() if edges}
        types = dict.fromkeys([*(r.target for r in alone), *(t for group in block.together for t, _ in group.rows)])
        asked: dict[str, Any] = {}
        if self.reads_target:
            into = {t: [r for r in alone if r.target == t] for t in types}
            asked = {t: self.ask(t, own[t], relations, exchange) for t, relations in into.items()}
        for relation, edges in alone.items():
            folded = self.fold_edges(relation, edges, block, asked.get(relation.target), masks)
            contributions.append((relation.target, self.relation_total(relation, folded)))
        for group in block.together:
            contributions += self.fold_together(group, sources, asked).items()
        parts: dict[str, list[Any]] = {}
        for target, partial in contributions:
            parts.setdefault(target, []).append(partial)
        return {target: self.monoid.combined(own) for target, own in parts.items()}

    def fold_edges(
        self,
        relation: Relation,
        edges: Sequence[tuple[Adjacency, Any]],
        block: Block,
        seen: Any,
        masks: Masks | None,
    ) -> Any:
        """The partial aggregate of a relation's edges, or of some of them; arguments as of `fold_relations`.

        Args:
          edges: in groups, each with the sources that it numbers.
          seen: of the targets, as `ask` gives it; None unless the layer `reads_target`.
        """
        drawn = masks and masks.of(block.targets[relation.target])
        with orders.named("" if self.is_initializing() else f"{self.name}, {relation}"):
            folded = [self.relation(relation, adjacency, sources, seen, drawn) for adjacency, sources in edges]
        return self._joined(folded)

    def _joined(self, folded: Sequence[Any]) -> Any:
        """The partial aggregate of all groups of a relation's edges."""
        if len(folded) == 1:
            return folded[0]
        assert self.edge_monoid, "only a layer with an edge_monoid folds a relation's edges in groups"
        return self.edge_monoid.combined(folded)

    def __call__(
        self, block: Block, x: Mapping[str, jax.Array], masks: Masks | None = None, exchange: Exchange = LOCAL
    ) -> dict[str, jax.Array]:
        """Embeddings `[targets, features]` per target type of the block, from source embeddings `x`."""
        x, sources = exchange.before(x, self.prepared)
        own = self.own_embeddings(block, x)
        folded = self.fold_relations(block, sources, own, own, masks, exchange)
        totals, finished, targets = exchange.after(folded, own, block.targets)
        type_masks = {t: masks and masks.of(targets[t]) for t in finished}
        return {t: self.finish(t, totals.get(t), rows, type_masks[t]) for t, rows in finished.items()}


class PlainLayer(Layer):
    """A layer that finishes as most do.

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

    def finish_reads(self, node_type: str) -> bool:
        return self.residual and self.widths.get(node_type) == self.makes(node_type)

    def setup(self):
        options = (self.norm, self.dropout, self.residual, self.bias, self.logits)
        self.finishing = {t: Finish(type(self).activation, *options) for t in self.targets}

    def finish(self, node_type: str, partial: Any, targets: jax.Array, masks: NodeMasks | None) -> jax.Array:
        return self.finishing[node_type](self.total(partial, targets), targets, masks)


class Finish(nn.Module):
    """Bias or normalisation, activation, dropout and residual: how a node type's totals become embeddings.

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


def _own(x: jax.Array | None, rows: "Array | None") -> Any:
    """Rows of `x` `[S, width]`, None being all; zeros for a row out of range. None of an `x` that is not known if all are asked for."""
    if x is None:
        return None if rows is None else jnp.zeros((len(rows), 0))
    return rows_at(x, rows).astype(jnp.promote_types(x.dtype, jnp.float32))  # so that a gradient flows back to them


def glorot(rows: int, columns: int) -> float:
    """Standard deviation of the entries of a matrix that is drawn as Glorot and Bengio (2010) do."""
    return (2 / (rows + columns)) ** 0.5
