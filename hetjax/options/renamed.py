"""Names that options had before they moved to the section of their reader, model or task: they are still read, with a line that gives the new one."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields
from functools import cache
from typing import Any

from hetjax.options.config import SECTIONS
from hetjax.options.owners import KINDS, MODEL, READER, TASK, Kind, sections
from hetjax.system.logs import log

BEFORE = {"data": READER, "model": MODEL, "train": TASK}  # the sections that options were in
_told: set[str] = set()


@cache
def old_names() -> dict[str, dict[str, str]]:
    """Return, by old name, the new name of every member that owns the option."""
    found: dict[str, dict[str, str]] = {}
    for section, kind in BEFORE.items():
        shared = {key.name for key in fields(SECTIONS[section])}
        for owner, options in sections(kind).items():
            for key in fields(options):
                before = key.metadata.get("before", key.name)  # None: the option is new
                if before and before not in shared:
                    found.setdefault(f"{section}.{before}", {})[owner] = f"{owner}.{key.name}"
    return found


def new_name(key: str, chosen: Mapping[str, str]) -> str:
    """Return the name that an option has now; of an option that several members own that of the chosen one.

    Args:
      key: `section.key`, an old name or one that is in use.
      chosen: the reader, the model and the task by `data.format`, `model.name` and `task.name`.
    """
    owners = old_names().get(key)
    if not owners:
        return key
    kind = BEFORE[key.split(".")[0]]
    return owners.get(chosen.get(kind.chooser, kind.default)) or next(iter(owners.values()))


def renamed(values: Mapping[str, Any], chosen: Mapping[str, str], told: bool = False) -> dict[str, Any]:
    """Return options by their names now. An option of a reader that is not the chosen one, which was never read, is left out.

    Args:
      values: by `section.key`.
      chosen: as of `new_name`.
      told: whether a line gives each new name.
    """
    found: dict[str, Any] = {}
    for key, value in values.items():
        new = new_name(key, chosen)
        if new != key and key.startswith("data.") and new.split(".")[0] != chosen.get("data.format", READER.default):
            if told:
                _tell(f"{key} is given, and is not read with data.format {chosen.get('data.format', READER.default)}")
            continue
        if new != key and told:
            _tell(f"{key} is now {new}")
        found[new] = value
    return found


def _tell(line: str) -> None:
    """Log a line, once."""
    if line not in _told:
        _told.add(line)
        log.info(line)


def content(read: Any, chosen: Mapping[str, str] | None = None, told: bool = False) -> Any:
    """Return what a file of sections holds, with the names that its options have now; of anything else, that itself.

    Args:
      read: the content of the file.
      chosen: as of `new_name`; None: as the file says.
      told: as of `renamed`.
    """
    if not isinstance(read, dict) or not has_old(read):
        return read
    chosen = chosen_by(read) if chosen is None else chosen
    kept: dict[str, Any] = {name: keys for name, keys in read.items() if name not in BEFORE}
    for section in BEFORE:
        if not isinstance(keys := read.get(section, {}), dict):
            kept[section] = keys
            continue
        if section in read:
            kept[section] = {}
        for full, value in renamed({f"{section}.{key}": value for key, value in keys.items()}, chosen, told).items():
            name, key = full.split(".", 1)
            if isinstance(keys_now := kept.get(name) or {}, dict):  # else whoever checks the sections says what it is
                kept[name] = keys_now | {key: value}
    return kept


def without_other_readers(file: str, read: Any, chosen: Mapping[str, str], told: bool = False) -> Any:
    """Return what a file of sections holds but for those of readers that are not chosen, as its graph may be replaced by another.

    Args:
      file: that a line names.
      read: the content of the file.
      chosen, told: as of `renamed`.
    """
    reader = chosen.get(READER.chooser, READER.default)
    others = sections(READER).keys() - {reader}
    if not isinstance(read, dict) or not others & read.keys():
        return read
    for name in others & read.keys() if told else ():
        _tell(f"{file}: section {name} is not read with data.format {reader}")
    return {name: keys for name, keys in read.items() if name not in others}


def has_old(read: Mapping[str, Any]) -> bool:
    """Return whether a file of sections has old names."""
    keys = [f"{section}.{key}" for section in BEFORE if isinstance(read.get(section), dict) for key in read[section]]
    return any(key in old_names() for key in keys)


def chosen_by(read: Mapping[str, Any]) -> dict[str, str]:
    """Return what a file of sections chooses, by `data.format` and its like."""
    found = {}
    for kind in KINDS:
        section, key = kind.chooser.split(".")
        keys = read.get(section)
        if isinstance(keys, dict) and isinstance(keys.get(key), str):
            found[kind.chooser] = keys[key]
    return found


def arguments(given: Sequence[str], chosen: Mapping[str, str], told: bool = True) -> list[str]:
    """Return the arguments of a command line, with the names that options have now."""
    found: list[str] = []
    rest = list(given)
    while rest:
        argument = rest.pop(0)
        name, equals, value = argument[2:].partition("=") if argument.startswith("--") else ("", "", "")
        if name not in old_names():
            found.append(argument)
            continue
        if not equals:
            value = rest.pop(0) if rest else ""
        found += [f"--{new}={value}" for new in renamed({name: value}, chosen, told)]
    return found


def implied_model(keys: Collection[str]) -> str | None:
    """Return the model whose options are given, where `model.name` is not; None: no model's are, or those of several."""
    owners = {key.split(".")[0] for key in keys} & sections(MODEL).keys()
    return owners.pop() if len(owners) == 1 and MODEL.chooser not in keys else None


def described(kind: Kind) -> str:
    """Return the members of a kind that have options, for `--help`."""
    return ", ".join(sections(kind))
