"""What the strategy of one device takes."""

from hetjax.config import Config
from hetjax.errors import InputError
from hetjax.sharding.declaration import Declaration


class Single(Declaration):
    """Divides nothing."""

    name = "single"
    caches = True

    def check(self, config: Config) -> None:
        super().check(config)
        if config.mesh.devices > 1:
            raise InputError(f"mesh.data is {config.mesh.data}, and must be 1 with mesh.strategy {self.name}")
