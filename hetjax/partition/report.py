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

The replication factor is the sum over partitions of nodes and halo (of edges) by the number of nodes (edges) that any has;
the balance of a column is its largest value by its mean. Hybrid replicas of a partition are counted once, except in traffic.
"""

import csv
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from hetjax.errors import InputError
from hetjax.graph.csc import index_dtype
from hetjax.graph.hetgraph import HetGraph
from hetjax.graph.schema import Relation
from hetjax.graph.sizes import Sizes, check_digest, row_bytes, sizes
from hetjax.graph.store import new_folder
from hetjax.partition import manifest
from hetjax.partition.assign import Costs
from hetjax.partition.cost import FLOAT, ID, learnable_row, program_weights
from hetjax.partition.measure import Cut, measure, remote_rows
from hetjax.partition.metatree import Metatree
from hetjax.partition.plan import EdgeCut, Plan

MOMENTS = 2
COLUMNS = ("nodes", "halo_nodes", "edges", "topology_bytes", "feature_bytes", "learnable_bytes", "boundary_nodes")

RAF_FORMULAS = {
    "partial_aggregations": "2 (R - 1) x batch x hidden x 4 x exchanges: a ring all-reduce of [batch, hidden] float32 over R partitions; one exchange, or, where folds look at the target, one a layer forward and one a layer but the last backward",
    "replicated_weights": "sum over weights (R-GCN's matrices) of 2 (hosts that have it - 1) x bytes: a ring all-reduce of gradients",
    "shared_learnable_rows": "sum over types of (hosts that read it - 1) x sum over these of expected distinct rows x (4 + 4 width): ids and gradients",
}
VANILLA_FORMULAS = {
    "remote_features": "sum over types with static features of expected remote distinct rows x (4 + bytes a row): the id there, the features back",
    "remote_learnable_rows": "sum over learnable types of expected remote distinct rows x (4 + 4 width + 4 + 4 width): the id there, the row back, the id and its gradient there",
    "gradients": "2 (P - 1) x bytes of the model's weights (R-GCN's): a ring all-reduce over P partitions",
}


class Report(NamedTuple):
    """A report; `rows` has a dictionary of `COLUMNS` per partition, `summary` the rest, both plain values."""

    rows: list[dict[str, Any]]
    summary: dict[str, Any]


def report(plan: Plan | EdgeCut, graph: HetGraph | None = None) -> Report:
    """Report on a plan; an edge-cut's needs the graph, and reads all its edges.

    Traffic is in bytes that all hosts together send in a training step, by kind, expected (`cost`, `measure`); the formulas
    stand beside it. Remote sampling, which vanilla execution also needs, is not in it.
    """
    if isinstance(plan, Plan):
        return _meta(plan)
    if graph is None:
        raise InputError("the report of an edge-cut needs the graph")
    check_digest(plan.sizes, sizes(graph), "the graph")
    return _edge_cut(plan, measure(graph, plan))


def _meta(plan: Plan) -> Report:
    about, nodes, rows = plan.sizes, plan.sizes.schema.nodes, []
    everywhere: tuple[set, set] = set(), set()
    boundary = sum(nodes[target] for target in plan.tree.targets) if len(plan.parts) > 1 else 0
    costs = Costs(about, plan.tree, plan.workload, len(plan.parts), plan.data)
    masks = [sum(1 << plan.tree.roots.index(root) for root in part.roots) for part in plan.parts]
    for part, mask in zip(plan.parts, masks):
        program = part.program
        types = set(program.reads) | {root.target for root in part.roots}
        types |= {name for r in program.relations for name in (r.source, r.target)}
        everywhere[0].update(types)
        everywhere[1].update(program.relations)
        reads = {name: nodes[name] for name in program.reads}
        row = {"part": part.number, "hosts": " ".join(map(str, part.hosts)), "sub_metatrees": len(part.roots)}
        row |= {"relations": len(program.relations), "nodes": sum(nodes[name] for name in types), "halo_nodes": 0}
        row |= {"edges": sum(about.edges[r] for r in program.relations)}
        row |= {
            "topology_bytes": sum(topology_bytes(about, r, nodes[r.target], about.edges[r]) for r in program.relations)
        }
        row |= _feature_bytes(plan, reads) | {
            "boundary_nodes": boundary,
            "expected_load_bytes": round(costs.of(mask)[0]),
        }
        rows.append(row)
    held = sum(nodes[name] for name in everywhere[0]), sum(about.edges[r] for r in everywhere[1])
    hops, workload = plan.tree.hops, plan.workload
    exchanges = 1 if plan.tree.exchange == "last" else 2 * hops - 1
    cost = costs.cost(masks)
    traffic = {
        "partial_aggregations": 2 * (len(plan.parts) - 1) * workload.batch_size * workload.hidden * FLOAT * exchanges,
        "replicated_weights": cost.weights,
        "shared_learnable_rows": cost.rows,
    }
    return Report(rows, _summary(plan, rows, held, traffic, RAF_FORMULAS) | {"mesh": plan.mesh})


def _edge_cut(cut: EdgeCut, counts: Cut) -> Report:
    about, rows = cut.sizes, []
    for part in range(cut.parts):
        own = {name: int(count[part]) for name, count in counts.nodes.items()}
        edges = {relation: int(count[part].sum()) for relation, count in counts.edges.items()}
        row = {"part": part, "hosts": str(part), "relations": len(edges), "nodes": sum(own.values())}
        row |= {"halo_nodes": sum(int(count[part]) for count in counts.halo.values()), "edges": sum(edges.values())}
        row |= {"topology_bytes": sum(topology_bytes(about, r, own[r.target], edges[r]) for r in edges)}
        row |= _feature_bytes(cut, own)
        row |= {"boundary_nodes": sum(int(count[part]) for count in counts.boundary.values())}
        rows.append(row | {"training_nodes": int(counts.train[part])})
    target = about.schema.target
    remote, width = remote_rows(cut, counts, (target,)), cut.workload.feature_width * FLOAT
    static = {name: count for name, count in remote.items() if name in about.features}
    learned = sum(count for name, count in remote.items() if name not in static)
    model = Metatree(about.schema, (target,), cut.hops)
    weights = program_weights(about, cut.workload, model.program(model.roots))
    traffic = {
        "remote_features": sum(count * (ID + row_bytes(about, name)) for name, count in static.items()),
        "remote_learnable_rows": learned * (ID + width + learnable_row(cut.workload)),
        "gradients": 2 * (cut.parts - 1) * weights,
    }
    held = sum(about.schema.nodes.values()), sum(about.edges.values())
    crossing = sum(int(count.sum() - count.trace()) for count in counts.edges.values())
    shares = {str(r): _share(count.sum() - count.trace(), count.sum()) for r, count in counts.edges.items()}
    halo = sum(row["halo_nodes"] for row in rows)
    more = {"cut_edges": crossing, "cut_share": _share(crossing, held[1]), "cut_share_of": shares, "halo_nodes": halo}
    return Report(rows, _summary(cut, rows, held, traffic, VANILLA_FORMULAS) | more)


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


def _summary(plan, rows: list[dict], held: tuple[int, int], traffic: Mapping[str, float], formulas: Mapping) -> dict:
    total = {name: sum(row[name] for row in rows) for name in COLUMNS}
    stored = [sum(row[name] for name in COLUMNS if name.endswith("bytes")) for row in rows]
    traffic = {name: round(count) for name, count in traffic.items()}
    return {
        "method": plan.method,
        "partitions": len(rows),
        "bytes": sum(stored),
        "replication_nodes": round((total["nodes"] + total["halo_nodes"]) / max(1, held[0]), 4),
        "replication_edges": round(total["edges"] / max(1, held[1]), 4),
        "balance_edges": _balance([row["edges"] for row in rows]),
        "balance_bytes": _balance(stored),
        "boundary_nodes_most": max(row["boundary_nodes"] for row in rows),
        "step_bytes": traffic | {"total": sum(traffic.values())},
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
