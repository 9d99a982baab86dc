"""A step of the whole graph that leaves nothing out."""

import jax
import numpy as np

from hetjax.sampling.blocks import Batch
from hetjax.sampling.whole import whole_graph
from hetjax.sharding.strategy import Engine


def of_all_nodes(engine: Engine) -> Batch:
    """Return the batch of an epoch of the whole graph, in which every node is the row of its id: logits are of all, and
    shapes the same whatever the split."""
    (drawn,) = engine.batches.epoch(0)
    graph, model = engine.setup.graph, engine.trainer.model
    blocks = jax.device_put(whole_graph(graph, [graph.schema.target], len(model.layers), model.reads_own))
    return drawn.batch._replace(blocks=blocks, seeds=graph.splits["train"].astype(np.int32))
