"""The strategy tensor: slices of the columns, every edge folded everywhere."""

from hetjax.config import Config
from hetjax.errors import InputError
from hetjax.models.decoupled_attention import AttentionPropagation
from hetjax.sharding import mesh as meshes
from hetjax.sharding.push_pull.setting import push_pull
from hetjax.sharding.strategy import Engine, Setup, Strategy
from hetjax.sharding.tensor import attention  # noqa: F401  # registers how divided columns are attended
from hetjax.sharding.tensor.batches import TensorBatches, ranges
from hetjax.sharding.tensor.costs import still
from hetjax.sharding.tensor.engine import TensorEngine


class Tensor(Strategy):
    """Slices of the columns, one a device (NeutronTP: Ai et al., PVLDB 18(2), 2024)."""

    name = "tensor"
    divides_columns = True

    def check(self, config: Config) -> None:
        super().check(config)
        if config.sampling.mode != "full":
            return  # what is divided then are the columns of the features, which the graph says
        if config.mesh.data != 1:
            raise InputError(
                f"mesh.data is {config.mesh.data}, and must be 1 with mesh.strategy {self.name} and sampling.mode full"
            )
        if config.mesh.feature > config.model.hidden:
            raise InputError(
                f"mesh.feature is {config.mesh.feature}, more slices than the {config.model.hidden} columns of model.hidden"
            )

    def engine(self, setup: Setup, partitioning: None = None) -> Engine:
        if not setup.regime.whole:
            return push_pull(setup)
        parts, schema = setup.config.mesh.feature, setup.graph.schema
        if not setup.config.model.head and parts > schema.classes:
            raise InputError(
                f"mesh.feature is {parts}, more slices than the {schema.classes} logits that the last layer makes: set model.head true"
            )
        first = setup.trainer.model.layers[0]
        if isinstance(first, AttentionPropagation) and first.attending % parts:
            raise InputError(
                f"mesh.feature is {parts}, and must divide the {first.attending} heads that a decoupled model folds by"
            )
        mesh, owned = meshes.features(parts), ranges(schema.nodes, parts)
        return TensorEngine(setup, TensorBatches(setup, mesh, owned, still(setup.trainer, setup.graph)), mesh, owned)
