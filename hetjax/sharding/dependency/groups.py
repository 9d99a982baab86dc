"""Types whose rows are sent together."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from hetjax.sharding.strategy import Setup

FEATURES, LEARNABLE, EMBEDDINGS = "remote_features", "remote_learnable_rows", "remote_embeddings"  # kinds of traffic


class Group(NamedTuple):
    """Types whose rows are sent together, being of one width and dtype.

    Attributes:
      kind: the kind of traffic.
      types: the types, in order.
    """

    kind: str
    types: tuple[str, ...]


Groups = Sequence[Mapping[str, Group]]  # per layer, by name


def grouped(setup: Setup, embeddings: bool) -> Groups:
    """Return the types whose rows may be sent, per layer: features before the first one, and `embeddings` before others if so."""
    layers: list[dict[str, Group]] = []
    for depth, layer in enumerate(setup.trainer.model.layers):
        layers.append({})
        for t, width in layer.widths.items() if embeddings or not depth else ():
            kind, dtype = _kind(setup, depth, t)
            name = f"{kind}_{dtype}_{width}"
            known = layers[-1].get(name, Group(kind, ()))
            layers[-1][name] = known._replace(types=(*known.types, t))
    return layers


def _kind(setup: Setup, depth: int, node_type: str) -> tuple[str, str]:
    """Return the kind of the rows of a type before a layer, and their dtype."""
    if depth or setup.trainer.model.transforms:
        return EMBEDDINGS, "float32"
    if node_type in setup.trainer.learnable:
        return LEARNABLE, "float32"
    return FEATURES, str(setup.graph.features[node_type].dtype)
