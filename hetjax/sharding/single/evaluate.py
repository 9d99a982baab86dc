"""Evaluation on the whole graph: of all nodes that a run evaluates, by one program."""

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
    """Computes the logits of any target nodes from what they depend on, which is kept in memory.

    That is found once for all nodes that a run evaluates: one program serves it.

    Args:
      model: whose layers are applied.
      sampler: of the graph.
      to_device: puts blocks of the whole graph, one per layer, where they are read.
      asked: ids of target nodes that `logits` will be asked for.
      edges: the most that all layers together may read.
      options: of the compiler.
    """

    def __init__(
        self,
        model: Stack,
        sampler: Sampler,
        to_device: Callable[[Blocks], Blocks],
        asked: np.ndarray,
        edges: int,
        options: Mapping[str, str],
    ):
        self.model, self.sampler, self.to_device = model, sampler, to_device
        self.asked, self.edges = asked, edges
        self.blocks: Blocks | None = None
        self.computed = jax.jit(self._computed, compiler_options=dict(options))

    @forward_only()
    def _computed(self, params: Any, blocks: Blocks, x: Mapping[str, jax.Array]) -> jax.Array:
        logits: Any = self.model.apply(params, blocks, x)
        return logits

    def takes(self, ids: np.ndarray) -> bool:
        """Whether what the target nodes `ids`, and those before, depend on has few enough edges."""
        if self.blocks is None or not np.isin(ids, self.asked).all():
            asked, layers = np.union1d(self.asked, ids).astype(np.int32), len(self.model.layers)
            self.blocks = None  # makes room
            blocks = needed_graph(self.sampler, asked, layers, trained=False)
            self.blocks, self.asked = self.to_device(blocks) if count_edges(blocks) <= self.edges else (), asked
        return bool(self.blocks)

    def logits(self, params: Any, x: Mapping[str, jax.Array | SparseRows], ids: np.ndarray) -> np.ndarray:
        """Logits float32 `[len(ids), classes]` of the target nodes `ids`, which it `takes`.

        Args:
          params: the model's weights, not packed.
          x: `[nodes, width]` per input type, on the device.
          ids: distinct.
        """
        assert self.blocks
        params = jax.device_get(params)  # wherever they were, or the program would be compiled for each place
        layers = self.model.layers
        blocks = tuple(stacked(params, *each) for each in zip(layers, range(len(layers)), self.blocks, strict=True))
        return np.asarray(self.computed(params, blocks, x))[np.searchsorted(self.asked, ids)]
