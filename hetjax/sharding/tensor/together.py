"""The linear aggregations of a layer, all at once: one all-to-all of everything that is aggregated, and one of the sums.

A layer adds up the results of its relations. Here each relation gives a `Waiting` sum; when the layer is to finish its nodes, all that wait
travel together. The sums of relations into one type whose sources were multiplied before are added up before they travel.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax

from hetjax.kernels.linear import fold_product
from hetjax.kernels.segment import multiply_first
from hetjax.models.exchange import Exchange
from hetjax.sampling.blocks import Adjacency
from hetjax.sharding.columns import to_columns, to_rows
from hetjax.sharding.tensor.folds import Divided
from hetjax.sharding.tensor.seeds import gathered

Fold = Callable[[Adjacency, jax.Array], jax.Array]


class Term(NamedTuple):
    """An aggregation of this device's sources, and of all devices'.

    Attributes:
      fold: a linear aggregation.
      edges: the edges of all nodes.
      sources: the rows of this device, `[rows, width]`.
      before, after: the matrix that they, or the sums, are multiplied by; None: none.
    """

    fold: Fold
    edges: Divided
    sources: jax.Array
    before: Any
    after: Any


class Waiting:
    """A sum of aggregations that are not computed yet, and of rows that are.

    Args:
      terms: the aggregations, at least one.
      rest: `[rows, width]`, or None.
    """

    def __init__(self, terms: tuple[Term, ...], rest: jax.Array | None = None):
        self.terms, self.rest = terms, rest

    def __add__(self, other: "Waiting | jax.Array") -> "Waiting":
        terms, rest = (other.terms, other.rest) if isinstance(other, Waiting) else ((), other)
        return Waiting(self.terms + terms, _added(self.rest, rest))

    __radd__ = __add__


@fold_product.register
def _(adjacency: Divided, fold: Fold, sources: jax.Array, kernel: Any = None) -> Waiting:
    if kernel is None:
        return Waiting((Term(fold, adjacency, sources, None, None),))
    sources = sources.astype(kernel.dtype)
    first = multiply_first(adjacency, sources, kernel.shape[1])
    return Waiting((Term(fold, adjacency, sources, kernel if first else None, None if first else kernel),))


class Together(Exchange):
    """The computation of what waits in a layer's partial aggregates.

    Args:
      still: this device's columns of all nodes, of types whose features never change; they need not be sent.
      sent: the rows of the last embeddings that devices send to each other, as of `seeds.gathered`.
    """

    def __init__(self, still: Mapping[str, jax.Array], sent: Mapping[str, jax.Array]):
        self.still, self.sent = still, sent

    def leave(self, x: Mapping[str, jax.Array]) -> Mapping[str, jax.Array]:
        return gathered(x, self.sent)

    def after(
        self, totals: Mapping[str, Any], own: Mapping[str, jax.Array], targets: Mapping[str, Any]
    ) -> tuple[Mapping[str, Any], Mapping[str, jax.Array], Mapping[str, Any]]:
        waiting = {t: total for t, total in totals.items() if isinstance(total, Waiting)}
        return {**totals, **computed(waiting, self.still)} if waiting else totals, own, targets


def computed(waiting: Mapping[str, Waiting], still: Mapping[str, jax.Array]) -> dict[str, jax.Array]:
    """Return the sums, per node type, by two all-to-alls; `still` as of `Together`."""
    terms = [term for sum_ in waiting.values() for term in sum_.terms]
    parts = terms[0].edges.parts
    made: dict[tuple[int, int], jax.Array] = {}  # what several relations read is multiplied, and sent, once
    for term in terms:
        if _sent(term) not in made:
            made[_sent(term)] = term.sources if term.before is None else term.sources @ term.before
    here = {
        _sent(term): still[term.edges.still].astype(term.sources.dtype)
        for term in terms
        if term.before is None and term.edges.still in still
    }
    sent = {key: rows for key, rows in made.items() if key not in here}
    columns = here | dict(zip(sent, to_columns(parts, list(sent.values()))))
    sums: dict[tuple[str, int], Any] = {}
    widths: dict[tuple[str, int], int] = {}
    kernels = {id(term.after): term.after for term in terms}
    for node_type, sum_ in waiting.items():
        for term in sum_.terms:
            key = node_type, id(term.after)
            sums[key] = _added(sums.get(key), term.fold(term.edges.adjacency, columns[_sent(term)]))
            widths[key] = made[_sent(term)].shape[1]
    found = {node_type: sum_.rest for node_type, sum_ in waiting.items()}
    for (node_type, after), rows in zip(sums, to_rows(parts, list(sums.values()), list(widths.values()))):
        kernel = kernels[after]
        found[node_type] = _added(found[node_type], rows if kernel is None else rows @ kernel)
    return found  # type: ignore[return-value]  # each has a term


def _sent(term: Term) -> tuple[int, int]:
    return id(term.sources), id(term.before)


def _added(one: Any, other: Any) -> Any:
    return other if one is None else one if other is None else one + other
