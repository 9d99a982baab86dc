"""The cost of fetching rows: NeutronStar's `T_c`, measured by all-to-alls in both directions.

An element costs more in a large message than in a small one: between processes, by gloo, nearly twice as much. So a message
is as large as that of a step, unless that takes long.
"""

import math
import statistics
import time
from collections.abc import Callable

import jax
import numpy as np
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

from hetjax.processes.group import ProcessGroup
from hetjax.sharding.dependency.probes import compiled
from hetjax.sharding.mesh import DATA, from_shards, positions_here, shard_map
from hetjax.sharding.spmd import replicate

SMALL, LARGE = 2**17, 2**22  # numbers that a device puts into an all-to-all: at first, and at most
LONG = 0.25  # seconds of a message that is not waited for
ENOUGH, MOST_TIMES = 0.03, 16  # seconds of a round; how often it goes there and back at most
ROUNDS, MOST_ROUNDS, ALIKE = 3, 11, 1.5


def measure(mesh: Mesh, processes: ProcessGroup, wanted: int) -> tuple[float, float]:
    """Measure the seconds of an element of a row that is fetched and of its gradient, and of fetching one element, on several devices; all processes together.

    Args:
      wanted: the number of elements that a device sends to another in a step.
    """
    parts, function = mesh.size, shard_map(_there_and_back, mesh, (P(), P(DATA)), P(DATA))

    def arguments(numbers: int) -> tuple:
        sent = from_shards(mesh, [np.zeros((parts, numbers), np.float32) for _ in positions_here(mesh)])
        return (*replicate(mesh, (np.int32(1),)), sent)

    def seconds(program: Callable, numbers: int) -> float:
        _, sent = arguments(numbers)

        def lap(times: int) -> float:
            (given,) = replicate(mesh, (np.int32(times),))
            started = time.perf_counter()
            jax.block_until_ready(program(given, sent))
            taken = processes.all_gather("seconds of a round", time.perf_counter() - started)
            return max(taken)  # who comes late finds the others' rows there

        times = min(MOST_TIMES, math.ceil(ENOUGH / min(lap(1), lap(1))))
        return settled(lambda: lap(times)) / times

    few = max(1, min(SMALL // parts, wanted))
    one, some = compiled(function, [arguments(1), arguments(few)])
    start, taken = seconds(one, 1), seconds(some, few)
    numbers = worth(few, taken, min(LARGE // parts, wanted))
    if numbers > few:
        (many,) = compiled(function, [arguments(numbers)])
        taken = seconds(many, numbers)
    return max(taken - start, taken / 2) / (numbers * (parts - 1)), start


def settled(lap: Callable[[], float]) -> float:
    """Return the median of so many rounds that it is near the least: disturbances only add to a round."""
    found = [lap() for _ in range(ROUNDS)]
    while statistics.median(found) > ALIKE * min(found) and len(found) < MOST_ROUNDS:
        found.append(lap())
    return statistics.median(found)


def worth(few: int, seconds: float, wanted: int) -> int:
    """Return the size of a message of as many elements as are wanted, or of less where `few`, which took so many seconds, say that it takes long."""
    doublings = math.log2(min(wanted / few, max(1.0, LONG / seconds)))
    return few * 2 ** int(doublings)


def _there_and_back(times: jax.Array, rows: jax.Array) -> jax.Array:
    def swap(_: int, rows: jax.Array) -> jax.Array:
        return jax.lax.all_to_all(jax.lax.all_to_all(rows, DATA, 0, 0, tiled=True) + 1, DATA, 0, 0, tiled=True)

    return jax.lax.fori_loop(0, times, swap, rows)
