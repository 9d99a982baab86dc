"""Decoupled models on slices: one split after the dense layers, all rounds of aggregation on columns, one gather (section 4.1.2).

With their gradients these are four all-to-alls a step, whatever the number of layers.
"""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from hetjax.models.exchange import Exchange
from hetjax.models.layer import Layer
from hetjax.sharding.columns import own_slice, slice_of, to_columns, to_rows
from hetjax.sharding.tensor.seeds import gathered


def heads_folded_by(layer: Layer) -> int:
    """Return the heads that a round of a decoupled model aggregates by; 0 if it has none."""
    return layer.traits.heads


def round_slice(parts: int, columns: int, heads: int = 0) -> int:
    """Return the number of columns of each device in the rounds of a decoupled model, padding included; attention has whole heads."""
    return slice_of(heads, parts) * (columns // heads) if heads else slice_of(columns, parts)


def round_columns(parts: int, x: jax.Array, heads: int = 0) -> jax.Array:
    """Return rows `[rows, columns]` with zeros up to as many columns as the devices' slices have."""
    return jnp.pad(x, [(0, 0), (0, parts * round_slice(parts, x.shape[1], heads) - x.shape[1])])


class Slices(Exchange):
    """A round of aggregation on this device's columns of all nodes.

    Args:
      parts: the number of devices.
      widths: the widths of the columns that are divided, per node type.
      first: whether the embeddings below are this device's rows.
      gathered: the types whose rows are wanted of the last round, and their numbers of columns; empty in other rounds.
      heads: the heads of attention, which are divided whole; 0: single columns are divided.
      sent: the rows of the last embeddings that devices send to each other, as of `seeds.gathered`.
    """

    def __init__(
        self,
        parts: int,
        widths: Mapping[str, int],
        first: bool,
        gathered: Mapping[str, int],
        heads: int,
        sent: Mapping[str, jax.Array],
    ):
        self.parts, self.widths, self.first, self.gathered, self.heads = parts, widths, first, gathered, heads
        self.sent = sent

    def leave(self, x: Mapping[str, jax.Array]) -> Mapping[str, jax.Array]:
        return gathered(x, self.sent)

    def before(
        self, x: Mapping[str, jax.Array], prepare: Callable[[Mapping[str, jax.Array]], Mapping[str, Any]]
    ) -> tuple[Mapping[str, jax.Array], Mapping[str, Any]]:
        if self.first:
            padded = [round_columns(self.parts, rows, self.heads) for rows in x.values()]
            x = dict(zip(x, to_columns(self.parts, padded)))
        widths = {t: round_slice(self.parts, self.widths[t], self.heads) for t in x}
        x = {t: rows[:, : widths[t]] for t, rows in x.items()}  # what nothing was folded into is zeros of any width
        return x, prepare(x)

    def after(
        self, totals: Mapping[str, Any], own: Mapping[str, jax.Array], targets: Mapping[str, Any]
    ) -> tuple[Mapping[str, Any], Mapping[str, jax.Array], Mapping[str, Any]]:
        if not self.gathered:
            return totals, own, targets
        folded = {t: totals[t] for t in self.gathered if t in totals}
        rows = to_rows(self.parts, list(folded.values()), [self.gathered[t] for t in folded])
        mine = {t: jnp.zeros((len(own[t]) // self.parts, 0), own[t].dtype) for t in self.gathered}
        ids = {t: own_slice(self.parts, jnp.arange(len(own[t]), dtype=jnp.int32), 0) for t in self.gathered}
        return dict(zip(folded, rows)), mine, ids
