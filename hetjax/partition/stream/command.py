"""The command line: a stream into a folder with who has what, the files of every partition, a report and a picture."""

import csv
import json
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Literal

from hetjax.options.config import Bytes
from hetjax.partition.checks import require, require_whole
from hetjax.partition.partitioning import Report
from hetjax.partition.stream import folder
from hetjax.partition.stream.features import Features
from hetjax.partition.stream.memory import RESERVED, parts_for
from hetjax.partition.stream.neighbours import Full, full_neighbours, nodes_of
from hetjax.partition.stream.partitioner import Options as MethodOptions
from hetjax.partition.stream.partitioner import Partitioner
from hetjax.partition.stream.registry import find
from hetjax.partition.stream.report import report, table
from hetjax.partition.stream.run import Reader, partition_stream
from hetjax.partition.stream.source import EdgeStream, open_stream
from hetjax.partition.stream.state import MOST_PARTS
from hetjax.system.durable import check_new, new_folder, write_array
from hetjax.system.errors import InputError, short
from hetjax.system.logs import log

PATHS = {
    "stream": "edges: a file of text, .gz or not, or a .npy; several by a pattern with *; a store; or -, standard input",
    "out": "the folder to write, which must not exist",
}
DESCRIPTION = """Divide a graph that does not fit in memory: its edges are read one after the other, several times, in memory that
grows with its nodes alone. Written are owners.npy, edges.npy, a folder per partition, manifest.json, a report (report.json,
report.csv) and a picture (partition.png)."""
MOST_HOPS = 16
PAIR_BYTES = 8
NONE = Bytes(0)


@dataclass(frozen=True)
class Options:
    """Streams: how edges are divided, and what every partition gets."""

    parts: int = 0
    """number of partitions; 0: by device_memory"""
    method: str = "spring"
    """dbh, greedy, hdrf, hollocou, 2ps-l, spring or slim; or MODULE:NAME: a `hetjax.partition.stream.Partitioner` of your own"""
    nodes: int = 0
    """number of nodes; 0: as the stream says, or one more than its highest id"""
    relations: tuple[str, ...] = ()
    """of a store: the relations to read, by name; unset: all"""
    hops: int = 1
    """every partition gets the full neighbourhoods of the nodes that it trains, as far as this; 0: no partition is written, and the report has them for one hop"""
    directed: bool = False
    """neighbours of a node are the sources of the edges into it; false: either end of an edge has the other as a neighbour"""
    features: str = ""
    """a .npy [nodes, width], of which every partition gets the rows of its nodes; of a store those of the store are taken"""
    degrees: Literal["default", "counted", "estimated"] = "default"
    """dbh, hdrf: degrees are counted in a pass of their own, or estimated as the stream goes; default: as the method's paper does"""
    balance: float = 1.05
    """the most that a partition, or for spring a cluster, may have by the mean: of edges for 2ps-l, of nodes for spring and slim"""
    volume: float = 0.0
    """hollocou, 2ps-l, spring: the largest volume of a cluster, by the mean edges of a partition; 0: 2 for 2ps-l, else 0.1"""
    weight: float = 1.0
    """hdrf: lambda, how much balance counts"""
    core: float = 4.0
    """slim: edges by node that are kept in memory"""
    seed: int = 0
    """of whatever is random"""
    device_memory: Bytes = NONE
    """bytes of a device that trains, by which the number of partitions is chosen where parts is 0"""
    devices: int = 1
    """how many such devices there are"""
    reserved: float = RESERVED
    """share of device_memory that training takes besides edges and features"""

    def __post_init__(self):
        if not self.parts and self.device_memory <= 0:
            raise InputError("give --parts, the number of partitions, or --device_memory, by which it is chosen")
        require(0 <= self.parts <= MOST_PARTS, "parts", self.parts, f"at most {MOST_PARTS}")
        require(0 <= self.hops <= MOST_HOPS, "hops", self.hops, f"a whole number in 0..{MOST_HOPS}")
        require(0 <= self.nodes < 2**31, "nodes", self.nodes, "a whole number below 2**31")
        require_whole("devices", self.devices, 2**16)
        require(0 <= self.reserved < 1, "reserved", self.reserved, "at least 0 and less than 1")
        for name, unset in (("device_memory", NONE), ("devices", 1), ("reserved", RESERVED)):
            if self.parts and getattr(self, name) != unset:
                raise InputError(
                    f"{name} is {getattr(self, name)}, and chooses the number of partitions, and parts is {self.parts}"
                )
        if self.features and self.parts and not self.hops:
            raise InputError(f"features is {short(self.features)!r}, and with hops 0 no partition is written")
        self.method_options()  # which looks at the rest

    def method_options(self) -> MethodOptions:
        """Return the options that methods are given; the number of parts is 1 if it is chosen later."""
        values = {key.name: getattr(self, key.name) for key in fields(MethodOptions)}
        return MethodOptions(**values | {"parts": self.parts or 1})


def run(options: Options, paths: Mapping[str, str]) -> None:
    """Divide a stream, write the folder, and print the report."""
    out, method = Path(paths["out"]), find(options.method)
    method.check(options.method_options())
    check_new(out)
    if not out.parent.is_dir():
        raise InputError(
            f"out is {str(out)!r}, and {str(out.parent)!r}, the folder that it is to be in, is not there: make that first"
        )
    with closing(open_stream(paths["stream"], options.relations, out.parent)) as stream, new_folder(out) as partial:
        _divide(options, method, stream, paths["stream"], partial)
    names = "manifest.json, owners.npy, edges.npy, report.json, report.csv, partition.png"
    log.info(f"{out}: {names}" + ", and a folder for each partition" * bool(options.hops))


def _divide(options: Options, method: type[Partitioner], stream: EdgeStream, given: str, path: Path) -> None:
    """Fill the folder, and print what came of it."""
    features = Features(options.features, stream.graph_sizes, given)
    division = partition_stream(
        stream, method, options.method_options(), options.nodes, path / folder.EDGES, _chooser(options, features)
    )
    features.check(division.nodes)
    write_array(path / folder.OWNERS, division.owners)
    parts, hops = division.method.options.parts, max(1, options.hops)
    full = full_neighbours(
        Reader(stream), division.owners, parts, hops, options.directed, path if options.hops else None
    )
    written = features.write(full.nodes, parts, path) if options.hops else []
    results = report(division, full, hops)
    more = {"options": vars(options) | {"relations": list(options.relations)}, "stream": stream.name}
    _write(path, folder.manifest(division, options.hops, options.directed, stream.graph_sizes, written, more), results)
    log.info(table(results))
    _say_room(options, full, features)


def _chooser(options: Options, features: Features) -> Callable[[int, int], int] | None:
    """Return a function that chooses the number of partitions by nodes and edges, if that is left open."""
    if options.parts:
        return None
    memory, devices, reserved = int(options.device_memory), options.devices, options.reserved

    def parts(nodes: int, edges: int) -> int:
        found = parts_for(PAIR_BYTES * edges + features.size, memory, devices, reserved)
        require(
            found <= MOST_PARTS, "device_memory", memory, f"larger: {found} partitions, and at most {MOST_PARTS} can be"
        )
        return found

    return parts


def _say_room(options: Options, full: Full, features: Features) -> None:
    """Say where neighbours make a partition larger than the memory that it was chosen for."""
    room = int(options.device_memory * (1 - options.reserved))
    if options.device_memory and not options.parts:
        sizes = [
            PAIR_BYTES * int(edges) + features.held(nodes_of(full.nodes, part)) for part, edges in enumerate(full.edges)
        ]
        words = f"{len(sizes)} partitions for {options.devices} x {room:,} bytes; the largest has {max(sizes):,}"
        log.info(words + (": more than there is; give a larger --parts" if max(sizes) > room else ""))


def _write(path: Path, manifest: dict, results: Report) -> None:
    (path / folder.MANIFEST).write_text(json.dumps(manifest, indent=1), encoding="utf-8")
    (path / "report.json").write_text(json.dumps(results.summary | {"parts": results.rows}, indent=1), encoding="utf-8")
    with open(path / "report.csv", "w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, list(results.rows[0]))
        writer.writeheader()
        writer.writerows(results.rows)
    from hetjax.partition.stream import picture  # which takes matplotlib's time to start

    picture.draw(results, path / "partition.png")
