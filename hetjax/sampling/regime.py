"""The input of a training step: the whole graph, or a mini-batch of seeds and of neighbours sampled for them."""

from typing import NamedTuple

from hetjax.sampling.sampler import ALL


class Regime(NamedTuple):
    """The input of a training step.

    Attributes:
      whole: whether that is the whole graph; then an epoch has one step, on all training nodes.
      batch_size: seeds of a step.
      fanouts: neighbours sampled per node and relation, the seeds' own hop first; `ALL` of the whole graph.
      steps: of an epoch.
      threads: that sample batches; 0: as many as `loader.Batches` finds useful.
    """

    whole: bool
    batch_size: int
    fanouts: tuple[int, ...]
    steps: int
    threads: int = 0


def whole_graph_regime(seeds: int, layers: int) -> Regime:
    """Return the regime of all training nodes, and all of the graph that they depend on, at every step."""
    return Regime(True, seeds, (ALL,) * layers, 1)


def mini_batch_regime(
    seeds: int, batch_size: int, fanouts: tuple[int, ...], limit: int = 0, threads: int = 0
) -> Regime:
    """Return the regime of mini-batches of `batch_size` seeds; at most `limit` steps an epoch, if that is not 0."""
    batch_size = min(batch_size, max(1, seeds))
    steps = -(-seeds // batch_size)
    return Regime(False, batch_size, tuple(fanouts), min(steps, limit) if limit else steps, threads)
