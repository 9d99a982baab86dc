"""Sections of options that one reader, one model, one strategy or one task owns: their list, and the check that they go
with what is chosen."""

import importlib
import importlib.util
from collections.abc import Mapping
from dataclasses import fields, replace
from functools import cache
from typing import Any, NamedTuple, get_args, get_type_hints

from hetjax.options.config import SECTIONS, Config, Data, Model, SharedData, SharedModel, SharedTask, Task, changed
from hetjax.system.errors import InputError


class Kind(NamedTuple):
    """A door whose members own sections of options.

    Attributes:
      chooser: the option that names the member.
      member: what the member is called in a sentence.
      declared: the module of a member's `Options`, with the name for `{}`.
      names: the built-in members.
    """

    chooser: str
    member: str
    declared: str
    names: tuple[str, ...]

    @property
    def default(self) -> str:
        """The member that is chosen if no option names one."""
        section, key = self.chooser.split(".")
        return getattr(SECTIONS[section](), key)


READER = Kind(
    "data.format",
    "reader",
    "hetjax.datasets.declared.{}",
    get_args(get_type_hints(SharedData)["format"]),
)
MODEL = Kind(
    "model.name",
    "model",
    "hetjax.models.declared.{}",
    ("rgcn", "rgat", "hgt", "sehgnn", "gcn", "sage", "gin", "gat", "gatv2"),
)
STRATEGY = Kind(
    "mesh.strategy",
    "strategy",
    "hetjax.sharding.{}.declared",
    ("single", "raf", "vanilla", "dependency", "tensor", "averaging"),
)
TASK = Kind(
    "task.name",
    "task",
    "hetjax.tasks.declared.{}",
    ("node_classification", "node_regression", "edge_classification", "edge_regression", "several"),
)
KINDS = (READER, MODEL, STRATEGY, TASK)
SEVERAL = "several"  # the task that has others
CHOOSERS: tuple[tuple[str, Kind, type, type], ...] = (
    ("data", READER, Data, SharedData),
    ("model", MODEL, Model, SharedModel),
    ("task", TASK, Task, SharedTask),
)  # sections of a `Config` that hold those of a member: the kind, the class, and the class of the shared options


@cache
def sections(kind: Kind) -> dict[str, type]:
    """Return the sections that the built-in members of a kind own, by their names."""
    found = {}
    for name in kind.names:
        module = kind.declared.format(name)
        options = importlib.util.find_spec(module) and getattr(importlib.import_module(module), "Options", None)
        if options:
            found[name] = options
    return found


def all_sections() -> dict[str, type]:
    """Return the shared sections and those of all built-in members, by their names."""
    return SECTIONS | chooser_sections() | sections(STRATEGY)


def chooser_sections() -> dict[str, type]:
    """Return the sections that built-in readers, models and tasks own, by their names."""
    return sections(READER) | sections(MODEL) | sections(TASK)


def kind_of(section: str) -> Kind | None:
    """Return the kind whose member owns a section; None for a shared one and for a strategy of a user's own."""
    return next((kind for kind in KINDS if section in sections(kind)), None)


def expected(key: str) -> str:
    """Return the form that an error expects of an option, if its field states it; else nothing."""
    section, _, name = key.partition(".")
    found = {field.name: field for field in fields(all_sections().get(section, SharedTask))}
    return found[name].metadata.get("expected", "") if name in found else ""


def own(chooser: Data | Model | Task, name: str) -> Any:
    """Return a section of a `Data`, a `Model` or a `Task`, with its defaults where it is absent; None if no member of that name has one."""
    kind = next(kind for _, kind, of, _ in CHOOSERS if isinstance(chooser, of))
    options = sections(kind).get(name)
    return chooser.own.get(name) or (options and options())


def reader_options(data: Data) -> Any:
    """Return the options of the reader that is chosen; None if it has none."""
    return own(data, data.format)


def chosen_own(kind: Kind, chosen: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the sections of a kind that go with the chosen member, from those that are given.

    A model of a user's own takes the options of any built-in one that it has, which `models.options` checks; and a task likewise.

    Raises:
      InputError: an option of another member is set.
    """
    known = sections(kind)
    if kind in (MODEL, TASK) and (":" in chosen or chosen == SEVERAL):
        own = {chosen: given.get(chosen) or known[chosen]()} if chosen in known else {}
        return {name: section for name, section in given.items() if name in known and changed(section)} | own
    for name, section in given.items():
        for key, value in changed(section).items() if name in known and name != chosen else ():
            raise InputError(f"{name}.{key} is {value}, and is for {kind.chooser} {name}; it is {chosen}")
    return {chosen: given.get(chosen) or known[chosen]()} if chosen in known else {}


def data_of(given: Mapping[str, Any]) -> Data:
    """Return the `Data` of sections by name, as `choosers_of`."""
    return choosers_of(given)["data"]


def choosers_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the `Data`, the `Model` and the `Task` of sections by name.

    Raises:
      InputError: an option of another reader, model or task is set.
    """
    found = {}
    for name, kind, made, shared in CHOOSERS:
        section = given.get(name) or shared()
        chosen = getattr(section, kind.chooser.split(".")[1])
        found[name] = made(**_keys(section, shared), own=chosen_own(kind, chosen, given))
    found["task"] = _aimed(found["task"])
    return found


def _aimed(task: Task) -> Task:
    """Return the options of a task; of several targets the first is the column that the graph is read with.

    Raises:
      InputError: `task.target` names another.
    """
    if task.name != SEVERAL:
        return task
    first = targets(task)[0]
    if task.target not in ("", first):
        raise InputError(
            f"task.target is {task.target}, and with task.name several it is the first of several.targets, {first or 'of which there is none'}"
        )
    return replace(task, target=first)


def targets(task: Task) -> tuple[str, ...]:
    """Return the columns of labels that a task predicts, as the options name them; one empty name is the graph's own."""
    named = own(task, SEVERAL).named if task.name == SEVERAL else []
    return tuple(column for column, _ in named) or ("",)


def task_names(task: Task) -> tuple[str, ...]:
    """Return the name of a task and of those that it has, `MODULE:NAME` among them."""
    named = own(task, SEVERAL).named if task.name == SEVERAL else []
    return (task.name, *(kind for _, kind in named if kind))


def _keys(section: Any, kind: type) -> dict[str, Any]:
    return {key.name: getattr(section, key.name) for key in fields(kind)}


def model_option(key: str) -> str:
    """Return the full name, `section.key`, of an option of a model."""
    found = (name for name, options in sections(MODEL).items() if key in {own.name for own in fields(options)})
    return f"{next(found, 'model')}.{key}"


def made_model(**options: Any) -> Model:
    """Return a `Model` of options by their last names, shared ones and those of the model that `name` chooses."""
    shared = {key.name for key in fields(SharedModel)}
    name = options.get("name", Model.name)
    parts = {section: {key.name for key in fields(options_)} for section, options_ in sections(MODEL).items()}
    found: dict[str, Any] = {"model": SharedModel(**{k: v for k, v in options.items() if k in shared})}
    for key in options.keys() - shared:
        owner = name if key in parts.get(name, ()) else next((s for s, keys in parts.items() if key in keys), None)
        if owner is None:
            raise InputError(f"model {name} has no option {key!r}")
        found.setdefault(owner, {})[key] = options[key]
    return choosers_of({s: sections(MODEL)[s](**v) if isinstance(v, dict) else v for s, v in found.items()})["model"]


def made_data(format: str = SharedData.format, **options: Any) -> Data:
    """Return a `Data` of options by their last names, shared ones and those of the reader that `format` chooses."""
    shared = {key.name for key in fields(SharedData)}
    reader = sections(READER).get(format)
    own = {key: value for key, value in options.items() if key not in shared}
    taken = {key: value for key, value in options.items() if key in shared}
    given = {"data": SharedData(format=format, **taken)}  # type: ignore[arg-type]
    if own and reader is None:
        raise InputError(f"data.format {format} has no options of its own, and {', '.join(own)} is given")
    return data_of(given | ({format: reader(**own)} if reader else {}))


def sections_of(config: Config) -> dict[str, Any]:
    """Return the sections of a configuration by name, those of members too."""
    found = {name: getattr(config, name) for name in SECTIONS}
    for name, _, _, shared in CHOOSERS:
        found |= {name: shared(**_keys(found[name], shared))} | dict(found[name].own)
    return found | dict(config.strategies)


def made_task(name: str = SharedTask.name, **options: Any) -> Task:
    """Return a `Task` of options by their last names, shared ones and those of the task that `name` chooses."""
    shared = {key.name for key in fields(SharedTask)}
    own = {key: value for key, value in options.items() if key not in shared}
    taken = SharedTask(name=name, **{key: value for key, value in options.items() if key in shared})
    return choosers_of({"task": taken} | ({name: sections(TASK)[name](**own)} if own else {}))["task"]
