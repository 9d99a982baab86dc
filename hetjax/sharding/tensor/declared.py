"""The options and the declaration of the strategy tensor."""

from dataclasses import dataclass

from hetjax.options.config import UNBOUNDED, Bytes, Config
from hetjax.sharding.declaration import Declaration
from hetjax.system.errors import InputError


@dataclass(frozen=True)
class Options:
    """Tensor: the columns are divided among mesh.feature devices, and each folds all edges."""

    device_bytes: Bytes = UNBOUNDED
    """bytes of each device for weights and for chunks of the graph, such as 2GB, of which all else stays on the host; -1: no bound, and all is on the devices"""
    pipelined: bool = True
    """with device_bytes: send what the next chunk reads, and what came of the last one, while a chunk is folded"""

    def __post_init__(self):
        object.__setattr__(self, "device_bytes", int(Bytes(self.device_bytes)))
        if self.device_bytes < -1:
            raise InputError(f"tensor.device_bytes is {self.device_bytes}, and must be at least -1")


class Tensor(Declaration):
    """The declaration of tensor parallelism, which divides the columns."""

    name = "tensor"
    Options = Options
    divides_columns = True

    def alone(self, config: Config) -> bool:
        return self.options(config).device_bytes >= 0

    def check(self, config: Config) -> None:
        super().check(config)
        if config.sampling.mode != "full":
            if self.options(config).device_bytes >= 0:
                raise InputError(
                    f"{self.name}.device_bytes is {self.options(config).device_bytes}, and asks for sampling.mode full"
                )
            return  # what is divided then are the columns of the features, which the graph says
        if config.mesh.data != 1:
            raise InputError(
                f"mesh.data is {config.mesh.data}, and must be 1 with mesh.strategy {self.name} and sampling.mode full"
            )
        if config.mesh.feature > config.model.hidden:
            raise InputError(
                f"mesh.feature is {config.mesh.feature}, more slices than the {config.model.hidden} columns of model.hidden"
            )
