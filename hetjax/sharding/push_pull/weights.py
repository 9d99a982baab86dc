"""The weights of the first layer that have a row per column of the features: devices that divide the columns divide these."""

import operator
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax.traverse_util import flatten_dict, unflatten_dict

from hetjax.kernels.partials import add_weighted, merge
from hetjax.sharding.columns import own_slice
from hetjax.sharding.mesh import FEATURE
from hetjax.sharding.trainer import Trainer, smallest_arrays, smallest_input

Path = tuple[str, ...]
ADDING = operator.add, add_weighted, merge  # combinations of partial aggregates that are linear, logits once known


class Division(NamedTuple):
    """The division of the model's weights along with the features' columns.

    Attributes:
      parts: number of slices.
      axes: the axis that counts the columns, for every weight that has an element per column of some features.
      added: the biases beside such weights, which are added once to the sum of all slices.
    """

    parts: int
    axes: Mapping[Path, int]
    added: frozenset[Path]

    def own(self, params: Any) -> Any:
        """The weights as the first layer reads them on this device's slice; inside the program."""
        first = jax.lax.axis_index(FEATURE) == 0

        def mine(path: Path, leaf: jax.Array) -> jax.Array:
            if path in self.axes:
                return own_slice(self.parts, leaf, self.axes[path])
            return jnp.where(first, leaf, 0) if path in self.added else leaf

        return unflatten_dict({path: mine(path, leaf) for path, leaf in flatten_dict(params).items()})


def division(trainer: Trainer, parts: int) -> Division | None:
    """Return the division of the first layer's weights; None: the layer must be given whole rows.

    The weights that grow with a type's features are found by shaping the model for features that are a column wider.
    """
    model, axes = trainer.model, {}
    first = model.layers[0].traits
    if model.transforms or model.input_dropout or not first.linear_input or first.monoid.combine not in ADDING:
        return None
    shapes = _shapes(trainer, trainer.widths)
    for width in sorted(set(trainer.widths.values())):
        wider = _shapes(trainer, {t: own + (own == width) for t, own in trainer.widths.items()})
        for path, shape in shapes.items():
            grown = np.subtract(wider[path], shape)
            if np.sum(grown) > 1:
                return None  # not a row per column
            if np.sum(grown):
                axes[path] = int(np.argmax(grown))
    beside = {path[:-1] for path in axes}
    added = frozenset(path for path in shapes if path[-1] == "bias" and path[:-1] in beside)
    return Division(parts, axes, added)


def _shapes(trainer: Trainer, widths: Mapping[str, int]) -> dict[Path, tuple[int, ...]]:
    given, arrays = smallest_input(trainer.model, widths), smallest_arrays(trainer.task)
    made: Any = jax.eval_shape(lambda: trainer.model.init(jax.random.key(0), *given, arrays=arrays))
    return {path: leaf.shape for path, leaf in flatten_dict(made).items()}
