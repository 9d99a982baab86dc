"""Costs of orders of products and sums (`orders`), measured on the machine that trains.

On a CPU five operations are timed that stand for the costs, once per machine and version of their code: the rest
is read from the user's cache folder. How much longer each takes, beside a multiplication, than on the machine that the constants are
from, is rounded to a power of the square root of two: so a machine like that one counts with the constants themselves, and noise
changes few choices. Without native operations the constants stay; other platforms have constants of their own.
"""

import math
import platform
import time
from collections.abc import Callable

import jax
import numpy as np

from hetjax.kernels.attention import attend
from hetjax.kernels.cost_model import Costs
from hetjax.kernels.linear import times
from hetjax.kernels.segment import by_source, neighbour_sum
from hetjax.kernels.tables import rows_at
from hetjax.sampling.sampler import group
from hetjax.system import compiled, measured, runtime

ROWS, TARGETS, DEGREE, WIDTH, HEADS, ROUNDS = 2**14, 2**13, 8, 64, 4, 60
SPREAD = 2**17  # rows that are multiplied, and copied from: no cache holds them
# Nanoseconds on the machine that the constants are from, of what `measure` says, by `benchmarks/calibration.py`.
REFERENCE = {"multiply": 0.0047, "move": 0.082, "copy": 0.135, "weigh": 0.098, "group": 3.9}
MOST = 2.0**4  # times as much, or as little, as there: more is no machine, but something that stood in the way


def machine_costs() -> Costs:
    """Return the costs of this machine, measured now or before. If several processes measure at the same time, all use
    the first costs that are stored."""
    about = {
        "machine": [platform.node(), platform.machine(), runtime.cores()],
        "versions": [jax.__version__, compiled.digest(__name__)],
    }
    found = measured.read("orders", about)
    if not isinstance(found, dict) or found.keys() != REFERENCE.keys():
        found = measured.write_first("orders", about, measure())
    return scaled(found)


def scaled(nanoseconds: dict[str, float]) -> Costs:
    """Return the constants, each times how much longer its operation takes here, beside a multiplication, than on their
    machine; `far` is scaled as `copy`.

    Args:
      nanoseconds: as of `measure`.
    """
    constants, own = Costs()._asdict(), nanoseconds["multiply"] / REFERENCE["multiply"]
    factors = {name: nanoseconds[name] / REFERENCE[name] / own for name in REFERENCE}
    factors["far"] = factors["copy"]  # both read rows that are in no cache
    return Costs(**constants | {name: constants[name] * _rounded(factor) for name, factor in factors.items()})


def measure() -> dict[str, float]:
    """Return the nanoseconds of a multiplication, of a value that an edge reads, of a value of a copied row, of a
    multiplication at an edge of attention, and of an edge that is grouped by its source; each is the least of some
    rounds."""
    chance, edges = np.random.default_rng(0), TARGETS * DEGREE
    indices = chance.integers(0, ROWS, edges, np.int32)
    adjacency = group(np.arange(TARGETS + 1, dtype=np.int32) * DEGREE, indices, None)
    rows, x = (np.ones((count, WIDTH), np.float32) for count in (ROWS, TARGETS))
    keys, queries = (whole.reshape(-1, HEADS, WIDTH // HEADS) for whole in (rows, x))
    put, spread = jax.device_put, jax.device_put(np.ones((SPREAD, WIDTH), np.float32))  # so that no program makes them
    work: dict[str, tuple[Callable, tuple, int]] = {
        "multiply": (times, (spread, put(rows[:WIDTH])), SPREAD * WIDTH * WIDTH),
        "move": (neighbour_sum, (adjacency, put(rows)), edges * WIDTH),
        "copy": (rows_at, (spread, SPREAD // ROWS * indices), edges * WIDTH),
        "weigh": (attend, (adjacency, *map(put, (queries, x[:, :HEADS], keys))), 2 * edges * WIDTH),
        "group": (lambda edges: by_source(edges, ROWS), (adjacency,), edges),
    }
    programs = {name: jax.jit(run).lower(*given).compile() for name, (run, given, _) in work.items()}
    seconds: dict[str, list[float]] = {name: [] for name in work}
    for _ in range(ROUNDS):  # in turns, so that what else the machine does falls on all alike
        for name, (_, given, _) in work.items():
            started = time.perf_counter()
            jax.block_until_ready(programs[name](*given))
            seconds[name].append(time.perf_counter() - started)
    return {name: 1e9 * min(seconds[name]) / count for name, (_, _, count) in work.items()}


def _rounded(factor: float) -> float:
    steps = round(2 * math.log2(min(MOST, max(1 / MOST, factor))))
    return 2.0 ** (steps / 2)
