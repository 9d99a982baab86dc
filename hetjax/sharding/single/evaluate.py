"""Evaluation on the whole graph: one program evaluates all nodes that a run evaluates."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

from hetjax.kernels.orders import forward_only
from hetjax.kernels.sparse import SparseRows
from hetjax.models.hgnn import Stack
from hetjax.models.packed import stacked
from hetjax.sampling.blocks import Block
from hetjax.sampling.sampler import Sampler
from hetjax.sampling.whole import count_edges, needed_graph

Blocks = tuple[Block, ...]


class WholeEvaluator:
    """The evaluator that computes the last embeddings of any nodes of the root types from their dependencies, which are kept in memory.

    They are found once for all nodes that a run evaluates: one program serves it.

    Args:
      model: the model whose layers are applied.
      sampler: the sampler of the graph.
      to_device: puts blocks of the whole graph, one per layer, where they are read.
      asked: nodes per root type that `embed` will be asked for.
      edges: the most that all layers together may read.
      options: the options of the compiler.
    """

    def __init__(
        self,
        model: Stack,
        sampler: Sampler,
        to_device: Callable[[Blocks], Blocks],
        asked: Mapping[str, np.ndarray],
        edges: int,
        options: Mapping[str, str],
    ):
        self.model, self.sampler, self.to_device = model, sampler, to_device
        self.asked, self.edges = dict(asked), edges
        self.blocks: Blocks | None = None
        self.computed = jax.jit(self._computed, compiler_options=dict(options))

    @forward_only()
    def _computed(self, params: Any, blocks: Blocks, x: Mapping[str, jax.Array]) -> Mapping[str, jax.Array]:
        embeddings: Any = self.model.apply(params, blocks, x, method="embed_roots")
        return embeddings

    def takes(self, nodes: Mapping[str, np.ndarray]) -> bool:
        """Return whether the dependencies of some nodes, and of those before, have few enough edges."""
        if self.blocks is None or not all(np.isin(ids, self.asked[t]).all() for t, ids in nodes.items()):
            asked = {t: np.union1d(self.asked[t], ids).astype(np.int32) for t, ids in nodes.items()}
            layers = len(self.model.layers)
            self.blocks = None  # makes room
            blocks = needed_graph(self.sampler, asked, layers, trained=False)
            self.blocks, self.asked = self.to_device(blocks) if count_edges(blocks) <= self.edges else (), asked
        return bool(self.blocks)

    def embed(
        self, params: Any, x: Mapping[str, jax.Array | SparseRows], nodes: Mapping[str, np.ndarray]
    ) -> dict[str, np.ndarray]:
        """Return the last embeddings of some nodes, which it `takes`, float32 `[nodes, width]` per root type.

        Args:
          params: the model's weights, not packed.
          x: `[nodes, width]` per input type, on the device.
          nodes: distinct ids per root type.
        """
        assert self.blocks
        params = jax.device_get(params)  # wherever they were, or the program would be compiled for each place
        layers = self.model.layers
        blocks = tuple(stacked(params, *each) for each in zip(layers, range(len(layers)), self.blocks, strict=True))
        found = self.computed(params, blocks, x)
        return {t: np.asarray(found[t])[np.searchsorted(self.asked[t], ids)] for t, ids in nodes.items()}
