"""Partition a store: `python -m hetjax.partition --graph STORE --parts 4 --hops 2 --out DIR`."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Literal

from hetjax import yaml_file
from hetjax.command_line import parse, run_command
from hetjax.durable import check_new
from hetjax.errors import InputError
from hetjax.graph import checksums, store
from hetjax.graph.hetgraph import HetGraph, check
from hetjax.graph.schema import Relation
from hetjax.partition.cost import Workload
from hetjax.partition.edge_cut import EdgeCut, edge_cut
from hetjax.partition.manifest import save
from hetjax.partition.meta import HOPS, partition
from hetjax.partition.meta_partitioning import MetaPartitioning
from hetjax.partition.report import table

PATHS = {"graph": "the store to partition", "out": "the folder to write, which must not exist"}
DESCRIPTION = """Divide a graph among hosts, and write who owns what: manifest.json, a report (report.json, report.csv) and
a picture (plan.png). Meta-partitioning divides the relations, and reads nothing but their sizes; random and METIS
partitioning divide the nodes."""


@dataclass(frozen=True)
class Options:
    """Partitioning."""

    parts: int = 2
    """partitions in all; beyond the number of sub-metatrees a product relation x data, of which data replicate the others"""
    hops: int = 0
    """layers of the model; 0: as many as the longest metapath has relations, or 2"""
    method: Literal["meta", "random", "metis", "metis-vol"] = "meta"
    """meta: by relation; random, metis (fewest cut edges), metis-vol (least communication volume): by node"""
    assign: Literal["auto", "exact", "lpt"] = "auto"
    """meta: longest processing time first, as the paper, or the exact search of least expected cost; auto: exact where that is quick"""
    metapaths: str = ""
    """meta: a YAML file, a list of metapaths, each a list of [source type, name, target type], the relation into the target first; by default all relations"""
    targets: tuple[str, ...] = ()
    """meta: types whose nodes are seeds, such as [paper,author]; by default the store's target"""
    data: int = 0
    """meta: replicas of each partition; 0: as few as give the number of parts"""
    self_term: bool = True
    """the model folds nodes into themselves; meta: false for HGT"""
    exchange: Literal["last", "every"] = "last"
    """meta: seeds are exchanged after the last layer (R-GCN), or after every one, for folds that look at the target (R-GAT, HGT, residual)"""
    copy: bool = False
    """meta: give each partition a store of its own, with the files that it needs; without it all read the one store"""
    seed: int = 0
    """random, metis: another seed, another partitioning"""
    batch_size: int = Workload.batch_size
    """costs and traffic are expected for: seed nodes per step"""
    fanout: tuple[int, ...] = Workload.fanout
    """neighbours drawn per node and relation, the seeds' own hop first; -1: all; the last serves all deeper hops"""
    hidden: int = Workload.hidden
    """width of every layer's embeddings"""
    feature_width: int = Workload.feature_width
    """width of the learnable features of node types that have none"""
    network: float = Workload.network
    """cost of sending a byte, in bytes read from memory"""

    def __post_init__(self):
        for name in ("hops", "data", "seed"):
            if getattr(self, name) < 0:
                raise InputError(f"{name} is {getattr(self, name)}, and must be at least 0")
        given = [key.name for key in fields(self) if getattr(self, key.name) != key.default]
        for name in ("metapaths", "targets", "data", "copy", "assign", "exchange"):
            if self.method != "meta" and name in given:
                raise InputError(f"{name} is for method meta, and the method is {self.method}")

    @property
    def workload(self) -> Workload:
        return Workload(**{key.name: getattr(self, key.name) for key in fields(Workload)})


def main(arguments: Sequence[str]) -> None:
    """Read a store's sizes (or, to cut edges, its edges), divide, write, and print the report."""
    made, paths = parse({"": Options}, arguments, "python -m hetjax.partition", DESCRIPTION, PATHS)
    options, out = made[""], Path(paths["out"])
    check_new(out)
    reads = options.copy or options.method != "meta"
    graph = _read(paths["graph"]) if reads else None
    plan = _meta(options, paths["graph"]) if options.method == "meta" else _edge_cut(options, paths["graph"], graph)
    report = save(plan, out, graph)
    print(table(report))
    print(f"{out}: manifest.json, report.json, report.csv, plan.png")


def _read(path: str) -> HetGraph:
    """A store, checked: an edge that leads nowhere would lead METIS astray, and a copy would have checksums of its own."""
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
    """Metapaths from a YAML file.

    Raises:
      InputError: the file cannot be read, or is no list of lists of three names.
    """
    given = yaml_file.read(file)
    for path in given if isinstance(given, list) and given else [given]:
        for relation in path if isinstance(path, list) and path else [path]:
            if not (isinstance(relation, list) and len(relation) == 3 and all(isinstance(n, str) for n in relation)):
                raise InputError(
                    f"{file}: {relation!r}, and a relation is [source type, name, target type], a metapath a list of them"
                )
    return [[Relation(*relation) for relation in path] for path in given]


if __name__ == "__main__":
    run_command(main)
