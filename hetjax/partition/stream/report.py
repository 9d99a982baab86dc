"""The quality of a partitioning of a stream, with and without full neighbours.

| column | |
|---|---|
| `own_nodes` | nodes that the partition trains |
| `nodes`, `edges` | edges that were placed there, each in one partition, and their ends |
| `full_nodes`, `full_edges` | with all neighbours of the nodes that it trains, and the edges to them |

A replication factor is the sum over partitions of nodes by the number of nodes, those without any edge left out (CATGNN, section
5.1); a balance is the largest value by the mean; an edge is cut whose ends are trained by two partitions.
"""

from typing import Any

import numpy as np

from hetjax.partition.partitioning import Report
from hetjax.partition.report import aligned, balance, readable
from hetjax.partition.stream.neighbours import Full
from hetjax.partition.stream.run import Streamed
from hetjax.partition.stream.state import sizes
from hetjax.system.runtime import peak_memory


def report(division: Streamed, full: Full, hops: int) -> Report:
    """Return the report in numbers.

    Args:
      full: with full neighbours of `hops` hops.
    """
    parts, method = division.method.options.parts, division.method
    placed, reached = sizes(method.replicas, parts), sizes(full.nodes, parts)
    trained = np.bincount(division.owners, minlength=parts)
    alone = int((~method.replicas.any(axis=1)).sum())
    columns = {
        "own_nodes": trained,
        "nodes": placed,
        "edges": method.loads,
        "full_nodes": reached,
        "full_edges": full.edges,
    }
    rows = [{"part": part} | {name: int(of[part]) for name, of in columns.items()} for part in range(parts)]
    connected = max(1, division.nodes - alone)
    shared = int((_several(method.replicas)).sum())
    summary: dict[str, Any] = {
        "method": method.name,
        "partitions": parts,
        "nodes": division.nodes,
        "edges": division.edges,
        "nodes_without_edges": alone,
        "hops": hops,
        "replication_factor": round(int(placed.sum()) / connected, 4),
        "replication_factor_full": round((int(reached.sum()) - alone) / connected, 4),
        "balance_edges": balance(method.loads.tolist()),
        "balance_nodes": balance(placed.tolist()),
        "balance_own_nodes": balance(trained.tolist()),
        "balance_full_nodes": balance(reached.tolist()),
        "cut_edges": full.cut,
        "cut_share": round(full.cut / division.edges, 4),
        "shared_nodes": shared,
        "passes": division.passes,
        "seconds": round(division.seconds, 3),
        "edges_per_second": round(division.edges / division.seconds),
        "peak_memory_bytes": peak_memory(),
    }
    summary |= method.about
    return Report(rows, summary)


def _several(replicas: np.ndarray) -> np.ndarray:
    """Return whether each node is in several partitions, bool `[nodes]`."""
    many = (replicas & (replicas - np.uint64(1))) != 0
    return many.any(axis=1) | ((replicas != 0).sum(axis=1) > 1)


def table(result: Report) -> str:
    """Return the report as aligned text."""
    total = result.summary
    heads = [name.replace("_", " ") for name in result.rows[0]]
    lines = aligned([heads, *([f"{value:,}" for value in row.values()] for row in result.rows)])
    hops = f"{total['hops']} hop" + "s" * (total["hops"] > 1)
    return "\n".join(
        [
            *lines,
            f"replication factor {total['replication_factor']:.3f}, with full neighbours ({hops}) "
            f"{total['replication_factor_full']:.3f}; {100 * total['cut_share']:.1f} % of the edges are cut",
            f"balance (largest by mean) {total['balance_edges']:.3f} of edges, {total['balance_nodes']:.3f} of nodes, "
            f"{total['balance_own_nodes']:.3f} of nodes trained, {total['balance_full_nodes']:.3f} of nodes with neighbours",
            f"{total['edges']:,} edges in {total['seconds']:.1f} s, {total['passes']} passes: "
            f"{total['edges_per_second']:,} edges a second; peak memory {readable(total['peak_memory_bytes'])}",
        ]
    )
