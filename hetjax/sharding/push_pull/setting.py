"""The engine of push-pull."""

from hetjax.sharding import mesh as meshes
from hetjax.sharding.push_pull.batches import PushBatches
from hetjax.sharding.push_pull.engine import PushEngine
from hetjax.sharding.push_pull.first import first_layer
from hetjax.sharding.slices import check_slices
from hetjax.sharding.strategy import Setup


def push_pull(setup: Setup) -> PushEngine:
    """Return the engine that trains mini-batches on a mesh `data` x `feature`.

    Raises:
      InputError: more slices than columns, more replicas than seeds, or a mesh that there are no devices for.
    """
    axes = setup.config.mesh
    check_slices(setup)
    mesh, first = meshes.groups(axes.data, axes.feature), first_layer(setup.trainer, axes.feature)
    return PushEngine(setup, PushBatches(setup, mesh, first.cut), mesh, first)
