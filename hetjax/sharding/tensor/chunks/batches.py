"""The whole graph as one batch of chunks: what is known of the target type's rows."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from hetjax.partition.owned import Owned
from hetjax.sampling.loader import Batches
from hetjax.sharding.strategy import Setup
from hetjax.sharding.tensor.chunks.host import Rows


class Seeds(NamedTuple):
    """The one batch of the whole graph, on the host.

    Attributes:
      labels, weights: of every row of the target type its label, and 1 if it trains.
      size: how many train.
    """

    labels: Rows
    weights: Rows
    size: int


class ChunkedBatches(Batches):
    """That batch, of each device's own rows."""

    def __init__(self, setup: Setup, owned: Owned, places: Sequence[int]):
        self.owned, self.places = owned, places
        super().__init__(setup.graph, setup.regime, setup.config.train.seed, "tensor")

    def sample(self, seeds: np.ndarray, stream: tuple) -> tuple:
        return ()

    def measure(self, sample: tuple) -> Iterator[tuple[str, int, int]]:
        return iter(())

    def send(self, seeds: np.ndarray, sample: tuple) -> Seeds:
        target = self.graph.schema.target
        weights = np.zeros(self.graph.schema.nodes[target], np.float32)
        weights[seeds] = 1
        labels = np.zeros_like(self.graph.labels)
        labels[seeds] = self.graph.labels[seeds]

        def own(array: np.ndarray) -> Rows:
            return [self.owned.take(target, array, place) for place in self.places]

        return Seeds(own(labels), own(weights), len(seeds))
