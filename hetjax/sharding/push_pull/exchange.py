"""The exchange between devices at the first layer, each of which has a slice of the features' columns.

Every device aggregates the samples of all replicas of its group on its slice. Its result for a target is linear in the slice, so the
replica that has the target sums the results of all devices (P3's push; its pull is the backward pass). Only logits of attention must be
known whole before anything is weighted by them: these are summed over all slices for all devices.

A first layer that is not linear in its inputs is given whole rows instead (`Pull`).
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from hetjax.kernels.attention import Attended, attend
from hetjax.kernels.logits import dot_logits, weigh
from hetjax.kernels.partials import Attention, Weighted
from hetjax.kernels.segment import by_target, row_of
from hetjax.kernels.tables import read
from hetjax.models.exchange import Exchange
from hetjax.sampling.blocks import Adjacency, Block
from hetjax.sharding.columns import summed, to_rows
from hetjax.sharding.mesh import FEATURE
from hetjax.sharding.traffic import scope
from hetjax.system.arrays import Array

PARTIAL, LOGITS, QUERIES = "partial_products", "attention_logits", "queries"  # kinds of traffic
SUMMED = {Attention: "numerator", Weighted: "value"}  # what slices make a part of; they have the rest alike


class Sliced(Adjacency):
    """The edges between nodes for which every device has a slice of the features' columns, or a part of a product with these."""


@attend.register
def _(
    adjacency: Sliced,
    queries: jax.Array,
    offsets: jax.Array,
    keys: jax.Array,
    values: jax.Array | None = None,
    slope: float = 1.0,
    keep: jax.Array | None = None,
) -> Attended:
    """Return attention on slices: logits are the sums of all slices' parts, dot products and offsets alike; the numerator is this slice's part."""
    queries, keys = queries.astype(offsets.dtype), keys.astype(offsets.dtype)
    rows = by_target(adjacency)
    of_sources = len(queries) == 1  # the same in all of a source's edges
    if of_sources:
        part = jnp.sum(keys * queries, axis=2)
        if len(part) + len(offsets) < len(adjacency.indices):
            of_source, of_target = _summed_together(LOGITS, [part, offsets])
            logits = read(of_source, adjacency.indices) + read(of_target, row_of(rows))
        else:
            logits = summed(LOGITS, read(part, adjacency.indices) + read(offsets, row_of(rows)))
    else:
        logits = summed(LOGITS, dot_logits(adjacency, queries, keys) + read(offsets, row_of(rows)))
    logits = jnp.where(logits < 0, slope * logits, logits)
    return Attended(*weigh(adjacency, logits, keys if values is None else values.astype(offsets.dtype), keep))


def _summed_together(kind: str, arrays: Sequence[jax.Array]) -> list[jax.Array]:
    """Sum arrays `[rows, columns]` with the same number of columns as one."""
    total, ends = summed(kind, jnp.concatenate(arrays)), 0
    found = []
    for x in arrays:
        found.append(total[ends : ends + len(x)])
        ends += len(x)
    return found


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def to_owners(kind: str, parts: jax.Array) -> jax.Array:
    """Return the sum of this replica's line, `[n]`, from the parts of all devices, which have a line for every replica, `[parts, n]`.

    This is an all-to-all and a sum, because gloo's reduce-scatter cannot be trusted. In the backward pass every device gets all replicas' gradients.
    """
    with scope(kind):
        return jnp.sum(jax.lax.all_to_all(parts, FEATURE, 0, 0, tiled=True), axis=0)


def _to_all(kind: str, _: None, gradient: jax.Array) -> tuple[jax.Array]:
    with scope(kind):
        return (jax.lax.all_gather(gradient, FEATURE),)


to_owners.defvjp(lambda kind, parts: (to_owners(kind, parts), None), _to_all)


class Push(Exchange):
    """The exchange of a first layer on slices: every replica of the group gets the sums of its own targets.

    Args:
      picks: int32 `[replicas, rows]` per node type, the targets of the group that each replica has; `NO_NODE` is padding.
      widths: the widths of the features of the types whose own rows the layer reads when it finishes.
    """

    def __init__(self, picks: Mapping[str, Array], widths: Mapping[str, int]):
        self.picks, self.widths = picks, widths

    def total(self, product: jax.Array) -> jax.Array:
        return summed(QUERIES, product)

    def pieces(self, block: Block, sources: Any) -> Sequence[tuple[Mapping[str, Adjacency], Mapping[str, Any]]]:
        return [({key: Sliced(*edges) for key, edges in block.adjacency.items()}, sources)]

    def after(
        self, totals: Mapping[str, Any], own: Mapping[str, jax.Array], targets: Mapping[str, Any]
    ) -> tuple[Mapping[str, Any], Mapping[str, jax.Array], Mapping[str, Any]]:
        parts = {t: _part(total) for t, total in totals.items()}
        came = dict(zip(parts, self._pushed(parts)))
        mine = {t: _with(total, came[t], partial(self._own, t)) for t, total in totals.items()}
        read_again = {t: width for t, width in self.widths.items() if t in own}
        rows = whole_rows({t: own[t] for t in read_again}, self.picks, read_again)
        # One column of zeros: of an array without elements XLA forgets how it is divided among devices.
        unread = {t: jnp.zeros((self.picks[t].shape[1], 1), own[t].dtype) for t in own if t not in rows}
        ids = {t: self._own(t, nodes) for t, nodes in targets.items() if t in self.picks}
        return mine, {t: (rows if t in rows else unread)[t] for t in own}, ids

    def _pushed(self, parts: Mapping[str, jax.Array]) -> list[jax.Array]:
        """Return the sums over the slices of this replica's rows, for every array `[targets of the group, ...]`; all in one message."""
        lines = {t: read(x, self.picks[t]) for t, x in parts.items()}
        if not lines:
            return []
        dtype = jnp.result_type(*lines.values())
        message = jnp.concatenate([x.reshape(len(x), -1).astype(dtype) for x in lines.values()], axis=1)
        total, ends, found = to_owners(PARTIAL, message), 0, []
        for x in lines.values():
            size = x.size // len(x)
            found.append(total[ends : ends + size].reshape(x.shape[1:]).astype(x.dtype))
            ends += size
        return found

    def _own(self, node_type: str, x: jax.Array) -> jax.Array:
        """Return this replica's rows of an array that all have alike; padding repeats a row, so that nothing is divided by zero."""
        mine = jnp.asarray(self.picks[node_type])[jax.lax.axis_index(FEATURE)]
        return x.at[mine].get(mode="clip") if len(x) else read(x, mine)


class Pull(Exchange):
    """The exchange that gives this replica the whole rows that it reads, from the slices of all devices of the group.

    Args:
      picks: as of `Push`, for the rows of the features that the group reads.
      widths: the widths of the features.
    """

    def __init__(self, picks: Mapping[str, Array], widths: Mapping[str, int]):
        self.picks, self.widths = picks, widths

    def enter(self, x: Mapping[str, jax.Array]) -> Mapping[str, jax.Array]:
        return whole_rows(x, self.picks, self.widths)


def whole_rows(
    slices: Mapping[str, jax.Array], picks: Mapping[str, Array], widths: Mapping[str, int]
) -> dict[str, jax.Array]:
    """Return the rows `[rows, width]` of every replica from the slices `[rows of the group, width / replicas]`, per node type."""
    lines = {t: read(x, jnp.asarray(picks[t]).reshape(-1)) for t, x in slices.items()}
    if not lines:
        return {}
    parts = len(next(iter(picks.values())))
    return dict(zip(lines, to_rows(parts, list(lines.values()), [widths[t] for t in lines])))


def _part(total: Any) -> jax.Array:
    """Return the part of a partial aggregate that adds up over slices."""
    return getattr(total, SUMMED[type(total)]) if type(total) in SUMMED else total


def _with(total: Any, came: jax.Array, own: Any) -> Any:
    """Return a replica's own partial aggregate, from the sum `came`, and from the rest that all devices have alike."""
    if type(total) not in SUMMED:
        return came
    name = SUMMED[type(total)]
    rest = {field: own(x) for field, x in total._asdict().items() if field != name}
    return type(total)(**rest, **{name: came})
