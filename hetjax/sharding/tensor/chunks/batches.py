"""The whole graph as one batch of chunks: the training examples of each device, some at a time."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from hetjax.partition.owned import Owned
from hetjax.sampling.loader import Batches, by_owner
from hetjax.sharding.strategy import Setup
from hetjax.sharding.tensor.seeds import are_shared, given, places


class SeedBlock(NamedTuple):
    """Some training examples of every device.

    Attributes:
      given: the rows that each device gives, int32 per root type: their positions among its own rows.
      rows: the rows of each device's seeds, int32 per root type, among those that it gave, or among those of all devices.
      arrays: the task's arrays, of each device, padded.
    """

    given: Mapping[str, list[np.ndarray]]
    rows: Mapping[str, list[np.ndarray]]
    arrays: list[Any]


class Seeds(NamedTuple):
    """Training examples, on the host.

    Attributes:
      blocks: all of them.
      sizes: the rows that a device gives of a block, and its seeds, per root type, padding included.
      shared: whether devices send these rows to each other.
    """

    blocks: list[SeedBlock]
    sizes: tuple[Mapping[str, int], Mapping[str, int]]
    shared: bool


class ChunkedBatches(Batches):
    """The one batch of the whole graph; a device has the examples whose nodes it owns."""

    def __init__(self, setup: Setup, owned: Owned):
        self.owned = owned
        super().__init__(setup.graph, setup.task, setup.regime, setup.config.train.seed, "tensor")

    def sample(self, examples: np.ndarray, stream: tuple) -> tuple:
        return ()

    def measure(self, sample: tuple) -> Iterator[tuple[str, int, int]]:
        return iter(())

    def send(self, examples: np.ndarray, sample: tuple) -> np.float32:
        return self.weight(examples)

    def seeds(self, share: float) -> Seeds:
        """Return all training examples in blocks.

        Args:
          share: the largest share of a device's examples in a block; at least one example.
        """
        every = by_owner(self.task, self.train, self.owned.owner, self.owned.parts)
        most = max(1, *map(len, every))
        size = max(1, int(np.ceil(share * most)))
        examples = [[own[start : start + size] for own in every] for start in range(0, most, size)]
        seeds = [[self.nodes(own) for own in parts] for parts in examples]
        shared = any(are_shared(parts, self.owned) for parts in seeds)
        nodes = [given(parts, self.owned, shared) for parts in seeds]
        sizes = {t: max(1, *(len(ids) for of in nodes for ids in of[t])) for t in self.task.roots}
        rooms = {t: max(1, *(len(own[t]) for parts in seeds for own in parts)) for t in self.task.roots}
        blocks = [
            SeedBlock(self._local(of), places(own, of, sizes, shared), [self.arrays(each, size) for each in parts])
            for parts, own, of in zip(examples, seeds, nodes)
        ]
        return Seeds(blocks, (sizes, rooms), shared)

    def _local(self, nodes: Mapping[str, Sequence[np.ndarray]]) -> dict[str, list[np.ndarray]]:
        return {t: [self.owned.local[t][ids] for ids in of] for t, of in nodes.items()}
