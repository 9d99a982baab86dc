"""Decoupled models on slices: one split after the dense layers, all rounds of folding on columns, one gather (section 4.1.2).

With their gradients these are four all-to-alls a step, whatever the number of layers.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from hetjax.models.layer import Exchange
from hetjax.sharding.tensor.columns import slice_of, to_columns, to_rows


class Slices(Exchange):
    """A round of folding on this device's columns of all nodes.

    Args:
      parts: number of devices.
      features: columns that are divided.
      first: whether the embeddings below are this device's rows.
      gathered: of the last round the types whose rows are wanted; of the others none.
    """

    def __init__(self, parts: int, features: int, first: bool, gathered: Sequence[str]):
        self.parts, self.features, self.first, self.gathered = parts, features, first, gathered

    def before(
        self, x: Mapping[str, jax.Array], prepare: Callable[[Mapping[str, jax.Array]], Mapping[str, Any]]
    ) -> tuple[Mapping[str, jax.Array], Mapping[str, Any]]:
        if self.first:
            x = dict(zip(x, to_columns(self.parts, list(x.values()))))
        width = slice_of(self.features, self.parts)
        x = {t: rows[:, :width] for t, rows in x.items()}  # what nothing was folded into is zeros of any width
        return x, prepare(x)

    def after(
        self, totals: Mapping[str, Any], own: Mapping[str, jax.Array], targets: Mapping[str, Any]
    ) -> tuple[Mapping[str, Any], Mapping[str, jax.Array], Mapping[str, Any]]:
        if not self.gathered:
            return totals, own, targets
        folded = {t: totals[t] for t in self.gathered if t in totals}
        rows = to_rows(self.parts, list(folded.values()), [self.features] * len(folded))
        mine = {t: jnp.zeros((len(own[t]) // self.parts, 0), own[t].dtype) for t in self.gathered}
        return dict(zip(folded, rows)), mine, targets
