"""The whole graph as one batch of chunks: the arrays of the target type's rows."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from hetjax.partition.owned import Owned
from hetjax.sampling.loader import Batches
from hetjax.sharding.strategy import Setup
from hetjax.sharding.tensor.chunks.host import Rows


class Seeds(NamedTuple):
    """The one batch of the whole graph, on the host.

    Attributes:
      arrays: the task's arrays, for every row of the root type; rows that do not train have zeros.
      weight: the weight of all examples together.
    """

    arrays: Any
    weight: np.float32


class ChunkedBatches(Batches):
    """The one batch of the whole graph, for each device's own rows."""

    def __init__(self, setup: Setup, owned: Owned, places: Sequence[int]):
        self.owned, self.places = owned, places
        super().__init__(setup.graph, setup.task, setup.regime, setup.config.train.seed, "tensor")

    def sample(self, seeds: np.ndarray, stream: tuple) -> tuple:
        return ()

    def measure(self, sample: tuple) -> Iterator[tuple[str, int, int]]:
        return iter(())

    def send(self, seeds: np.ndarray, sample: tuple) -> Seeds:
        arrays = self.task.seeds(seeds).arrays

        def own(leaf: np.ndarray) -> Rows:
            every = np.zeros((self.graph.schema.nodes[self.root], *leaf.shape[1:]), leaf.dtype)
            every[seeds] = leaf
            return [self.owned.take(self.root, every, place) for place in self.places]

        return Seeds(jax.tree.map(own, arrays), self.weight(seeds))
