"""Aggregation of divided columns: rows become columns, every edge is aggregated on this device's slice, and columns become rows.

To a layer its rows are this device's nodes. It multiplies, normalises and finishes these, and calls the aggregations that it always
calls; a `Divided` adjacency answers them with those of all devices (NeutronTP, section 3.1).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax

from hetjax.kernels.cost_model import CostModel, current
from hetjax.kernels.segment import multiply_first, neighbour_mean, neighbour_sum
from hetjax.models.dropout import NodeMasks, edge_keep_mask
from hetjax.sampling.blocks import Adjacency
from hetjax.sharding.columns import LOGITS, all_rows, own_slice, to_columns, to_rows


class Folded(NamedTuple):
    """The result of an aggregation of columns, for all targets.

    Attributes:
      columns: the columns of this device, `[T, slice, ...]` each.
      alike: arrays that all devices have alike, `[T, ...]` each.
    """

    columns: Sequence[jax.Array]
    alike: Sequence[jax.Array] = ()


class Asked(NamedTuple):
    """The inputs of an aggregation of columns; every device has its own rows.

    Attributes:
      sources, targets: `[rows, columns, ...]` each, of which a device gets its slice of the columns of all nodes.
      whole: `[rows, columns]` of targets each, of which every device gets all columns.
    """

    sources: Sequence[jax.Array]
    targets: Sequence[jax.Array] = ()
    whole: Sequence[jax.Array] = ()


ColumnFold = Callable[[Adjacency, Asked], Folded]  # of all nodes' columns


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Divided:
    """All edges of a relation, between nodes of which every device has a range.

    Attributes:
      adjacency: the edges of all nodes, padded so that every device has as many.
      parts: the number of devices.
      still: the type of the sources, if these are features that never change, whose columns devices keep; otherwise empty.
    """

    adjacency: Adjacency
    parts: int = field(metadata={"static": True})
    still: str = field(default="", metadata={"static": True})

    @property
    def targets(self) -> int:
        """The number of rows of an aggregation's results on each device."""
        return self.adjacency.targets // self.parts

    @property
    def weights(self) -> Any:
        """The weights of all edges, as `Adjacency.weights`; a layer asks whether there are any."""
        return self.adjacency.weights

    @property
    def own_edges(self) -> float:
        """The number of edges times the share of the columns that a device aggregates."""
        return self.adjacency.indices.shape[0] / self.parts

    def folded(self, asked: Asked, fold: ColumnFold, widths: Sequence[int]) -> Folded:
        """Aggregate all nodes' columns, and return this device's rows.

        Args:
          widths: the whole number of columns of each of the aggregation's results.
        """
        columns = to_columns(self.parts, [*asked.sources, *asked.targets])
        whole = [all_rows(LOGITS, x) for x in asked.whole]
        count = len(asked.sources)
        found = fold(self.adjacency, Asked(columns[:count], columns[count:], whole))
        rows = to_rows(self.parts, list(found.columns), widths)
        return Folded(rows, [own_slice(self.parts, x, 0) for x in found.alike])


@neighbour_sum.register
def _(adjacency: Divided, x: jax.Array) -> jax.Array:
    return _folded(neighbour_sum, adjacency, x)


@neighbour_mean.register
def _(adjacency: Divided, x: jax.Array) -> jax.Array:
    return _folded(neighbour_mean, adjacency, x)


def _folded(fold: Callable[[Adjacency, jax.Array], jax.Array], divided: Divided, x: jax.Array) -> jax.Array:
    def of_columns(edges: Adjacency, asked: Asked) -> Folded:
        return Folded([fold(edges, asked.sources[0])])

    return divided.folded(Asked([x]), of_columns, [x.shape[1]]).columns[0]


@multiply_first.register
def _(adjacency: Divided, sources: jax.Array, features: int, heads: int = 0, products: int = 1) -> bool:
    """Aggregate before multiplying, by heads: a device that has some of the heads has no other columns.

    An aggregation of fewer columns than devices would leave some devices without any.
    """
    (rows, width), parts = sources.shape, adjacency.parts
    if heads % parts == 0 and heads > 1:
        return True
    sent = rows * (heads > 1 or not adjacency.still), adjacency.targets
    return width < parts or sooner(
        current(), (rows, adjacency.targets, adjacency.own_edges), sent, width, features, max(1, heads)
    )


def sooner(
    costs: CostModel, work: tuple[int, int, float], sent: tuple[int, int], width: int, features: int, heads: int = 1
) -> bool:
    """Return whether multiplying before an aggregation is cheaper than after it, by the work of one device and what it sends.

    Args:
      costs: the costs of a value that is moved along an edge, and of one that is sent.
      work: rows of sources and of targets of one device, and edges times the share of the columns that it aggregates.
      sent: rows of sources that are sent if they are aggregated as they are, and of targets.
      width, features: as of `multiply_first`.
      heads: the number of sums of the sources' width that aggregating first needs.
    """
    rows, targets, edges = work
    first = rows * width * features + costs.edge * edges * features + costs.send * (rows + targets) * features
    narrow = costs.edge * edges * heads + costs.send * (sent[0] + sent[1] * heads)
    last = targets * width * features + narrow * width
    return first < last


@edge_keep_mask.register
def _(
    adjacency: Divided, heads: int, rate: float, masks: NodeMasks | None, path: tuple[str, ...], dtype=float
) -> jax.Array | None:
    """Return the mask of all edges: the targets of the aggregation are all nodes."""
    everyone = masks and masks._replace(ids=None)
    return edge_keep_mask(adjacency.adjacency, heads, rate, everyone, path, dtype)
