"""What the strategy tensor takes."""

from hetjax.config import Config
from hetjax.errors import InputError
from hetjax.sharding.declaration import Declaration


class Tensor(Declaration):
    """Divides the columns."""

    name = "tensor"
    divides_columns = True

    def check(self, config: Config) -> None:
        super().check(config)
        if config.mesh.data != 1:
            raise InputError(f"mesh.data is {config.mesh.data}, and must be 1 with mesh.strategy {self.name}")
        if config.sampling.mode != "full":
            raise InputError(
                f"sampling.mode is {config.sampling.mode}, and must be full with mesh.strategy {self.name}"
            )
        if config.mesh.feature > config.model.hidden:
            raise InputError(
                f"mesh.feature is {config.mesh.feature}, more slices than the {config.model.hidden} columns of model.hidden"
            )
