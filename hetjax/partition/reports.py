"""The report of a partitioning: one function for every kind, which a kind of a user's own joins by `report.register`."""

from functools import singledispatch

from hetjax.graph.hetgraph import HetGraph
from hetjax.graph.sizes import check_digest, sizes
from hetjax.partition import cut_report, meta_report
from hetjax.partition.dependencies import dependencies
from hetjax.partition.edge_cut import EdgeCut
from hetjax.partition.measure import measure
from hetjax.partition.meta_partitioning import MetaPartitioning
from hetjax.partition.partitioning import Partitioning, Report
from hetjax.system.errors import InputError


@singledispatch
def report(partitioning: Partitioning, graph: HetGraph | None = None) -> Report:
    """Return what a partitioning costs.

    Args:
      partitioning: of any kind that is registered.
      graph: what was partitioned; an edge-cut reads its edges, a meta-partitioning needs none.

    Raises:
      InputError: the graph is needed and missing, or is another.
    """
    raise TypeError(f"no report of a {type(partitioning).__name__} is registered")


@report.register
def _(partitioning: MetaPartitioning, graph: HetGraph | None = None) -> Report:
    return meta_report.report(partitioning)


@report.register
def _(partitioning: EdgeCut, graph: HetGraph | None = None) -> Report:
    if graph is None:
        raise InputError("the report of an edge-cut needs the graph")
    check_digest(partitioning.sizes, sizes(graph), "the graph")
    return cut_report.report(partitioning, measure(graph, partitioning), dependencies(graph, partitioning))
