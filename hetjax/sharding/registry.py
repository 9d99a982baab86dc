"""The strategies that there are, by name; a user's own is found by `MODULE:NAME`."""

import importlib
from collections.abc import Mapping
from typing import Any

from hetjax.config import SECTIONS, Config, Mesh, changed
from hetjax.errors import InputError, reading, short
from hetjax.graph.hetgraph import HetGraph
from hetjax.sharding.averaging.strategy import Averaging
from hetjax.sharding.dependency.strategy import Dependency
from hetjax.sharding.raf.strategy import Raf
from hetjax.sharding.single.strategy import Single
from hetjax.sharding.strategy import Engine, Strategy, setup
from hetjax.sharding.tensor.strategy import Tensor
from hetjax.sharding.vanilla.strategy import Vanilla

BUILT_IN: dict[str, type[Strategy]] = {
    strategy.name: strategy for strategy in (Single, Raf, Vanilla, Dependency, Tensor, Averaging)
}


def find(mesh: Mesh) -> Strategy:
    """The strategy of a mesh. On one device that is the plain path, which every other one equals, unless a strategy says otherwise.

    Raises:
      InputError: there is none of that name.
    """
    chosen = by_name(mesh.strategy)
    return Single() if mesh.devices == 1 and chosen.plain_alone else chosen


def by_name(name: str) -> Strategy:
    """The strategy of a name.

    Raises:
      InputError: there is none.
    """
    if name in BUILT_IN:
        return BUILT_IN[name]()
    module, _, attribute = name.partition(":")
    if not attribute:
        raise InputError(
            f"mesh.strategy is {short(name)!r}, and must be {', '.join(BUILT_IN)}, or MODULE:NAME of one of your own"
        )
    with reading(f"mesh.strategy is {short(name)!r}"):
        strategy = getattr(importlib.import_module(module), attribute)
        if not (isinstance(strategy, type) and issubclass(strategy, Strategy)):
            raise TypeError("should be a class that inherits from hetjax.sharding.strategy.Strategy")
        if not strategy.name or strategy.name in (*SECTIONS, *BUILT_IN):
            raise TypeError(
                f"its name is {strategy.name!r}, and should be one of its own: it names a section of options"
            )
        return strategy()


def sections(name: str | None) -> dict[str, type]:
    """The sections of the configuration that strategies own: of all built-in ones, and of one of a user's own."""
    strategies = [*BUILT_IN.values(), *([type(by_name(name))] if name and name not in BUILT_IN else [])]
    return {strategy.name: strategy.Options for strategy in strategies if strategy.Options}


def config_of(given: Mapping[str, Any]) -> Config:
    """A configuration from its sections by name, of which it keeps those of the strategy that is chosen.

    Raises:
      InputError: a key of another strategy is set.
    """
    shared = {name: section for name, section in given.items() if name in SECTIONS}
    own = {name: section for name, section in given.items() if name not in SECTIONS}
    chosen = by_name(shared["mesh"].strategy).name
    for name, section in own.items():
        for key, value in changed(section).items():
            if name != chosen:
                raise InputError(f"{name}.{key} is {value}, and is for mesh.strategy {name}; it is {chosen}")
    return Config(**shared, strategies={name: section for name, section in own.items() if name == chosen})


def check(config: Config) -> Strategy:
    """The strategy of a configuration that it can run.

    Raises:
      InputError: it cannot.
    """
    chosen = by_name(config.mesh.strategy)
    chosen.check(config)
    return chosen if chosen.alone(config) else find(config.mesh)


def make_engine(config: Config, graph: HetGraph, **options: Any) -> Engine:
    """What trains a graph that is open, as a configuration says.

    Args:
      **options: of `setup`.

    Raises:
      InputError: as the strategy does.
    """
    strategy, run = check(config), setup(config, graph, **options)
    return strategy.engine(run, strategy.partition(run))
