"""The edges of a graph's relations, each read when it is asked for, so that two are never in memory."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from tqdm import tqdm

from hetjax.casts.column import is_text
from hetjax.casts.ids import CANONICAL
from hetjax.casts.reverses import missing_reverses
from hetjax.casts.rows import as_weights
from hetjax.graph.csc import CSC
from hetjax.graph.grouping import Piece
from hetjax.graph.pieces import Pieces
from hetjax.graph.schema import Relation
from hetjax.ingest import tables
from hetjax.ingest.declared import EdgeTable, NodeTable
from hetjax.ingest.edge_labels import EdgeLabels
from hetjax.ingest.finder import Finder
from hetjax.ingest.in_order import in_order
from hetjax.ingest.nodes import Nodes
from hetjax.system.errors import InputError, short
from hetjax.system.logs import log, timed


class ForeignKey(NamedTuple):
    """A column of a table of nodes that refers to nodes of another type."""

    table: NodeTable
    column: str
    target: str
    turned: bool = False

    @property
    def relation(self) -> Relation:
        forward = Relation(self.table.node_type, self.column, self.target)
        return forward.reverse if self.turned else forward


class Edges(Mapping):
    """The edges per relation, by target.

    Args:
      edges, keys: where they are read.
      nodes: of every node type.
      reverse: give every relation's reverse too, after it.
      skip: leave out edges whose ends are no nodes, and count them in `skipped`; if not, they are an error.
      bar: of bytes that are read.
    """

    def __init__(
        self,
        edges: Sequence[EdgeTable],
        keys: Sequence[ForeignKey],
        nodes: Mapping[str, Nodes],
        reverse: bool,
        skip: bool,
        bar: tqdm,
    ):
        self.finders = {name: one.finder for name, one in nodes.items()}
        self.orders = {name: one.orders for name, one in nodes.items()}
        self.skip, self.bar = skip, bar
        self.sources: dict[Relation, list[EdgeTable | ForeignKey]] = {}
        for table in edges:
            self.sources.setdefault(table.relation, []).append(table)
        for key in keys:
            self.sources.setdefault(key.relation, []).append(key)
        reverses = missing_reverses(self.sources) if reverse else {}
        self.relations: dict[Relation, Relation] = {}  # each with the one that is read
        for relation in self.sources:
            self.relations[relation] = relation
            if relation in reverses:
                self.relations[reverses[relation]] = relation
        self.skipped: dict[Relation, int] = {}
        self.read: dict[Relation, Pieces] = {}
        self.labelled: dict[str, EdgeLabels] = {}  # by the place of the table, once that is read

    def __iter__(self) -> Iterator[Relation]:
        return iter(self.relations)

    def __len__(self) -> int:
        return len(self.relations)

    def __contains__(self, relation: object) -> bool:
        return relation in self.relations  # a mapping's own would read it

    def __getitem__(self, relation: Relation) -> CSC:
        if relation not in self.read:
            self.read = {}  # before the next are read
            with timed(f"{relation}: read"):
                self._read(self.relations[relation])
        with timed(f"{relation}: by target"):
            return self.read.pop(relation).csc()

    def known(self) -> list[Relation]:
        """Return the relations of which the nodes of both ends, and of the table of a foreign key, are known: all, unless these had errors."""
        return [relation for relation in self if {relation.source, relation.target} <= self.finders.keys()]

    def _read(self, origin: Relation) -> None:
        """Read a relation, and its reverse if that is given too."""
        weighted = {isinstance(one, EdgeTable) and bool(one.weight) for one in self.sources[origin]}
        if len(weighted) == 2:
            raise InputError(f"relation {origin}: some of its tables have weight_col, and others have none")
        for relation in (origin, origin.reverse):
            if self.relations.get(relation) == origin:
                ends = self.finders[relation.source].count, self.finders[relation.target].count
                self.read[relation] = Pieces(*ends, *weighted)

        def spread(edges: tuple[np.ndarray, ...]) -> list[Piece]:
            source, target, *weights = edges
            ways = [(source, target) if relation == origin else (target, source) for relation in self.read]
            return [pieces.spread(*way, *weights) for way, pieces in zip(ways, self.read.values())]

        for one in self.sources[origin]:
            for batch in in_order(spread, self._key(one) if isinstance(one, ForeignKey) else self._table(one)):
                for pieces, piece in zip(self.read.values(), batch):
                    pieces.add(piece)

    def _table(self, table: EdgeTable) -> Iterator[tuple[np.ndarray, ...]]:
        finders = self.finders[table.relation.source], self.finders[table.relation.target]
        names = table.source, table.target
        kinds = dict.fromkeys(names, "text")
        if names[0] == names[1]:
            raise InputError(f"{table.place}: source_id_col and dest_id_col are both {names[0]!r}")
        kinds |= {table.weight: "number"} if table.weight else {}
        for label in table.labels:
            for name, kind in label.kinds.items():
                if kinds.setdefault(name, kind) != kind and table.format.name == "csv":
                    raise InputError(f"{table.place}: column {name!r} is read as {kinds[name]}, and as {kind}")
        labelled = EdgeLabels(table)

        def find(batch: pa.RecordBatch) -> list[np.ndarray]:
            return [finder.find(batch.column(name), f"column {name!r}") for name, finder in zip(names, finders)]

        others, rounded = set(), 0
        for rows, ends in tables.made(table.files, table.format, kinds, find, self.bar):
            others |= _of_other_kind(rows, dict(zip(names, finders))) if table.format.name != "csv" else set()
            wrong = np.minimum(*ends) < 0
            weights = []
            if table.weight:
                values = as_weights(rows.column(table.weight), partial(rows.place, table.weight))
                weights = [values.astype(np.float32)]
                rounded += int(np.count_nonzero((weights[0] != values) & (values == np.floor(values))))
            if wrong.any():
                if not self.skip:
                    row = int(np.argmax(wrong))
                    side = 0 if ends[0][row] < 0 else 1
                    words = _unknown(finders[side], rows.column(names[side]), row)
                    raise InputError(f"{rows.place(names[side], row)}: {words}")
                self.skipped[table.relation] = self.skipped.get(table.relation, 0) + int(wrong.sum())
            if table.labels:
                labelled.add(rows, (ends[0], ends[1]), ~wrong)
            if wrong.any():
                ends, weights = [end[~wrong] for end in ends], [weight[~wrong] for weight in weights]
            yield (*ends, *weights)
        if table.labels:
            self.labelled[table.place] = labelled
        if rounded:
            log.info(f"{table.place}: column {table.weight!r}: whole numbers that float32 rounds: {rounded:,}")
        for name, node_type, (given, ids) in sorted(others):
            log.info(f"{table.place}: column {name!r}: {given} are compared with ids of {node_type!r} that are {ids}")

    def _key(self, key: ForeignKey) -> Iterator[tuple[np.ndarray, ...]]:
        """Yield an edge per row that refers to a node; a row that refers to none has none."""
        finder, nodes = self.finders[key.target], self.finders[key.table.node_type].count
        given = tables.rows(key.table.files, key.table.format, {key.column: "text"}, self.bar)
        for rows, which in tables.numbered(given, nodes, key.table.place):
            column = rows.column(key.column)
            found = finder.find(column, rows.place(key.column))
            wrong = column.is_valid().to_numpy(zero_copy_only=False) & (found < 0)
            if wrong.any():
                if not self.skip:
                    row = int(np.argmax(wrong))
                    raise InputError(f"{rows.place(key.column, row)}: {_unknown(finder, column, row)}")
                self.skipped[key.relation] = self.skipped.get(key.relation, 0) + int(wrong.sum())
            present, order = np.flatnonzero(found >= 0), self.orders[key.table.node_type].get(key.table.place)
            key_rows = (present + which.start).astype(np.int32)
            ends = key_rows if order is None else order[key_rows], found[present]
            yield ends[::-1] if key.turned else ends


def _of_other_kind(rows: tables.Rows, finders: Mapping[str, Finder]) -> set[tuple[str, str, tuple[str, str]]]:
    """Return the columns of other kinds than the ids that they are looked up in: name, node type and both kinds."""
    kinds, found = ("texts", "whole numbers"), set()
    for name, finder in finders.items():
        column = rows.column(name).type
        if pa.types.is_integer(column) and finder.kind == "text":
            found.add((name, finder.node_type, kinds[::-1]))
        elif is_text(column) and finder.kind == "whole":
            found.add((name, finder.node_type, kinds))
    return found


def _unknown(finder: Finder, column: pa.Array, row: int) -> str:
    value = column[row].as_py()
    no_number = finder.kind == "whole" and isinstance(value, str) and not CANONICAL.fullmatch(value)
    number = f"{short(repr(value), 80)} is not a whole number as they are usually written; " if no_number else ""
    return number + finder.unknown(column, row)
