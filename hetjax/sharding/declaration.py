"""The declaration of a strategy: its keys, and the configurations that it refuses. It needs no jax and runs nothing."""

from typing import Any, ClassVar

from hetjax.options.config import Config, changed
from hetjax.system.errors import InputError


class Declaration:
    """The declaration of one strategy.

    Attributes:
      name: the name in `mesh.strategy`, and of its section of the configuration.
      Options: a dataclass of that section's keys; None if it has none.
      divides_relations: whether it uses the mesh axis `relation`; if not, `mesh.relation` is 1.
      divides_columns: likewise for the axis `feature`.
      caches: whether features may leave the devices; if not, no key of the section `cache` may be set.
    """

    name: ClassVar[str] = ""
    Options: ClassVar[type | None] = None
    divides_relations: ClassVar[bool] = False
    divides_columns: ClassVar[bool] = False
    caches: ClassVar[bool] = False

    def options(self, config: Config) -> Any:
        """The strategy's own keys."""
        return config.strategies.get(self.name) or (self.Options and self.Options())

    def check(self, config: Config) -> None:
        """Refuse a configuration that this strategy cannot run.

        Raises:
          InputError: naming the key.
        """
        divides = {"relation": self.divides_relations, "feature": self.divides_columns}
        for axis, divided in divides.items():
            if not divided and getattr(config.mesh, axis) != 1:
                size = getattr(config.mesh, axis)
                raise InputError(f"mesh.{axis} is {size}, and must be 1 with mesh.strategy {self.name}")
        for key, value in ({} if self.caches else changed(config.cache)).items():
            raise InputError(
                f"cache.{key} is {value}, and mesh.strategy {self.name} keeps all features on the devices: leave out one or the other"
            )

    def alone(self, config: Config) -> bool:
        """Return whether one device does something that `single` does not do; if not, `single` runs there."""
        return False
