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
from hetjax.sharding.raf.cut import Partial, Pieces, fold_seeds, united, without_edges
from hetjax.sharding.raf.features import SharedTable
from hetjax.sharding.raf.sample import PartitionModel
from hetjax.sharding.raf.site import Site, partition_models
from hetjax.sharding.trainer import Rows, TrainState
from hetjax.system.mapped import on_host

Embeddings = dict[str, np.ndarray]  # `[nodes, width]` per node type


class RafEvaluator:
    """The evaluator that computes the last embeddings of any nodes of the root types from all of their neighbours.

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
        self.fold = jax.jit(self._fold, static_argnames=("depth", "part", "root"))
        self.finish = jax.jit(self._finish, static_argnames=("depth", "root"))

    def embed(self, states: Mapping[int, TrainState], nodes: Mapping[str, np.ndarray]) -> dict[str, np.ndarray] | None:
        """Return the last embeddings of some nodes, float32 `[nodes, width]` per root type, in process 0; None in the others.

        Args:
          states: the states of the partitions of this process.
          nodes: distinct ids per root type.
        """
        if not any(map(len, nodes.values())):
            widths = {t: width_made(self.model.layers[-1], t) for t in nodes}
            return (
                {t: np.empty((0, width), np.float32) for t, width in widths.items()} if self.site.group.first else None
            )
        here = {part: jax.tree.map(on_first, states[part]) for part in self.chunks}
        x = {part: self._features(part, state) for part, state in here.items()}
        last, h = len(self.model.layers) - 1, Embeddings()
        for depth in range(last + 1):
            if depth == last or self.models[0].exchanged:
                h = self._finished(here, depth, nodes, h, self._folds(here, x, depth, nodes, h))
                if depth < last:
                    h = dict(self.site.group.broadcast("evaluation", h))
            if depth < last:
                x = {part: self._inner(part, state.params, x[part], depth) for part, state in here.items()}
        return h if self.site.group.first else None

    def _folds(
        self,
        states: Mapping[int, TrainState],
        x: Mapping[int, Embeddings],
        depth: int,
        nodes: Mapping[str, np.ndarray],
        h: Mapping[str, np.ndarray],
    ) -> dict[str, dict[int, Any]]:
        """Return by root type and partition what `_seeds` returns, of the partitions here that aggregate anything."""
        return {
            t: {
                part: self._seeds(part, state.params, x[part], depth, t, ids, h.get(t))
                for part, state in states.items()
                if part in self.models[0].owners[t]
            }
            for t, ids in sorted(nodes.items())
        }

    def _finished(
        self,
        states: Mapping[int, TrainState],
        depth: int,
        nodes: Mapping[str, np.ndarray],
        h: Mapping[str, np.ndarray],
        folds: Mapping[str, Mapping[int, Any]],
    ) -> dict[str, np.ndarray]:
        """Return the embeddings that layer `depth` makes of the seeds per root type, in process 0; nothing in the others."""
        every = self._gathered(depth, folds)
        if every is None:
            return {}
        params, made = next(iter(states.values())).params, {}
        for t, ids in nodes.items():
            own, totals = h.get(t, np.zeros((len(ids), 0), np.float32)), {}  # of width 0 where nothing looks at them
            if found := every.get(t):
                own = own if (first := found[0][0]) is None else first
                together = Partial([of.total for _, of in found], tuple(zip(*(of.pieces for _, of in found))))
                totals = united(self.model.layers[depth], self.models[0], {t: together}, _reduced)
            made[t] = np.asarray(self.finish(params, totals.get(t), own, depth=depth, root=t))
        return made

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
        self,
        part: int,
        params: Any,
        x: Mapping[str, np.ndarray],
        depth: int,
        root: str,
        ids: np.ndarray,
        h: np.ndarray | None,
    ) -> tuple[np.ndarray | None, Any]:
        """Return `(their embeddings below, their partial aggregates)` of the nodes `ids` of a root type, by the partition's own relations.

        Args:
          h: their embeddings below, if they are known from an exchange.
        """
        share, chunks = self.models[part], []
        relations = [r for r in share.local_model.layers[depth].seeds.relations if r.target == root]
        for chunk in self.chunks[part].each(root, ids, relations, x, root in share.reads_seeds(depth)):
            own = None if h is None else pad(h[chunk.start : chunk.start + chunk.count], chunk.targets, 0)
            folded = self.fold(params, chunk.block, chunk.rows, own, depth=depth, part=part, root=root)
            chunks.append(jax.tree.map(lambda leaf: np.asarray(leaf)[: chunk.count], folded))
        return jax.tree.map(lambda *leaves: np.concatenate(leaves), *chunks)

    def _gathered(self, depth: int, folds: Mapping[str, Mapping[int, Any]]) -> dict[str, list[Any]] | None:
        """Return by root type the values of `_seeds` of all its partitions, in process 0; None in the others."""
        share, layer = self.models[0], self.model.layers[depth]
        flat = {(t, part): jax.tree.leaves(own) for t, of in folds.items() for part, own in of.items()}
        named = {f"{t} {part} {n}": leaf for (t, part), leaves in flat.items() for n, leaf in enumerate(leaves)}
        every = self.site.group.gather("evaluation", named)
        if every is None:
            return None
        own = 0 if share.exchanged else None
        total = next(partial.total for of in folds.values() for _, partial in of.values())

        def tree(t: str, part: int) -> Any:
            pieces = tuple(without_edges(layer, 1, np.float32) for r, _ in share.cuts if r.target == t)
            like = own, Partial(total, pieces)
            leaves = [every[f"{t} {part} {n}"] for n in range(len(jax.tree.leaves(like)))]
            return jax.tree.unflatten(jax.tree.structure(like), leaves)

        return {t: [tree(t, part) for part in share.owners[t]] for t in folds}

    @forward_only()
    def _embed(self, params: Any, block: Block, x: Rows, depth: int, node_type: str) -> jax.Array:
        embeddings: Any = self.model.apply(params, depth, block, x, None, Pieces(self.models[0]), method="embed")
        return embeddings[node_type]

    @forward_only()
    def _fold(self, params: Any, block: Block, x: Rows, own: jax.Array | None, depth: int, part: int, root: str) -> Any:
        return self.model.apply(params, self.models[part], depth, root, block, x, own, method=_partials)

    def _finish(self, params: Any, total: Any, own: jax.Array, depth: int, root: str) -> Any:
        return self.model.apply(params, root, depth, total, own, method=_finished)


def on_first(leaf: np.ndarray | jax.Array | SharedTable) -> Any:
    """Return the copy on the first device of an array that all devices have alike; an array on the host is returned whole."""
    if isinstance(leaf, np.ndarray):
        return leaf
    return leaf.table() if isinstance(leaf, SharedTable) else leaf.addressable_data(0)


def _partials(
    model: Stack, share: PartitionModel, depth: int, root: str, block: Block, x: Rows, own: jax.Array | None
) -> tuple[jax.Array | None, Partial]:
    layer, x = model.layers[depth], x if depth else model.enter(x, block)
    own = aggregate.own_embeddings(block, x).get(root, own)
    selves = [t for t in share.local_model.layers[depth].seeds.selves if t == root]
    below = {} if own is None else {root: own}
    partial = fold_seeds(layer, share, block, aggregate.source_inputs(layer, x), below, selves, roots=(root,))
    return own if share.exchanged else None, partial[root]


def _reduced(monoid: Monoid, every: Sequence[Any], owners: Sequence[int]) -> Any:
    return monoid.combined(every)


def _finished(model: Stack, target: str, depth: int, total: Any, own: jax.Array) -> jax.Array:
    return aggregate.finished(model.layers[depth], target, total, own, None)
