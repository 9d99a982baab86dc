"""The costs of relations, computed from the rates of a CPU: for graphs so small that measuring a layer takes longer than training.

A layer is taken for a plain convolution: its product with a matrix comes before the aggregation where that leaves fewer elements to aggregate, and in
attention always, and after it otherwise; every element that is aggregated is read once, and its gradient is written once.
"""

import time
from collections.abc import Callable

import numpy as np
from jax.sharding import Mesh

from hetjax.sharding.dependency.probes import Kind, Seconds

ROWS, MULTIPLIED, WIDTH, ROUNDS = 2**15, 2**11, 64, 16
MEETING = 5e-5  # seconds in which devices of one process meet for a collective and its inverse; 28 to 144 microseconds, measured
FOLDED = 0.3  # a fold asks for its rows ahead, so a number that it reads takes this share of `measure`'s: 0.17 to 0.6, measured
WEIGHED = 5  # times that an edge takes longer where it has a weight to be found, in a softmax: 2 to 6 in GAT, 3 to 18 in HGT, measured


def known(mesh: Mesh) -> bool:
    """Return whether the devices are CPUs, whose rates numpy can measure."""
    return mesh.devices.flat[0].platform == "cpu"


def measure() -> tuple[float, float]:
    """Measure the seconds of an element that is read by row number, on one core, and of a multiplication and an addition, on all of them.

    One process measures while the others of the computer wait: numpy multiplies with a thread for each core, and the threads of two processes
    slow each other down, forty times in the median (`experiments/dependency/dependency_rates.py`).
    """
    rows, ids = np.ones((ROWS, WIDTH), np.float32), np.random.default_rng(0).permutation(ROWS)
    matrix, into = rows[:WIDTH].copy(), np.empty((len(ids), WIDTH), np.float32)
    read = _least(lambda: np.take(rows, ids, axis=0, out=into, mode="clip")) / into.size
    some = rows[:MULTIPLIED]
    return read, _least(lambda: some @ matrix) / (some.size * WIDTH)


def shared(read: float, product: float, devices: int, cores: int) -> tuple[float, float]:
    """Return the same rates for each of some devices that share so many cores."""
    return read * max(1.0, devices / cores), product * devices


def link(read: float, parts: int) -> tuple[float, float]:
    """Return the seconds of an element that is fetched from a device of the same process and of its gradient, and of fetching one element.

    An all-to-all is a copy, and moves as much for every partition itself as for another.

    Args:
      read: the seconds of a read, as `shared` gives it.
      parts: the number of devices.
    """
    return 2 * read * parts / (parts - 1), MEETING


def _least(work: Callable) -> float:
    seconds = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - started)
    return min(seconds)


def seconds(kind: Kind, read: float, product: float) -> Seconds:
    """Return the seconds of a kind of relations.

    Args:
      read, product: the rates, as `shared` gives them.
    """
    first, folds = kind.source > kind.made or not kind.linear, FOLDED * (1 if kind.linear else WEIGHED)
    ways = 2 + kind.flows[0]  # forward, the matrix's gradient, and that of the rows
    multiplied = ways * product * kind.source * kind.made
    own = 2 * read * kind.made + (2 + kind.flows[1]) * product * kind.target * kind.made
    edge = folds * (1 + (first or kind.flows[0])) * read * max(1, min(kind.source, kind.made))
    return Seconds(own + (0.0 if first else multiplied), edge, read * kind.source + (multiplied if first else 0.0))
