"""The exchange of a layer: what devices that share its work give each other."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax

from hetjax.sampling.blocks import Adjacency, Block


class Exchange:
    """What devices that share a layer's work give each other; here nothing, as on one device.

    A layer calls `before` once, before it folds its relations, and `after` once, before the total becomes an embedding. A
    way of distributing says here which rows, or which columns, of the embeddings below are on this device, and how partial
    aggregates are combined with those of others. Layers know nothing else of it.
    """

    def enter(self, x: Mapping[str, jax.Array]) -> Mapping[str, jax.Array]:
        """The features that the model is given, `[rows, width]` per node type, from those that are on this device."""
        return x

    def total(self, product: jax.Array) -> jax.Array:
        """What is linear in the embeddings below, `[rows, ...]`, from what this device's columns of them give."""
        return product

    def before(
        self, x: Mapping[str, jax.Array], prepare: Callable[[Mapping[str, jax.Array]], Mapping[str, Any]]
    ) -> tuple[Mapping[str, jax.Array], Mapping[str, Any]]:
        """What the layer reads.

        Args:
          x: the embeddings below that are on this device, `[rows, width]` per node type.
          prepare: the dense work per source row, which may come before an exchange or after it, whichever is less to send.

        Returns:
          `(x, sources)`: the embeddings below that the block's rows number, and what relations fold, as `prepare` makes it.
        """
        return x, prepare(x)

    def pieces(self, block: Block, sources: Any) -> Sequence[tuple[Mapping[str, Adjacency], Mapping[str, Any]]]:
        """Groups of the block's edges, by where their sources come from: each is folded without waiting for the others.

        Only of a layer that has an `edge_monoid`; an adjacency then has `whole`.

        Args:
          sources: as `before` gives them.

        Returns:
          Of every group the edges per relation, and what `prepare` made of the rows that these number.
        """
        return [(block.adjacency, sources)]

    def after(
        self, totals: Mapping[str, Any], own: Mapping[str, jax.Array], targets: Mapping[str, Any]
    ) -> tuple[Mapping[str, Any], Mapping[str, jax.Array], Mapping[str, Any]]:
        """What becomes an embedding on this device, which need not be what was folded here.

        Args:
          totals: partial aggregates of the targets that were folded here, per node type.
          own: these targets' own embeddings of the layer below, `[T, width]` per node type.
          targets: their ids, as the block has them.

        Returns:
          The same three of the targets that this device finishes.
        """
        return totals, own, targets


LOCAL = Exchange()
