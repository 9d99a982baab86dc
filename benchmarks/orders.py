"""A comparison of multiplying before the aggregation and after it: how often the chosen order is the faster one.

`python benchmarks/orders.py` times both orders of a relation, forward and backward, by the models' own layers: R-GCN's
mean, R-GAT's and HGT's attention. Shapes are drawn from a grid of rows, targets, edges a target, widths and features,
with and without a gradient to the sources; `--rows` and the like give a GPU larger ones. A round takes every order
once, so that both see the same machine; the time of an order is the least of the rounds.

Writes `benchmarks/results/orders.md`: of every model how often the choice (`hetjax/kernels/orders.py`) is within 10 % of the best, and how much longer it
takes at the median and at worst. Of wide features: `--seed 9 --shapes 24 --rounds 2 --rows 20000 60000 150000 --targets 2000 20000 --degrees 4 16
--widths 256 1024 --features 64 256 --out benchmarks/results/orders_wide.md`. Shapes whose layer takes under `--least` milliseconds are timed too, and counted apart: there the start of operations counts for more than they do.
"""

import argparse
import itertools
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hetjax.system import runtime

if __name__ == "__main__":
    runtime.prepare()

import jax
import jax.numpy as jnp
import numpy as np
from tqdm import tqdm

from hetjax.kernels import calibration, orders
from hetjax.kernels.cost_model import CostModel, using, usual
from hetjax.kernels.linear import fold_product
from hetjax.kernels.partials import attended
from hetjax.kernels.segment import multiply_first, neighbour_mean
from hetjax.models.hgt import MutualAttention, Projection
from hetjax.models.rgat import RelationAttention
from hetjax.sampling.sampler import group

OUT = Path(__file__).parent / "results" / "orders.md"
HEADS = 4
GRID = {
    "rows": (1000, 10_000, 100_000),
    "targets": (1000, 8000),
    "degrees": (2, 10, 40),
    "widths": (16, 64, 256),
    "features": (16, 64),
}


def mean(adjacency: Any, features: int) -> tuple[Callable, Callable]:
    """Return two functions for R-GCN's relation: one initialises its weights, the other aggregates with them."""

    def fold(weights, x, targets):
        return fold_product(adjacency, neighbour_mean, x, weights)

    return lambda x, targets: jnp.ones((x.shape[1], features)) / x.shape[1], fold


def rgat(adjacency: Any, features: int) -> tuple[Callable, Callable]:
    layer = RelationAttention(features, HEADS)
    return (
        lambda x, targets: layer.init(jax.random.key(0), adjacency, x, targets),
        lambda weights, x, targets: attended(layer.apply(weights, adjacency, x, targets)),
    )


def hgt(adjacency: Any, features: int) -> tuple[Callable, Callable]:
    layer = MutualAttention(Projection(HEADS, features // HEADS), Projection(HEADS, features // HEADS))

    def asked(targets):
        return targets.reshape(len(targets), HEADS, features // HEADS)

    return (
        lambda x, targets: layer.init(jax.random.key(0), adjacency, x, asked(targets)),
        lambda weights, x, targets: attended(layer.apply(weights, adjacency, x, asked(targets))),
    )


MODELS = {"R-GCN": (mean, 0, 1), "R-GAT": (rgat, HEADS, 1), "HGT": (hgt, HEADS, 2)}


def compared(model: str, shape: tuple[int, ...], learned: bool, rounds: int) -> dict[str, Any]:
    """Return the milliseconds of both orders, and the chosen one."""
    rows, targets, degree, width, features = shape
    make, heads, products = MODELS[model]
    rng = np.random.default_rng(0)
    indptr = np.arange(targets + 1, dtype=np.int32) * degree
    indices = rng.integers(0, rows, targets * degree, dtype=np.int32)
    adjacency = jax.device_put(group(indptr, indices, rows if learned else None))
    sizes = (rows, width), (targets, features)
    x, own = (jax.random.normal(jax.random.key(number), size) for number, size in enumerate(sizes))
    draw, fold = make(adjacency, features)
    weights, own_choice = jax.jit(draw)(x, own), orders.multiplies_first

    def loss(weights, x):
        return jnp.sum(jnp.square(fold(weights, x, own)))

    def compiled(first: bool) -> Callable:
        orders.multiplies_first = lambda work: first
        try:
            return jax.jit(jax.grad(loss, argnums=(0, 1) if learned else 0)).lower(weights, x).compile()
        finally:
            orders.multiplies_first = own_choice

    ways = {first: compiled(first) for first in (True, False)}
    times: dict[bool, list[float]] = {True: [], False: []}
    for number, (first, run) in itertools.product(range(rounds + 1), ways.items()):
        started = time.perf_counter()
        jax.block_until_ready(run(weights, x))
        if number:
            times[first].append(1000 * (time.perf_counter() - started))
    with jax.ensure_compile_time_eval():
        chosen = multiply_first(adjacency, x, features, heads, products)
    least = {first: min(every) for first, every in times.items()}
    return {
        "model": model,
        "shape": shape,
        "learned": learned,
        "first": round(least[True], 3),
        "last": round(least[False], 3),
        "chosen": "first" if chosen else "last",
        "longer": round(least[chosen] / min(least.values()), 3),
    }


def table(cells: list[dict[str, Any]], least: float) -> str:
    """Return the quality of the choices, for every model, for large shapes and for small ones."""
    lines = [
        "| model | shapes | within 10 % of the best | as long as the best, median | at worst | by always the first order | by always the last |",
        "|---|---|---|---|---|---|---|",
    ]
    for model, large in itertools.product(dict.fromkeys(cell["model"] for cell in cells), (True, False)):
        found = [c for c in cells if c["model"] == model and (min(c["first"], c["last"]) >= least) == large]
        if not found:
            continue
        longer = [c["longer"] for c in found]
        always = [statistics.median(c[way] / min(c["first"], c["last"]) for c in found) for way in ("first", "last")]
        worst = max(found, key=lambda c: c["longer"])
        size = f"{len(found)} of {least:g} ms and more" if large else f"{len(found)} smaller"
        about = "rows {}, targets {}, edges a target {}, width {}, features {}".format(*worst["shape"])
        lines.append(
            f"| {model} | {size} | {sum(x <= 1.1 for x in longer)} | {statistics.median(longer):.2f} | {worst['longer']:.2f} "
            f"({about}, {'with' if worst['learned'] else 'no'} gradient to the sources) | {always[0]:.2f} | {always[1]:.2f} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--shapes", type=int, default=40, help="of the grid, drawn anew for every model")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0, help="of the shapes; the constants were chosen by those of 0")
    parser.add_argument("--measured", action="store_true", help="choose by what this computer measures, as a run does")
    parser.add_argument("--least", type=float, default=1.0, help="milliseconds from which a shape counts as large")
    for name, default in GRID.items():
        parser.add_argument(f"--{name}", type=int, nargs="+", default=default)
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    grid, rng, cells = (
        list(itertools.product(*(getattr(options, name) for name in GRID))),
        np.random.default_rng(options.seed),
        [],
    )
    picks = [
        (model, grid[int(n)], bool(rng.integers(2)))
        for model in options.models
        for n in rng.permutation(len(grid))[: options.shapes]
    ]
    model = CostModel(calibration.scaled(calibration.measure())) if options.measured else usual()
    with using(model):
        for pick in tqdm(picks, unit="shape"):
            cells.append(compared(*pick, options.rounds))
    found = table(cells, options.least)
    costs = ", ".join(f"{name} {cost:.3g}" for name, cost in model.orders._asdict().items())
    about = f"jax {jax.__version__}, {jax.devices()[0].device_kind}; costs: {costs}; " + "; ".join(
        f"{name} {', '.join(f'{n:,}' for n in getattr(options, name))}" for name in GRID
    )
    options.out.write_text(f"# Orders of products and folds\n\n{about}\n\n{found}\n")
    options.out.with_suffix(".json").write_text(json.dumps(cells, indent=1) + "\n")
    print(found)


if __name__ == "__main__":
    main()
