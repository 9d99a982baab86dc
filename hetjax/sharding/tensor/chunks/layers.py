"""The stages of a layer on some nodes: for coupled layers, and for the rounds of decoupled models."""

from collections.abc import Container, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from hetjax.graph.hetgraph import HetGraph
from hetjax.graph.schema import Relation
from hetjax.models.aggregate import finished, source_inputs, target_inputs
from hetjax.models.dropout import Masks
from hetjax.models.exchange import Exchange
from hetjax.models.hgnn import Stack
from hetjax.models.layer import Layer
from hetjax.sampling.blocks import NO_NODE, Block
from hetjax.sharding.columns import own_slice, slice_of, to_columns, to_rows
from hetjax.sharding.tensor.chunks.plan import Edges
from hetjax.sharding.tensor.chunks.stages import Answering, Asking, Folding, no_edges, unique
from hetjax.sharding.tensor.folds import Asked, Folded
from hetjax.sharding.tensor.slices import heads_folded_by, round_columns, round_slice

Columns = Mapping[int, Any]  # arrays by their place among what is sent of a type
Places = Mapping[tuple[str, bool], Sequence[Any]]  # `Asked` of places, by relation, and whether of its sources


class Read(NamedTuple):
    """The inputs of a chunk's aggregation, to which gradients flow.

    Attributes:
      sources: the columns of the chunk's sources, per type.
      own: the columns of its targets.
    """

    sources: Mapping[str, Columns]
    own: Columns


class Summed(NamedTuple):
    """The inputs from which a chunk's targets are finished.

    Attributes:
      rows: their embeddings of the layer below, `[rows, width]` on each device of its own, by their type; or nothing.
      found: the results of the aggregations per relation, as columns; or, once these were gathered, as rows.
    """

    rows: Mapping[str, Any]
    found: Mapping[str, Sequence[Folded]]


class Coupled:
    """A layer whose aggregations stand between dense parts: nodes are sent before it, and its sums after it.

    Args:
      stack: the stack of which it is a layer.
      depth: the depth of the layer.
      graph: the graph whose relations it aggregates.
      parts: the number of devices.
      still: the types whose embeddings below never change, and need no gradient.

    Attributes:
      sends, finishes: whether rows become columns before the aggregation, and columns become rows after it.
      keeps: whether the gradient of the aggregation needs its inputs.
      sums_logits: whether aggregations may sum parts of logits over the devices.
      targets: the types that it makes embeddings of.
      widths: the widths of the embeddings below, per type.
      dtypes: the dtypes of the embeddings below, per type, once they are known.
      places: the places of the sent columns that each aggregation reads, per type, once it was traced.
      made: the whole number of columns of each aggregation's results, per type and relation, once it was traced.
      constant: the types of which only columns that never change are sent, once they were traced.
    """

    sends = finishes = True

    def __init__(self, stack: Stack, depth: int, graph: HetGraph, parts: int, still: Container[str] = ()):
        layer = stack.layers[depth]
        self.layer, self.depth, self.graph, self.parts, self.still = layer, depth, graph, parts, still
        self.constant: set[str] = set()
        self.reads_own, self.keeps = stack.reads_own, layer.traits.linear_fold is None
        self.targets, self.widths = tuple(sorted(layer.targets)), layer.widths
        self.relations = [r for r in layer.relations if r in graph.relations]
        heads = layer.traits.heads
        self.sums_logits = parts > 1 and self.keeps and (not heads or heads % parts > 0)
        self.places: dict[str, Places] = {}
        self.made: dict[str, dict[str, list[Sequence[int]]]] = {}
        self.dtypes: dict[str, Any] = {}
        rows = {t: max(1, slice_of(count, parts)) for t, count in graph.schema.nodes.items()}
        self.about: dict[str, dict[str, Any]] = {
            r.key: {
                "work": (rows[r.source], rows[r.target], graph.relations[r].edges / parts),
                "still": r.source if r.source in still and layer.traits.linear_fold else "",
            }
            for r in self.relations
        }

    @property
    def asked(self) -> dict[str, bool]:
        """Return whether the own columns of targets are read at the targets, per type."""
        return {t: any(asked.targets or asked.whole for of in at.values() for asked in of) for t, at in self._into()}

    def _into(self) -> list[tuple[str, Places]]:
        return [(t, {at: of for at, of in self.places.get(t, {}).items() if not at[1]}) for t in self.targets]

    def send(self, stack: Stack, t: str, rows: jax.Array) -> list[jax.Array]:
        """Return the columns of all rows of some nodes that aggregations read, `[parts * rows, slice, ...]` each."""
        layer = stack.layers[self.depth]
        calls: dict[tuple[str, bool], list[Asked]] = {}
        made: dict[tuple[int, int], Any] = {}
        for r in self.relations:
            if r.source == t:
                stage: Any = Asking(no_edges(0), self.parts, made=made, **self.about[r.key])
                layer.relation(r, stage, self._sources_of(layer, t, rows), self._seen(layer, r, 0), None)
                calls[r.key, True] = [Asked(asked.sources) for asked in stage.calls]
            if r.target == t:
                stage = Asking(no_edges(self.parts * len(rows)), self.parts, **self.about[r.key])
                reads = layer.traits.reads_target
                own = target_inputs(layer, t, self._floats(rows), [r]) if reads else None
                layer.relation(r, stage, self._sources(layer, r.source), own, None)
                calls[r.key, False] = [asked._replace(sources=[]) for asked in stage.calls]
        arrays, self.places[t] = unique(calls)
        if t in self.still and all(x is rows for x in arrays):
            self.constant.add(t)
        return to_columns(self.parts, arrays)

    def fold(self, stack: Stack, t: str, read: Read, edges: Edges, masks: Masks | None) -> dict[str, list[Folded]]:
        """Return the aggregates of a chunk, for every relation into a type."""
        layer, found = stack.layers[self.depth], {}
        for r in self.relations:
            if r.target == t:
                theirs, mine = self.places[r.source][r.key, True], self._of_targets(r)
                given = [
                    Asked(
                        [read.sources[r.source][i] for i in left.sources],
                        [read.own[i] for i in right.targets],
                        [read.own[i] for i in right.whole],
                    )
                    for left, right in zip(theirs, mine, strict=True)
                ]
                adjacency, about = edges.adjacency[r.key], self.about[r.key]
                stage: Any = Folding(adjacency, self.parts, given=given, ids=edges.ids, **about)
                count = len(edges.ids) // self.parts
                drawn = masks and masks.of(edges.ids[:count])
                layer.relation(r, stage, self._sources(layer, r.source), self._seen(layer, r, count), drawn)
                found[r.key] = [given for given, _ in stage.calls]
                self.made.setdefault(t, {})[r.key] = [widths for _, widths in stage.calls]
        return found

    def gather(self, t: str, found: Mapping[str, Sequence[Folded]]) -> dict[str, list[Folded]]:
        """Return the results of a chunk's aggregations as rows, on each device those of its own targets; all relations' travel together."""
        widths = [width for key in found for of in self.made[t][key] for width in of]
        rows = iter(to_rows(self.parts, [x for of in found.values() for one in of for x in one.columns], widths))
        return {
            key: [
                Folded([next(rows) for _ in one.columns], [own_slice(self.parts, x, 0) for x in one.alike])
                for one in of
            ]
            for key, of in found.items()
        }

    def finish(self, stack: Stack, t: str, summed: Summed, ids: jax.Array, masks: Masks | None) -> jax.Array:
        """Return the embeddings of a chunk's targets `ids` from gathered sums, `[rows, width]`, on each device those of its own targets."""
        layer, targets = stack.layers[self.depth], self.parts * len(ids)
        x = {s: jnp.zeros((0, width), self.dtypes[s]) for s, width in self.widths.items()} | dict(summed.rows)
        adjacency: Any = {
            r.key: Answering(no_edges(targets), self.parts, given=summed.found[r.key], **self.about[r.key])
            for r in self.relations
            if r.target == t
        }
        mine = None if self.reads_own and t in self.widths else jnp.full(len(ids), NO_NODE)
        one = _of(layer, t)
        return one(stack, self.depth, Block(adjacency, {t: mine}, {t: ids}), x, masks)

    def wants(self, t: str) -> tuple[dict[str, list[int]], list[int]]:
        """Return the places of the sent columns that a chunk of a type reads: of its sources, and of its targets."""
        read: dict[str, set[int]] = {}
        own: set[int] = set()
        for r in self.relations:
            if r.target == t:
                for asked in self.places[r.source][r.key, True]:
                    read.setdefault(r.source, set()).update(asked.sources)
                for asked in self._of_targets(r):
                    own |= {*asked.targets, *asked.whole}
        return {s: sorted(some) for s, some in read.items()}, sorted(own)

    def _of_targets(self, relation: Relation) -> Sequence[Any]:
        """Return what a relation's aggregations read of their targets; nothing where the targets have no embedding below that is read."""
        if relation.target in self.widths:
            return self.places[relation.target][relation.key, False]
        return [Asked([]) for _ in self.places[relation.source][relation.key, True]]

    def _own(self, t: str, rows: int) -> Any:
        if not self.layer.traits.reads_target:
            return None
        return self._floats(jnp.zeros((rows, self.widths[t]), self.dtypes[t]))

    def _seen(self, layer: Layer, relation: Relation, rows: int) -> Any:
        """Return the target inputs of a relation, of so many targets of unknown values."""
        own = self._own(relation.target, rows)
        return None if own is None else target_inputs(layer, relation.target, own, [relation])

    def _sources(self, layer: Layer, t: str) -> Any:
        return self._sources_of(layer, t, jnp.zeros((0, self.widths[t]), self.dtypes[t]))

    def _sources_of(self, layer: Layer, t: str, rows: jax.Array) -> Any:
        return source_inputs(layer, {t: rows})[t]

    def _floats(self, rows: jax.Array) -> jax.Array:
        return rows.astype(jnp.promote_types(rows.dtype, jnp.float32))


def _of(layer: Layer, t: str) -> Any:
    """Return a layer on one type's targets."""

    def run(stack: Stack, depth: int, block: Block, x: Mapping[str, jax.Array], masks: Masks | None) -> jax.Array:
        return stack.layers[depth](block, x, masks)[t]

    return run


class Apart(Exchange):
    """A round whose targets' own embeddings stand apart from those of their sources.

    Args:
      own: the own embeddings of targets.
      totals: the dictionary that the partial aggregates are put into, if others finish the nodes; None: they are finished here.
    """

    def __init__(self, own: Mapping[str, jax.Array], totals: dict[str, Any] | None):
        self.own, self.totals = own, totals

    def before(self, x: Mapping[str, jax.Array], prepare: Any) -> tuple[Mapping[str, jax.Array], Mapping[str, Any]]:
        return self.own, prepare(x)

    def after(
        self, totals: Mapping[str, Any], own: Mapping[str, jax.Array], targets: Mapping[str, Any]
    ) -> tuple[Mapping[str, Any], Mapping[str, jax.Array], Mapping[str, Any]]:
        if self.totals is None:
            return totals, own, targets
        self.totals.update(totals)
        return {}, {}, {}


class Round(Coupled):
    """A round of a decoupled model: it aggregates columns, and sends before the first and after the last alone."""

    def __init__(self, stack: Stack, depth: int, graph: HetGraph, parts: int, still: Container[str] = ()):
        super().__init__(stack, depth, graph, parts)
        self.keeps |= self.layer.traits.learns
        self.heads = heads_folded_by(self.layer)
        self.sends, self.finishes = not depth, depth == len(stack.layers) - 1
        self.sums_logits, self.last_width = False, stack.decoupled.widths[-1] if stack.decoupled else 0
        self.places = {t: {} for t in self.targets}

    @property
    def asked(self) -> dict[str, bool]:
        return {t: t in self.widths for t in self.targets}

    def send(self, stack: Stack, t: str, rows: jax.Array) -> list[jax.Array]:
        return to_columns(self.parts, [round_columns(self.parts, rows, self.heads)])

    def fold(self, stack: Stack, t: str, read: Read, edges: Edges, masks: Masks | None) -> dict[str, list[Folded]]:
        x = {s: self._cut(s, columns[0]) for s, columns in read.sources.items()}
        for s in self.widths.keys() - x.keys():
            x[s] = jnp.zeros((0, round_slice(self.parts, self.widths[s], self.heads)), self.dtypes[s])
        mine = {t: self._cut(t, read.own[0])} if read.own else {}
        adjacency = {r.key: edges.adjacency[r.key] for r in self.relations if r.target == t}
        block = Block(adjacency, {t: None if mine else jnp.full(len(edges.ids), NO_NODE)}, {t: edges.ids})
        totals: dict[str, Any] | None = {} if self.finishes else None
        made = stack.layers[self.depth](block, x, masks, Apart(mine, totals))
        columns = [of[t] for of in (made if totals is None else totals,) if t in of]
        self.made[t] = {"": [[self.last_width] * len(columns)]}
        return {"": [Folded(columns)]}

    def finish(self, stack: Stack, t: str, summed: Summed, ids: jax.Array, masks: Masks | None) -> jax.Array:
        totals = summed.found[""][0].columns
        own = jnp.zeros((len(ids), 0), self.dtypes.get(t, jnp.float32))
        partial = totals[0] if totals else None
        return finished(stack.layers[self.depth], t, partial, own, masks and masks.of(ids))

    def wants(self, t: str) -> tuple[dict[str, list[int]], list[int]]:
        return {r.source: [0] for r in self.relations if r.target == t}, [0] if t in self.widths else []

    def _cut(self, t: str, x: jax.Array) -> jax.Array:
        """Return the columns cut to the width of a slice; without edges they are zeros of any width."""
        return x[:, : round_slice(self.parts, self.widths[t], self.heads)]
