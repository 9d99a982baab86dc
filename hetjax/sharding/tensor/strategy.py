"""The strategy tensor: slices of the columns, every edge is aggregated on every device."""

from jax.sharding import Mesh

from hetjax.sharding import mesh as meshes
from hetjax.sharding.push_pull.setting import push_pull
from hetjax.sharding.strategy import Engine, Setup, Strategy
from hetjax.sharding.tensor import attention, declared  # noqa: F401  # the first registers how divided columns are attended
from hetjax.sharding.tensor.batches import TensorBatches, ranges
from hetjax.sharding.tensor.chunks import room
from hetjax.sharding.tensor.chunks.engine import ChunkedEngine
from hetjax.sharding.tensor.chunks.plan import Plan
from hetjax.sharding.tensor.costs import still
from hetjax.sharding.tensor.engine import TensorEngine
from hetjax.system.errors import InputError


class Tensor(declared.Tensor, Strategy):
    """Training on slices of the columns, one a device (NeutronTP: Ai et al., PVLDB 18(2), 2024)."""

    def engine(self, setup: Setup, partitioning: None = None) -> Engine:
        if not setup.regime.whole:
            return push_pull(setup)
        parts, schema = setup.config.mesh.feature, setup.graph.schema
        if not setup.config.model.head and parts > setup.task.outputs:
            raise InputError(
                f"mesh.feature is {parts}, more slices than the {setup.task.outputs} outputs that the last layer makes: set model.head true"
            )
        model = setup.trainer.model
        heads = model.layers[0].traits.heads
        if model.decoupled and 0 < heads < parts:
            raise InputError(
                f"mesh.feature is {parts}, more slices than the {heads} heads that a decoupled model folds by"
            )
        options, mesh = self.options(setup.config), meshes.features(parts)
        if options.device_bytes >= 0:
            return chunked(setup, mesh, options)
        owned = ranges(schema.nodes, parts)
        return TensorEngine(setup, TensorBatches(setup, mesh, owned, still(setup.trainer, setup.graph)), mesh, owned)


def chunked(setup: Setup, mesh: Mesh, options: declared.Options) -> ChunkedEngine:
    """Return the engine of chunks as large as `device_bytes` allows.

    Raises:
      InputError: that is less than what one node needs.
    """
    types = sorted({t for layer in setup.trainer.model.layers for t in layer.targets})

    def make(share: float) -> ChunkedEngine:
        return ChunkedEngine(setup, mesh, Plan(setup.graph, types, mesh.size, share), options.pipelined)

    return room.fitting(make, options.device_bytes)
