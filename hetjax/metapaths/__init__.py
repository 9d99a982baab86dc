"""Neighbour means and labels along metapaths, computed once: the inputs of SeHGNN; no jax."""

from hetjax.metapaths.means import composed
from hetjax.metapaths.paths import Metapath, metapaths
from hetjax.metapaths.star import along_metapaths

__all__ = ["Metapath", "along_metapaths", "composed", "metapaths"]
