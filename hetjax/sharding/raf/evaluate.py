"""Exact evaluation on a mesh: every partition aggregates its own relations in full, and process 0 combines at the seeds.

No process reads the edges that another partition aggregates. A partition computes the embeddings of its inner nodes layer by layer, as
`hetjax.sharding.evaluate` does on one device, in the process that has the first of its devices; for the seeds it
computes partial aggregates, which process 0 combines and finishes where training would exchange them.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from hetjax.kernels.orders import forward_only
from hetjax.kernels.partials import Monoid
from hetjax.models import aggregate
from hetjax.models.hgnn import Stack
from hetjax.models.traits import width_made
from hetjax.sampling.blocks import Block, pad
from hetjax.sharding.evaluate import Chunks
from hetjax.sharding.raf.cut import Partial, Pieces, fold_seeds, united
from hetjax.sharding.raf.features import SharedTable
from hetjax.sharding.raf.sample import PartitionModel
from hetjax.sharding.raf.site import Site, partition_models
from hetjax.sharding.trainer import Rows, TrainState
from hetjax.system.mapped import on_host


class RafEvaluator:
    """The evaluator that computes the last embeddings of any nodes of the root type from all of their neighbours.

    Args:
      model: the model whose layers are applied.
      site: this process's place.
      edges: as in `Chunks`.
    """

    def __init__(self, model: Stack, site: Site, edges: int):
        self.model, self.site, self.models = model, site, partition_models(site.plan)
        self.chunks = {
            part: Chunks(graph, edges, model.reads_own) for part, graph in site.graphs.items() if site.leads(part)
        }
        self.embedded = jax.jit(self._embed, static_argnames=("depth", "node_type"))
        self.fold = jax.jit(self._fold, static_argnames=("depth", "part"))
        self.finish = jax.jit(self._finish, static_argnames="depth")

    def embed(self, states: Mapping[int, TrainState], nodes: Mapping[str, np.ndarray]) -> dict[str, np.ndarray] | None:
        """Return the last embeddings of some nodes, float32 `[nodes, width]` per root type, in process 0; None in the others.

        Args:
          states: the states of the partitions of this process.
          nodes: distinct ids per root type.
        """
        ((root, ids),) = nodes.items()
        h = self._embeddings(states, ids)
        return {root: h} if h is not None and self.site.group.first else None

    def _embeddings(self, states: Mapping[int, TrainState], ids: np.ndarray) -> np.ndarray | None:
        if not len(ids):
            return np.empty((0, width_made(self.model.layers[-1], self.model.target)), np.float32)
        here = {part: jax.tree.map(on_first, states[part]) for part in self.chunks}
        x = {part: self._features(part, state) for part, state in here.items()}
        last = len(self.model.layers) - 1
        h: np.ndarray | None = None
        for depth in range(last + 1):
            if depth == last or self.models[0].exchanged:
                folds = {part: self._seeds(part, state.params, x[part], depth, ids, h) for part, state in here.items()}
                own, total = self._combined(depth, folds)
                if self.site.group.first:
                    h = np.asarray(self.finish(next(iter(here.values())).params, total, own, depth=depth))
                if depth < last:
                    h = self.site.group.broadcast("evaluation", {} if h is None else {"h": h})["h"]
            if depth < last:
                x = {part: self._inner(part, state.params, x[part], depth) for part, state in here.items()}
        return h

    def _features(self, part: int, state: TrainState) -> dict[str, np.ndarray]:
        graph, learned = self.site.graphs[part], {t: on_host(table.rows) for t, table in state.tables.items()}
        reads = self.models[part].local_model.reads
        return {t: learned[t] if t in learned else graph.features[t] for t in reads}

    def _inner(self, part: int, params: Any, x: Mapping[str, np.ndarray], depth: int) -> dict[str, np.ndarray]:
        """Return the embeddings that layer `depth` makes of all inner nodes, `[nodes, width]` per node type."""
        program, nodes = self.models[part].local_model, self.site.graphs[part].schema.nodes
        embeddings = {}
        for t in sorted(program.types[depth + 1]):
            relations = [r for r in program.layers[depth].inner.relations if r.target == t]
            embeddings[t] = np.zeros((nodes[t], width_made(self.model.layers[depth], t)), np.float32)
            for chunk in self.chunks[part].each(t, np.arange(nodes[t], dtype=np.int32), relations, x):
                h = self.embedded(params, chunk.block, chunk.rows, depth=depth, node_type=t)
                embeddings[t][chunk.start : chunk.start + chunk.count] = np.asarray(h)[: chunk.count]
        return embeddings

    def _seeds(
        self, part: int, params: Any, x: Mapping[str, np.ndarray], depth: int, ids: np.ndarray, h: np.ndarray | None
    ) -> tuple[np.ndarray | None, Any]:
        """Return `(their embeddings below, their partial aggregates)` of the nodes `ids`, by the partition's own relations.

        Args:
          h: their embeddings below, if they are known from an exchange.
        """
        share, chunks = self.models[part], []
        relations = share.local_model.layers[depth].seeds.relations
        for chunk in self.chunks[part].each(share.target, ids, relations, x, share.reads_seeds(depth)):
            own = None if h is None else pad(h[chunk.start : chunk.start + chunk.count], chunk.targets, 0)
            folded = self.fold(params, chunk.block, chunk.rows, own, depth=depth, part=part)
            chunks.append(jax.tree.map(lambda leaf: np.asarray(leaf)[: chunk.count], folded))
        return jax.tree.map(lambda *leaves: np.concatenate(leaves), *chunks)

    def _combined(self, depth: int, folds: Mapping[int, tuple[np.ndarray | None, Any]]) -> tuple[Any, Any]:
        """Return the seeds' embeddings below layer `depth` and their partial aggregates, of all partitions, in process 0."""
        flat = {part: jax.tree.flatten(folded) for part, folded in folds.items()}
        named = {f"{part} {n}": leaf for part, (leaves, _) in flat.items() for n, leaf in enumerate(leaves)}
        every = self.site.group.gather("evaluation", named)
        if every is None:
            return None, None
        first, form = next(iter(flat.values()))
        trees = [
            jax.tree.unflatten(form, [every[f"{part} {n}"] for n in range(len(first))])
            for part in range(len(self.models))
        ]
        partials = [partial for _, partial in trees]
        together = Partial([one.total for one in partials], tuple(zip(*(one.pieces for one in partials))))
        return trees[0][0], united(self.model.layers[depth], self.models[0], together, _reduced)

    @forward_only()
    def _embed(self, params: Any, block: Block, x: Rows, depth: int, node_type: str) -> jax.Array:
        embeddings: Any = self.model.apply(params, depth, block, x, None, Pieces(self.models[0]), method="embed")
        return embeddings[node_type]

    @forward_only()
    def _fold(self, params: Any, block: Block, x: Rows, own: jax.Array | None, depth: int, part: int) -> Any:
        return self.model.apply(params, self.models[part], depth, block, x, own, method=_partials)

    def _finish(self, params: Any, total: Any, own: jax.Array | None, depth: int) -> Any:
        return self.model.apply(params, self.models[0].target, depth, total, own, method=_finished)


def on_first(leaf: np.ndarray | jax.Array | SharedTable) -> Any:
    """Return the copy on the first device of an array that all devices have alike; an array on the host is returned whole."""
    if isinstance(leaf, np.ndarray):
        return leaf
    return leaf.table() if isinstance(leaf, SharedTable) else leaf.addressable_data(0)


def _partials(
    model: Stack, share: PartitionModel, depth: int, block: Block, x: Rows, own: jax.Array | None
) -> tuple[jax.Array | None, Any]:
    layer, x = model.layers[depth], x if depth else model.enter(x, block)
    own = aggregate.own_embeddings(block, x).get(share.target, own)
    selves = share.local_model.layers[depth].seeds.selves
    partial = fold_seeds(layer, share, block, aggregate.source_inputs(layer, x), own, selves)
    return own if share.exchanged else None, partial


def _reduced(monoid: Monoid, every: Sequence[Any]) -> Any:
    return monoid.combined(every)


def _finished(model: Stack, target: str, depth: int, total: Any, own: jax.Array | None) -> jax.Array:
    return aggregate.finished(model.layers[depth], target, total, own, None)
