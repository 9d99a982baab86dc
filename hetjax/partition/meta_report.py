"""The costs of a meta-partitioning, from the sizes of the graph alone."""

from hetjax.partition import traffic
from hetjax.partition.meta_partitioning import MetaPartitioning, Part
from hetjax.partition.partitioning import Report
from hetjax.partition.report import feature_bytes, summary, topology_bytes


def report(plan: MetaPartitioning) -> Report:
    """Return the report, as `reports.report` does."""
    costs, masks = traffic.costs(plan)
    rows = [
        _part_row(plan, part) | {"expected_load_bytes": round(costs.of(mask)[0])}
        for part, mask in zip(plan.parts, masks)
    ]
    nodes = sum(plan.sizes.schema.nodes[name] for name in frozenset().union(*map(_touched, plan.parts)))
    edges = sum(plan.sizes.edges[r] for r in plan.model.relations)
    total = summary(plan, rows, (nodes, edges), traffic.of_meta(plan), traffic.META_FORMULAS)
    cut = {str(relation): count for relation, count in plan.cuts.items()}
    opened = {str(relation): list(counts) for relation, counts in plan.opened.items()}
    return Report(rows, total | {"mesh": plan.mesh} | ({"cut": cut, "pieces_opened": opened} if cut else {}))


def _touched(part: Part) -> frozenset[str]:
    """Return the types of which a partition has nodes."""
    ends = frozenset(name for r in part.local_model.relations for name in (r.source, r.target))
    return ends | frozenset(part.local_model.reads) | frozenset(root.target for root in part.roots)


def _part_row(plan: MetaPartitioning, part: Part) -> dict:
    sizes, nodes, relations = plan.sizes, plan.sizes.schema.nodes, part.local_model.relations
    boundary = sum(nodes[target] for target in plan.tree.targets)
    return {
        "part": part.number,
        "hosts": " ".join(map(str, part.hosts)),
        "sub_metatrees": len(part.roots),
        "relations": len(relations),
        "nodes": sum(nodes[name] for name in _touched(part)),
        "halo_nodes": 0,
        "edges": sum(sizes.edges[r] for r in relations),
        "topology_bytes": sum(topology_bytes(sizes, r, nodes[r.target], sizes.edges[r]) for r in relations),
        **feature_bytes(plan, {name: nodes[name] for name in part.local_model.reads}),
        "boundary_nodes": boundary if len(plan.parts) > 1 else 0,
    }
