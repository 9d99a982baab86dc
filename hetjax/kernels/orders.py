"""Orders: sources are multiplied by a matrix before they are summed over edges, or the sums after it, whichever costs less.

The mathematics is the same either way. Work is counted from the shapes when a program is traced, backward pass included, and weighed by
the cost model (`cost_model`); a run that trains scales that to its own CPU first (`calibration`). A run keeps its costs in its
checkpoints, so that it has the same bits wherever it goes on.
A sum of static features needs no gradient of them; multiplied first, they need one for the gradient of the matrix.
"""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import NamedTuple

from hetjax.kernels.cost_model import CostModel, Costs, current
from hetjax.system.logs import log

NUMBER = 4  # bytes


class Work(NamedTuple):
    """The work of a relation's aggregation.

    Attributes:
      rows, targets, edges: how many there are, padding included.
      width, features: of the sources, and of their products, over all heads.
      heads: of attention, which sums the sources once for each; 0: a plain sum.
      products: with how many matrices; attention may have one for keys and one for values.
      trained: whether there is a backward pass, for the matrices.
      grouped: whether edges are grouped by source, as they are where a gradient flows to the sources.
    """

    rows: int
    targets: int
    edges: int
    width: float
    features: int
    heads: int = 0
    products: int = 1
    trained: bool = True
    grouped: bool = True


_trained: ContextVar[bool] = ContextVar("trained", default=True)
_named: ContextVar[str] = ContextVar("named", default="")


def trained() -> bool:
    """Return whether the traced computation is differentiated; outside of `forward_only` it is assumed to be."""
    return _trained.get()


@contextlib.contextmanager
def forward_only() -> Iterator[None]:
    """Declare that the computation traced inside is not differentiated."""
    token = _trained.set(False)
    try:
        yield
    finally:
        _trained.reset(token)


@contextlib.contextmanager
def named(name: str) -> Iterator[None]:
    """Log what is chosen inside, with this relation and layer; without a name nothing is logged."""
    token = _named.set(name)
    try:
        yield
    finally:
        _named.reset(token)


def kept(numbers: Sequence[float]) -> Costs:
    """Return the costs in a checkpoint; one that was written before `far` was counted has none of it."""
    return Costs(*numbers, *([0.0] if len(numbers) == len(Costs._fields) - 1 else []))


def multiplies_first(work: Work) -> bool:
    """Return whether multiplying first costs less than aggregating first; a command logs it with `--verbose`, once for
    every program that is traced."""
    first, last = multiplied_first(work, current()), folded_first(work, current())
    if _named.get():
        words = "multiplied, then folded" if first < last else "folded, then multiplied"
        pair = (first, last) if first < last else (last, first)
        way = "in training" if work.trained else "in evaluation"
        log.debug(f"{_named.get()}: {words} {way} ({pair[0] / 1e6:.3g} ms as counted; {pair[1] / 1e6:.3g} otherwise)")
    return first < last


def multiplied_first(work: Work, model: CostModel) -> float:
    """Return the nanoseconds of multiplying all sources and aggregating the products."""
    return _multiplied(work, model.orders) + _products_folded(work, model)


def shared(works: Mapping[str, Work], model: CostModel | None = None) -> frozenset[str]:
    """Return the relations out of a type that sum products that they share, and multiply by matrices of their own at the end with fewer rows.

    None, where each in its own cheaper order costs less.

    Args:
      works: by relation, all of the same sources, `products` and `features`; of attention.
      model: by which costs are counted; None: the current one.
    """
    model = model or current()
    alone, together = _alone(works, model), _together(works, model)
    readers = frozenset(key for key in works if together[key] < alone[key])
    if len(readers) < 2:
        return frozenset()
    saved = sum(alone[key] - together[key] for key in readers)
    return readers if saved > _multiplied(works[min(readers)], model.orders) else frozenset()


def least(works: Mapping[str, Work], sharing: bool, model: CostModel) -> float:
    """Return the nanoseconds of the cheapest orders of the relations out of a type; as in `shared`, if they may share."""
    readers, alone = shared(works, model) if sharing else frozenset(), _alone(works, model)
    apart = sum(cost for key, cost in alone.items() if key not in readers)
    if not readers:
        return apart
    together = _together(works, model)
    return apart + sum(together[key] for key in readers) + _multiplied(works[min(readers)], model.orders)


def _alone(works: Mapping[str, Work], model: CostModel) -> dict[str, float]:
    """Return the cost of the cheaper order of each relation."""
    return {key: min(multiplied_first(work, model), folded_first(work, model)) for key, work in works.items()}


def _together(works: Mapping[str, Work], model: CostModel) -> dict[str, float]:
    """Return what each relation costs besides products that are shared."""
    return {key: _products_folded(work, model) + _by_relation(work, model.orders) for key, work in works.items()}


def _multiplied(work: Work, costs: Costs) -> float:
    """Return the cost of multiplying all sources by the matrices."""
    return costs.multiply * _ways(work) * _products(work, work.rows)


def _products_folded(work: Work, model: CostModel) -> float:
    """Return the cost of summing the products."""
    passes = 2 if work.trained else 1
    group = 0 if work.grouped or not work.trained else model.orders.group
    multiplied = work.features if work.heads else 0
    return work.edges * (_edge(work.rows, work.products * work.features, multiplied, passes, model) + group)


def _by_relation(work: Work, costs: Costs) -> float:
    """Return the cost of a relation's own matrices, at the end with fewer rows.

    Counted as `[features, features]`: a head's is a part of that, and to read and write rows takes about as long as the rest would.
    """
    fewer = min(work.rows, work.targets)
    return costs.multiply * (3 if work.trained else 1) * work.products * fewer * work.features**2


def _ways(work: Work) -> int:
    """Return the costs of the forward pass, of the gradient of the matrix, and of that of the sources."""
    return 2 + work.grouped if work.trained else 1


def folded_first(work: Work, model: CostModel) -> float:
    """Return the nanoseconds of aggregating all sources and multiplying the sums; matrices of keys multiply queries."""
    back = work.grouped or work.heads > 0  # whether what is folded to gets a gradient too
    ways = 2 + back if work.trained else 1
    multiply = model.orders.narrow if work.heads else model.orders.multiply
    passes = 2 if work.trained and work.heads else 1  # attention's weights get a gradient, if the sources get none
    edge = _edge(work.rows, work.width, work.heads * work.width, passes, model)
    if work.trained and work.grouped:  # rows as wide as the sources, for each head of keys and of values
        both = 2 * work.heads or 1
        edge += _edge(work.targets, both * work.width, work.heads * work.width, 1, model)
    return multiply * ways * _products(work, work.targets) + work.edges * edge


def scores_first(work: Work) -> bool:
    """Return whether a source's part of the logits, the same in all of its edges, is computed for the source and not at every edge.

    The width in `work` is that of the sources, and there is one value per head: `features` are `heads`.
    """
    ways, cost = 2 + work.grouped if work.trained else 1, current().orders
    group = 0 if work.grouped or not work.trained else cost.group
    each = cost.move * work.width + cost.multiply * work.width * work.heads
    of_sources = ways * work.rows * each + work.edges * (cost.move * work.heads * ways + group)
    return of_sources < work.edges * ways * 2 * cost.weigh * work.width * work.heads  # a product and a sum


def _products(work: Work, rows: int) -> float:
    return work.products * rows * work.width * work.features


def _edge(rows: int, width: float, multiplied: float, passes: int, model: CostModel) -> float:
    """Return the cost of one edge, in nanoseconds.

    Args:
      rows, width: how many rows edges may point at, and how wide they are.
      multiplied: how many values are multiplied for an edge's logits, and as many for its sums.
      passes: how often it is read.
    """
    costs = model.orders
    far = costs.far if NUMBER * rows * width > model.cached else 0
    return passes * ((costs.move + far) * width + 2 * costs.weigh * multiplied)
