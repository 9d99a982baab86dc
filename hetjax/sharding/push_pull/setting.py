"""What push-pull needs of a run, and its engine."""

from hetjax.errors import InputError
from hetjax.sharding import mesh as meshes
from hetjax.sharding.push_pull.batches import PushBatches
from hetjax.sharding.push_pull.engine import PushEngine
from hetjax.sharding.push_pull.first import first_layer
from hetjax.sharding.strategy import Setup


def push_pull(setup: Setup) -> PushEngine:
    """What trains mini-batches on a mesh `data` x `feature`.

    Raises:
      InputError: more slices than columns, more replicas than seeds, or a mesh that there are no devices for.
    """
    axes = setup.config.mesh
    check(setup)
    mesh, first = meshes.groups(axes.data, axes.feature), first_layer(setup.trainer, axes.feature)
    return PushEngine(setup, PushBatches(setup, mesh, first.cut), mesh, first)


def check(setup: Setup) -> None:
    """Raise an InputError if the run's features and seeds cannot be divided as its mesh says."""
    axes, widths = setup.config.mesh, setup.trainer.widths
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
