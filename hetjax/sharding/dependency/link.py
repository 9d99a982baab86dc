"""What it costs to fetch rows: NeutronStar's `T_c`, measured by all-to-alls there and back."""

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

SENT = 2**18  # numbers that a device puts into an all-to-all, but for what is no row of another
ROUNDS = 5
ENOUGH = 0.03  # seconds of a round: what a link that was idle lets pass at once is little beside them
LEAST_TIMES, MOST = 2, 16  # that a round goes there and back


def measure(mesh: Mesh, processes: ProcessGroup) -> tuple[float, float]:
    """Seconds of a number of a row that is fetched and of its gradient, and of fetching one number, on several devices; all processes together."""
    parts, rows = mesh.size, max(1, SENT // mesh.size)

    def arguments(numbers: int, times: int) -> tuple:
        sent = from_shards(mesh, [np.zeros((parts, numbers), np.float32) for _ in positions_here(mesh)])
        return (*replicate(mesh, (np.int32(times),)), sent)

    def seconds(program: Callable, numbers: int, times: int, rounds: int) -> list[float]:
        given, found = arguments(numbers, times), []
        for _ in range(rounds):
            started = time.perf_counter()
            jax.block_until_ready(program(*given))
            found.append(time.perf_counter() - started)
        return found

    def per_call(program: Callable, numbers: int) -> list[float]:
        once = processes.broadcast_object("seconds of a call", min(seconds(program, numbers, 1, 2)))
        times = min(MOST, max(LEAST_TIMES, math.ceil(ENOUGH / once)))
        return [each / times for each in seconds(program, numbers, times, ROUNDS)]

    function = shard_map(_there_and_back, mesh, (P(), P(DATA)), P(DATA))
    programs = compiled(function, [arguments(1, 1), arguments(rows, 1)])
    start, large = min(per_call(programs[0], 1)), statistics.median(per_call(programs[1], rows))
    return max(large - start, large / 2) / (
        rows * (parts - 1)
    ), start  # a busy host may be late for a call that is small


def _there_and_back(times: jax.Array, rows: jax.Array) -> jax.Array:
    def swap(_: int, rows: jax.Array) -> jax.Array:
        return jax.lax.all_to_all(jax.lax.all_to_all(rows, DATA, 0, 0, tiled=True) + 1, DATA, 0, 0, tiled=True)

    return jax.lax.fori_loop(0, times, swap, rows)
