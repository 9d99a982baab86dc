"""Sizes that the arrays of small samples are padded to, all of them together, so that the programs for all samples are few."""

from collections.abc import Mapping, Sequence

import numpy as np

from hetjax.sampling.blocks import round_up

STEP = 4  # from rung to rung
Needs = Mapping[str, tuple[int, int]]  # by an array's name its size, and the most that it can be


class Ladder:
    """A ladder of sizes. On a rung every array has `STEP` times the size of the rung below, or the most that it can have.

    Arrays that were padded each to a step of its own would be as many programs as there are combinations of steps; on a
    ladder there is one per rung, and there are few rungs, as the highest has room for everything.

    Args:
      trials: the needs of some samples: their medians are the lowest rung.
    """

    def __init__(self, trials: Sequence[Needs]):
        sizes = {name: [needs[name][0] for needs in trials] for name in trials[0]}
        self.lowest = {name: round_up(max(8, int(np.median(of)))) for name, of in sizes.items()}

    def fitting(self, needs: Needs) -> dict[str, int]:
        """Return the capacities of the lowest rung that has room for a sample, by the arrays' names."""
        rung = 1
        while any(size > min(self.lowest[name] * rung, most) for name, (size, most) in needs.items()):
            rung *= STEP
        return {name: min(self.lowest[name] * rung, most) for name, (_, most) in needs.items()}
