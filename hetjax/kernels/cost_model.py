"""The cost model of a run: the measured constants by which it chooses between computations that give the same result.

A run has one (`sharding.strategy.Setup.costs`), and its model applies it while it is traced (`models.hgnn.Stack.costs`).
"""

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import NamedTuple

import jax


class Costs(NamedTuple):
    """Costs of the operations that orders of products and sums consist of, in nanoseconds on two cores together.

    Only their ratios count. `python benchmarks/orders.py` measures how often they choose the better order, on a grid of shapes, by which all but
    `copy` were chosen; `copy` is from the steps of a few graphs. `python benchmarks/calibration.py` measures the operations on another machine.

    Attributes:
      multiply: one multiplication in a product of matrices.
      narrow: one multiplication in a product of each head's narrow matrix, at the targets of attention.
      move: reading one value that an edge points at, and adding it.
      copy: one value of a row that is read from anywhere in memory, and written.
      weigh: one multiplication at an edge of attention, forward or backward.
      group: one edge that is grouped by its source in the program, where the sampler did not.
      far: one value that an edge points at, on top of `move`, if the rows that edges may point at exceed `CostModel.cached`.
    """

    multiply: float = 0.008
    narrow: float = 0.013
    move: float = 0.02
    copy: float = 0.2
    weigh: float = 0.006
    group: float = 6.0
    far: float = 0.1


CPU = Costs()

# Of one H200, by times of operations in the steps of two graphs (benchmarks/results/gpu.md); `copy` and `group` by judgement. No grid of
# shapes was timed there, and when they were chosen the gradient of the sources was counted as less.
ACCELERATOR = Costs(multiply=0.00005, narrow=0.00016, move=0.002, copy=0.002, weigh=0.0009, group=1.0, far=0.0)


@dataclass(frozen=True)
class CostModel:
    """Measured constants, each with its unit and the command that measures it.

    Attributes:
      orders: nanoseconds per operation, of orders of products and sums.
      cached: bytes of rows that stay in a processor's cache, or near it (`python benchmarks/orders.py`, with `--rows` around it).
      edge: multiplications in the time in which a sum over edges moves one value, where devices divide columns. An estimate
        that no command measures; it is the same in all processes, so that they choose alike.
      send: multiplications in the time in which one value is sent: 10 billion a second over 1 Gbit/s. An assumption as well.
    """

    orders: Costs = CPU
    cached: int = 2**26
    edge: int = 40
    send: int = 300


_model: ContextVar[CostModel | None] = ContextVar("cost_model", default=None)


def usual() -> CostModel:
    """Return the cost model of the platform that jax has by default."""
    return CostModel() if jax.default_backend() == "cpu" else CostModel(ACCELERATOR)


def current() -> CostModel:
    """Return the cost model that applies here: that of the model being traced, or else the usual one."""
    return _model.get() or usual()


@contextlib.contextmanager
def using(model: CostModel | None) -> Iterator[None]:
    """Apply a cost model within the context; None changes nothing."""
    token = _model.set(model or _model.get())
    try:
        yield
    finally:
        _model.reset(token)
