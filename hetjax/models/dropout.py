"""Dropout (Srivastava et al., JMLR 15, 2014) whose masks belong to nodes and edges, not to the rows of an array.

The dropped entries are a pure function of (seed, step, module, node): the same in whichever row, partition or replica a node is
computed, and however often. So training with dropout on a mesh equals training on one device.
"""

from functools import singledispatch
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.extend.random import threefry_2x32
from jax.typing import DTypeLike

from hetjax.kernels.segment import by_target, row_of
from hetjax.kernels.sparse import SparseRows
from hetjax.kernels.tables import read
from hetjax.sampling import draw
from hetjax.sampling.blocks import Edges
from hetjax.system.arrays import Array


class Masks(NamedTuple):
    """The source of a training step's dropout masks.

    Attributes:
      key: of the step.
    """

    key: jax.Array

    def of(self, ids: "Array | None") -> "NodeMasks":
        """Return the masks of some nodes, int32 `[T]`; None where row `i` is node `i`."""
        return NodeMasks(self.key, ids)


class NodeMasks(NamedTuple):
    """The masks of some nodes, and of the edges into them.

    Attributes:
      key: of the step.
      ids: of the nodes, int32 `[T]`; None where row `i` is node `i`.
    """

    key: jax.Array
    ids: "Array | None"

    def keep_mask(self, rate: float, path: tuple[str, ...], first: Array, second: Array) -> jax.Array:
        """Return which of some entries are kept, by a counter-based generator (Threefry-2x32; Salmon et al., SC 2011).

        Args:
          rate: share that is dropped.
          path: of the module that asks; any other gets other masks.
          first, second: int32 `[N, 1]` and `[N or 1, M]`, which number the pairs of entries.

        Returns:
          bool `[N, 2 M]`.
        """
        key = jax.random.key_data(jax.random.fold_in(self.key, int(draw.key(*path)) % 2**32))
        pairs = jnp.stack(jnp.broadcast_arrays(first, second)).astype(jnp.uint32)
        return jnp.concatenate(list(threefry_2x32(key, pairs)), axis=1) >= jnp.uint32(rate * 2**32)


def dropped(x: Any, rate: float, masks: NodeMasks | None, path: tuple[str, ...]) -> Any:
    """Return rows `[T, width]` of nodes, a share `rate` of whose entries is zero; the others are scaled up accordingly.

    Args:
      x: an array or `SparseRows`; which entries are dropped is the same of both.
      masks: of these nodes; None: nothing is dropped.
      path: of the module that asks, `self.path`; one that asks twice adds a name, or both times drop the same.
    """
    if masks is None or not rate:
        return x
    ids = jnp.arange(len(x)) if masks.ids is None else masks.ids
    width = x.shape[1]
    if isinstance(x, SparseRows):
        return _dropped_entries(x, rate, masks, path, ids)
    keep = masks.keep_mask(rate, path, ids[:, None], jnp.arange(-(-width // 2))[None])[:, :width]
    return jnp.where(keep, x / (1 - rate), 0)


def _dropped_entries(x: SparseRows, rate: float, masks: NodeMasks, path: tuple[str, ...], ids: Array) -> SparseRows:
    """Return the result of `dropped` for the entries that are not zero."""
    half, column = -(-x.shape[1] // 2), x.entries.indices
    row = row_of(by_target(x.entries))
    node = read(ids, row) if x.picked is None else row  # rows are picked by node id
    kept = masks.keep_mask(rate, path, node[:, None], (column % half)[:, None])
    kept_entries = jnp.where(column < half, kept[:, 0], kept[:, 1])
    return x.with_values(jnp.where(kept_entries, x.values / (1 - rate), 0))


@singledispatch
def edge_keep_mask(
    adjacency: Edges,
    heads: int,
    rate: float,
    masks: NodeMasks | None,
    path: tuple[str, ...],
    dtype: DTypeLike = jnp.float32,
) -> jax.Array | None:
    """Return the factor of the weight of every edge, `[edges, heads]` of the dtype; None: nothing is dropped.

    An edge is known by its target and by its position among that target's edges, as they were sampled.

    Args:
      masks: of the targets.
      path: of the module that asks.
    """
    if masks is None or not rate:
        return None
    target = row_of(by_target(adjacency))
    ids = target if masks.ids is None else read(masks.ids, target)
    pairs = -(-heads // 2)
    place = (
        jnp.arange(len(target)) - read(adjacency.indptr, target) if adjacency.whole is None else adjacency.whole.places
    )
    place = place * pairs
    keep = masks.keep_mask(rate, path, ids[:, None], place[:, None] + jnp.arange(pairs)[None])[:, :heads]
    return keep.astype(dtype) / (1 - rate)
