"""hetjax: exact, fast training of heterogeneous graph neural networks in JAX."""

from importlib import import_module

__all__ = ["HGNN", "fetch_features", "partition"]


def __getattr__(name: str):
    """The public face, imported when it is used, so that `hetjax.graph` and its like start without jax."""
    if name == "HGNN":
        from hetjax.models.hgnn import HGNN

        return HGNN
    if name == "fetch_features":
        from hetjax.cache.fetch import fetch_features

        return fetch_features
    if name == "partition":
        return import_module("hetjax.partition")  # a package that can be called
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
