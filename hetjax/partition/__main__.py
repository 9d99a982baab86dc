"""Partition a store: `python -m hetjax.partition --graph STORE --parts 4 --hops 2 --out DIR`; or a stream: `--stream FILE`."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Literal

from hetjax.graph import checksums, store
from hetjax.graph.hetgraph import HetGraph, check
from hetjax.graph.schema import Relation
from hetjax.options.command_line import given_value, parse, run_command
from hetjax.partition.cost import Workload
from hetjax.partition.edge_cut import EdgeCut, edge_cut
from hetjax.partition.manifest import save
from hetjax.partition.meta import HOPS, partition
from hetjax.partition.meta_partitioning import MetaPartitioning
from hetjax.partition.report import table
from hetjax.partition.stream import command as streams
from hetjax.system import yaml_file
from hetjax.system.durable import check_new
from hetjax.system.errors import InputError
from hetjax.system.logs import log

PATHS = {"graph": "the store to partition", "out": "the folder to write, which must not exist"}
DESCRIPTION = """Divide a graph among hosts, and write who owns what: manifest.json, a report (report.json, report.csv) and
a picture (plan.png). Meta-partitioning divides the relations, and reads nothing but their sizes; all other methods
divide the nodes, and their report counts what each layer of a full batch then reads from others. A stream of edges that does
not fit in memory is divided by --stream FILE in place of --graph, with options of its own: --stream FILE --help."""

METHODS: dict[str, tuple[str, ...]] = {  # which take an option, if not all do
    **dict.fromkeys(("metapaths", "targets", "data", "copy", "assign", "exchange"), ("meta",)),
    "seed": ("random", "metis", "metis-vol", "fennel"),
}


@dataclass(frozen=True)
class Options:
    """Partitioning: the method, and the training step that its costs are for."""

    parts: int = 2
    """number of partitions; with more than there are sub-metatrees, a product relation x data, where data counts replicas"""
    hops: int = 0
    """number of layers of the model; 0: the length of the longest metapath, or 2"""
    method: Literal["meta", "random", "metis", "metis-vol", "contiguous", "fennel"] = "meta"
    """meta: divide the relations; the others divide the nodes: random; metis: few cut edges; metis-vol: little communication; contiguous: ranges of ids; fennel: few cut edges, in one pass"""
    assign: Literal["auto", "exact", "lpt"] = "auto"
    """meta: lpt: the heaviest sub-metatree goes to the lightest partition, as in the paper; exact: search for the least expected cost; auto: exact where that is quick"""
    metapaths: str = ""
    """meta: a YAML file with a list of metapaths, each a list of [source type, name, target type], the relation into the target type first; unset: all relations"""
    targets: tuple[str, ...] = ()
    """meta: node types of the seeds, such as [paper,author]; unset: the target type of the store"""
    data: int = 0
    """meta: replicas of each partition; 0: as few as possible"""
    self_term: bool = True
    """the model has self terms; false for HGT"""
    exchange: Literal["last", "every"] = "last"
    """meta: last: partial aggregates are exchanged after the last layer (R-GCN); every: after every layer, for models that read their targets (R-GAT, HGT, residual)"""
    copy: bool = False
    """meta: write a store for each partition, with the files that it needs; false: all read the one store"""
    seed: int = 0
    """random, metis, metis-vol, fennel: the seed of the partitioning"""
    batch_size: int = Workload.batch_size
    """seed nodes per step"""
    fanout: tuple[int, ...] = Workload.fanout
    """neighbours sampled per node and relation, the hop next to the seeds first; -1: all neighbours; the last number serves all deeper hops"""
    hidden: int = Workload.hidden
    """width of the embeddings of every layer"""
    feature_width: int = Workload.feature_width
    """width of the learnable features, which node types without features get"""
    network: float = Workload.network
    """cost of sending a byte, in units of reading a byte from memory"""

    def __post_init__(self):
        for name in ("hops", "data", "seed"):
            if getattr(self, name) < 0:
                raise InputError(f"{name} is {getattr(self, name)}, and must be at least 0")
        changed = [key.name for key in fields(self) if getattr(self, key.name) != key.default]
        for name in changed:
            methods = METHODS.get(name, (self.method,))
            if self.method not in methods:
                raise InputError(f"{name} is for method {', '.join(methods)}, and the method is {self.method}")

    @property
    def workload(self) -> Workload:
        return Workload(**{key.name: getattr(self, key.name) for key in fields(Workload)})


def main(arguments: Sequence[str]) -> None:
    """Read a store's sizes (or, to cut edges, its edges) or a stream, divide, write, and print the report."""
    if given_value(arguments, "stream") is not None:
        program = "python -m hetjax.partition"
        instances, paths = parse({"": streams.Options}, arguments, program, streams.DESCRIPTION, streams.PATHS)
        return streams.run(instances[""], paths)
    instances, paths = parse({"": Options}, arguments, "python -m hetjax.partition", DESCRIPTION, PATHS)
    options, out = instances[""], Path(paths["out"])
    check_new(out)
    reads = options.copy or options.method != "meta"
    graph = _read(paths["graph"]) if reads else None
    plan = _meta(options, paths["graph"]) if options.method == "meta" else _edge_cut(options, paths["graph"], graph)
    report = save(plan, out, graph)
    log.info(table(report))
    log.info(f"{out}: manifest.json, report.json, report.csv, plan.png")


def _read(path: str) -> HetGraph:
    """Open a store and check it: an edge that leads nowhere would mislead METIS and Fennel, and a copy would have checksums of its own."""
    graph = store.open(path)
    check(graph, path)
    checksums.verify(path)
    return graph


def _meta(options: Options, path: str) -> MetaPartitioning:
    return partition(
        path,
        options.parts,
        read_metapaths(options.metapaths) if options.metapaths else None,
        hops=options.hops or None,
        targets=options.targets or None,
        method=options.assign,
        self_term=options.self_term,
        exchange=options.exchange,
        data=options.data or None,
        copied=options.copy,
        workload=options.workload,
    )


def _edge_cut(options: Options, path: str, graph) -> EdgeCut:
    hops, where = options.hops or HOPS, str(Path(path).absolute())
    return edge_cut(
        graph, options.parts, options.method, options.seed, hops, options.workload, options.self_term, where
    )


def read_metapaths(file: str) -> list[list[Relation]]:
    """Read metapaths from a YAML file.

    Raises:
      InputError: the file cannot be read, or is no list of lists of three names.
    """
    metapaths = yaml_file.read(file)
    for path in metapaths if isinstance(metapaths, list) and metapaths else [metapaths]:
        for relation in path if isinstance(path, list) and path else [path]:
            if not (isinstance(relation, list) and len(relation) == 3 and all(isinstance(n, str) for n in relation)):
                raise InputError(
                    f"{file}: {relation!r}, and a relation is [source type, name, target type], a metapath a list of them"
                )
    return [[Relation(*relation) for relation in path] for path in metapaths]


if __name__ == "__main__":
    run_command(main)
