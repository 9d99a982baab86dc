"""Every option with its values, its default and its help: the text of `--help`, and the documentation's reference."""

import argparse
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from types import MappingProxyType, NoneType, UnionType
from typing import Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

from docstring_parser import parse_from_object

from hetjax.options import owners

NAMES = {int: "INTEGER", float: "NUMBER", str: "TEXT", bool: "{true,false}"}


class Option(NamedTuple):
    """One key of a section.

    Attributes:
      name: `section.key`, or `key` where the section has no name.
      values: what it takes, as `--help` says that.
      default: as it is written on the command line; empty if there is none.
      words: its help.
    """

    name: str
    values: str
    default: str
    words: str


def options(name: str, section: type) -> list[Option]:
    """Return the options of a section of the configuration, a dataclass with a docstring per field."""
    kinds = [kind for kind in reversed(section.__mro__) if is_dataclass(kind)]  # one may add to another's keys
    words = {param.arg_name: param.description for kind in kinds for param in parse_from_object(kind).params}
    types = get_type_hints(section)
    return [
        Option(f"{name}.{key.name}".lstrip("."), values(types[key.name]), written(key.default), words[key.name] or "")
        for key in fields(section)
    ]


def values(kind: Any) -> str:
    """Return the values that an option of a type takes."""
    if get_origin(kind) is Literal:
        return f"{{{','.join(get_args(kind))}}}"
    if get_origin(kind) is UnionType and NoneType not in get_args(kind):
        return "|".join(map(values, get_args(kind)))
    if get_origin(kind) is tuple:
        return f"[{values(get_args(kind)[0])},...]"
    if NoneType in get_args(kind):  # such an option may be left unset
        return values(next(inner for inner in get_args(kind) if inner is not NoneType))
    return NAMES.get(kind, kind.__name__.upper())


def written(default: Any) -> str:
    """Return a default, in the form in which one writes it."""
    if isinstance(default, tuple):
        return f"[{','.join(map(str, default))}]"
    return "" if default is None else str(default).lower() if isinstance(default, bool) else str(default)


def title(section: type) -> str:
    """Return the first line of a section's docstring."""
    return (section.__doc__ or "").splitlines()[0].rstrip(".")


def shown(sections: Mapping[str, type], chosen: Mapping[str, str]) -> tuple[dict[str, type], list[str]]:
    """Return the sections that `--help` lists, and lines that say how to see the others.

    Args:
      sections: a dataclass per section.
      chosen: the reader, the model and the strategy by `data.format` and its like; the default where one is absent.
    """
    listed, lines = dict(sections), []
    for kind in owners.KINDS:
        name = chosen.get(kind.chooser, kind.default)
        others = [owner for owner in owners.sections(kind) if owner != name and owner in listed]
        for owner in others:
            del listed[owner]
        if others:
            lines.append(f"--{kind.chooser} NAME --help lists the options of a {kind.member}: {', '.join(others)}.")
    return listed, lines


def help_text(
    sections: Mapping[str, type],
    paths: Mapping[str, str],
    prog: str,
    description: str,
    chosen: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """Return the text of `--help`: the options that are shared or of a chosen member, each once, under its section.

    Args:
      sections: a dataclass per section, as in `command_line.parse`.
      paths: further options that must be given, with their help.
      chosen: as of `shown`.
    """
    listed, others = shown(sections, chosen)
    own = [] if "config" in paths else ["[--config FILE.yaml]"]
    usage = " ".join([prog, *own, *(f"--{name} PATH" for name in paths), "[--OPTION VALUE ...]"])
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        usage=usage, description=description, add_help=False, allow_abbrev=False, formatter_class=form
    )
    general = parser.add_argument_group("General")
    general.add_argument("-h", "--help", action="store_true", help="print this text and exit")
    if own:
        words = "a file of the options below; the command line overrides it"
        general.add_argument("--config", metavar="FILE.yaml", help=words)
    general.add_argument("--print_config", action="store_true", help="print the value of every option and exit")
    general.add_argument("--verbose", action="store_true", help="also print details, such as where the time went")
    for name, words in paths.items():
        general.add_argument(f"--{name}", metavar="PATH", help=_plain(f"{words} (required)"))
    for name, section in listed.items():
        group = parser.add_argument_group(_plain(title(section)))
        for option in options(name, section):
            default = f" (default: {option.default})" if option.default else ""
            group.add_argument(f"--{option.name}", metavar=option.values, help=_plain(option.words + default))
    parser.epilog = _plain("\n".join(others)) or None
    return parser.format_help()


def _plain(words: str) -> str:
    """Return text in which argparse replaces nothing."""
    return words.replace("%", "%%")
