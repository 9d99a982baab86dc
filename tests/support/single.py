"""Models and batches for the tests of training on one device."""

import jax
import jax.numpy as jnp
import numpy as np

from hetjax.options import owners
from hetjax.options.config import Config, Sampling, Train
from hetjax.sampling.regime import whole_graph_regime
from hetjax.sampling.sampler import ALL, Sampler
from hetjax.sampling.whole import whole_graph as every_edge
from hetjax.sharding.single.batches import SingleBatches
from hetjax.sharding.strategy import setup
from tests.support.graphs import readout

MODELS = [
    {},
    {"bases": 2, "head": False},
    {"norm": "layer"},
    {"one_hot": True},
    {"one_hot": True, "bases": 2, "head": False},
    {"name": "rgat", "heads": 2},
    {"name": "hgt", "heads": 2},
    {"name": "hgt", "heads": 2, "softmax": "relation", "norm": "layer"},
    {"residual": True, "input_projection": True},
    {"self_term": False},
    {"dropout": 0.3, "input_dropout": 0.2},
    {"name": "rgat", "heads": 2, "dropout": 0.3, "input_dropout": 0.2, "attention_dropout": 0.4},
]


def setting(graph, layers=2, **options):
    config = Config(
        model=owners.made_model(hidden=8, layers=layers, feature_width=6, **options),
        sampling=Sampling(fanout=(ALL,) * layers, batch_size=1000),
        train=Train(learning_rate=0.02),
    )
    trainer = setup(config, graph).trainer
    static = {name: jnp.asarray(graph.features[name]) for name in trainer.widths if name in graph.features}
    return config, trainer, static


def whole_graph(graph, layers: int, reads_own: bool = True):
    """The one batch of an epoch of the whole graph, if nothing is left out."""
    (drawn,) = whole_batches(graph, layers).epoch(0)
    root = graph.schema.target
    blocks, seeds = every_edge(graph, [root], layers, reads_own), {root: graph.splits["train"].astype(np.int32)}
    return drawn._replace(batch=jax.device_put(drawn.batch._replace(blocks=blocks, seeds=seeds)))


def whole_batches(graph, layers: int, reads_own: bool = True) -> SingleBatches:
    sampler = Sampler(graph, reads_own=reads_own, named=True)
    return SingleBatches(sampler, readout(graph), whole_graph_regime(len(graph.splits["train"]), layers), 0)
