"""Reader of a configuration, in JSON or YAML, which is checked before any table is opened.

What is wrong, or not supported, is named with its place, `graph.json: nodes[1].features[0].transform.name`. As far as they do not
depend on each other, all errors are found in one run.
"""

import codecs
import json
import math
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from hetjax.graph.schema import Relation
from hetjax.ingest import declared, tables
from hetjax.ingest.declared import SPLIT_PCT, Configuration, EdgeTable, Feature, Format, Label, NodeTable, Pattern
from hetjax.ingest.several import Errors
from hetjax.ingest.transforms import TRANSFORMS, make
from hetjax.system import yaml_file
from hetjax.system.errors import InputError, reading, short
from hetjax.system.files import read_bytes

LARGEST = 2**26  # bytes: fitted values of categories may be many
MOST = 2**63  # of a whole number


def read(file: Path, root: Path, leave_out: bool = False, look: bool = True) -> Configuration:
    """Read and check a configuration.

    Args:
      root: the folder in which relative paths of files begin.
      leave_out: what is not supported is left out, and said in `left_out`; if not, it is an error.
      look: whether the files must be there.

    Raises:
      InputError: for what is wrong, missing or not supported, with its place; further errors are warnings before.
    """
    content = _load(file)
    _check_numbers(content, str(file))
    return _Reader(str(file), root, leave_out, look).read(content)


def _load(file: Path) -> Any:
    if file.suffix in (".yaml", ".yml"):
        return yaml_file.read(file)
    with reading(file):
        text = read_bytes(file, LARGEST).decode("utf-8-sig")
        try:
            return json.loads(text, object_pairs_hook=_unique)
        except json.JSONDecodeError as error:
            raise InputError(f"{file}: line {error.lineno}, column {error.colno}: {error.msg}") from None


def _is_text(given: Any) -> bool:
    return isinstance(given, str)


def _unique(pairs: list[tuple[str, Any]]) -> dict:
    members = dict(pairs)
    if len(members) < len(pairs):
        key = Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"the key {short(repr(key))} is given twice")
    return members


def _check_numbers(content: Any, file: str) -> None:
    """Raise an InputError for a number that is not finite, or has over 64 bits, which no key takes."""
    waiting = [(content, "")]
    while waiting:
        value, place = waiting.pop()
        if isinstance(value, dict):
            waiting += [(one, f"{place}.{short(str(key), 80)}".lstrip(".")) for key, one in value.items()]
        elif isinstance(value, list):
            waiting += [(one, f"{place}[{number}]") for number, one in enumerate(value)]
        elif isinstance(value, float) and not math.isfinite(value):
            raise InputError(f"{file}: {place}: {value}, and should be a finite number")
        elif isinstance(value, int) and not -MOST <= value < MOST:
            digits = f"a whole number of over {value.bit_length() * 3 // 10} digits"
            raise InputError(f"{file}: {place}: {digits}, and should have at most 64 bits")


class _Reader:
    """Reader of the parts, which knows the file to name."""

    def __init__(self, file: str, root: Path, leave_out: bool, look: bool):
        self.file, self.root, self.leave_out, self.look = file, root, leave_out, look
        self.left_out: list[str] = []
        self.errors = Errors()

    def read(self, content: Any) -> Configuration:
        self._keys(content, declared.TOP, ("nodes", "edges"), "")
        version = content.get("version", declared.VERSION)
        if version != declared.VERSION:
            raise InputError(f"{self.file}: version {short(repr(version))} != {declared.VERSION!r}")
        given_nodes, given_edges = self._list(content, "nodes", ""), self._list(content, "edges", "")
        nodes = self._each(self._node, given_nodes)
        named = [entry.get("node_type") for entry, _ in given_nodes if isinstance(entry, dict)]
        types = {name for name in named if isinstance(name, str)} | {table.node_type for table in nodes}
        edges = self._each(lambda entry, place: self._edge(entry, place, types), given_edges)
        for table in nodes:
            for column, (other, _) in table.foreign_keys.items():
                with self.errors.collected():
                    if other not in types:
                        where = f"{self.file}: {table.place}.foreign_keys.{column}"
                        raise InputError(f"{where}: {self._undeclared(other, types)}")
        edge_tables = tuple(replace(edge, place=f"{self.file}: {edge.place}") for edge in edges)
        reverse = content.get("add_reverse_edges", False)
        if not isinstance(reverse, bool):
            raise InputError(f"{self.file}: add_reverse_edges: {short(repr(reverse))}, and should be true or false")
        self.errors.check()
        return Configuration(tuple(nodes), edge_tables, reverse, content, tuple(self.left_out))

    def _each(self, read: Callable[[Any, str], Any], given: Sequence[tuple[Any, str]]) -> list:
        """Read each, and return what is not left out; errors are collected."""
        results = []
        for entry, place in given:
            with self.errors.collected():
                results.append(read(entry, place))
        return [one for one in results if one is not None]

    def _node(self, entry: Any, place: str) -> NodeTable:
        self._keys(entry, declared.NODE, ("node_type", "files", "format"), place)
        form = self._format(entry, place)
        features = self._each(self._feature, self._list(entry, "features", place))
        labels = self._labels(entry, place, declared.NODE_TASKS)
        given = entry.get("foreign_keys") or {}
        if not isinstance(given, dict):
            raise InputError(
                f"{self.file}: {place}.foreign_keys: {short(repr(given))}, and should be {{column: node type}}"
            )
        keys = {name: self._key(one, f"{place}.foreign_keys.{name}") for name, one in given.items()}
        return NodeTable(
            self._text(entry, "node_type", place),
            self._files(entry["files"], f"{place}.files"),
            form,
            self._text(entry, "node_id_col", place) if entry.get("node_id_col") is not None else None,
            tuple(features),
            labels,
            keys,
            place,
        )

    def _key(self, given: Any, place: str) -> tuple[str, str]:
        """Return the node type that a foreign key refers to, and which way its edges go."""
        entry = {"node_type": given} if isinstance(given, str) else given
        self._keys(entry, {"node_type", "edges"}, ("node_type",), place)
        way = entry.get("edges", declared.WAYS[0])
        if way not in declared.WAYS:
            raise InputError(f"{self.file}: {place}.edges: {short(repr(way))}, and may be {', '.join(declared.WAYS)}")
        return self._text(entry, "node_type", place), way

    def _edge(self, entry: Any, place: str, types: set[str]) -> EdgeTable | None:
        if isinstance(entry, dict) and entry.get("features"):
            self._unsupported(f"{place}.features", "features of edges")
        ends = ("source_id_col", "dest_id_col")
        if isinstance(entry, dict) and not any(end in entry for end in ends):
            hint = "; edges need source_id_col and dest_id_col"
            self._unsupported(place, "a table of edges without ids", hint)
            return None
        required = ("relation", "files", "format", *ends)
        self._keys(entry, declared.EDGE | {"features"}, required, place)
        parts = entry["relation"]
        if not isinstance(parts, list) or len(parts) != 3 or not all(isinstance(part, str) for part in parts):
            raise InputError(
                f"{self.file}: {place}.relation: {short(repr(parts))}, and should be [source, name, target]"
            )
        for end in (parts[0], parts[2]):
            if end not in types:
                raise InputError(f"{self.file}: {place}.relation: {self._undeclared(end, types)}")
        return EdgeTable(
            Relation(*parts),
            self._files(entry["files"], f"{place}.files"),
            self._format(entry, place),
            self._text(entry, "source_id_col", place),
            self._text(entry, "dest_id_col", place),
            self._text(entry, "weight_col", place) if "weight_col" in entry else None,
            self._labels(entry, place, declared.EDGE_TASKS),
            place,
        )

    def _format(self, entry: dict, place: str) -> Format:
        given, where = entry["format"], f"{place}.format"
        self._keys(given, declared.FORMAT, ("name",), where)
        if given["name"] not in declared.FORMATS:
            raise InputError(
                f"{self.file}: {where}.name: {short(repr(given['name']))} is not supported; csv, parquet and hdf5 are"
            )
        separator = given.get("separator", ",")
        if not isinstance(separator, str) or len(separator) != 1 or not separator.isascii():
            raise InputError(
                f"{self.file}: {where}.separator: {short(repr(separator))}, and should be one character of ASCII"
            )
        if separator in '"\r\n\0':
            raise InputError(f"{self.file}: {where}.separator: {separator!r} is a quote, or ends lines")
        nulls = self._several(given, "null_values", where, (str, int, float), [""])
        encoding, explicit = self._encoding(given, where), "null_values" in given
        return Format(given["name"], separator, tuple(map(str, nulls)), encoding, explicit)

    def _encoding(self, given: dict, where: str) -> str:
        """Return the name of an encoding of texts that Python has."""
        name = given.get("encoding", "utf8")
        try:
            found = codecs.lookup(name) if isinstance(name, str) else None
            with suppress(UnicodeError):
                b"  ".decode(name)  # refuses what is no encoding of texts
        except (LookupError, ValueError, TypeError):
            found = None
        if found is None:
            raise InputError(f"{self.file}: {where}.encoding: {short(repr(name), 80)} is no encoding")
        return "utf8" if found.name in ("utf-8", "utf-8-sig") else name

    def _feature(self, entry: Any, place: str) -> Feature | None:
        transform = (isinstance(entry, dict) and entry.get("transform")) or {}
        if not isinstance(transform, dict) or not isinstance(transform.get("name", ""), str | None):
            raise InputError(f'{self.file}: {place}.transform: {short(repr(transform))}, and should be {{"name": ...}}')
        if transform.get("name") not in TRANSFORMS:
            names = ", ".join(map(str, filter(None, TRANSFORMS)))
            what = f"transform {short(repr(transform['name']))}"
            self._unsupported(f"{place}.transform.name", what, f"; known are {names}")
            return None
        self._keys(entry, declared.FEATURE, ("feature_col",), place)
        columns = entry["feature_col"]
        columns = (columns,) if isinstance(columns, str) else self._several(entry, "feature_col", place, str)
        if not columns:
            raise InputError(f"{self.file}: {place}.feature_col: no column")
        dtype = entry.get("out_dtype", "float32")
        if dtype not in declared.DTYPES:
            raise InputError(
                f"{self.file}: {place}.out_dtype: {short(repr(dtype))}, and may be {', '.join(declared.DTYPES)}"
            )
        where = f"{place}.transform"
        self._keys(transform, {"name"} | TRANSFORMS[transform.get("name")].KEYS, (), where)
        feature = Feature(
            tuple(columns), transform, "float32" if dtype == "float64" else dtype, f"{self.file}: {where}"
        )
        make(feature.transform, feature.place)  # which checks its options
        return feature

    def _labels(self, entry: dict, place: str, tasks: Sequence[str]) -> tuple[Label, ...]:
        """Return the columns of labels of a table of nodes or edges."""
        found = self._each(lambda one, where: self._label(one, where, tasks), self._list(entry, "labels", place))
        for name, times in Counter(label.name for label in found).items():
            if times > 1:
                raise InputError(f"{self.file}: {place}.labels: {times} are called {short(repr(name), 80)}")
        return tuple(found)

    def _label(self, entry: Any, place: str, tasks: Sequence[str]) -> Label | None:
        task = entry.get("task_type") if isinstance(entry, dict) else None
        if task not in (None, *tasks):
            self._unsupported(f"{place}.task_type", f"task {short(repr(task))}", f"; here {' and '.join(tasks)} are")
            return None
        links = task == "link_prediction"
        allowed = declared.LABEL - ({"label_col", "classes"} if links else set())
        self._keys(entry, allowed, ("task_type",) if links else ("label_col", "task_type"), place)
        shares = self._several(entry, "split_pct", place, (int, float), SPLIT_PCT)
        if len(shares) != 3 or not all(share >= 0 for share in shares) or sum(shares) > 1 + 1e-9:
            raise InputError(
                f"{self.file}: {place}.split_pct: {short(repr(shares))}, and should be three shares of at most 1"
            )
        given = entry.get("custom_split_filenames") or {}
        self._keys(given, declared.SPLIT_FILES, (), f"{place}.custom_split_filenames")
        files = {
            name: self._files(given[name], f"{place}.{name}")
            for name in declared.SPLIT_FILES - {"column"}
            if given.get(name)
        }
        columns = [given["column"]] if isinstance(given.get("column"), str) else given.get("column", [])
        ends = len(tasks) > len(declared.NODE_TASKS)
        if not isinstance(columns, list) or len(columns) not in (0, 1 + ends) or not all(map(_is_text, columns)):
            expected = "two texts, of the ends" if ends else "a text"
            raise InputError(
                f"{self.file}: {place}.custom_split_filenames.column: {short(repr(columns))}, and should be {expected}"
            )
        classes = tuple(map(str, self._several(entry, "classes", place, (str, int), ())))
        if twice := [name for name, times in Counter(classes).items() if times > 1]:
            raise InputError(f"{self.file}: {place}.classes: {short(repr(twice[0]), 80)} is given twice")
        return Label(
            str(task),
            "" if links else self._text(entry, "label_col", place),
            tuple(map(float, shares)),
            files,
            tuple(columns),
            self._split_by(entry.get("split_by"), f"{place}.split_by"),
            classes,
            f"{self.file}: {place}",
        )

    def _split_by(self, given: Any, place: str) -> tuple[str, tuple[str | float, str | float]] | None:
        if given is None:
            return None
        self._keys(given, {"column", "from"}, ("column", "from"), place)
        ends = given["from"]
        if not isinstance(ends, list) or len(ends) != 2:
            raise InputError(
                f"{self.file}: {place}.from: {short(repr(ends))}, and should be [first of validation, first of test]"
            )
        numbers = [isinstance(end, int | float) and not isinstance(end, bool) for end in ends]
        if not all(number or isinstance(end, str) for number, end in zip(numbers, ends)) or numbers[0] != numbers[1]:
            raise InputError(f"{self.file}: {place}.from: {short(repr(ends))}, and should be two numbers or two texts")
        try:
            first, second = map(float, ends)
        except ValueError:
            first, second = ends
        if first > second:
            raise InputError(f"{self.file}: {place}.from: {short(repr(ends))}, and the first should not come after")
        return self._text(given, "column", place), (ends[0], ends[1])

    def _files(self, given: Any, place: str) -> tuple[Pattern, ...]:
        patterns: Sequence[Any] = [given] if isinstance(given, str) else given if isinstance(given, list) else []
        if not patterns or not all(isinstance(pattern, str) for pattern in patterns):
            raise InputError(
                f"{self.file}: {place}: {short(repr(given))}, and should be a file, a pattern, or a list of some"
            )
        for pattern in patterns:
            if "\0" in pattern or not pattern:
                raise InputError(f"{self.file}: {place}: {short(repr(pattern))} is no name of a file")
        found = tuple(Pattern(self.root, pattern) for pattern in patterns)
        with self.errors.collected():
            if self.look:
                tables.paths(found)
        return found

    def _text(self, entry: dict, key: str, place: str) -> str:
        given = entry[key]
        if isinstance(given, list) and len(given) == 1:
            given = given[0]
        if not isinstance(given, str):
            raise InputError(f"{self.file}: {place}.{key}: {short(repr(given))}, and should be a text")
        return given

    def _list(self, entry: dict, key: str, place: str) -> list[tuple[Any, str]]:
        given = [] if entry.get(key) is None else entry[key]
        if not isinstance(given, list):
            where = f"{place}.{key}".lstrip(".")
            raise InputError(f"{self.file}: {where}: {type(given).__name__}, and should be a list")
        return [(one, f"{place}.{key}[{number}]".lstrip(".")) for number, one in enumerate(given)]

    def _several(self, entry: dict, key: str, place: str, kinds: Any, default: Sequence = ()) -> tuple:
        """Return the values that a key lists, each of one of some kinds; `default` where it is not given."""
        given = entry.get(key, default)
        if not isinstance(given, list | tuple) or not all(
            isinstance(one, kinds) and not isinstance(one, bool) for one in given
        ):
            names = "texts" if kinds is str else "numbers" if str not in kinds else "texts or numbers"
            raise InputError(f"{self.file}: {place}.{key}: {short(repr(given))}, and should be a list of {names}")
        return tuple(given)

    def _keys(self, given: Any, allowed: set[str], required: Sequence[str], place: str) -> None:
        where = f"{self.file}: {place}" if place else self.file
        if not isinstance(given, dict):
            raise InputError(f"{where}: {short(repr(given))}, and should have keys")
        for key in required:
            if key not in given:
                raise InputError(f"{where}: lacks {key!r}")
        for key in given:
            if key not in allowed:
                near = get_close_matches(str(key), allowed, 1)
                hint = f"; the nearest is {near[0]!r}" if near else ""
                self._unsupported(f"{place}.{key}".lstrip("."), "this key", hint)

    def _undeclared(self, name: str, types: set[str]) -> str:
        return f"node type {short(repr(name))} is not declared among {', '.join(sorted(types))}"

    def _unsupported(self, place: str, what: str, hint: str = "") -> None:
        if not self.leave_out:
            raise InputError(f"{self.file}: {place}: {what} is not supported{hint}; --leave_out true leaves it out")
        self.left_out.append(f"{place}: {what}")
