"""Compilation of operations that a run on CPUs will call, while it does its earlier work: it takes longer than reading a small graph."""

from collections import Counter
from collections.abc import Container, Iterable, Mapping

from hetjax.graph.hetgraph import HetGraph
from hetjax.kernels import adamw, folded_attention_kernels, native, orders
from hetjax.kernels import neighbour_sums as kernels
from hetjax.kernels import table_rows as rows
from hetjax.kernels.cost_model import using
from hetjax.kernels.grouping import FEWEST, shape_of
from hetjax.kernels.orders import Work
from hetjax.kernels.products import multiply_turned
from hetjax.kernels.sums_at import sum_at, sum_at_back
from hetjax.models.hgnn import Stack
from hetjax.models.layer import Layer
from hetjax.system import runtime

MEASURED = kernels.attend, kernels.sums, kernels.group, rows.read  # what `calibration.measure` calls


def before_measuring() -> None:
    """Compile the operations with which costs are measured. All others wait: they would be measured too."""
    if runtime.on_cpus() and native.usable():
        native.expect(*MEASURED)


def after_measuring(attention: bool) -> None:
    """Compile the operations that most models call in training, and those that sample neighbours.

    Args:
      attention: whether the model is one of attention, whose backward pass reads the edges too.
    """
    if native.taken():
        native.expect(
            *((kernels.attend_back, kernels.to_sources) if attention else ()),
            multiply_turned,
            rows.update,
            adamw.update,
        )
        native.expect_calls("hetjax.sampling.rehearsal.rehearse")


def before_multiplying(sparse: Container[str]) -> None:
    """Compile the operations that multiply the rows of a batch, if there are types with features that are `SparseRows`."""
    if sparse and native.taken():
        native.expect(sum_at, sum_at_back)


def before_evaluating(model: Stack, graph: HetGraph, nodes: Mapping[str, int], sparse: Container[str] = ()) -> None:
    """Compile the attention of R-GAT and HGT that aggregates first, if evaluation has some: without a backward pass it
    costs less more often than in training.

    The graph's sizes determine this, for a graph that one process evaluates whole. Operations that they do not
    determine, for example those for relations that are aggregated together, are compiled when they are called.

    Args:
      nodes: the number of nodes that are evaluated after an epoch, per root type.
      sparse: types with features that are `SparseRows`, which are always multiplied first.
    """
    if native.taken():
        needed = graph.schema.layer_types(model.roots, len(model.layers), model.reads_own)[1:]
        parts = [1.0] * len(model.layers)  # of the nodes of those types that are evaluated
        parts[-1] = sum(nodes.values()) / sum(graph.schema.nodes[t] for t in model.roots)
        given = [sparse] + [()] * (len(model.layers) - 1)
        with using(model.costs):
            needs_kernel = any(_folds_first(*at, graph) for at in zip(model.layers, needed, parts, given))
        if needs_kernel:
            native.expect(folded_attention_kernels.attend)


def _folds_first(layer: Layer, types: Iterable[str], part: float, sparse: Container[str], graph: HetGraph) -> bool:
    """Return whether a layer's attention will call that kernel."""
    nodes, traits = graph.schema.nodes, layer.traits
    if not traits.heads or not traits.products:
        return False
    for t in types:
        relations = {r for r in set(graph.schema.into(t)) & set(layer.relations) if r.source not in sparse}
        alike = Counter(shape_of(layer, relation) for relation in relations)
        alike[None] = 0  # these are folded alone
        works: dict[str, dict[str, Work]] = {}
        for relation in relations:
            if alike[shape_of(layer, relation)] < FEWEST:  # the others are folded together
                edges = int(part * graph.relations[relation].edges)
                shape = nodes[relation.source], int(part * nodes[t]), edges, layer.widths[relation.source]
                work = Work(*shape, layer.features, traits.heads, traits.products, trained=False, grouped=False)
                works.setdefault(relation.source, {})[relation.key] = work
        for of_source in works.values():
            readers = orders.shared(of_source) if traits.shared_inputs else frozenset()
            if any(not orders.multiplies_first(work) for key, work in of_source.items() if key not in readers):
                return True
    return False
