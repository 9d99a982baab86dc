"""The traits of a layer: data about it that strategies and cost counts read.

A strategy asks nothing of a layer's class. Whatever it must know before it places work, for example whether an aggregation reads its
target or which columns form a head, is a field of `Traits`.
"""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from hetjax.kernels import partials
from hetjax.kernels.partials import Monoid, is_softmax

Logit = Literal["", "scores", "additive", "query"]
DROPOUT_OPTIONS = "dropout", "attention_dropout", "input_dropout"


@dataclass(frozen=True)
class Grouped:
    """The functions that aggregate many relations of one shape in one operation; the first argument of each is the layer.

    Attributes:
      shape: from a relation to a hashable value that is the same for all relations that one operation can take; None: the
        relation is aggregated alone.
      weights: from a relation to the paths, among the layer's parameters, of the weights that are stacked.
      aggregate: from a `kernels.together.Together`, the source inputs and the target inputs, both per node type, to the partial
        aggregates of all targets per node type. The edges of a layer with `Traits.joint` go straight to the targets.
    """

    shape: Callable[[Any, Any], Hashable]
    weights: Callable[[Any, Any], list[tuple[str, ...]]]
    aggregate: Callable[[Any, Any, Mapping[str, Any], Mapping[str, Any]], dict[str, Any]]


@dataclass(frozen=True)
class Traits:
    """Facts about a layer that are the same wherever it runs.

    A layer has them as its class attribute `traits`, which states those of the default options. Read from an instance, the attribute
    is what the instance's `Layer.with_options` returns.

    The first group describes how partial aggregates combine, the second what the layer reads, the third its products and its
    attention, the fourth other forms of it, and the last the work that relations share. The first argument of every function
    is the layer, except for `changed_edges` and `linear_fold`.

    Attributes:
      monoid: the combination of partial aggregates over relations, and over partitions.
      edge_monoid: the combination of the results of `relation` over groups of one relation's edges. Its `total` is lifted into
        `monoid` if the two differ. None: the edges of a relation are aggregated in one place. With `partials.SOFTMAX`
        `relation` is attention over its edges.
      drops: whether training drops entries. The options `dropout`, `attention_dropout` and `input_dropout` imply it where they are set.

      self_term: whether nodes are aggregated into themselves, by `aggregate_self`.
      reads_target: whether `relation` or `finish` reads a target's own embedding; the self term does not count. If false,
        targets are given as None, and partitions of the relations exchange once a step.
      skip: whether `finish` adds the target's own embedding where that is as wide as the result, and reads it for nothing else;
        None: it reads the embedding wherever `reads_target` holds.
      reads_weights: whether weights of edges are read; if not, a graph with weights is refused.
      multiplies_input: whether `relation` and `aggregate_self` only multiply the embeddings below, by `fold_product`, `times`
        and `Dense` of `kernels.linear`; the first layer may then be given `SparseRows`.
      linear_input: whether partial aggregates are linear in the embeddings below, of sources and of targets, once logits are
        known: the results of slices of the columns then add up. A bias beside a matrix is no obstacle.

      linear_fold: `neighbour_sum` or `neighbour_mean`, if `relation` is `fold_product` with it and nothing else.
      one_matrix: whether relations with the same source type multiply by the same matrix.
      attention_products: number of matrices by which attention multiplies its sources, in the cheaper order.
      logit: how attention computes the logit of an edge: `scores`, a number of the source plus a number of the target; `additive`,
        from the sum of a row of the source and a row of the target; `query`, as the product of a key and a query. Empty: there is no
        attention, or attention of another kind.
      heads, head_width: number of heads and columns of each, which stay together where columns are divided; 0: every column
        is independent.

      changed_edges: function of a relation, its edges and the number of sources that returns the edges to train on.
      propagation: the layer that remains when all matrices are taken out, for models that can be decoupled (`models.decoupled`).
      learns: whether a propagation has weights, whose gradient needs the aggregated rows.
      grouped: the functions that aggregate many relations at once.
      carried: per node type, the columns of an embedding beside the layer's `features`.
      learnable_widths: widths of the learnable features of types whose rows are rows of the layer's matrices.
      learnable_glorot: whether learnable features start as the rows of one Glorot matrix of all nodes.

      source_inputs: function of a node type and its rows `[S, width]` that returns the input of all relations out of the type.
      target_inputs: function of a node type, its targets' rows `[T, width]`, the relations into the type that `relation` aggregates, and
        the exchange, through whose `total` go products that relations do not read linearly. It returns the input of these relations.
      shared_inputs: function of the edges per relation key and the source inputs per node type that returns source inputs
        with products that relations share. It is called once for every group of edges.
    """

    monoid: Monoid = partials.SUM
    edge_monoid: Monoid | None = None
    drops: bool = False

    self_term: bool = True
    reads_target: bool = True
    skip: bool | None = None
    reads_weights: bool = True
    multiplies_input: bool = False
    linear_input: bool = False

    linear_fold: Callable | None = None
    one_matrix: bool = False
    attention_products: int = 0
    logit: Logit = ""
    heads: int = 0
    head_width: int = 0

    changed_edges: Callable | None = None
    propagation: Any = None
    learns: bool = False
    grouped: Grouped | None = None
    carried: Mapping[str, int] = field(default_factory=dict)
    learnable_widths: Mapping[str, int] = field(default_factory=dict)
    learnable_glorot: bool = False

    source_inputs: Callable | None = None
    target_inputs: Callable | None = None
    shared_inputs: Callable | None = None

    def __post_init__(self):
        if self.linear_fold and self.edge_monoid is None:
            object.__setattr__(self, "edge_monoid", partials.SUM)

    def __get__(self, layer: Any, owner: Any = None) -> "Traits":
        return self if layer is None else layer.with_options(self)

    @property
    def products(self) -> int:
        """Number of matrices by which a relation multiplies its sources, or their aggregate if that costs less; 0: it does something else."""
        return 1 if self.linear_fold else self.attention_products

    @property
    def joint(self) -> bool:
        """Return whether targets attend over the edges of all relations at once."""
        return is_softmax(self.edge_monoid) and is_softmax(self.monoid)


def drops(layer: Any) -> bool:
    """Return whether training drops entries; if not, the layer is never given masks."""
    return bool(layer.traits.drops or any(getattr(layer, name, 0) for name in DROPOUT_OPTIONS))


def width_made(layer: Any, node_type: str) -> int:
    """Return the width of the embeddings that a layer makes of a node type."""
    return int(layer.features + layer.traits.carried.get(node_type, 0))


def finish_reads(layer: Any, node_type: str) -> bool:
    """Return whether `finish` reads the targets' own embeddings of a node type."""
    traits = layer.traits
    if traits.skip is None:
        return bool(traits.reads_target)
    return bool(traits.skip and layer.widths.get(node_type) == width_made(layer, node_type))
