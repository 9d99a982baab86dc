"""The costs of a partitioning: per partition nodes, edges, bytes and boundary; in all replication, balance and traffic.

| column | meta-partitioning | edge-cut |
|---|---|---|
| `nodes` | nodes of the types that its relations and self terms touch | nodes that lie in it |
| `halo_nodes` | none: whatever it aggregates it has | nodes of others that its edges start from |
| `edges` | of its relations, at whatever layer, once | whose target lies in it |
| `topology_bytes` | pointers (8 bytes a target, and 8), source ids and weights of its relations | the same of its rows |
| `feature_bytes` | static features of the types it reads | of its nodes |
| `learnable_bytes` | float32 rows and two Adam moments of the types it reads | of its nodes |
| `boundary_nodes` | the target nodes, whose partial aggregates partitions combine, if there are several | own nodes with a cut edge |

The replication factor is the sum over partitions of nodes and halo (of edges) by the number of nodes (edges) that any
has; the balance of a column is its largest value by its mean. For an edge-cut, `dependencies` has what each layer of a full
batch reads from others (`dependencies.Layer`). Hybrid replicas of a partition are counted once, except
in traffic.
"""

from collections.abc import Mapping
from typing import Any

from hetjax.graph.csc import index_dtype
from hetjax.graph.schema import Relation
from hetjax.graph.sizes import Sizes, row_bytes
from hetjax.partition import dependencies
from hetjax.partition.cost import FLOAT
from hetjax.partition.partitioning import Partitioning, Report

MOMENTS = 2
COLUMNS = ("nodes", "halo_nodes", "edges", "topology_bytes", "feature_bytes", "learnable_bytes", "boundary_nodes")


def topology_bytes(sizes: Sizes, relation: Relation, targets: int, edges: int) -> int:
    """Return the bytes of the pointers, source ids and weights of so many targets and edges of a relation."""
    weight = FLOAT if relation in sizes.weighted else 0
    return 8 * (targets + 1) + edges * (index_dtype(sizes.schema.nodes[relation.source]).itemsize + weight)


def feature_bytes(partitioning: Partitioning, rows: Mapping[str, int]) -> dict[str, int]:
    learnable = partitioning.workload.feature_width * FLOAT * (1 + MOMENTS)
    return {
        "feature_bytes": sum(count * row_bytes(partitioning.sizes, name) for name, count in rows.items()),
        "learnable_bytes": sum(
            count * learnable for name, count in rows.items() if name not in partitioning.sizes.features
        ),
    }


def summary(
    partitioning: Partitioning,
    rows: list[dict],
    graph_counts: tuple[int, int],
    sent: Mapping[str, float],
    formulas: Mapping,
) -> dict:
    total = {name: sum(row[name] for row in rows) for name in COLUMNS}
    stored = [sum(row[name] for name in COLUMNS if name.endswith("bytes")) for row in rows]
    sent = {name: round(count) for name, count in sent.items()}
    return {
        "method": partitioning.method,
        "partitions": len(rows),
        "bytes": sum(stored),
        "replication_nodes": round((total["nodes"] + total["halo_nodes"]) / max(1, graph_counts[0]), 4),
        "replication_edges": round(total["edges"] / max(1, graph_counts[1]), 4),
        "balance_edges": balance([row["edges"] for row in rows]),
        "balance_bytes": balance(stored),
        "boundary_nodes_most": max(row["boundary_nodes"] for row in rows),
        "step_bytes": sent | {"total": sum(sent.values())},
        "step_bytes_formulas": dict(formulas),
    }


def balance(values: list[int]) -> float:
    return round(max(values) * len(values) / sum(values), 4) if sum(values) else 1.0


def table(report: Report) -> str:
    """Return the report as aligned text."""
    names = [name for name in report.rows[0] if name != "expected_load_bytes"]
    heads = [name.removesuffix("_bytes").replace("_", " ") for name in names]
    lines = [heads, *([_cell(name, row[name]) for name in names] for row in report.rows)]
    text = aligned(lines)
    total = report.summary
    text.append(
        f"replication {total['replication_nodes']:.2f} of nodes, {total['replication_edges']:.2f} of edges; "
        f"balance (largest by mean) {total['balance_edges']:.2f} of edges, {total['balance_bytes']:.2f} of bytes"
    )
    if "expected_load_bytes" in report.rows[0]:
        load = balance([row["expected_load_bytes"] for row in report.rows])
        text[-1] += f", {load:.2f} of the load that is expected of a step"
    if "cut_share" in total:
        text.append(f"{total['cut_edges']:,} edges are cut, {100 * total['cut_share']:.1f} %")
    if "dependencies" in total:
        text += ["a full batch, all neighbours, all partitions together:"]
        text += aligned(dependencies.lines(total["dependencies"]))
    kinds = ", ".join(f"{name.replace('_', ' ')} {readable(count)}" for name, count in total["step_bytes"].items())
    return "\n".join([*text, f"expected to be sent in a step, by all hosts together: {kinds}"])


def aligned(lines: list[list[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*lines)]
    return ["  ".join(cell.rjust(width) for cell, width in zip(line, widths)) for line in lines]


def _cell(name: str, value: Any) -> str:
    return readable(value) if name.endswith("bytes") else f"{value:,}" if isinstance(value, int) else str(value)


def readable(count: float) -> str:
    """Return a number of bytes in words."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024 or unit == "GiB":
            return f"{count:.0f} B" if unit == "B" else f"{count:,.1f} {unit}"
        count /= 1024
    return ""
