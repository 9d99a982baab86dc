"""The first layer on features whose columns are divided."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from hetjax.models.exchange import Exchange
from hetjax.models.traits import finish_reads
from hetjax.sharding.push_pull.exchange import Pull, Push
from hetjax.sharding.push_pull.weights import Division, division
from hetjax.sharding.trainer import Trainer


class FirstLayer(NamedTuple):
    """The work of devices that divide the columns of the features.

    Attributes:
      parts: number of slices.
      division: the division of the weights; None: replicas are given whole rows, and have all weights.
      widths: the widths of the features, per input type.
      read_again: the widths of the types whose own rows the layer reads when it finishes.
    """

    parts: int
    division: Division | None
    widths: Mapping[str, int]
    read_again: Mapping[str, int]

    @property
    def cut(self) -> int:
        """The number of layers that a group aggregates together."""
        return 1 if self.division else 0

    def weights(self, params: Any) -> Any:
        """The weights as this device reads them; inside the program."""
        return self.division.own(params) if self.division else params

    def exchange(self, picks: Mapping[str, Any]) -> Exchange:
        """Return the exchange between the group's replicas; `picks` as of `Push`."""
        return Push(picks, self.read_again) if self.division else Pull(picks, self.widths)


def first_layer(trainer: Trainer, parts: int) -> FirstLayer:
    """Return how a model's features are divided at its first layer."""
    first = trainer.model.layers[0]
    read_again = {t: width for t, width in trainer.widths.items() if finish_reads(first, t)}
    return FirstLayer(parts, division(trainer, parts), trainer.widths, read_again)
