"""The last embeddings of seeds where devices have ranges of the nodes: a device sends rows that others' examples read."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from hetjax.kernels.tables import read
from hetjax.partition.owned import Owned
from hetjax.sampling.blocks import NO_NODE, pad
from hetjax.sharding.columns import ROWS, all_rows
from hetjax.system.arrays import Array

Ids = Mapping[str, np.ndarray]  # per root type, int32


def given(seeds: Sequence[Ids], owned: Owned, shared: bool) -> dict[str, list[np.ndarray]]:
    """Return the nodes whose embeddings each device gives, per root type: its own seeds, or those of all seeds that it owns.

    Args:
      seeds: distinct ids, of every device.
      owned: the owner of each node.
      shared: whether devices send rows to each other.
    """
    if not shared:
        return {t: [own[t] for own in seeds] for t in seeds[0]}
    return {t: owned.split(t, np.unique(np.concatenate([own[t] for own in seeds]))) for t in seeds[0]}


def are_shared(seeds: Sequence[Ids], owned: Owned) -> bool:
    """Return whether any device has a seed that another one owns."""
    return any((owned.owner[t][ids] != part).any() for part, own in enumerate(seeds) for t, ids in own.items())


def places(
    seeds: Sequence[Ids], nodes: Mapping[str, Sequence[np.ndarray]], sizes: Mapping[str, int], shared: bool
) -> dict[str, list[np.ndarray]]:
    """Return where each seed of each device stands among the rows that it gets, int32.

    Args:
      nodes: as `given` returns them.
      sizes: the number of rows that a device gives, per root type, padding included.
    """
    if not shared:
        return {t: [np.arange(len(own[t]), dtype=np.int32) for own in seeds] for t in nodes}
    found = {}
    for t, parts in nodes.items():
        ids = np.concatenate(parts)
        at = np.concatenate([part * sizes[t] + np.arange(len(of)) for part, of in enumerate(parts)])
        order = np.argsort(ids)
        found[t] = [at[order[np.searchsorted(ids[order], own[t])]].astype(np.int32) for own in seeds]
    return found


def stacked(parts: Sequence[np.ndarray], size: int) -> np.ndarray:
    """Return the rows of all devices, int32 `[parts * size]`, each device's padded."""
    return np.concatenate([pad(part.astype(np.int32), size, NO_NODE) for part in parts])


def gathered(x: Mapping[str, jax.Array], sent: Mapping[str, Array]) -> Mapping[str, Any]:
    """Return the rows that all devices send, `[parts * rows, width]` per root type; inside the program.

    Args:
      x: this device's rows.
      sent: those that it sends, int32 `[rows]` per type; a type that is absent keeps its rows.
    """
    return {**x, **{t: all_rows(ROWS, read(x[t], rows)) for t, rows in sent.items()}}
