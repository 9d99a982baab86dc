"""Heterogeneous GNNs: stacks of layers, and layers composed of two aggregations."""

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Protocol

import chex
import flax.linen as nn
import jax

from hetjax.graph.schema import Relation, Schema
from hetjax.kernels import partials
from hetjax.kernels.cost_model import CostModel, using
from hetjax.kernels.linear import Dense
from hetjax.kernels.partials import Attention, Monoid
from hetjax.kernels.sparse import SparseRows
from hetjax.kernels.tables import read
from hetjax.models.activations import relu
from hetjax.models.aggregate import finished
from hetjax.models.decoupled import DenseOptions, Propagation
from hetjax.models.dropout import Masks, NodeMasks, dropped
from hetjax.models.exchange import LOCAL, Exchange
from hetjax.models.layer import Layer, PlainLayer, glorot
from hetjax.models.traits import Traits, drops, finish_reads, width_made
from hetjax.options import owners
from hetjax.sampling.blocks import Adjacency, Block
from hetjax.system.arrays import Array
from hetjax.system.errors import InputError


@dataclass(frozen=True)
class HGNN:
    """A model, from a relation-specific and a cross-relation aggregation.

    Attributes:
      relations: the relations to aggregate; None: every one of the graph.
      relation_aggregation: makes the module that aggregates one relation, from the relation and the width of the embeddings; it
        is called with an adjacency, the sources `[S, width]` and the targets `[T, width]`, and gives `[T, features]`, floats (with
        `softmax`: an `Attention`); another shape or dtype is an AssertionError.
      cross_relation_aggregation: `sum`, `mean`, `max`, `softmax`, or a `Monoid` of your own.
      self_term: aggregate every node into itself too, by a matrix per node type, as one more relation.
      reads_target: whether the relation-specific aggregation reads its targets; if not, it is given None for them,
        and partitions of the relations have less to exchange.
      drops: whether the relation-specific aggregation drops something in training: it is called with the targets'
        `NodeMasks` after them, or None, for `models.dropout`'s functions. There is no random stream for `nn.Dropout`, whose
        masks would depend on where a node is computed.
    """

    relations: Sequence[Relation] | None
    relation_aggregation: Callable[[Relation, int], nn.Module]
    cross_relation_aggregation: str | Monoid = "sum"
    self_term: bool = True
    reads_target: bool = True
    drops: bool = False

    def __post_init__(self):
        if self.cross_relation_aggregation not in partials.NAMED and not isinstance(
            self.cross_relation_aggregation, Monoid
        ):
            raise InputError(
                f"cross-relation aggregation {self.cross_relation_aggregation!r}, and should be one of {', '.join(partials.NAMED)}, or a Monoid"
            )


class Readout(Protocol):
    """The reader of the last layer's embeddings.

    Attributes:
      roots: the node types that it reads.
      outputs: number of values that it makes of an example.
    """

    roots: tuple[str, ...]
    outputs: int

    def head(self, linear: bool, normalised: bool = False) -> nn.Module:
        """Return the module that maps `(embeddings per root type, arrays)` to outputs."""


class Composed(PlainLayer):
    """The layer of an `HGNN`.

    Attributes:
      relation_aggregation: as in `HGNN`.
      monoid: its cross-relation aggregation.
      looks: whether the relation-specific aggregation reads its targets.
      masked: whether it takes masks.
    """

    relation_aggregation: Callable[[Relation, int], nn.Module] = field(kw_only=True)
    monoid: Monoid = partials.SUM
    looks: bool = True
    masked: bool = False

    def with_options(self, traits: Traits) -> Traits:
        return super().with_options(replace(traits, monoid=self.monoid, reads_target=self.looks, drops=self.masked))

    def setup(self):
        super().setup()
        self.fold = {r.key: self.relation_aggregation(r, self.features) for r in self.relations}
        self.self_loop = {t: Dense(self.features, use_bias=False) for t in self.selves}

    def relation(
        self,
        relation: Relation,
        adjacency: Adjacency,
        sources: jax.Array,
        targets: jax.Array | None,
        masks: NodeMasks | None,
    ) -> Any:
        drawn = [masks] if self.masked else []
        folded = self.fold[relation.key](adjacency, sources, targets, *drawn)
        if not isinstance(folded, Attention):  # a width of 1 would be spread over all features without a word
            chex.assert_shape(folded, (adjacency.targets, self.features), custom_message=relation.key)
            chex.assert_type(folded, float)
        return self.monoid.lift(folded)

    def aggregate_self(self, node_type: str, targets: jax.Array) -> Any:
        return self.monoid.lift(self.self_loop[node_type](targets))


class Stack(nn.Module):
    """A stack of layers, and the head of a task, which makes outputs of the seeds' embeddings.

    Attributes:
      layers: the first reads the nodes' features, the last makes embeddings of the root types alone.
      widths: of the features, per node type that is read, static or learnable.
      roots: the node types whose last embeddings the head reads.
      outputs: number of values that the head makes.
      head: maps the seeds' embeddings, per root type, and the task's arrays to outputs.
      input_dropout: share of what the first layer reads that is dropped in training.
      input_projection: width that every type's features are mapped to, linearly, before the first layer; 0: they are not.
      feature_init: `unit`: learnable features start as normal rows of unit norm; `glorot`: as the rows of a type's Glorot
        matrix, which are longer the fewer there are.
      decoupled: the dense layers that come before the first layer, of a decoupled model.
      costs: the cost model that applies while the model is traced; None: the current one.
    """

    layers: tuple[Layer, ...]
    widths: Mapping[str, int]
    roots: tuple[str, ...]
    outputs: int
    head: nn.Module
    input_dropout: float = 0.0
    input_projection: int = 0
    feature_init: str = "unit"
    decoupled: DenseOptions | None = None
    costs: CostModel | None = None

    @nn.nowrap
    def apply(self, *args: Any, **kwargs: Any) -> Any:
        """Apply the model as `flax.linen.Module.apply` does, with its cost model."""
        with using(self.costs):
            return super().apply(*args, **kwargs)

    @property
    def transforms(self) -> bool:
        """Return whether features are multiplied by matrices before the first layer reads them: a gradient flows to every type's then."""
        return bool(self.input_projection or self.decoupled)

    @property
    def reads_own(self) -> bool:
        """Return whether any layer reads its targets' own embeddings of the layer below."""
        return any(layer.selves or layer.traits.reads_target for layer in self.layers)

    @property
    def multiplied(self) -> frozenset[str]:
        """Return the types whose features are multiplied by matrices, perhaps after dropout, and not read otherwise."""
        if self.transforms:
            return frozenset(self.widths)
        first = self.layers[0]
        return frozenset(t for t in self.widths if first.traits.multiplies_input and not finish_reads(first, t))

    def sparse(self, depth: int, x: Mapping[str, Any]) -> frozenset[str]:
        """Return the types of which layer `depth` is given `SparseRows`, if the stack is given `x`."""
        known = not depth and not self.transforms
        return frozenset(t for t, rows in x.items() if known and isinstance(rows, SparseRows))

    @property
    def drops(self) -> bool:
        """Return whether training drops anything; then batches name the nodes of their rows."""
        dense = self.decoupled.dropout if self.decoupled else 0
        return bool(self.input_dropout or dense) or any(map(drops, self.layers))

    def setup(self):
        self.project = {t: Dense(self.input_projection) for t in self.widths} if self.input_projection else {}
        self.dense = {t: self.decoupled.layers(t) for t in self.widths} if self.decoupled else {}

    def __call__(
        self,
        blocks: tuple[Block, ...],
        x: Mapping[str, jax.Array],
        masks: Masks | None = None,
        exchanges: Sequence[Exchange] = (),
        seeds: "Mapping[str, Array] | None" = None,
        arrays: Any = None,
    ) -> jax.Array:
        """Return the outputs of the head, `[examples, outputs]`.

        Args:
          blocks: one per layer, the first layer's first.
          x: `[rows, width]` per node type, the rows that the first block's edges point at.
          masks: of the step, in training; without them nothing is dropped.
          exchanges: one per layer, where devices share the work; without them every layer is computed here.
          seeds: per root type the seeds' rows among the last block's targets, or what the exchange makes of these, int32; of padding, which is out of range,
            something is computed that nothing may read. None: all targets, in order.
          arrays: the task's, of the seeds' examples.
        """
        return self.read_out(self.embed_roots(blocks, x, masks, exchanges, seeds), arrays)

    def embed_roots(
        self,
        blocks: tuple[Block, ...],
        x: Mapping[str, jax.Array],
        masks: Masks | None = None,
        exchanges: Sequence[Exchange] = (),
        seeds: "Mapping[str, Array] | None" = None,
    ) -> dict[str, jax.Array]:
        """Return the seeds' last embeddings, `[seeds, width]` per root type; arguments as of a call."""
        for depth, block in enumerate(blocks):
            x = self.embed(depth, block, x, masks, exchanges[depth] if exchanges else LOCAL)
        if seeds is not None and exchanges:
            x = exchanges[-1].leave(x)
        return read_seeds(x, self.roots, seeds)

    def embed(
        self,
        depth: int,
        block: Block,
        x: Mapping[str, jax.Array],
        masks: Masks | None = None,
        exchange: Exchange = LOCAL,
    ) -> dict[str, jax.Array]:
        """Return the embeddings of layer `depth` from those below it."""
        return self.layers[depth](block, x if depth else self.enter(exchange.enter(x), block, masks), masks, exchange)

    def enter(self, x: Mapping[str, jax.Array], block: Block, masks: Masks | None = None) -> Mapping[str, jax.Array]:
        """Return the input of the first layer: the features, projected, dropped out and put through dense layers if so configured.

        Args:
          block: the first layer's, which says whose features they are.
        """
        if self.input_projection:
            x = {t: project(x[t]) for t, project in self.project.items() if t in x}
        if not self.input_dropout and not self.decoupled:
            return x
        type_masks = {t: None if masks is None else masks.of(block.sources[t]) for t in x}
        x = {t: dropped(rows, self.input_dropout, type_masks[t], (*self.path, t)) for t, rows in x.items()}
        for depth in range(len(self.decoupled.widths) if self.decoupled else 0):
            x = {t: self.dense[t][depth](rows, type_masks[t]) for t, rows in x.items()}
        first = self.layers[0]
        return {t: first.enter(t, rows) for t, rows in x.items()} if isinstance(first, Propagation) else x

    def conclude(
        self,
        totals: Mapping[str, Any],
        own: Mapping[str, jax.Array],
        masks: Mapping[str, NodeMasks | None],
        arrays: Any = None,
    ) -> jax.Array:
        """Return the outputs of the head from the seeds' combined partial aggregates of the last layer.

        Args:
          totals: all combined, per root type; a type may be absent if nothing is aggregated into it.
          own: the seeds' embeddings of the layer below per root type; of width 0 if the last layer does not read its targets.
          masks: of the seeds, in training.
          arrays: the task's, of the seeds' examples.
        """
        last = self.layers[-1]
        embeddings = {t: finished(last, t, totals.get(t), own[t], masks[t]) for t in self.roots}
        return self.read_out(embeddings, arrays)

    def read_out(self, embeddings: Mapping[str, jax.Array], arrays: Any = None) -> jax.Array:
        """Return the outputs of the head from the seeds' last embeddings, `[examples, width]` per root type."""
        return self.head(embeddings, arrays)

    def learnable_scales(self, nodes: Mapping[str, int]) -> dict[str, float]:
        """Return the standard deviation of the entries that learnable features start from, of every type that has some.

        Args:
          nodes: of these types.
        """
        first = self.layers[0]
        if first.traits.learnable_glorot and not self.transforms:
            return dict.fromkeys(nodes, glorot(sum(nodes.values()), first.features))
        if self.feature_init == "glorot":
            return {t: glorot(count, self.widths[t]) for t, count in nodes.items()}
        return {t: self.widths[t] ** -0.5 for t in nodes}


def read_seeds(
    x: Mapping[str, jax.Array], roots: Sequence[str], seeds: "Mapping[str, Array] | None"
) -> dict[str, jax.Array]:
    """Return the rows of the seeds per root type; all rows where `seeds` is None."""
    return {t: read(x[t], None if seeds is None else seeds[t]) for t in roots}


@dataclass(frozen=True)
class StackOptions:
    """The options of a stack whatever its model is; the configuration's keys of the same names set them.

    Attributes:
      hidden, layers: size of the stack; layer `k` has the relations and types that the target needs at that depth.
      feature_width: of the learnable features of the types that have none.
      head: whether a linear head makes the outputs, so that what crosses partitions is `hidden` wide however many outputs
        there are, as in GraphStorm; if not, the last layer makes them, as in the R-GCN paper.
      input_dropout, feature_init: as in `Stack`.
      logit_norm: whether the outputs of every example are brought to mean 0 and variance 1.
      input_projection: map every type's features to `hidden` columns first.
      self_term: whether nodes are aggregated into themselves, if the model can.
      decoupled: all matrices first, in as many dense layers, and then as many rounds of aggregation without any.
    """

    hidden: int
    layers: int
    feature_width: int = 64
    head: bool = True
    input_dropout: float = 0.0
    input_projection: bool = False
    feature_init: str = "unit"
    self_term: bool = True
    decoupled: bool = False
    logit_norm: bool = False


STACK_OPTIONS = frozenset(option.name for option in fields(StackOptions))


def build(
    model: type[Layer] | HGNN,
    schema: Schema,
    features: Mapping[str, int],
    readout: Readout,
    hidden: int,
    layers: int,
    **options: Any,
) -> Stack:
    """Return a stack of `layers` layers, each `hidden` wide.

    Args:
      model: a layer, or an `HGNN`.
      schema: of the graph.
      features: widths of the static features, per node type that has them.
      readout: what reads the last layer's embeddings; a task.
      **options: those of `StackOptions`, and the model's own.

    Raises:
      InputError: options that do not go together.
    """
    own = {name: value for name, value in options.items() if name not in STACK_OPTIONS}
    stack = StackOptions(hidden, layers, **{name: options[name] for name in options.keys() - own.keys()})
    _check(stack, own)
    layer = Composed if isinstance(model, HGNN) else model
    if isinstance(model, HGNN):
        own |= _composed(model)
    if "input_dropout" in {option.name for option in fields(layer)}:  # a layer that drops what it makes of the features
        own["input_dropout"], stack = stack.input_dropout, replace(stack, input_dropout=0.0)
    dense = _dense(layer, stack, own, readout.outputs) if stack.decoupled else None
    if layer.traits.propagation and stack.decoupled:
        layer = layer.traits.propagation
        own = {name: value for name, value in own.items() if name in takes(layer)}
    self_term = stack.self_term and has_self_term(model)
    nowhere: dict[str, Any] = {"relations": (), "selves": (), "targets": (), "widths": {}, "features": hidden}
    needed = schema.layer_types(readout.roots, layers, self_term or layer(**nowhere | own).traits.reads_target)
    places = [_place(schema, types, hidden, self_term) | own for types in needed[1:]]
    rounds: dict[str, Any] = {}
    if dense:
        rounds = {"features": dense.widths[-1], "scored": places[0]["relations"], "logits": not stack.head}
        places = [
            place | rounds | {"last": dense.finish if number == layers - 1 else ()}
            for number, place in enumerate(places)
        ]
    elif not stack.head:
        places[-1] |= {"features": readout.outputs, "logits": True}
    reads = layer(**nowhere | own | rounds)
    widths = [{t: width_made(reads, t) for t in schema.nodes if t in types} for types in needed[:-1]]
    if stack.input_projection or dense:
        inputs = {t: features.get(t, stack.feature_width) for t in widths[0]}
    else:
        first = places[0]
        first["learned"] = {
            t: tuple(r for r in first["relations"] if r.source == t) for t in widths[0] if t not in features
        }
        matrices = layer(**first | {"widths": {}}).traits.learnable_widths
        inputs = widths[0] = {t: features.get(t, matrices.get(t, stack.feature_width)) for t in widths[0]}
    return Stack(
        tuple(layer(widths=below, **place) for below, place in zip(widths, places)),
        inputs,
        readout.roots,
        readout.outputs,
        readout.head(stack.head, stack.logit_norm),
        stack.input_dropout,
        hidden if stack.input_projection else 0,
        stack.feature_init,
        dense,
    )


def _dense(layer: type[Layer], stack: StackOptions, own: Mapping[str, Any], outputs: int) -> DenseOptions:
    """Return the dense layers of a decoupled model.

    Raises:
      InputError: the model has no aggregation without matrices, or an option of matrices that it would not have.
    """
    if layer.traits.propagation is None:
        raise InputError(
            f"model.decoupled is true, and {layer.__name__} cannot be decoupled: it has no fold without matrices"
        )
    known = {*takes(layer.traits.propagation), *(option.name for option in fields(DenseOptions))}
    for option in fields(layer):
        if option.name in own.keys() - known and own[option.name] != option.default:
            name = owners.model_option(option.name)
            raise InputError(f"{name} is {own[option.name]}, and a decoupled model has no such option")
    given = {name: own[name] for name in ("norm", "dropout", "residual", "bias") if name in own}
    activation = getattr(layer, "activation", relu)
    folded = stack.hidden if stack.head else layer.traits.propagation.made(outputs, **own)
    widths = (stack.hidden,) * (stack.layers - 1) + (folded,)
    return DenseOptions(widths, activation, logits=not stack.head, **given)


def _check(stack: StackOptions, own: Mapping[str, Any]) -> None:
    """Raise an InputError if options of the stack and of the model do not go together."""
    if stack.input_projection and own.get("one_hot"):
        raise InputError("rgcn.one_hot is true, and model.input_projection would map the one-hot features to others")
    if stack.feature_init != "unit" and own.get("one_hot"):
        raise InputError(
            f"model.feature_init is {stack.feature_init}, and rgcn.one_hot has rows that start in a way of their own"
        )


def _composed(model: HGNN) -> dict[str, Any]:
    """Return the fields of a `Composed` from an `HGNN`."""
    monoid = model.cross_relation_aggregation
    return {
        "relation_aggregation": model.relation_aggregation,
        "monoid": monoid if isinstance(monoid, Monoid) else partials.NAMED[monoid],
        "looks": model.reads_target,
        "masked": model.drops,
    }


def _place(schema: Schema, types: Container[str], features: int, self_term: bool) -> dict[str, Any]:
    """Return the fields that every layer has, for one that gives the nodes of some types an embedding."""
    targets = tuple(t for t in schema.nodes if t in types)
    relations = tuple(relation for relation in schema.relations if relation.target in targets)
    return {
        "relations": relations,
        "selves": targets if self_term else (),
        "targets": targets,
        "features": features,
    }


def has_self_term(model: type[Layer] | HGNN) -> bool:
    """Return whether a model can aggregate nodes into themselves."""
    return model.self_term if isinstance(model, HGNN) else model.traits.self_term


def takes(model: type[Layer] | HGNN) -> frozenset[str]:
    """Return the names of a model's options."""
    layer = Composed if isinstance(model, HGNN) else model
    place = {"relations", "selves", "targets", "widths", "features", "learned", "logits", "parent", "name"}
    place |= {"scored", "last"}
    return frozenset(option.name for option in fields(layer)) - place
