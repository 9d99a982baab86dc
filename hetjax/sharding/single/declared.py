"""The declaration of the strategy of one device."""

from hetjax.options.config import Config
from hetjax.sharding.declaration import Declaration
from hetjax.system.errors import InputError


class Single(Declaration):
    """The declaration of the plain path, which divides nothing."""

    name = "single"
    caches = True

    def check(self, config: Config) -> None:
        super().check(config)
        if config.mesh.devices > 1:
            raise InputError(f"mesh.data is {config.mesh.data}, and must be 1 with mesh.strategy {self.name}")
