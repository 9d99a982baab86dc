"""The strategies that there are, by name; a user's own is found by `MODULE:NAME`. Their declarations need no jax."""

import importlib
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hetjax.options import owners
from hetjax.options.config import SECTIONS, Config, Mode, changed
from hetjax.sharding.declaration import Declaration
from hetjax.system.errors import InputError, reading, short

if TYPE_CHECKING:  # which import numba and jax
    from hetjax.graph.hetgraph import HetGraph
    from hetjax.sharding.strategy import Engine, Strategy

BUILT_IN = owners.STRATEGY.names  # each a folder, with the class `Name` in two files


def find(config: Config) -> "Strategy":
    """Return the strategy of a configuration. On one device that is the plain path, which every other one equals, unless it does more.

    Raises:
      InputError: there is none of that name.
    """
    chosen = by_name(config.mesh.strategy)
    return chosen if config.mesh.devices > 1 or chosen.alone(config) else by_name("single")


def by_name(name: str) -> "Strategy":
    """Return the strategy of a name.

    Raises:
      InputError: there is none.
    """
    return _built_in(name, "strategy") if name in BUILT_IN else _of_users(name)


def declared(name: str) -> Declaration:
    """Return the declaration of the strategy of a name; that of a built-in one needs no jax.

    Raises:
      InputError: there is none.
    """
    return _built_in(name, "declared") if name in BUILT_IN else _of_users(name)


def _built_in(name: str, file: str) -> Any:
    return getattr(importlib.import_module(f"hetjax.sharding.{name}.{file}"), name.capitalize())()


def _of_users(name: str) -> "Strategy":
    module, _, attribute = name.partition(":")
    if not attribute:
        raise InputError(
            f"mesh.strategy is {short(name)!r}, and must be {', '.join(BUILT_IN)}, or MODULE:NAME of one of your own"
        )
    with reading(f"mesh.strategy is {short(name)!r}"):
        from hetjax.sharding.strategy import Strategy

        strategy = getattr(importlib.import_module(module), attribute)
        if not (isinstance(strategy, type) and issubclass(strategy, Strategy)):
            raise TypeError("should be a class that inherits from hetjax.sharding.strategy.Strategy")
        if not strategy.name or strategy.name in (*owners.all_sections(), *BUILT_IN):
            raise TypeError(
                f"its name is {strategy.name!r}, and should be one of its own: it names a section of options"
            )
        return strategy()


def sections(name: str | None) -> dict[str, type]:
    """Return the sections of the configuration that members own: those of all built-in ones, and of a strategy of a user's own."""
    users = declared(name) if name and name not in BUILT_IN else None
    known = owners.chooser_sections() | owners.sections(owners.STRATEGY)
    return known | ({users.name: users.Options} if users and users.Options else {})


def config_of(given: Mapping[str, Any]) -> Config:
    """Return a configuration from its sections by name, of which it keeps those of the reader, model, task and strategy that are chosen.

    Raises:
      InputError: a key of another reader, model, task or strategy is set.
    """
    shared = {name: section for name, section in given.items() if name in SECTIONS}
    chosen = owners.choosers_of(given)
    others = {*SECTIONS, *owners.chooser_sections()}
    own = {name: section for name, section in given.items() if name not in others}
    strategy = declared(shared["mesh"].strategy).name
    for name, section in own.items():
        for key, value in changed(section).items():
            if name != strategy:
                raise InputError(f"{name}.{key} is {value}, and is for mesh.strategy {name}; it is {strategy}")
    return Config(**shared | chosen, strategies={name: section for name, section in own.items() if name == strategy})


def check(config: Config) -> None:
    """Refuse a configuration that its strategy cannot run; without jax, if that is a built-in one.

    Raises:
      InputError: naming the key.
    """
    declared(config.mesh.strategy).check(config)


def runs(config: Config, mode: Mode) -> bool:
    """Return whether the strategy of a configuration can run it in another `sampling.mode`."""
    try:
        check(replace(config, sampling=replace(config.sampling, mode=mode)))
    except InputError:
        return False
    return True


def make_engine(config: Config, graph: "HetGraph", **options: Any) -> "Engine":
    """Make the engine that trains an open graph, as a configuration says.

    Args:
      **options: the options of `setup`.

    Raises:
      InputError: as the strategy does.
    """
    from hetjax.sharding.strategy import setup

    check(config)
    strategy, run = find(config), setup(config, graph, **options)
    return strategy.engine(run, strategy.partition(run))
