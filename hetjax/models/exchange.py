"""The exchange of a layer: the values that devices which share its work send each other."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax

from hetjax.sampling.blocks import Adjacency, Block


class Exchange:
    """The exchange between devices that share a layer's work. This one exchanges nothing, as on one device.

    A layer calls `before` once, before it aggregates its relations, and `after` once, before the combined aggregate becomes an embedding. A
    way of distributing says here which rows, or which columns, of the embeddings below are on this device, and how partial
    aggregates are combined with those of others. Layers know nothing else of it.
    """

    def enter(self, x: Mapping[str, jax.Array]) -> Mapping[str, jax.Array]:
        """Return the features that the model is given, `[rows, width]` per node type, from those that are on this device."""
        return x

    def leave(self, x: Mapping[str, jax.Array]) -> Mapping[str, jax.Array]:
        """Return the last embeddings among which the seeds of this device's examples are named, from those that it made; of the last layer alone."""
        return x

    def total(self, product: jax.Array) -> jax.Array:
        """Return products that are linear in the embeddings below, `[rows, ...]`, from those of this device's columns."""
        return product

    def before(
        self, x: Mapping[str, jax.Array], prepare: Callable[[Mapping[str, jax.Array]], Mapping[str, Any]]
    ) -> tuple[Mapping[str, jax.Array], Mapping[str, Any]]:
        """Return the input of the layer.

        Args:
          x: the embeddings below that are on this device, `[rows, width]` per node type.
          prepare: the dense work per source row, which may come before an exchange or after it, whichever is less to send.

        Returns:
          `(x, sources)`: the embeddings below that the block's rows number, and the inputs that relations aggregate, as
          `prepare` makes them.
        """
        return x, prepare(x)

    def pieces(self, block: Block, sources: Any) -> Sequence[tuple[Mapping[str, Adjacency], Mapping[str, Any]]]:
        """Return groups of the block's edges, by where their sources come from: each is aggregated without waiting for the others.

        Only of a layer that has an `edge_monoid`; an adjacency then has `whole`.

        Args:
          sources: as `before` gives them.

        Returns:
          For every group the edges per relation, and what `prepare` made of the rows that these number.
        """
        return [(block.adjacency, sources)]

    def after(
        self, totals: Mapping[str, Any], own: Mapping[str, jax.Array], targets: Mapping[str, Any]
    ) -> tuple[Mapping[str, Any], Mapping[str, jax.Array], Mapping[str, Any]]:
        """Return the input of the embeddings that this device makes, which need not be of the targets that were aggregated here.

        Args:
          totals: partial aggregates of the targets that were aggregated here, per node type.
          own: these targets' own embeddings of the layer below, `[T, width]` per node type.
          targets: their ids, as the block has them.

        Returns:
          The same three of the targets that this device finishes.
        """
        return totals, own, targets


LOCAL = Exchange()
