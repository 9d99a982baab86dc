"""Expected costs of a step: rows reached, bytes aggregated, bytes exchanged. They come from counts alone; nothing is read.

Estimates, for comparing plans: each node of a type is taken to have the relation's mean in-degree, so a target samples
`min(fanout, edges / targets)` neighbours (no fewer than it does on average), and a sample to hit every source alike (real
degrees are skewed, so real batches reach fewer distinct rows). `m` samples among `n` nodes of which `u` are there already
leave `u + (n - u) (1 - (1 - 1 / n) ** m)` distinct ones.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from hetjax.graph.schema import Relation
from hetjax.graph.sizes import Sizes, row_bytes
from hetjax.partition.checks import require, require_whole
from hetjax.partition.metatree import LayerAggregations, LocalModel, Metatree, Root

MOST = 2**31 - 1  # of a workload's numbers, whose products are then far from overflowing
FLOAT = ID = 4  # bytes of a float32 and of a node id


@dataclass(frozen=True)
class Workload:
    """The facts about a training step on which its cost depends.

    Attributes:
      batch_size: seed nodes of a step, over all partitions.
      fanout: neighbours sampled per node and relation, the seeds' own hop first; -1: all; the last serves deeper hops.
      hidden: width of every layer's embeddings.
      feature_width: of the learnable features of types that have none.
      network: cost of sending a byte, in bytes read from memory; 10 is about a network of 10 Gbit/s beside 10 GB/s.
    """

    batch_size: int = 1024
    fanout: tuple[int, ...] = (25, 20)
    hidden: int = 64
    feature_width: int = 64
    network: float = 10.0

    def __post_init__(self):
        for name in ("batch_size", "hidden", "feature_width"):
            require_whole(name, getattr(self, name), MOST)
        require(bool(self.fanout), "fanout", [], "a number per hop")
        for fanout in self.fanout:
            what = f"made of numbers in 1..{MOST}, or -1 for all"
            require(type(fanout) is int and (1 <= fanout <= MOST or fanout == -1), "fanout", list(self.fanout), what)
        number = isinstance(self.network, int | float) and 0 <= self.network <= MOST
        require(number, "network", self.network, f"a number in 0..{MOST}")

    def fanout_at(self, hop: int) -> float:
        """Return the neighbours sampled at a hop, 1 being the seeds' own."""
        fanout = self.fanout[min(hop, len(self.fanout)) - 1]
        return np.inf if fanout == -1 else fanout


class Work(NamedTuple):
    """A partition's own share of a step.

    Attributes:
      load: bytes that its aggregations gather: for every sampled edge the source's features or embedding, for every node
        aggregated into itself its own.
      rows: distinct rows of features read, per node type.
    """

    load: float
    rows: Mapping[str, float]


def distinct(nodes: ArrayLike, have: Any, samples: Any) -> Any:
    """Return the expected distinct nodes after `samples` more among `nodes`, of which `have` are there already; numbers or arrays."""
    nodes = np.asarray(nodes, np.float64)
    missed = np.exp(samples * np.log1p(-1 / np.maximum(nodes, 1 + 1e-12)))
    return have + (nodes - have) * (1 - missed)


def width(sizes: Sizes, workload: Workload, node_type: str, layer: int) -> int:
    """Return the width of a type's source embeddings at a layer; 0 is the first."""
    if layer:
        return workload.hidden
    return sizes.features[node_type][0] if node_type in sizes.features else workload.feature_width


def weight_bytes(sizes: Sizes, workload: Workload, layer: int, source: str) -> int:
    """Return the bytes of the weights of one relation or self term, which are counted as R-GCN's: one float32 matrix."""
    return width(sizes, workload, source, layer) * workload.hidden * FLOAT


def links(layer: LayerAggregations) -> tuple[tuple[Relation | str, str], ...]:
    """Return what has weights in a layer: `(relation, its source)` and `(type, the type)`."""
    return tuple((r, r.source) for r in layer.relations) + tuple((name, name) for name in layer.selves)


def program_weights(sizes: Sizes, workload: Workload, local_model: LocalModel) -> int:
    """Return the bytes of all weights of what a partition computes."""
    return sum(
        weight_bytes(sizes, workload, number, source)
        for number, layer in enumerate(local_model.layers)
        for _, source in links(layer)
    )


def work(sizes: Sizes, workload: Workload, tree: Metatree, roots: Iterable[Root]) -> Work:
    """Return what a step of the owner of `roots` is expected to read; each target type has `batch_size` seeds, or all."""
    nodes, program, together = sizes.schema.nodes, tree.local_model(roots), tree.exchange == "every"
    seeds = {target: min(workload.batch_size, nodes[target]) for target in tree.targets}
    inner: dict[str, float] = {}
    load = 0.0
    for layer in reversed(range(tree.hops)):
        layer_aggregations, below = program.layers[layer], dict(inner) if tree.reads_own else {}
        samples: dict[str, float] = {}
        fanout = workload.fanout_at(tree.hops - layer)
        for aggregation, count in ((layer_aggregations.seeds, seeds), (layer_aggregations.inner, inner)):
            for relation in aggregation.relations:
                sampled = count[relation.target] * min(fanout, sizes.edges[relation] / max(1, nodes[relation.target]))
                samples[relation.source] = samples.get(relation.source, 0.0) + sampled
                load += sampled * _row(sizes, workload, relation.source, layer)
            for name in aggregation.selves:
                load += count[name] * _row(sizes, workload, name, layer)
        if not together:  # a seed that is aggregated into itself is an inner node of the layer below
            below |= {name: max(below.get(name, 0.0), seeds[name]) for name in layer_aggregations.seeds.selves}
        names = sorted(below.keys() | samples.keys())
        inner = {n: float(distinct(nodes[n], below.get(n, 0.0), samples.get(n, 0.0))) for n in names}
    least = seeds if together else {}
    return Work(load, {name: max(inner.get(name, 0.0), least.get(name, 0.0)) for name in program.reads})


def _row(sizes: Sizes, workload: Workload, node_type: str, layer: int) -> int:
    if layer == 0 and node_type in sizes.features:
        return row_bytes(sizes, node_type)
    return width(sizes, workload, node_type, layer) * FLOAT


def learnable_row(workload: Workload) -> int:
    """Return the bytes that a learnable row's gradient takes on the wire: its id and its float32 values."""
    return ID + workload.feature_width * FLOAT
