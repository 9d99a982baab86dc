"""The interface of every partitioning of a graph: who has what, and how that is written and read; and its report."""

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

from hetjax.graph.hetgraph import HetGraph
from hetjax.graph.sizes import Sizes
from hetjax.partition.cost import Workload

FORMAT, VERSION = "hetjax-partition", 1


class Report(NamedTuple):
    """The costs of a partitioning; `rows` has a dictionary per partition, `summary` the rest, both plain values."""

    rows: list[dict[str, Any]]
    summary: dict[str, Any]


class Partitioning(ABC):
    """A division of a graph among hosts. Kinds of it inherit from this; `manifest.KINDS` has those of the package.

    A kind is reported by `reports.report` and drawn by `pictures.draw`, with which it is registered.

    Attributes:
      methods: by which one of this kind is made, as its manifest says.
      sizes: of the graph.
      method: one of these.
      workload: the step that costs are expected of.
      store: the graph's store, if it has one.
    """

    methods: ClassVar[tuple[str, ...]]
    sizes: Sizes
    method: str
    workload: Workload
    store: str | None

    @abstractmethod
    def json(self) -> dict:
        """Return the manifest, as plain values; it begins with `header`."""

    @classmethod
    @abstractmethod
    def from_json(cls, given: Mapping[str, Any], sizes: Sizes, folder: Path) -> Self:
        """Return the inverse of `json`.

        Args:
          given: plain values, of which nothing is taken for granted but what `header` gives.
          sizes: of the graph.
          folder: with what else was written.
        """

    @abstractmethod
    def write(self, folder: Path, graph: HetGraph | None) -> None:
        """Write what the manifest does not hold into an existing folder."""

    @property
    def digest(self) -> str:
        """Return a digest of who has what; it does not depend on where the store lies."""
        text = json.dumps(self.json() | {"store": None}, sort_keys=True)
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    def header(self) -> dict:
        """Return the beginning of every manifest."""
        workload = asdict(self.workload) | {"fanout": list(self.workload.fanout)}
        graph = {"graph": self.sizes.json(), "graph_digest": self.sizes.digest, "store": self.store}
        return {"format": FORMAT, "version": VERSION, "method": self.method} | graph | {"workload": workload}


def workload_of(given: Mapping[str, Any]) -> Workload:
    """Return the workload that a manifest names."""
    return Workload(**given["workload"] | {"fanout": tuple(given["workload"]["fanout"])})
