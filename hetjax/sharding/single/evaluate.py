"""Evaluation on the whole graph: of all nodes that a run evaluates, by one program."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

from hetjax.cache.sparse import SparseRows
from hetjax.evaluate import Evaluated
from hetjax.models.hgnn import Stack
from hetjax.models.orders import forward_only
from hetjax.models.packed import stacked
from hetjax.sampling.blocks import Block
from hetjax.sampling.sampler import Sampler
from hetjax.sampling.whole import needed_graph

Blocks = tuple[Block, ...]


class WholeEvaluator:
    """Computes the logits of any target nodes from what they depend on, which is kept in memory.

    That is found once for all nodes that a run evaluates: one program serves it.

    Args:
      model: whose layers are applied.
      sampler: of the graph.
      to_device: puts blocks of the whole graph, one per layer, where they are read.
      evaluated: what is asked for.
    """

    def __init__(self, model: Stack, sampler: Sampler, to_device: Callable[[Blocks], Blocks], evaluated: Evaluated):
        self.model, self.sampler, self.to_device, self.evaluated = model, sampler, to_device, evaluated
        self.blocks: Blocks = ()
        self.computed = jax.jit(self._computed)

    @forward_only()
    def _computed(self, params: Any, blocks: Blocks, x: Mapping[str, jax.Array]) -> jax.Array:
        logits: Any = self.model.apply(params, blocks, x)
        return logits

    def logits(self, params: Any, x: Mapping[str, jax.Array | SparseRows], ids: np.ndarray) -> np.ndarray:
        """Logits float32 `[len(ids), classes]` of the target nodes `ids`.

        Args:
          params: the model's weights, not packed.
          x: `[nodes, width]` per input type, on the device.
          ids: distinct.
        """
        layers = self.model.layers
        if self.evaluated.more(ids):
            self.blocks = ()  # makes room
            self.blocks = self.to_device(needed_graph(self.sampler, self.evaluated.nodes, len(layers), trained=False))
        blocks = tuple(stacked(params, *each) for each in zip(layers, range(len(layers)), self.blocks))
        return np.asarray(self.computed(params, blocks, x))[np.searchsorted(self.evaluated.nodes, ids)]
