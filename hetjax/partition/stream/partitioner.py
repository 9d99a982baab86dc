"""The protocol of a method: passes over the stream in which it learns, and one in which every edge goes to a partition."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from typing import ClassVar, NamedTuple

import numpy as np

from hetjax.partition.checks import require, require_whole
from hetjax.partition.stream.state import MOST_PARTS, no_replicas
from hetjax.system.errors import InputError

Pass = Callable[[np.ndarray], None]  # what is done with every chunk of the stream, int32 `[edges, 2]`


class Graph(NamedTuple):
    """The facts about a stream that are known before a method begins.

    Attributes:
      nodes: how many there are; ids are 0..nodes - 1.
      edges: how many the stream has; None if nobody counted them.
      degrees: uint32 `[nodes]`, how many ends of edges every node is (a loop has two); None if nobody counted them.
    """

    nodes: int
    edges: int | None = None
    degrees: np.ndarray | None = None


@dataclass(frozen=True)
class Options:
    """The options of a method.

    Attributes:
      parts: number of partitions.
      seed: of whatever is random.
      degrees: `counted` in a pass of their own, `estimated` as the stream goes, or `default`, as the method's paper does.
      balance: the most that a partition may have, by the mean, where the method keeps to a bound.
      volume: the largest volume of a cluster, by the edges of a partition; 0: as the method's authors have it.
      weight: `lambda` of HDRF, which weighs balance.
      core: edges by node that `slim` keeps in memory.
    """

    parts: int
    seed: int = 0
    degrees: str = "default"
    balance: float = 1.05
    volume: float = 0.0
    weight: float = 1.0
    core: float = 4.0

    def __post_init__(self):
        require_whole("parts", self.parts, MOST_PARTS)
        require(0 <= self.seed < 2**63, "seed", self.seed, "a whole number in 0..2**63 - 1")
        require(self.degrees in ("default", "counted", "estimated"), "degrees", self.degrees, "counted or estimated")
        require(self.balance >= 1, "balance", self.balance, "at least 1")
        require(self.volume >= 0, "volume", self.volume, "at least 0")
        require(self.weight >= 0, "weight", self.weight, "at least 0")
        require(self.core >= 0, "core", self.core, "at least 0")


class Partitioner(ABC):
    """A method of partitioning a stream of edges. Its memory grows with the nodes, never with the edges.

    Attributes:
      name: by which it is chosen.
      learns: what the passes before the last gather, a word each.
      takes: the options that it reads besides `parts` and `degrees`; of others than the default it says that it does not.
      estimates: whether degrees may be estimated as the stream goes: None: they must be counted; else whether they are
        by default.
      graph, options: what it is told; `graph` has degrees and edges unless the method estimates degrees.
      owners: the partition of every node, of `state.part_dtype`, `[nodes]`, if the method divides the nodes; None before it has, or if not.
      replicas, loads: as in `state`, of the edges that are placed; `place` keeps them.
      about: what else the report says of it, by name.
    """

    name: ClassVar[str]
    learns: ClassVar[tuple[str, ...]] = ()
    takes: ClassVar[frozenset[str]] = frozenset({"seed", "balance", "volume", "weight", "core"})
    estimates: ClassVar[bool | None] = None

    def __init__(self, graph: Graph, options: Options):
        self.graph, self.options = graph, options
        self.owners: np.ndarray | None = None
        self.about: dict[str, int] = {}
        self.loads = np.zeros(options.parts, np.int64)
        self.replicas = no_replicas(graph.nodes, options.parts)

    @classmethod
    def check(cls, options: Options) -> None:
        """Raise an InputError for an option that the method would not read."""
        cls.estimated(options)
        for key in fields(options):
            if key.name not in cls.takes | {"parts", "degrees"} and getattr(options, key.name) != key.default:
                raise InputError(f"{key.name} is {getattr(options, key.name)}, and method {cls.name} does not read it")

    @classmethod
    def estimated(cls, options: Options) -> bool:
        """Tell whether degrees are estimated.

        Raises:
          InputError: the method leaves no choice.
        """
        if options.degrees == "default":
            return bool(cls.estimates)
        if cls.estimates is None:
            raise InputError(f"degrees is {options.degrees}, and method {cls.name} has them counted in any case")
        return options.degrees == "estimated"

    def learn(self) -> Iterator[Pass]:
        """Yield one function for each of `learns`, called with every chunk; what stands between two is done between two passes."""
        yield from ()

    @abstractmethod
    def place(self, pairs: np.ndarray, out: np.ndarray) -> None:
        """Choose the partitions of edges: the last pass.

        Args:
          pairs: int32 `[edges, 2]`, ids that exist.
          out: of `state.part_dtype`, `[edges]`, to be filled.
        """
