"""Node types, relations, and the metagraph that they form."""

import functools
import re
import reprlib
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

import numpy as np

from hetjax.system.errors import InputError

if TYPE_CHECKING:
    import networkx

MOST_NODES = 2**31 - 1  # node ids travel to the device as int32
MOST_CLASSES = 2**20
MOST_NAME = 200  # characters of a quoted name: it becomes part of a file's name, which has at most 255
UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")  # control, line ends, half characters


def no_node(number: int | str, nodes: int) -> str:
    """Return the text of errors on a number that is none of so many nodes; `MOST_NODES`: of any."""
    numbered = f" (0 to {nodes - 1})" if nodes else ""
    there = f"there are {nodes}{numbered}"
    if nodes == MOST_NODES:
        there = f"nodes are numbered from 0 up to {MOST_NODES - 1}"
    return f"node {number}, and {there}"


class Relation(NamedTuple):
    """Edges of one name from one node type to another; messages flow from `source` to `target`."""

    source: str
    name: str
    target: str

    @property
    def key(self) -> str:
        """A string that names this relation and no other, safe in file names and parameter paths."""
        return _key(self)

    @property
    def reverse(self) -> "Relation":
        return Relation(self.target, f"rev_{self.name}", self.source)

    def __str__(self) -> str:
        return f"{self.source} -{self.name}-> {self.target}"


@functools.cache  # asked for with every batch
def _key(relation: Relation) -> str:
    return "--".join(quote(part, safe="").replace("--", "-%2D") for part in relation)


@dataclass(frozen=True)
class Schema:
    """The schema of a graph: its kinds of nodes and edges, and the nodes that are to be classified.

    Attributes:
      nodes: number of nodes of each node type.
      relations: every relation once; two may join the same types.
      target: the node type that carries the labels.
      classes: number of classes of the target's labels.
    """

    nodes: Mapping[str, int]
    relations: tuple[Relation, ...]
    target: str
    classes: int

    def __post_init__(self):
        object.__setattr__(self, "nodes", MappingProxyType(dict(self.nodes)))
        object.__setattr__(self, "relations", tuple(Relation(*relation) for relation in self.relations))
        for name in (*self.nodes, self.target, *(part for relation in self.relations for part in relation)):
            check_text(name)
        for count in (*self.nodes.values(), self.classes):
            if not isinstance(count, int | np.integer) or isinstance(count, bool):
                raise InputError(f"the count {count!r} is {type(count).__name__}, and should be an integer")
        for name, count in self.nodes.items():
            if not 0 <= count <= MOST_NODES:
                raise InputError(f"node type {name!r} has {count} nodes, outside 0..{MOST_NODES}")
        for relation in self.relations:
            for node_type in (relation.source, relation.target):
                if node_type not in self.nodes:
                    raise InputError(f"relation {relation}: no node type {node_type!r} among {_names(self.nodes)}")
        for relation, times in Counter(self.relations).items():
            if times > 1:
                raise InputError(f"relation {relation} is given {times} times")
        if self.target not in self.nodes:
            raise InputError(f"target type {self.target!r} is not among the node types {_names(self.nodes)}")
        if not 1 <= self.classes <= MOST_CLASSES:
            raise InputError(f"the target type {self.target!r} has {self.classes} classes, outside 1..{MOST_CLASSES}")

    def into(self, node_type: str) -> tuple[Relation, ...]:
        """Return the relations whose target is `node_type`."""
        return tuple(relation for relation in self.relations if relation.target == node_type)

    def metagraph(self) -> "networkx.MultiDiGraph":
        """Return node types as nodes (attribute `count`), relations as edges (keyed by the relation's name)."""
        import networkx  # takes a while

        graph: networkx.MultiDiGraph[str] = networkx.MultiDiGraph()
        for name, count in self.nodes.items():
            graph.add_node(name, count=count)
        for source, name, target in self.relations:
            graph.add_edge(source, target, key=name)
        return graph

    def layer_types(self, roots: Collection[str], layers: int, reads_own: bool = True) -> tuple[frozenset[str], ...]:
        """Return the node types whose embeddings a model of `layers` layers needs, by depth.

        Args:
          roots: the types whose last embeddings are needed.
          reads_own: whether layers read their targets' own embeddings of the layer below; then a type stays needed there.

        Returns:
          `layers + 1` sets: entry `k` holds the types needed after layer `k`; entry 0 is the input, the last is `roots`.
        """
        needed = [frozenset(roots)]
        for _ in range(layers):
            below = frozenset(relation.source for relation in self.relations if relation.target in needed[0])
            needed.insert(0, below | needed[0] if reads_own else below)
        return tuple(needed)


def check_text(name: str) -> None:
    """Raise an InputError for a name that is none, that does not fit into a line, or that is longer than `MOST_NAME`."""
    if not isinstance(name, str):
        raise InputError(f"the name {reprlib.repr(name)} is {type(name).__name__}, and should be a string")
    if unprintable := UNPRINTABLE.search(name):
        raise InputError(f"the name {reprlib.repr(name)} has {unprintable[0]!r} as character {unprintable.start()}")
    if (length := len(quote(name, safe=""))) > MOST_NAME:
        raise InputError(
            f"the name {reprlib.repr(name)} has {length:,} characters != at most {MOST_NAME}, each counted as a URL spells it"
        )


def _names(nodes: Mapping[str, int]) -> str:
    return reprlib.repr(sorted(nodes))
