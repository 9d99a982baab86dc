"""Training with features in some places held against training with them on the devices: to the last bit.

For tests/test_cache.py and experiments/cache_equivalence.py.
"""

import itertools
from typing import NamedTuple

import jax
import numpy as np
from jax.sharding import PartitionSpec as P

from hetjax.cache.features import FeatureStore
from hetjax.config import Cache, Config, Mesh, Model, Sampling, Train
from hetjax.sharding import mesh as meshes
from hetjax.sharding.raf.engine import RafEngine
from hetjax.sharding.registry import make_engine

MODELS = {
    "rgcn": Model(name="rgcn", hidden=8, feature_width=6),
    "rgat": Model(name="rgat", hidden=8, feature_width=6, heads=2, layers=1),
    "hgt": Model(name="hgt", hidden=8, feature_width=6, heads=2, layers=1),
}
ENGINES = {}  # compiled once; by model and mesh


class Trained(NamedTuple):
    """What training gave.

    Attributes:
      losses: of every step.
      state: its leaves after the last, as host arrays.
      features: of which some may live on the host.
    """

    losses: list[float]
    state: list[np.ndarray]
    features: FeatureStore | None


def config_of(model: str | Model, mode: str = "minibatch", mesh=(1, 1), **cache) -> Config:
    model = MODELS.get(model, model)
    sampling = Sampling(mode=mode, fanout=(4, 3)[: model.layers], batch_size=8)
    return Config(model=model, sampling=sampling, train=Train(epochs=2), mesh=Mesh(*mesh), cache=Cache(**cache))


def prepared(graph, config: Config, folder):
    """What trains, its features and its batches; programs are those of runs before, if there were any alike."""
    engine = make_engine(config, graph, folder=folder)
    features, batches = engine.features, engine.batches
    before = ENGINES.setdefault((config.model, config.mesh), engine)
    if isinstance(engine, RafEngine):
        site = engine.site
        static = {part: meshes.put(site.row(part), P(), features.on_device(part)) for part in site.parts}
        before.features, before.static, before.prefetch, before.batches = (
            features,
            static,
            config.cache.prefetch,
            batches,
        )
        before.setup, engine = engine.setup, before
    else:
        engine.read, engine.compiled, engine.updated = before.read, before.compiled, before.updated
    return engine, features, batches


def trained(graph, config: Config, folder) -> Trained:
    """Train as configured, from seed 3."""
    engine, features, batches = prepared(graph, config, folder)
    state, losses = engine.init(3), []
    engine.fill_cache(folder / "penalties.json")
    for epoch in range(config.train.epochs):
        drawn = [*batches.epoch(epoch), None]
        for one, following in itertools.pairwise(drawn):
            state, loss = engine.step(state, one.batch, following and following.batch)
            losses.append(float(loss))
    return Trained(losses, [np.array(leaf) for leaf in jax.tree.leaves(engine.gather(state))], features)


def same(found: Trained, expected: Trained) -> bool:
    """Whether all losses and the last states are equal to the last bit."""
    pairs = zip(found.state, expected.state, strict=True)
    return found.losses == expected.losses and all(
        one.dtype == other.dtype and one.tobytes() == other.tobytes() for one, other in pairs
    )
