"""Evaluation on slices of the columns: the first layer by all devices, full neighbourhoods, so many edges at a time.

Its embeddings are as narrow as any; process 0 computes the layers above, as on one device.
"""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

from hetjax.kernels.orders import forward_only
from hetjax.kernels.tables import read
from hetjax.models.hgnn import Stack
from hetjax.models.traits import width_made
from hetjax.processes import kept
from hetjax.sampling.blocks import NO_NODE, Block, pad
from hetjax.sharding.evaluate import Evaluator
from hetjax.sharding.mesh import FEATURE, put, shard_map
from hetjax.sharding.push_pull.first import FirstLayer
from hetjax.sharding.spmd import to_host
from hetjax.sharding.traffic import Program
from hetjax.sharding.trainer import Rows


class PushEvaluator:
    """The evaluator that computes the last embeddings of any nodes of the root types from all of their neighbours.

    Args:
      evaluator: the evaluator of one device.
      mesh: `data` x `feature`; groups do the same.
      first: how the features are divided, for a layer that is aggregated on slices.
    """

    def __init__(self, evaluator: Evaluator, mesh: Mesh, first: FirstLayer):
        self.evaluator, self.mesh, self.first = evaluator, mesh, first
        self.model: Stack = evaluator.model
        mapped = shard_map(self._embed, mesh, (P(), P(FEATURE), P(), P(), P()), P(FEATURE))
        self.program = Program("evaluation", mapped, mesh)

    def embed(self, params: Any, rows: Rows, nodes: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the last embeddings, float32 `[nodes, width]` per root type; all processes together, and right in process 0.

        Args:
          params: the weights, on the mesh.
          rows: slices of features and tables, on the mesh.
          nodes: distinct ids per root type.
        """
        evaluator, given = self.evaluator, jax.tree.map(to_host, params)
        if len(self.model.layers) == 1:
            layer = self.model.layers[0]
            rooms = {t: evaluator.kept.rows((len(ids), width_made(layer, t))) for t, ids in nodes.items()}
            return {t: self._layer(params, rows, t, ids, rooms[t]) for t, ids in sorted(nodes.items())}
        targets = sorted(evaluator.targets(0, nodes).items())  # in all processes the same order
        x = {t: self._layer(params, rows, t, ids, evaluator.rows(0, t, ids)) for t, ids in targets}
        if jax.process_index():
            return {
                t: np.empty((len(ids), width_made(self.model.layers[-1], t)), np.float32) for t, ids in nodes.items()
            }
        some = any(map(len, nodes.values()))
        return evaluator.last(given, evaluator.below(given, x, nodes, 1) if some else {}, nodes)

    def _layer(self, params: Any, rows: Rows, node_type: str, nodes: np.ndarray, made: kept.Rows) -> np.ndarray:
        """Compute the first layer's embeddings of some nodes, and put them where `made` says."""
        schema, parts = self.evaluator.graph.schema, self.first.parts
        numbers = {t: np.arange(count, dtype=np.int32)[:, None] for t, count in schema.nodes.items()}
        for chunk in self.evaluator.chunks.each(node_type, nodes, schema.into(node_type), numbers):
            ids = {t: np.asarray(of)[:, 0] for t, of in chunk.rows.items()}
            each = -(-chunk.targets // parts)
            picks = pad(np.arange(chunk.targets, dtype=np.int32), parts * each, NO_NODE).reshape(parts, each)
            given = put(self.mesh, P(), (chunk.block, ids, {node_type: picks}))
            made.put(chunk.start, to_host(self.program(params, rows, *given))[: chunk.count])
        return made.done()

    @forward_only()
    def _embed(
        self, params: Any, rows: Rows, block: Block, ids: Mapping[str, jax.Array], picks: Mapping[str, jax.Array]
    ) -> jax.Array:
        x = {t: read(rows[t], of) for t, of in ids.items()}
        given = 0, block, x, None, self.first.exchange(picks)
        made: Any = self.model.apply(self.first.weights(params), *given, method="embed")
        (h,) = made.values()
        return h
