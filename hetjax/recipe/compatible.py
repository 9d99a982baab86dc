"""Choices that are compatible with the options that are given; others are left out."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from hetjax import models
from hetjax.graph.hetgraph import HetGraph
from hetjax.models import hgnn
from hetjax.options import owners
from hetjax.options.config import Config
from hetjax.sharding import registry
from hetjax.system.errors import InputError
from hetjax.tasks import registry as tasks


class Choice(NamedTuple):
    """An option that was not given, its value, and the reason for it."""

    key: str
    value: Any
    why: str


def applied(config: Config, choices: Sequence[Choice]) -> Config:
    """Return the configuration with some choices.

    Raises:
      InputError: they do not go together.
    """
    sections = dict(owners.sections_of(config))
    for key, value, _ in choices:
        section, name = key.split(".")
        sections[section] = replace(sections.get(section) or owners.all_sections()[section](), **{name: value})
    return registry.config_of(sections)


def compatible(config: Config, graph: HetGraph, choices: Sequence[Choice]) -> Iterator[Choice]:
    """Yield the choices that go with a configuration and with each other: all of them, or those before which nothing stands in the way.

    Raises:
      InputError: the options that are given do not go together.
    """
    if _obstacle(config, graph, choices) is None:
        yield from choices
        return
    kept = [choice for choice in choices if choice.key in ("model.name", "data.metapath_hops")]
    if obstacle := _obstacle(config, graph, kept):
        raise obstacle
    for choice in choices:
        if choice in kept:
            yield choice
        elif _obstacle(config, graph, [*kept, choice]) is None:
            kept.append(choice)
            yield choice


def _obstacle(config: Config, graph: HetGraph, choices: Sequence[Choice]) -> InputError | None:
    """Return why a model with some choices is refused; None if it can be made."""
    try:
        tried = applied(config, choices)
        options = models.options(tried.model)
        if not tried.data.metapath_hops:  # which make another graph of it
            widths = {name: matrix.shape[1] for name, matrix in graph.features.items()}
            model_graph = models.folded(tried.model.name, graph)
            hgnn.build(
                models.find(tried.model.name), model_graph.schema, widths, tasks.make(tried, model_graph), **options
            )
    except InputError as error:
        return error
    return None
