"""The order of turns: partition `i` trains on device `i mod devices`, one partition after the other (CATGNN, section 3.3)."""

from typing import NamedTuple


class Turns(NamedTuple):
    """The steps of an epoch.

    Local models know nothing of each other until they are averaged, so the order of turns changes no result.

    Attributes:
      steps: the number of steps of an epoch of every partition.
      devices: the number of devices.
    """

    steps: tuple[int, ...]
    devices: int

    def of(self, device: int) -> range:
        """Return the partitions of a device, in order."""
        return range(device, len(self.steps), self.devices)

    @property
    def epoch(self) -> int:
        """The number of steps of an epoch: that of the device that has most."""
        return max(sum(self.steps[part] for part in self.of(device)) for device in range(self.devices))

    def done(self, part: int, step: int) -> int:
        """Return the number of steps that a partition has done after `step` steps of the run."""
        epochs, rest = divmod(step, self.epoch)
        before = sum(self.steps[other] for other in self.of(part % self.devices) if other < part)
        return epochs * self.steps[part] + min(max(rest - before, 0), self.steps[part])
