"""The declarations of a configuration: the tables of GraphStorm's gconstruct, version gconstruct-v0.1, and what hetjax adds.

Added are `foreign_keys` of nodes, `weight_col` of edges, `null_values` and
`encoding` of csv, `fill` of transforms, `split_by` and `classes` of labels, `add_reverse_edges` at the top.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hetjax.graph.columns import LABEL_NAME
from hetjax.graph.schema import Relation

VERSION = "gconstruct-v0.1"
TOP = {"version", "nodes", "edges", "is_homogeneous", "add_reverse_edges"}
NODE = {"node_type", "files", "format", "node_id_col", "features", "labels", "foreign_keys"}
EDGE = {"relation", "files", "format", "source_id_col", "dest_id_col", "weight_col", "labels"}
FORMATS = "csv", "parquet", "hdf5"
FORMAT = {"name", "separator", "null_values", "encoding"}
FEATURE = {"feature_col", "feature_name", "feature_dim", "out_dtype", "transform"}
LABEL = {"label_col", "task_type", "split_pct", "custom_split_filenames", "label_stats_type", "mask_field_names"}
LABEL |= {"split_by", "classes"}
NODE_TASKS = "classification", "regression"
EDGE_TASKS = *NODE_TASKS, "link_prediction"
SPLIT_FILES = {"train", "valid", "test", "column"}
WAYS = "to", "from", "both"  # edges of a foreign key: to what it refers to, from there, or both
DTYPES = "float16", "float32", "float64"
SPLIT_PCT = (0.8, 0.1, 0.1)


@dataclass(frozen=True)
class Pattern:
    """A file, or a pattern of the names of several, as the configuration gives it; relative ones begin in `root`."""

    root: Path
    name: str

    @property
    def path(self) -> Path:
        return self.root / self.name

    def __fspath__(self) -> str:
        return str(self.path)


@dataclass(frozen=True)
class Format:
    """The format of the files of a table; `explicit`: whether the configuration gives `null_values`."""

    name: str
    separator: str = ","
    null_values: tuple[str, ...] = ("",)
    encoding: str = "utf8"
    explicit: bool = False


@dataclass(frozen=True)
class Feature:
    """Columns that become columns of the feature matrix, by one transform, a dictionary with its `name`."""

    columns: tuple[str, ...]
    transform: Mapping[str, Any]
    dtype: str
    place: str


@dataclass(frozen=True)
class Label:
    """A column to predict, and how its rows are split: by shares, by files per split, or by ranges of a column.

    Attributes:
      task: of `EDGE_TASKS`.
      column: where the labels are; empty of links to predict, which have none.
      files_columns: in files of splits: of ids, or of both ends.
    """

    task: str
    column: str
    shares: tuple[float, ...]
    files: Mapping[str, tuple[Pattern, ...]]
    files_columns: tuple[str, ...]
    by: tuple[str, tuple[str | float, str | float]] | None
    classes: tuple[str, ...]
    place: str

    @property
    def name(self) -> str:
        """The name of the graph's column: that of the table's, in which a dot would divide type and name."""
        return self.column.replace(".", "_") or LABEL_NAME

    @property
    def numeric(self) -> bool:
        """Return whether labels are numbers, not classes."""
        return self.task == "regression"

    @property
    def kinds(self) -> dict[str, str]:
        """The columns of the table that are read, each with its kind."""
        labels = {self.column: "number" if self.numeric else "text"} if self.column else {}
        return ({self.by[0]: "text"} if self.by else {}) | labels


@dataclass(frozen=True)
class NodeTable:
    """A table of nodes; `foreign_keys` are columns with the node type that each refers to, and which way edges go."""

    node_type: str
    files: tuple[Pattern, ...]
    format: Format
    id_column: str | None
    features: tuple[Feature, ...]
    labels: tuple[Label, ...]
    foreign_keys: Mapping[str, tuple[str, str]]
    place: str


@dataclass(frozen=True)
class EdgeTable:
    """A table of edges."""

    relation: Relation
    files: tuple[Pattern, ...]
    format: Format
    source: str
    target: str
    weight: str | None
    labels: tuple[Label, ...]
    place: str


@dataclass(frozen=True)
class Configuration:
    """All tables, and whether relations get reverses. `left_out` says what was not supported, if that was to be left out."""

    nodes: tuple[NodeTable, ...]
    edges: tuple[EdgeTable, ...]
    add_reverse_edges: bool
    content: dict
    left_out: tuple[str, ...]
