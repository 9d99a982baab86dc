"""Orders of products and folds: the cheaper by counted costs, way back included."""

import itertools
import logging

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hetjax.kernels import orders
from hetjax.kernels.cost_model import CostModel, Costs
from hetjax.kernels.linear import fold_product
from hetjax.kernels.orders import Work
from hetjax.kernels.segment import multiply_first, neighbour_mean, share_products
from hetjax.kernels.sparse import compact
from hetjax.sampling.blocks import OneEdge
from hetjax.sampling.sampler import group
from hetjax.sharding.registry import make_engine
from tests.support.equivalence import MODELS, setting
from tests.support.models import set_costs


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


def edges(rows: int, targets: int, degree: int, grouped: bool):
    rng = np.random.default_rng(0)
    indptr = np.arange(targets + 1, dtype=np.int32) * degree
    return group(indptr, rng.integers(0, rows, targets * degree, dtype=np.int32), rows if grouped else None)


def train(adjacency, x, kernel):
    return jax.jit(jax.value_and_grad(lambda kernel: jnp.sum(fold_product(adjacency, neighbour_mean, x, kernel) ** 2)))


def test_static_features_are_grouped_in_the_program_by_a_kernel(monkeypatch):
    """Few sources and many targets: multiplying first has fewer multiplications, and a way back that nothing was drawn for."""
    adjacency, x, kernel = edges(40, 400, 10, False), jnp.ones((40, 16)), jnp.ones((16, 4))
    set_costs(monkeypatch, Costs(multiply=1, move=0, group=0))
    assert multiply_first(adjacency, x, 4)
    compiled = train(adjacency, x, kernel).lower(kernel).compile().as_text()
    assert compiled.count("custom-call(") >= 3 and " sort(" not in compiled


@pytest.mark.parametrize("grouped", [True, False])
def test_both_orders_have_the_same_gradients(monkeypatch, grouped):
    adjacency, x = edges(60, 50, 4, grouped), np.random.default_rng(1).standard_normal((60, 16))
    kernel, found = jnp.asarray(np.random.default_rng(2).standard_normal((16, 5))), []
    for costs in (Costs(multiply=0, move=1, group=0), Costs(multiply=1, move=0, group=1e9)):
        set_costs(monkeypatch, costs)
        found.append((multiply_first(adjacency, x, 5), train(adjacency, jnp.asarray(x), kernel)(kernel)))
    assert [first for first, _ in found] == [True, False]
    for one, other in zip(*(jax.tree.leaves(value) for _, value in found)):
        np.testing.assert_allclose(one, other, rtol=1e-12)


def counted(work: Work, costs: Costs) -> tuple[float, float]:
    """The costs of multiplying first and of folding first, operation by operation."""
    rows, targets, edges, width, features, heads, products, trained, grouped = work

    def product(rows: int, back_to_rows: bool, each: float) -> float:
        ways = 1 + trained + (trained and back_to_rows)
        return ways * products * rows * width * features * each

    def fold(rows: int, numbers: int, multiplied: int) -> float:
        each = costs.move + (costs.far if 4 * rows * numbers > 2**26 else 0)
        return edges * (each * numbers + 2 * costs.weigh * multiplied * (heads > 0))

    first = product(rows, grouped, costs.multiply) + (1 + trained) * fold(rows, products * features, features)
    if trained and not grouped:
        first += edges * costs.group
    last = product(targets, grouped or heads > 0, costs.narrow if heads else costs.multiply)
    last += (1 + (trained and heads > 0)) * fold(rows, width, width * heads)
    if trained and grouped:
        last += fold(targets, 2 * heads * width if heads else width, heads * width)
    return first, last


def test_the_choice_is_said_of_every_relation_and_layer(graph, caplog):
    engine = make_engine(setting(graph, "minibatch", (1, 1), MODELS["R-GCN"], {}), graph)
    state = engine.init(0)
    with caplog.at_level(logging.DEBUG, "hetjax"):
        jax.eval_shape(engine.trainer.gradients, state, engine.static, next(engine.batches.epoch(0)).batch, 0)
    said = [record.getMessage().split(": ") for record in caplog.records if "as counted" in record.getMessage()]
    layers = engine.trainer.model.layers
    expected = [f"layers_{depth}, {relation}" for depth, layer in enumerate(layers) for relation in layer.relations]
    assert {name for name, _ in said} <= set(expected)
    assert {name for name, _ in said} >= {name for name in expected if "ghost" not in name}
    assert all(words.startswith(("multiplied, then folded in training", "folded, then")) for _, words in said)


def test_the_order_is_the_best_of_both_on_a_grid_of_shapes():
    """Of every shape the counted cost of what is chosen is the least, and both orders are chosen."""
    grid = itertools.product((10, 5000, 400_000), (10, 5000), (50, 20_000), (8, 700), (16, 64), (0, 1, 4), (1, 2))
    chosen, numbers = set(), 2**26 // 4
    for shape, flags in itertools.product(grid, itertools.product((True, False), repeat=2)):
        work, costs = Work(*shape, *flags), Costs()
        first, last = counted(work, costs)
        places = (work.rows, work.products * work.features), (work.rows, work.width), (work.targets, 8 * work.width)
        chosen.add((first < last, *(rows * width > numbers for rows, width in places)))
        np.testing.assert_allclose(orders.multiplied_first(work, CostModel(costs)), first)
        np.testing.assert_allclose(orders.folded_first(work, CostModel(costs)), last)
    assert all({which[place] for which in chosen} == {True, False} for place in range(4))


def test_one_relation_alone_reads_shared_products_where_sources_are_wider_than_many(monkeypatch):
    """Its matrices per head then meet the rows of sources or targets, which are fewer than those of the type's matrix."""
    set_costs(monkeypatch, Costs(multiply=0, move=1, group=0))
    few_targets, few_sources, many = edges(60, 20, 4, True), edges(30, 80, 4, True), edges(60, 50, 4, True)

    def readers(adjacency, sources):
        return share_products({"only": adjacency}, sources, 4, 2, 2)

    for adjacency, rows in ((few_targets, 60), (few_sources, 30)):
        assert readers(adjacency, jnp.ones((rows, 40))) == {"only"}
    assert readers(many, jnp.ones((60, 40))) == frozenset()
    assert readers(OneEdge(*few_sources), jnp.ones((30, 40))) == frozenset()
    assert readers(few_sources, compact(np.eye(30, 40, dtype=np.float32))) == {"only"}
    assert readers(many, compact(np.eye(60, 40, dtype=np.float32))) == frozenset()
    set_costs(monkeypatch, Costs(multiply=1, move=0, group=1e9))
    assert not multiply_first(few_targets, jnp.ones((60, 40)), 4, 2, 2)
    assert readers(few_targets, jnp.ones((60, 40))) == frozenset()


def test_relations_share_products_where_that_costs_less():
    """Of all ways to have some relations out of a type share, by what each costs, the chosen one is the cheapest; some share, some do not."""
    rng, costs, seen = np.random.default_rng(0), Costs(), set()
    for _ in range(400):
        rows, width, grouped = int(rng.choice([50, 5000, 50_000])), int(rng.choice([8, 64, 700])), bool(rng.integers(2))
        drawn = [(int(rng.choice([40, 4000, 40_000])), int(rng.choice([100, 20_000, 200_000]))) for _ in range(3)]
        works = {str(n): Work(rows, *ends, width, 64, 4, 2, True, grouped) for n, ends in enumerate(drawn)}

        def cost(readers) -> float:
            total = 0.0
            for key, work in works.items():
                first, last = counted(work, costs)
                products = (2 + grouped) * 2 * rows * width * 64 * costs.multiply
                own = 3 * 2 * min(rows, work.targets) * 64**2 * costs.multiply
                total += first - products + own if key in readers else min(first, last)
            return total + (products if readers else 0)

        ways = [frozenset(some) for count in (0, 2, 3) for some in itertools.combinations(works, count)]
        chosen = orders.shared(works)
        seen.add(len(chosen))
        np.testing.assert_allclose(cost(chosen), min(map(cost, ways)))
    assert seen == {0, 2, 3}
