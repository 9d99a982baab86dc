"""What a partitioning costs: per partition nodes, edges, bytes and boundary; in all replication, balance and traffic.

| column | meta-partitioning | edge-cut |
|---|---|---|
| `nodes` | nodes of the types that its relations and self terms touch | nodes that lie in it |
| `halo_nodes` | none: whatever it folds it has | nodes of others that its edges start from |
| `edges` | of its relations, at whatever layer, once | whose target lies in it |
| `topology_bytes` | pointers (8 bytes a target, and 8) and source ids of its relations | the same of its rows |
| `feature_bytes` | static features of the types it reads | of its nodes |
| `learnable_bytes` | float32 rows and two Adam moments of the types it reads | of its nodes |
| `boundary_nodes` | the target nodes, whose carriers partitions combine, if there are several | own nodes with a cut edge |

The replication factor is the sum over partitions of nodes and halo (of edges) by the number of nodes (edges) that any
has; the balance of a column is its largest value by its mean. Hybrid replicas of a partition are counted once, except
in traffic.
"""

import csv
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from hetjax.durable import new_folder
from hetjax.errors import InputError
from hetjax.graph.csc import index_dtype
from hetjax.graph.hetgraph import HetGraph
from hetjax.graph.schema import Relation
from hetjax.graph.sizes import Sizes, check_digest, row_bytes, sizes
from hetjax.partition import manifest, traffic
from hetjax.partition.cost import FLOAT
from hetjax.partition.measure import Cut, measure
from hetjax.partition.plan import EdgeCut, Part, Plan

MOMENTS = 2
COLUMNS = ("nodes", "halo_nodes", "edges", "topology_bytes", "feature_bytes", "learnable_bytes", "boundary_nodes")


class Report(NamedTuple):
    """A report; `rows` has a dictionary of `COLUMNS` per partition, `summary` the rest, both plain values."""

    rows: list[dict[str, Any]]
    summary: dict[str, Any]


def report(plan: Plan | EdgeCut, graph: HetGraph | None = None) -> Report:
    """Report on a plan; an edge-cut's needs the graph, and reads all its edges.

    Traffic is expected, in bytes that all hosts together send in a training step (`traffic`), with its formulas.
    """
    if isinstance(plan, Plan):
        return _meta(plan)
    if graph is None:
        raise InputError("the report of an edge-cut needs the graph")
    check_digest(plan.sizes, sizes(graph), "the graph")
    return _edge_cut(plan, measure(graph, plan))


def _meta(plan: Plan) -> Report:
    of, masks = traffic.costs(plan)
    rows = [
        _part_row(plan, part) | {"expected_load_bytes": round(of.of(mask)[0])} for part, mask in zip(plan.parts, masks)
    ]
    nodes = sum(plan.sizes.schema.nodes[name] for name in frozenset().union(*map(_touched, plan.parts)))
    edges = sum(plan.sizes.edges[r] for r in plan.model.relations)
    summary = _summary(plan, rows, (nodes, edges), traffic.raf(plan), traffic.RAF_FORMULAS)
    return Report(rows, summary | {"mesh": plan.mesh})


def _touched(part: Part) -> frozenset[str]:
    """The types of which a partition has nodes."""
    ends = frozenset(name for r in part.program.relations for name in (r.source, r.target))
    return ends | frozenset(part.program.reads) | frozenset(root.target for root in part.roots)


def _part_row(plan: Plan, part: Part) -> dict:
    about, nodes, relations = plan.sizes, plan.sizes.schema.nodes, part.program.relations
    boundary = sum(nodes[target] for target in plan.tree.targets)
    return {
        "part": part.number,
        "hosts": " ".join(map(str, part.hosts)),
        "sub_metatrees": len(part.roots),
        "relations": len(relations),
        "nodes": sum(nodes[name] for name in _touched(part)),
        "halo_nodes": 0,
        "edges": sum(about.edges[r] for r in relations),
        "topology_bytes": sum(topology_bytes(about, r, nodes[r.target], about.edges[r]) for r in relations),
        **_feature_bytes(plan, {name: nodes[name] for name in part.program.reads}),
        "boundary_nodes": boundary if len(plan.parts) > 1 else 0,
    }


def _edge_cut(cut: EdgeCut, counts: Cut) -> Report:
    rows = [_cut_row(cut, counts, part) for part in range(cut.parts)]
    held = sum(cut.sizes.schema.nodes.values()), sum(cut.sizes.edges.values())
    crossing = {str(r): int(count.sum() - count.trace()) for r, count in counts.edges.items()}
    shares = {str(r): _share(crossing[str(r)], count) for r, count in cut.sizes.edges.items()}
    summary = _summary(cut, rows, held, traffic.vanilla(cut, counts), traffic.VANILLA_FORMULAS)
    return Report(
        rows,
        summary
        | {
            "cut_edges": sum(crossing.values()),
            "cut_share": _share(sum(crossing.values()), held[1]),
            "cut_share_of": shares,
            "halo_nodes": sum(row["halo_nodes"] for row in rows),
        },
    )


def _cut_row(cut: EdgeCut, counts: Cut, part: int) -> dict:
    own = {name: int(count[part]) for name, count in counts.nodes.items()}
    edges = {relation: int(count[part].sum()) for relation, count in counts.edges.items()}
    return {
        "part": part,
        "hosts": str(part),
        "relations": len(edges),
        "nodes": sum(own.values()),
        "halo_nodes": sum(int(count[part]) for count in counts.halo.values()),
        "edges": sum(edges.values()),
        "topology_bytes": sum(topology_bytes(cut.sizes, r, own[r.target], edges[r]) for r in edges),
        **_feature_bytes(cut, own),
        "boundary_nodes": sum(int(count[part]) for count in counts.boundary.values()),
        "training_nodes": int(counts.train[part]),
    }


def _share(part: int, whole: int) -> float:
    return round(float(part / whole), 4) if whole else 0.0


def topology_bytes(about: Sizes, relation: Relation, targets: int, edges: int) -> int:
    """Bytes of the pointers and source ids of so many targets and edges of a relation."""
    return 8 * (targets + 1) + edges * index_dtype(about.schema.nodes[relation.source]).itemsize


def _feature_bytes(plan: Plan | EdgeCut, rows: Mapping[str, int]) -> dict[str, int]:
    learnable = plan.workload.feature_width * FLOAT * (1 + MOMENTS)
    return {
        "feature_bytes": sum(count * row_bytes(plan.sizes, name) for name, count in rows.items()),
        "learnable_bytes": sum(count * learnable for name, count in rows.items() if name not in plan.sizes.features),
    }


def _summary(plan, rows: list[dict], held: tuple[int, int], sent: Mapping[str, float], formulas: Mapping) -> dict:
    total = {name: sum(row[name] for row in rows) for name in COLUMNS}
    stored = [sum(row[name] for name in COLUMNS if name.endswith("bytes")) for row in rows]
    sent = {name: round(count) for name, count in sent.items()}
    return {
        "method": plan.method,
        "partitions": len(rows),
        "bytes": sum(stored),
        "replication_nodes": round((total["nodes"] + total["halo_nodes"]) / max(1, held[0]), 4),
        "replication_edges": round(total["edges"] / max(1, held[1]), 4),
        "balance_edges": _balance([row["edges"] for row in rows]),
        "balance_bytes": _balance(stored),
        "boundary_nodes_most": max(row["boundary_nodes"] for row in rows),
        "step_bytes": sent | {"total": sum(sent.values())},
        "step_bytes_formulas": dict(formulas),
    }


def _balance(values: list[int]) -> float:
    return round(max(values) * len(values) / sum(values), 4) if sum(values) else 1.0


def table(report: Report) -> str:
    """The report as aligned text."""
    names = [name for name in report.rows[0] if name != "expected_load_bytes"]
    heads = [name.removesuffix("_bytes").replace("_", " ") for name in names]
    lines = [heads, *([_cell(name, row[name]) for name in names] for row in report.rows)]
    widths = [max(map(len, column)) for column in zip(*lines)]
    text = ["  ".join(cell.rjust(width) for cell, width in zip(line, widths)) for line in lines]
    about = report.summary
    text.append(
        f"replication {about['replication_nodes']:.2f} of nodes, {about['replication_edges']:.2f} of edges; "
        f"balance (largest by mean) {about['balance_edges']:.2f} of edges, {about['balance_bytes']:.2f} of bytes"
    )
    if "expected_load_bytes" in report.rows[0]:
        load = _balance([row["expected_load_bytes"] for row in report.rows])
        text[-1] += f", {load:.2f} of the load that is expected of a step"
    if "cut_share" in about:
        text.append(f"{about['cut_edges']:,} edges are cut, {100 * about['cut_share']:.1f} %")
    kinds = ", ".join(f"{name.replace('_', ' ')} {readable(count)}" for name, count in about["step_bytes"].items())
    return "\n".join([*text, f"expected to be sent in a step, by all hosts together: {kinds}"])


def _cell(name: str, value: Any) -> str:
    return readable(value) if name.endswith("bytes") else f"{value:,}" if isinstance(value, int) else str(value)


def readable(count: float) -> str:
    """Bytes, to read."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024 or unit == "GiB":
            return f"{count:.0f} B" if unit == "B" else f"{count:,.1f} {unit}"
        count /= 1024
    return ""


def save(plan: Plan | EdgeCut, folder: str | os.PathLike, graph: HetGraph | None = None) -> Report:
    """Write the new folder: `manifest.json` and what belongs to it, `report.json`, `report.csv` and `plan.png`.

    Args:
      plan: with `copied`, every partition gets a store of its own, `part_0` and so on.
      folder: must not exist; it appears whole or not at all.
      graph: what was partitioned; not needed for a meta-partitioning of which nothing is copied.

    Raises:
      InputError: the folder exists or cannot be written, or another graph than was partitioned.
    """
    from hetjax.partition.picture import draw

    made = report(plan, graph)
    with new_folder(folder) as partial:
        manifest.write(plan, partial, graph)
        about = made.summary | {"parts": made.rows}
        (partial / "report.json").write_text(json.dumps(about, indent=1))
        with open(partial / "report.csv", "w", newline="") as stream:
            writer = csv.DictWriter(stream, list(made.rows[0]))
            writer.writeheader()
            writer.writerows(made.rows)
        draw(plan, made, Path(partial) / "plan.png")
    return made
