"""Which partition each device trains at which step: partition `i` on device `i mod devices`, one after the other (CATGNN, section 3.3)."""

from typing import NamedTuple


class Turns(NamedTuple):
    """The steps of an epoch.

    Local models know nothing of each other until they are averaged, so the order of turns changes no result.

    Attributes:
      steps: of an epoch of every partition.
      devices: how many there are.
    """

    steps: tuple[int, ...]
    devices: int

    def of(self, device: int) -> range:
        """The partitions of a device, in order."""
        return range(device, len(self.steps), self.devices)

    @property
    def epoch(self) -> int:
        """Steps of an epoch: those of the device that has most."""
        return max(sum(self.steps[part] for part in self.of(device)) for device in range(self.devices))

    def done(self, part: int, step: int) -> int:
        """Steps that a partition has done after `step` steps of the run."""
        epochs, rest = divmod(step, self.epoch)
        before = sum(self.steps[other] for other in self.of(part % self.devices) if other < part)
        return epochs * self.steps[part] + min(max(rest - before, 0), self.steps[part])
