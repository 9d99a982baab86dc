"""The check that a run has enough columns of features to slice, and enough seeds for its replicas."""

from hetjax.sharding.strategy import Setup
from hetjax.system.errors import InputError


def check_slices(setup: Setup) -> None:
    """Raise an InputError if the run's features and seeds cannot be divided as its mesh says."""
    axes, widths = setup.config.mesh, setup.trainer.widths
    if not widths:
        raise InputError(f"mesh.feature is {axes.feature}, and the model reads no features to divide")
    widest = max(widths, key=lambda t: widths[t])
    if axes.feature > widths[widest]:
        raise InputError(
            f"mesh.feature is {axes.feature}, more slices than the {widths[widest]} columns of the features of {widest!r}, the widest"
        )
    replicas, seeds = axes.data * axes.feature, setup.regime.batch_size
    if replicas > seeds:
        raise InputError(
            f"mesh.data x mesh.feature are {replicas} replicas, and there are {seeds} seeds of a step (sampling.batch_size), to divide"
        )
