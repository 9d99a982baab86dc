"""Training with features in some places held against training with them on the devices: to the last bit.

For tests/test_cache.py and experiments/cache_equivalence.py.
"""

import itertools
from typing import NamedTuple

import jax
import numpy as np
from jax.sharding import PartitionSpec as P

from hetjax.cache.features import FeatureStore
from hetjax.options.config import Cache, Config, Mesh, Model, Sampling, Train
from hetjax.sharding import mesh as meshes
from hetjax.sharding import registry
from hetjax.sharding.dependency.engine import DependencyEngine
from hetjax.sharding.raf.engine import RafEngine
from hetjax.sharding.registry import make_engine

MODELS = {
    "rgcn": Model(name="rgcn", hidden=8, feature_width=6),
    "rgat": Model(name="rgat", hidden=8, feature_width=6, heads=2, layers=1),
    "hgt": Model(name="hgt", hidden=8, feature_width=6, heads=2, layers=1),
}
VANILLA, COMMUNICATE = (1, 2, "vanilla"), (1, 4, "dependency", ("mode", "communicate"))
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


def config_of(model: str | Model, mode: str = "minibatch", mesh=(1, 1), train=(), **cache) -> Config:
    """A configuration; `mesh` names after its sizes the strategy, if it is not RAF, and then pairs of its options."""
    model = MODELS.get(model, model)
    sampling = Sampling(mode=mode, fanout=(4, 3)[: model.layers], batch_size=8)
    strategies = {mesh[2]: registry.by_name(mesh[2]).Options(**dict(mesh[3:]))} if len(mesh) > 3 else {}
    how = {"sampling": sampling, "train": Train(epochs=2, **dict(train)), "strategies": strategies}
    return Config(model=model, mesh=Mesh(*mesh[:3]), cache=Cache(**cache), **how)


def prepared(graph, config: Config, folder):
    """What trains, its features and its batches; programs are those of runs before, if there were any alike."""
    engine = make_engine(config, graph, folder=folder)
    features, batches = engine.features, engine.batches
    about = config.model, config.mesh, config.train, *config.strategies.values()
    before = ENGINES.setdefault(about, engine)
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
    elif isinstance(engine, DependencyEngine):
        engine.updated = before.updated
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
