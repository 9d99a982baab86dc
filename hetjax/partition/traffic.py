"""Bytes that all hosts together are expected to send in a training step, by kind; formulas, and nothing measured.

Collectives are counted as a ring does them: an all-reduce of `n` bytes over `P` hosts sends `2 (P - 1) n` in all.
Counts of rows are the estimates of `cost` and `measure`. Remote sampling, which data parallelism over an edge-cut also needs, is not in
it.
"""

from hetjax.graph.sizes import row_bytes
from hetjax.partition.assign import Costs
from hetjax.partition.cost import FLOAT, program_weights, weight_bytes
from hetjax.partition.cuts import pieces
from hetjax.partition.edge_cut import EdgeCut
from hetjax.partition.measure import Cut, remote_rows
from hetjax.partition.meta_partitioning import MetaPartitioning
from hetjax.partition.metatree import Metatree

META_FORMULAS = {
    "partial_aggregations": "2 (R - 1) x batch x targets x hidden x 4 x exchanges: an all-reduce of [batch, hidden] float32 over R partitions, and another for each relation that is cut; one exchange, or, where aggregations look at the target, one a layer forward and one a layer but the last backward",
    "replicated_weights": "sum over weights (R-GCN's matrices) of 2 (hosts that have it - 1) x bytes: an all-reduce of gradients",
    "shared_learnable_rows": "sum over types of (hosts that read it - 1) x sum over these of expected distinct rows x (4 + 4 width): ids and gradients",
}
CUT_FORMULAS = {
    "remote_features": "sum over types with static features of expected remote distinct rows x bytes a row; nothing of a full batch, whose features are copied",
    "remote_learnable_rows": "sum over learnable types of expected remote distinct rows x (4 width + 4 width): the row, and its gradient back",
    "gradients": "2 (P - 1) x bytes of the model's weights (R-GCN's): an all-reduce over P partitions",
}


def costs(plan: MetaPartitioning) -> tuple[Costs, list[int]]:
    """Return the costs of a plan's metatree, and its partitions as `Costs` knows them."""
    masks = [sum(1 << plan.tree.roots.index(root) for root in roots) for roots in plan.owners]
    return Costs(plan.sizes, plan.tree, plan.workload, len(plan.owners), plan.data), masks


def of_meta(plan: MetaPartitioning) -> dict[str, float]:
    """Return the bytes of relation-aggregation-first execution, by the kinds of `META_FORMULAS`."""
    plan_costs, masks = costs(plan)
    cost, workload = plan_costs.cost(masks), plan.workload
    exchanges = 1 if plan.tree.exchange == "last" else 2 * plan.tree.hops - 1
    payload = workload.batch_size * len(plan.tree.targets) * workload.hidden * FLOAT * (1 + len(plan.cuts))
    return {
        "partial_aggregations": 2 * (len(plan.owners) - 1) * payload * exchanges,
        "replicated_weights": cost.weights + _weights_of_pieces(plan),
        "shared_learnable_rows": cost.rows,
    }


def _weights_of_pieces(plan: MetaPartitioning) -> int:
    """Return what the weights that pieces share come to beside what they would if each piece had its own."""
    more, data = 0, plan.data
    for relation, count in plan.cuts.items():
        for layer in range(plan.tree.hops):
            used = [
                [piece in part.local_model.layers[layer].relations for piece in pieces(relation, count)]
                for part in plan.parts
            ]
            alone, together = sum(map(sum, used)), sum(map(any, used))
            with_a_piece = sum(map(any, zip(*used)))
            size = weight_bytes(plan.sizes, plan.workload, layer, relation.source)
            more += 2 * size * (data * together - min(1, together) - (data * alone - with_a_piece))
    return more


def of_cut(cut: EdgeCut, counts: Cut) -> dict[str, float]:
    """Return the bytes of data-parallel execution over an edge-cut, with remote features fetched, by the kinds of `CUT_FORMULAS`."""
    sizes, target = cut.sizes, cut.sizes.schema.target
    model = Metatree(sizes.schema, (target,), cut.hops, self_term=cut.reads_own)
    remote = remote_rows(cut, counts, (target,))
    learned = sum(rows for name, rows in remote.items() if name not in sizes.features)
    return {
        "remote_features": sum(remote[name] * row_bytes(sizes, name) for name in sizes.features),
        "remote_learnable_rows": learned * 2 * cut.workload.feature_width * FLOAT,
        "gradients": 2 * (cut.parts - 1) * program_weights(sizes, cut.workload, model.local_model(model.roots)),
    }
