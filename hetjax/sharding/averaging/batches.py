"""Batches of all partitions: each has the batches of the plain path on its subgraph, sampled when its turn comes."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from hetjax.sampling.blocks import Batch
from hetjax.sampling.loader import Batches, Drawn
from hetjax.sharding.averaging.member import Member
from hetjax.sharding.averaging.turns import Turns
from hetjax.sharding.strategy import Setup


class Turn(NamedTuple):
    """The input of one partition in a step.

    Attributes:
      batch: the batch of the plain path.
      seeds: the number of its seeds.
    """

    batch: Batch
    seeds: int


class AveragingBatches(Batches):
    """A step's batch is a `Turn` of every partition that is here and trains in it.

    Args:
      setup: the setup of the run.
      members: the partitions of this process.
      turns: the turns of all partitions.
      seated: whether a partition stays on its device; if not, its features are there while it trains.
    """

    def __init__(self, setup: Setup, members: Mapping[int, Member], turns: Turns, seated: bool):
        self.members, self.turns, self.seated = members, turns, seated
        super().__init__(
            setup.graph, setup.task, setup.regime, setup.config.train.seed, f"averaging_{len(turns.steps)}"
        )

    def prepare(self, capacities: Mapping[str, int] | None = None) -> None:
        self.prepared = True
        for part, member in self.members.items():
            prefix = self._prefix(part)
            known = {n.removeprefix(prefix): size for n, size in (capacities or {}).items() if n.startswith(prefix)}
            if not self.seated:
                member.enter()
            member.batches.prepare(known)
            if not self.seated:
                member.leave()

    def steps(self) -> int:
        return self.turns.epoch

    def epoch(self, epoch: int, first: int = 0) -> Iterator[Drawn]:
        if not self.prepared:
            self.prepare()
        lines = {part % self.turns.devices for part in self.members}
        streams = [self._line(line, epoch, first) for line in sorted(lines)]
        for _ in range(first, self.steps()):
            drawn = dict(found for stream in streams if (found := next(stream, None)))
            turns = {part: Turn(one.batch, one.nodes) for part, one in drawn.items()}
            seconds = sum(one.seconds for one in drawn.values())
            yield Drawn(turns, sum(one.nodes for one in drawn.values()), self.known(), seconds)

    def _line(self, device: int, epoch: int, first: int) -> Iterator[tuple[int, Drawn]]:
        """Yield the batches of a device from a step of the epoch on."""
        for part in self.turns.of(device):
            steps = self.turns.steps[part]
            if first < steps:
                yield from ((part, drawn) for drawn in self.members[part].batches.epoch(epoch, first))
            first = max(0, first - steps)

    def known(self) -> dict[str, int]:
        """Return the capacities of the partitions that are here, by names that are theirs alone."""
        of = {part: member.batches.capacities.by_name for part, member in self.members.items()}
        return {self._prefix(part) + name: size for part, names in of.items() for name, size in names.items()}

    def _prefix(self, part: int) -> str:
        return f"{self.use}/{part}/"
