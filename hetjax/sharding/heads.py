"""The heads of a layer of attention."""

from hetjax.models.gat import GATLayer
from hetjax.models.layer import Layer


def heads_of(layer: Layer) -> tuple[int, int]:
    """Return the number of heads of a layer of attention, and the width of each."""
    if isinstance(layer, GATLayer) and layer.logits:
        return layer.output_heads, layer.features
    heads: int = layer.heads
    return heads, layer.features // heads
