"""The costs of an edge-cut, from counts of the graph's edges."""

from hetjax.partition import traffic
from hetjax.partition.dependencies import Layer, as_json
from hetjax.partition.edge_cut import EdgeCut
from hetjax.partition.measure import Cut
from hetjax.partition.partitioning import Report
from hetjax.partition.report import feature_bytes, summary, topology_bytes


def report(cut: EdgeCut, counts: Cut, layers: list[Layer]) -> Report:
    """Return the report, as `reports.report` does."""
    rows = [_cut_row(cut, counts, part) for part in range(cut.parts)]
    nodes, edges = sum(cut.sizes.schema.nodes.values()), sum(cut.sizes.edges.values())
    crossing = {str(r): int(count.sum() - count.trace()) for r, count in counts.edges.items()}
    shares = {str(r): _share(crossing[str(r)], count) for r, count in cut.sizes.edges.items()}
    total = summary(cut, rows, (nodes, edges), traffic.of_cut(cut, counts), traffic.CUT_FORMULAS)
    return Report(
        rows,
        total
        | {
            "cut_edges": sum(crossing.values()),
            "cut_share": _share(sum(crossing.values()), edges),
            "cut_share_of": shares,
            "halo_nodes": sum(row["halo_nodes"] for row in rows),
            "dependencies": as_json(layers),
        },
    )


def _cut_row(cut: EdgeCut, counts: Cut, part: int) -> dict:
    nodes = {name: int(count[part]) for name, count in counts.nodes.items()}
    edges = {relation: int(count[part].sum()) for relation, count in counts.edges.items()}
    return {
        "part": part,
        "hosts": str(part),
        "relations": len(edges),
        "nodes": sum(nodes.values()),
        "halo_nodes": sum(int(count[part]) for count in counts.halo.values()),
        "edges": sum(edges.values()),
        "topology_bytes": sum(topology_bytes(cut.sizes, r, nodes[r.target], edges[r]) for r in edges),
        **feature_bytes(cut, nodes),
        "boundary_nodes": sum(int(count[part]) for count in counts.boundary.values()),
        "training_nodes": int(counts.train[part]),
    }


def _share(part: int, total: int) -> float:
    return round(float(part / total), 4) if total else 0.0
