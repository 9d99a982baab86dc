"""A strategy of your own: every device computes the whole batch, and the gradients are averaged.

    python -m hetjax.train --mesh.strategy examples.replicated:Replicated --mesh.data 2 \\
        --config examples/quickstart.yaml --workdir runs/replicated

Run it where `examples` can be imported: in the folder that holds it. Nothing is gained by it but a strategy to start from.
"""

import numpy as np
from jax.sharding import PartitionSpec as P

from hetjax.cache.features import Features
from hetjax.sampling.blocks import Batch
from hetjax.sharding import mesh as meshes
from hetjax.sharding.single.strategy import make_batches
from hetjax.sharding.spmd import SpmdBatch, SpmdEngine, replicate
from hetjax.sharding.strategy import Setup, Strategy


class ReplicatedEngine(SpmdEngine):
    """An engine that keeps everything on every device: nothing is fetched, and only the average crosses the mesh."""

    batch_spec = P()


class Replicated(Strategy):
    """A strategy that computes the whole batch on each of `mesh.data` devices."""

    name = "replicated"

    def engine(self, setup: Setup, partitioning: None) -> ReplicatedEngine:
        mesh = meshes.row(meshes.make(1, setup.config.mesh.data), 0)

        def to_devices(batch: Batch) -> SpmdBatch:
            count = np.full(1, batch.arrays.weights.sum() * mesh.size, np.float32)
            return meshes.put(mesh, P(), SpmdBatch(batch, None, count))

        features = Features(setup.graph, setup.trainer.widths, setup.trainer.learnable)
        batches = make_batches(setup, features, to_devices)
        return ReplicatedEngine(setup, batches, mesh, replicate(mesh, features.static))
