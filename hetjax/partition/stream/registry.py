"""The methods that there are, by name; a user's own is found by `MODULE:NAME`."""

import importlib

from hetjax.partition.stream.methods.clustering import Hollocou
from hetjax.partition.stream.methods.dbh import Dbh
from hetjax.partition.stream.methods.greedy import Greedy
from hetjax.partition.stream.methods.hdrf import Hdrf
from hetjax.partition.stream.methods.slim import Slim
from hetjax.partition.stream.methods.spring import Spring
from hetjax.partition.stream.methods.two_phase import TwoPhase
from hetjax.partition.stream.partitioner import Partitioner
from hetjax.system.errors import InputError, reading, short

BUILT_IN: dict[str, type[Partitioner]] = {
    method.name: method for method in (Dbh, Greedy, Hdrf, Hollocou, TwoPhase, Spring, Slim)
}


def find(name: str) -> type[Partitioner]:
    """Return the method of a name.

    Raises:
      InputError: there is none.
    """
    if name in BUILT_IN:
        return BUILT_IN[name]
    module, _, attribute = name.partition(":")
    if not attribute:
        raise InputError(
            f"method is {short(name)!r}, and must be {', '.join(BUILT_IN)}, or MODULE:NAME of one of your own"
        )
    with reading(f"method is {short(name)!r}"):
        method = getattr(importlib.import_module(module), attribute)
        if not (isinstance(method, type) and issubclass(method, Partitioner)):
            raise TypeError("should be a class that inherits from hetjax.partition.stream.Partitioner")
        return method
