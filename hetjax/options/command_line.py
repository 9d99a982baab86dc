"""The command line, and the YAML file that it may name: sections of configuration, each error one line, and how a command ends."""

import contextlib
import re
import sys
import tempfile
from argparse import HelpFormatter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import yaml
from jsonargparse import ArgumentParser
from jsonargparse.typing import register_type

from hetjax.options import owners, reference, renamed
from hetjax.options.config import SECTIONS, Bytes, Config, check_numbers, flat
from hetjax.options.names import hint
from hetjax.system import runtime, yaml_file
from hetjax.system.errors import InputError, ending, nearest, reading, short
from hetjax.system.files import check_name
from hetjax.system.logs import log, shown

LONGEST_LINE = 2000  # characters of an error
VERBOSE = "--verbose"  # which every command takes, and `run_command` reads

register_type(Bytes, serializer=int)

KINDS = {
    "int": "a whole number",
    "float": "a number",
    "Bytes": "a whole number, or a number with a unit such as 2GB or 2GiB",
}


class Parser(ArgumentParser):
    """A command line whose errors are one line that names the nearest known option, and whose help is `reference`'s."""

    help: Callable[[], str]

    def format_help(self, formatter: HelpFormatter | None = None) -> str:
        return self.help()

    def error(self, message: str, ex: Exception | None = None) -> NoReturn:
        text = " ".join(str(message).split())
        malformed = re.fullmatch(
            r'Parser key "(?P<key>[^"]+)": (?:Expected an? (?P<kind>.+?)\. Got value|Not of type (?P<own>\w+)): ?(?P<value>.*)',
            text,
        )
        if malformed:
            kind = (
                (malformed["kind"] or malformed["own"])
                .replace("typing.Literal", "one of ")
                .removeprefix("<class '")
                .removesuffix("'>")
            )
            example = "25,20" if malformed["key"].endswith("fanout") else "a,b"
            kind = (
                f"a list such as [{example}] (in quotes if it has spaces)" if kind == "tuple" else KINDS.get(kind, kind)
            )
            text = f"{malformed['key']} is {malformed['value']}, and should be {kind}"
        several = re.fullmatch(
            r'Parser key "(?P<key>[^"]+)": Does not validate against any of the Union subtypes Subtypes: .*?'
            r"Given value type: .*? Given value: (?P<value>.*)",
            text,
        )
        if several:
            kind = owners.expected(several["key"]) or KINDS["int" if "<class 'int'>" in text else "float"]
            text = f"{several['key']} is {several['value']}, and should be {kind}"
        missing = re.fullmatch(r"the following arguments are required: (.+)", text)
        if missing:
            text = ", ".join(f"--{name} is required" for name in missing[1].split(", "))
        raise InputError(short(text))


def parse(
    sections: dict[str, type], arguments: Sequence[str], prog: str, description: str, paths: dict[str, str]
) -> tuple[dict, dict]:
    """Read sections of configuration from a command line and the YAML file that its `--config` names.

    Args:
      sections: a dataclass per section. The keys of one named `""` stand alone, `--key`, and in the file if there are no
        other sections; a key of it that is true or false may be given without a value, and is then true.
      arguments: the command line.
      prog, description: for `--help`.
      paths: further options that every command line must give, with their help. One named `config` is a file of another kind,
        and there is no file of options then.

    Returns:
      `(a dataclass instance per section, the further options)`.

    Raises:
      InputError: an unknown or malformed option, in the file or on the command line.
    """
    arguments = [argument for argument in arguments if argument != VERBOSE]
    for argument in arguments:
        check_name(argument)
    parser = Parser(prog=prog, allow_abbrev=False)
    parser.help = lambda: reference.help_text(sections, paths, prog, description, _chosen(arguments, "config" in paths))
    if "config" not in paths:
        parser.add_argument("--config", action="config")
    for name in paths:
        parser.add_argument(f"--{name}", required=True)
    for name, section in sections.items():
        if name:
            parser.add_argument(f"--{name}", type=section, default=section())
        else:
            parser.add_class_arguments(section)
    known = [f"{name}.{key.name}".lstrip(".") for name, section in sections.items() for key in fields(section)]
    named = Given([], list(arguments)) if "config" in paths else given(arguments, told=True)
    _check_options(named.options, [*paths, "config", "help", "print_config", *known])
    filed = {name: section for name, section in sections.items() if name} or sections
    for file, content in named.files:
        _check_content(Path(file), content, filed)
    return _instances(parser, sections, named._replace(options=_bare_flags(named.options, sections.get(""))), paths)


def _instances(
    parser: Parser, sections: dict[str, type], named: "Given", paths: dict[str, str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the two results of `parse`."""
    alone = [key.name for key in fields(sections[""])] if "" in sections else []
    source = f"--config {', '.join(file for file, _ in named.files)}" if named.files else "the command line"
    try:
        with reading(source), named.current_files() as files:
            parsed = parser.instantiate(parser.parse_args([*(f"--config={file}" for file in files), *named.options]))
            instances = {
                n: parsed[n] if n else section(**{key: parsed[key] for key in alone}) for n, section in sections.items()
            }
            for name, section in instances.items():
                check_numbers(name, section)
    except InputError as error:
        raise InputError(f"{_place(str(error), named)}{error}") from None
    return instances, {name: parsed[name] for name in paths}


class Given(NamedTuple):
    """The files that a command line names and its other arguments, with the names that options have now.

    Attributes:
      files: the path and the content of each file of `--config`.
      options: the other arguments.
    """

    files: list[tuple[str, Any]]
    options: list[str]

    def keys(self) -> set[str]:
        """Return the options, `section.key`, that are given."""
        filed = {key for _, content in self.files for key in flat(content)}
        return filed | {option[2:].partition("=")[0] for option in self.options if option.startswith("--")}

    @contextlib.contextmanager
    def current_files(self) -> Iterator[list[str]]:
        """Give the paths of the files; a file whose content changed is written anew for as long as this lasts."""
        with contextlib.ExitStack() as stack:
            paths = []
            for path, content in self.files:
                if content != yaml_file.read(path):
                    file = stack.enter_context(tempfile.NamedTemporaryFile("w", suffix=".yaml", encoding="utf-8"))
                    yaml.safe_dump(content, file, allow_unicode=True)
                    file.flush()
                    path = file.name
                paths.append(path)
            yield paths


def given(arguments: Sequence[str], told: bool = False) -> Given:
    """Return what a command line gives. An option of a model's own chooses that model, where `model.name` is not given.

    Args:
      told: whether a line gives the new name of each option that has an old one.

    Raises:
      InputError: a file cannot be read.
    """
    files, options = _split_config(arguments)
    chosen = _chosen(arguments)
    read = [(file, renamed.content(yaml_file.read(file), chosen, told)) for file in files]
    read = [(file, renamed.without_other_readers(file, content, chosen, told)) for file, content in read]
    found = Given(read, renamed.arguments(options, chosen, told))
    implied = renamed.implied_model(found.keys())
    return found._replace(options=[*found.options, f"--{owners.MODEL.chooser}={implied}"]) if implied else found


def _chosen(arguments: Sequence[str], alone: bool = False) -> dict[str, str]:
    """Return the reader, the model and the strategy that a command line names, by `data.format` and its like.

    Args:
      alone: the file of `--config` is one of another kind.
    """
    if alone:
        return {}
    named = {kind.chooser: given_value(arguments, kind.chooser) for kind in owners.KINDS}
    return {chooser: name for chooser, name in named.items() if name}


def read_sections(file: Path, sections: dict[str, type]) -> dict[str, Any]:
    """Return a dataclass instance per section from a YAML file; other sections that the file has are not read.

    Raises:
      InputError: an unknown key, or a malformed value, in these sections.
    """
    content = renamed.content(yaml_file.read(file))
    if isinstance(content, dict):
        content = {name: keys for name, keys in content.items() if name in sections}
    _check_content(file, content, sections)
    parser = Parser(prog="", allow_abbrev=False)
    for name, section in sections.items():
        parser.add_argument(f"--{name}", type=section, default=section())
    try:
        with reading(file):
            parsed = parser.instantiate(parser.parse_object(content))
            for name in sections:
                check_numbers(name, parsed[name])
    except InputError as error:
        words = str(error)
        raise InputError(words if words.startswith(str(file)) else f"{file}: {words}") from None
    return {name: parsed[name] for name in sections}


def config_of(file: Path) -> Config:
    """Return the configuration of a run but for its mesh and the options of strategies: its model is used on one device.

    Nothing that the file names is imported.
    """
    shared = {name: section for name, section in SECTIONS.items() if name != "mesh"}
    sections = read_sections(file, shared | owners.chooser_sections())
    try:
        return Config(**{name: sections[name] for name in shared} | owners.choosers_of(sections))
    except InputError as error:
        raise InputError(f"{file}: {error}") from None


def given_value(arguments: Sequence[str], key: str) -> str | None:
    """The value that a command line, or a file that its `--config` names, gives a key; None if none does.

    For what must be known before the command line can be read: which strategy's section of the configuration there is.

    Raises:
      InputError: a file cannot be read.
    """
    files, options = _split_config(arguments)
    value = None
    for file in files:
        value = flat(yaml_file.read(file)).get(key, value)
    for option, following in zip(options, [*options[1:], None]):
        if option == f"--{key}":
            value = following
        elif option.startswith(f"--{key}="):
            value = option.partition("=")[2]
    return value if isinstance(value, str) else None


def given_options(arguments: Sequence[str]) -> set[str]:
    """The options, `section.key`, that a command line and the files that its `--config` names give.

    Raises:
      InputError: a file cannot be read.
    """
    return given(arguments).keys()


def _place(words: str, named: Given) -> str:
    """Return the file that has the key that an error is about, and a colon; nothing if the command line gave it."""
    key = words.split(" ", 1)[0]
    if any(option.split("=", 1)[0] == f"--{key}" for option in named.options):
        return ""
    having = [file for file, content in named.files if key in flat(content)]
    return f"{having[-1]}: " if having else ""


def _bare_flags(options: Sequence[str], section: type | None) -> list[str]:
    """Return the options, with `=true` after each flag of a section that no value follows."""
    flags = {f"--{key.name}" for key in fields(section) if key.type in (bool, "bool")} if section else set()
    after = [*options[1:], "--"]
    return [f"{o}=true" if o in flags and following.startswith("--") else o for o, following in zip(options, after)]


def _split_config(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the files given by `--config`, and the other arguments."""
    files, others, rest = [], [], list(arguments)
    while rest:
        argument = rest.pop(0)
        if argument == "--config" and rest:
            files.append(rest.pop(0))
        elif argument.startswith("--config="):
            files.append(argument.removeprefix("--config="))
        else:
            others.append(argument)
    return files, others


def _check_options(arguments: Sequence[str], known: list[str]) -> None:
    for argument in arguments:
        name = argument[2:].split("=", 1)[0]
        if argument.startswith("--") and name not in known:
            raise InputError(f"unknown option --{name}{hint(name, known, '--')}")


def _check_content(file: Path, content: Any, sections: dict[str, type]) -> None:
    if not isinstance(content, dict):
        raise InputError(
            f"{file}: {type(content).__name__}, and there should be {'keys' if '' in sections else f'sections {sorted(sections)}'}"
        )
    if "" in sections:
        content = {"": content}
    for name, keys in content.items():
        if name not in sections:
            tables = (
                "; this is a description of tables: python -m hetjax.ingest makes a graph of it"
                if "nodes" in content
                else ""
            )
            raise InputError(f"{file}: unknown section {name!r}{tables or nearest(name, list(sections))}")
        if not isinstance(keys, dict):
            raise InputError(f"{file}: section {name!r} is {keys!r}, and there should be keys")
        known = [key.name for key in fields(sections[name])]
        for key, value in keys.items():
            place = f"{name}.{key}".lstrip(".")
            if value is None and key != "feature_learning_rate":
                raise InputError(f"{file}: {place} has no value")
            if key not in known:
                raise InputError(f"{file}: unknown key {place}{_hint_in_file(name, str(key), known, sections)}")


def _hint_in_file(section: str, key: str, known: list[str], sections: dict[str, type]) -> str:
    """Return what a key of a file is called here, or the nearest key of its section."""
    everywhere = [f"{name}.{field.name}".lstrip(".") for name, keys in sections.items() for field in fields(keys)]
    words = hint(key, everywhere)
    near = words.startswith(("; the nearest", "; known are"))
    return nearest(key, known, f"{section}.".lstrip(".")) if near else words


def run_command(main: Callable, arguments: Sequence[str] | None = None) -> None:
    """Run a command; an error that a user can mend is one line, and the exit status is as `errors.ending` says."""
    runtime.listen()
    _run(main, arguments)


def check_command(read: Callable) -> None:
    """Check a command line, for its help and errors, before the command's modules are imported, which may take seconds."""
    _run(read, None)


def _run(main: Callable, arguments: Sequence[str] | None) -> None:
    given = sys.argv[1:] if arguments is None else arguments
    with shown(VERBOSE in given):
        try:
            main(given)
        except KeyboardInterrupt as error:
            log.warning("stopped; the same command continues from the last checkpoint, if there is one")
            status = runtime.stopped_status(error)
            if arguments is None:
                runtime.leave(status)
            sys.exit(status)
        except Exception as error:
            line_and_status = ending(error)
            if line_and_status is None:
                raise
            line, status = line_and_status
            log.error(short(line, LONGEST_LINE))
            sys.exit(status)
