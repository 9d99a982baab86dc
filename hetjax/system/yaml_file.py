"""YAML as users and run folders give it: every file and option is read here, within bounds, and by no other loader.

An alias costs nothing to write and doubles what it stands in, a mapping keeps the last of two equal keys, and digits take
the square of their number to read: so aliases are refused, equal keys too, and size, nesting and digits are bounded.
"""

import io
import os
import re
from collections.abc import Hashable
from typing import Any, ClassVar

import yaml

from hetjax.system.errors import InputError, reading, short
from hetjax.system.files import open_regular
from hetjax.system.internals import set_yaml_loader

LARGEST = 2**17  # characters
DEEPEST = 32  # lists and mappings within each other
DIGITS = 80  # of a number, its sign and its base among them

FLOAT = "tag:yaml.org,2002:float"
EXPONENT = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)[eE][-+]?[0-9]+$")  # a number in YAML 1.2, but a string in 1.1


class _Loader(yaml.SafeLoader):
    """Loader of plain values alone, within the bounds; a date is a string."""

    yaml_implicit_resolvers: ClassVar = {  # type: ignore[misc]  # of the class, whatever its stubs say
        first: [(tag, form) for tag, form in ones if not tag.endswith(":timestamp")]
        for first, ones in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def __init__(self, text: str):
        if len(text) > LARGEST:
            raise yaml.YAMLError(f"over {LARGEST} characters")
        super().__init__(text)
        self.depth = 0

    def compose_node(self, parent, index):
        event = self.peek_event()
        if isinstance(event, yaml.AliasEvent) or event.anchor is not None:
            raise yaml.composer.ComposerError(None, None, "anchors and aliases are not read", event.start_mark)
        if self.depth > DEEPEST:
            raise yaml.composer.ComposerError(None, None, f"nested over {DEEPEST} deep", event.start_mark)
        self.depth += 1
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node

    def construct_mapping(self, node, deep=False):
        keys = set()
        for key_node, _ in node.value if isinstance(node, yaml.MappingNode) else ():
            key = self.construct_object(key_node, deep=True)
            if isinstance(key, Hashable) and key in keys:
                problem = f"the key {short(str(key))!r} is given twice"
                raise yaml.constructor.ConstructorError(None, None, problem, key_node.start_mark)
            keys |= {key} if isinstance(key, Hashable) else set()
        return super().construct_mapping(node, deep)

    def construct_number(self, node):
        if len(node.value) > DIGITS:
            problem = f"a number of {len(node.value)} characters, and {DIGITS} are read"
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)
        return (self.construct_yaml_float if node.tag == FLOAT else self.construct_yaml_int)(node)


_Loader.add_implicit_resolver(FLOAT, EXPONENT, list("-+0123456789."))
for _tag in (FLOAT, "tag:yaml.org,2002:int"):
    _Loader.add_constructor(_tag, _Loader.construct_number)
set_yaml_loader(_Loader)


def read(file: str | os.PathLike) -> Any:
    """Return the content of a file in YAML, as plain values.

    Raises:
      InputError: it cannot be read, is no YAML or exceeds a bound; with the line.
    """
    with reading(file), io.TextIOWrapper(open_regular(file), "utf-8") as stream:
        try:
            return yaml.load(stream.read(LARGEST + 1), _Loader)
        except yaml.YAMLError as error:
            raise InputError(f"{file}: {reason(error)}") from None


def reason(error: yaml.YAMLError) -> str:
    """Return what is wrong, and where, on one line of bounded length."""
    if not isinstance(error, yaml.MarkedYAMLError):
        return short(str(error))
    mark = error.problem_mark or error.context_mark
    place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
    return place + short(", ".join(filter(None, (error.context, error.problem))))
