"""What a configuration says: the JSON of GraphStorm's gconstruct, version gconstruct-v0.1, or the same in YAML, and what hetjax adds.

Everything is checked before any table is opened, and what is wrong, or not supported, is named with its place:
`graph.json: nodes[1].features[0].transform.name`. Added are `foreign_keys` of nodes, `weight_col` of edges, `null_values` and
`encoding` of csv, `fill` of transforms, `split_by` and `classes` of labels, `add_reverse_edges` at the top.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from hetjax import yaml_file
from hetjax.errors import InputError, reading, short
from hetjax.graph.schema import Relation
from hetjax.ingest.transforms import TRANSFORMS

VERSION = "gconstruct-v0.1"
LARGEST = 2**26  # bytes: fitted values of categories may be many
TOP = {"version", "nodes", "edges", "is_homogeneous", "add_reverse_edges"}
NODE = {"node_type", "files", "format", "node_id_col", "features", "labels", "foreign_keys"}
EDGE = {"relation", "files", "format", "source_id_col", "dest_id_col", "weight_col"}
FORMATS = "csv", "parquet", "hdf5"
FORMAT = {"name", "separator", "null_values", "encoding"}
FEATURE = {"feature_col", "feature_name", "feature_dim", "out_dtype", "transform"}
LABEL = {"label_col", "task_type", "split_pct", "custom_split_filenames", "label_stats_type", "mask_field_names"}
LABEL |= {"split_by", "classes"}
SPLIT_FILES = {"train", "valid", "test", "column"}
WAYS = "to", "from", "both"  # edges of a foreign key: to what it refers to, from there, or both
DTYPES = "float16", "float32", "float64"
SPLIT_PCT = (0.8, 0.1, 0.1)


@dataclass(frozen=True)
class Format:
    """How the files of a table are read."""

    name: str
    separator: str = ","
    null_values: tuple[str, ...] = ("",)
    encoding: str = "utf8"


@dataclass(frozen=True)
class Feature:
    """Columns that become columns of the feature matrix, by one transform, a dictionary with its `name`."""

    columns: tuple[str, ...]
    transform: Mapping[str, Any]
    dtype: str
    place: str


@dataclass(frozen=True)
class Label:
    """The column to predict, and how its nodes are split: by shares, by files per split, or by ranges of a column."""

    column: str
    shares: tuple[float, ...]
    files: Mapping[str, tuple[Path, ...]]
    files_column: str
    by: tuple[str, tuple[str, str]] | None
    classes: tuple[str, ...]
    place: str


@dataclass(frozen=True)
class NodeTable:
    """A table of nodes; `foreign_keys` are columns with the node type that each refers to, and which way edges go."""

    node_type: str
    files: tuple[Path, ...]
    format: Format
    id_column: str | None
    features: tuple[Feature, ...]
    label: Label | None
    foreign_keys: Mapping[str, tuple[str, str]]
    place: str


@dataclass(frozen=True)
class EdgeTable:
    """A table of edges."""

    relation: Relation
    files: tuple[Path, ...]
    format: Format
    source: str
    target: str
    weight: str | None
    place: str


@dataclass(frozen=True)
class Configuration:
    """All tables, and whether relations get reverses. `left_out` says what was not supported, if that was to be left out."""

    nodes: tuple[NodeTable, ...]
    edges: tuple[EdgeTable, ...]
    add_reverse_edges: bool
    content: dict
    left_out: tuple[str, ...]


def read(file: Path, root: Path, leave_out: bool = False) -> Configuration:
    """Read and check a configuration.

    Args:
      root: the folder in which relative paths of files begin.
      leave_out: what is not supported is left out, and said in `left_out`; if not, it is an error.

    Raises:
      InputError: for the first thing that is wrong, missing or not supported, with its place.
    """
    content = _load(file)
    reader = _Reader(str(file), root, leave_out)
    return reader.read(content)


def _load(file: Path) -> Any:
    if file.suffix in (".yaml", ".yml"):
        return yaml_file.read(file)
    with reading(file), open(file, encoding="utf-8-sig") as stream:
        text = stream.read(LARGEST + 1)
        if len(text) > LARGEST:
            raise InputError(f"{file}: over {LARGEST} characters")
        try:
            return json.loads(text, object_pairs_hook=_unique)
        except json.JSONDecodeError as error:
            raise InputError(f"{file}: line {error.lineno}, column {error.colno}: {error.msg}") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict:
    keys = [key for key, _ in pairs]
    for key in keys:
        if keys.count(key) > 1:
            raise ValueError(f"the key {short(repr(key))} is given twice")
    return dict(pairs)


class _Reader:
    """Reads the parts, and knows the file to name."""

    def __init__(self, file: str, root: Path, leave_out: bool):
        self.file, self.root, self.leave_out = file, root, leave_out
        self.left_out: list[str] = []

    def read(self, content: Any) -> Configuration:
        self._keys(content, TOP, ("nodes", "edges"), "")
        version = content.get("version", VERSION)
        if version != VERSION:
            raise InputError(f"{self.file}: version {short(repr(version))} != {VERSION!r}")
        nodes = [self._node(about, place) for about, place in self._list(content, "nodes", "")]
        types = {table.node_type for table in nodes}
        given = [self._edge(about, place, types) for about, place in self._list(content, "edges", "")]
        edges = [table for table in given if table is not None]
        for table in nodes:
            for column, (other, _) in table.foreign_keys.items():
                if other not in types:
                    raise InputError(
                        f"{self.file}: {table.place}.foreign_keys.{column}: {self._undeclared(other, types)}"
                    )
        made = tuple(replace(edge, place=f"{self.file}: {edge.place}") for edge in edges)
        reverse = content.get("add_reverse_edges", False)
        if not isinstance(reverse, bool):
            raise InputError(f"{self.file}: add_reverse_edges: {short(repr(reverse))}, and should be true or false")
        return Configuration(tuple(nodes), made, reverse, content, tuple(self.left_out))

    def _node(self, about: Any, place: str) -> NodeTable:
        self._keys(about, NODE, ("node_type", "files", "format"), place)
        form = self._format(about, place)
        features = [self._feature(one, where) for one, where in self._list(about, "features", place)]
        labels = [self._label(one, where) for one, where in self._list(about, "labels", place)]
        known = [label for label in labels if label is not None]
        if len(known) > 1:
            raise InputError(f"{self.file}: {place}.labels: {len(known)} labels, and hetjax predicts one")
        given = about.get("foreign_keys") or {}
        if not isinstance(given, dict):
            raise InputError(
                f"{self.file}: {place}.foreign_keys: {short(repr(given))}, and should be {{column: node type}}"
            )
        keys = {name: self._key(one, f"{place}.foreign_keys.{name}") for name, one in given.items()}
        return NodeTable(
            self._text(about, "node_type", place),
            self._files(about["files"], f"{place}.files"),
            form,
            self._text(about, "node_id_col", place) if about.get("node_id_col") is not None else None,
            tuple(feature for feature in features if feature is not None),
            known[0] if known else None,
            keys,
            place,
        )

    def _key(self, given: Any, place: str) -> tuple[str, str]:
        """The node type that a foreign key refers to, and which way its edges go."""
        about = {"node_type": given} if isinstance(given, str) else given
        self._keys(about, {"node_type", "edges"}, ("node_type",), place)
        way = about.get("edges", WAYS[0])
        if way not in WAYS:
            raise InputError(f"{self.file}: {place}.edges: {short(repr(way))}, and may be {', '.join(WAYS)}")
        return self._text(about, "node_type", place), way

    def _edge(self, about: Any, place: str, types: set[str]) -> EdgeTable | None:
        for key, what in (("features", "features of edges"), ("labels", "labels of edges")):
            if isinstance(about, dict) and about.get(key):
                self._unsupported(f"{place}.{key}", what)
        ends = ("source_id_col", "dest_id_col")
        if isinstance(about, dict) and not any(end in about for end in ends):
            hint = "; edges need source_id_col and dest_id_col"
            self._unsupported(place, "a table of edges without ids", hint)
            return None
        required = ("relation", "files", "format", *ends)
        self._keys(about, EDGE | {"features", "labels"}, required, place)
        parts = about["relation"]
        if not isinstance(parts, list) or len(parts) != 3 or not all(isinstance(part, str) for part in parts):
            raise InputError(
                f"{self.file}: {place}.relation: {short(repr(parts))}, and should be [source, name, target]"
            )
        for end in (parts[0], parts[2]):
            if end not in types:
                raise InputError(f"{self.file}: {place}.relation: {self._undeclared(end, types)}")
        return EdgeTable(
            Relation(*parts),
            self._files(about["files"], f"{place}.files"),
            self._format(about, place),
            self._text(about, "source_id_col", place),
            self._text(about, "dest_id_col", place),
            self._text(about, "weight_col", place) if "weight_col" in about else None,
            place,
        )

    def _format(self, about: dict, place: str) -> Format:
        given, where = about["format"], f"{place}.format"
        self._keys(given, FORMAT, ("name",), where)
        if given["name"] not in FORMATS:
            raise InputError(
                f"{self.file}: {where}.name: {short(repr(given['name']))} is not supported; csv, parquet and hdf5 are"
            )
        separator = given.get("separator", ",")
        if not isinstance(separator, str) or len(separator) != 1 or not separator.isascii():
            raise InputError(
                f"{self.file}: {where}.separator: {short(repr(separator))}, and should be one character of ASCII"
            )
        nulls = self._several(given, "null_values", where, (str, int, float), [""])
        return Format(given["name"], separator, tuple(map(str, nulls)), str(given.get("encoding", "utf8")))

    def _feature(self, about: Any, place: str) -> Feature | None:
        transform = (isinstance(about, dict) and about.get("transform")) or {}
        if not isinstance(transform, dict) or not isinstance(transform.get("name", ""), str | None):
            raise InputError(f'{self.file}: {place}.transform: {short(repr(transform))}, and should be {{"name": ...}}')
        if transform.get("name") not in TRANSFORMS:
            known = ", ".join(map(str, filter(None, TRANSFORMS)))
            what = f"transform {short(repr(transform['name']))}"
            self._unsupported(f"{place}.transform.name", what, f"; known are {known}")
            return None
        self._keys(about, FEATURE, ("feature_col",), place)
        columns = about["feature_col"]
        columns = (columns,) if isinstance(columns, str) else self._several(about, "feature_col", place, str)
        if not columns:
            raise InputError(f"{self.file}: {place}.feature_col: no column")
        dtype = about.get("out_dtype", "float32")
        if dtype not in DTYPES:
            raise InputError(f"{self.file}: {place}.out_dtype: {short(repr(dtype))}, and may be {', '.join(DTYPES)}")
        where = f"{place}.transform"
        self._keys(transform, {"name"} | TRANSFORMS[transform.get("name")].KEYS, (), where)
        return Feature(tuple(columns), transform, "float32" if dtype == "float64" else dtype, f"{self.file}: {where}")

    def _label(self, about: Any, place: str) -> Label | None:
        task = about.get("task_type") if isinstance(about, dict) else None
        if task not in (None, "classification"):
            self._unsupported(f"{place}.task_type", f"task {short(repr(task))}", "; classification is")
            return None
        self._keys(about, LABEL, ("label_col", "task_type"), place)
        shares = self._several(about, "split_pct", place, (int, float), SPLIT_PCT)
        if len(shares) != 3 or not all(share >= 0 for share in shares) or sum(shares) > 1 + 1e-9:
            raise InputError(
                f"{self.file}: {place}.split_pct: {short(repr(shares))}, and should be three shares of at most 1"
            )
        given = about.get("custom_split_filenames") or {}
        self._keys(given, SPLIT_FILES, (), f"{place}.custom_split_filenames")
        files = {
            name: self._files(given[name], f"{place}.{name}") for name in SPLIT_FILES - {"column"} if given.get(name)
        }
        column = given.get("column", "")
        column = column[0] if isinstance(column, list) and column else column
        return Label(
            self._text(about, "label_col", place),
            tuple(map(float, shares)),
            files,
            str(column),
            self._split_by(about.get("split_by"), f"{place}.split_by"),
            tuple(map(str, self._several(about, "classes", place, (str, int), ()))),
            f"{self.file}: {place}",
        )

    def _split_by(self, given: Any, place: str) -> tuple[str, tuple[str, str]] | None:
        if given is None:
            return None
        self._keys(given, {"column", "from"}, ("column", "from"), place)
        ends = given["from"]
        if not isinstance(ends, list) or len(ends) != 2:
            raise InputError(
                f"{self.file}: {place}.from: {short(repr(ends))}, and should be [first of validation, first of test]"
            )
        return str(given["column"]), (str(ends[0]), str(ends[1]))

    def _files(self, given: Any, place: str) -> tuple[Path, ...]:
        patterns: Sequence[Any] = [given] if isinstance(given, str) else given if isinstance(given, list) else []
        if not patterns or not all(isinstance(pattern, str) for pattern in patterns):
            raise InputError(
                f"{self.file}: {place}: {short(repr(given))}, and should be a file, a pattern, or a list of some"
            )
        return tuple(self.root / pattern for pattern in patterns)

    def _text(self, about: dict, key: str, place: str) -> str:
        given = about[key]
        if isinstance(given, list) and len(given) == 1:
            given = given[0]
        if not isinstance(given, str):
            raise InputError(f"{self.file}: {place}.{key}: {short(repr(given))}, and should be a text")
        return given

    def _list(self, about: dict, key: str, place: str) -> list[tuple[Any, str]]:
        given = [] if about.get(key) is None else about[key]
        if not isinstance(given, list):
            where = f"{place}.{key}".lstrip(".")
            raise InputError(f"{self.file}: {where}: {type(given).__name__}, and should be a list")
        return [(one, f"{place}.{key}[{number}]".lstrip(".")) for number, one in enumerate(given)]

    def _several(self, about: dict, key: str, place: str, kinds: Any, default: Sequence = ()) -> tuple:
        """What a key lists, each of one of some kinds; `default` where it is not given."""
        given = about.get(key, default)
        if not isinstance(given, list | tuple) or not all(isinstance(one, kinds) for one in given):
            names = "texts" if kinds is str else "numbers" if str not in kinds else "texts or numbers"
            raise InputError(f"{self.file}: {place}.{key}: {short(repr(given))}, and should be a list of {names}")
        return tuple(given)

    def _keys(self, given: Any, known: set[str], required: Sequence[str], place: str) -> None:
        where = f"{self.file}: {place}" if place else self.file
        if not isinstance(given, dict):
            raise InputError(f"{where}: {short(repr(given))}, and should have keys")
        for key in required:
            if key not in given:
                raise InputError(f"{where}: lacks {key!r}")
        for key in given:
            if key not in known:
                near = get_close_matches(str(key), known, 1)
                hint = f"; the nearest is {near[0]!r}" if near else ""
                self._unsupported(f"{place}.{key}".lstrip("."), "this key", hint)

    def _undeclared(self, name: str, types: set[str]) -> str:
        return f"node type {short(repr(name))} is not declared among {', '.join(sorted(types))}"

    def _unsupported(self, place: str, what: str, hint: str = "") -> None:
        if not self.leave_out:
            raise InputError(f"{self.file}: {place}: {what} is not supported{hint}; --leave_out true leaves it out")
        self.left_out.append(f"{place}: {what}")
