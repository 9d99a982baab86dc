"""Where features live changes nothing: the same bits whatever the places, the cache, its budget and its policy."""

import itertools

import jax
import numpy as np
import pytest

from hetjax.assembly import fill_cache, make_batches, make_engine, make_features, make_trainer
from hetjax.config import Cache, Config, Model, Sampling, Train
from tests.conftest import random_graph

MODELS = {
    "rgcn": Model(name="rgcn", hidden=8, feature_width=6),
    "rgat": Model(name="rgat", hidden=8, feature_width=6, heads=2, layers=1),
    "hgt": Model(name="hgt", hidden=8, feature_width=6, heads=2, layers=1),
}
EVERYTHING = 10**9
TABLES = "author=host", "topic=host", "ghost=host"
COMPILED = {}


def config_of(model: str, mode: str = "minibatch", **cache) -> Config:
    sampling = Sampling(mode=mode, fanout=(4, 3)[: MODELS[model].layers], batch_size=8)
    return Config(model=MODELS[model], sampling=sampling, train=Train(epochs=2), cache=Cache(**cache))


def trained(graph, config: Config, folder) -> tuple[list[float], list[np.ndarray], list[dict]]:
    """Losses of two epochs, the state after them, and what the cache reports."""
    trainer = make_trainer(graph, config)
    features = make_features(graph, config, trainer, folder / "tables")
    engine = make_engine(trainer, graph, config, features=features)
    engine.compiled = COMPILED.setdefault(config.model.name, engine.compiled)
    batches = make_batches(graph, config, trainer, {}, features=features)
    state, losses = engine.new(3), []
    fill_cache(features, batches, config, folder / "penalties.json", hidden=True)
    for epoch in range(config.train.epochs):
        drawn = [*batches.epoch(epoch), None]
        for one, following in itertools.pairwise(drawn):
            state, loss = engine.step(state, one.batch, following and following.batch)
            losses.append(float(loss))
    return losses, [np.array(leaf) for leaf in jax.tree.leaves(engine.whole(state))], features.report()


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """By model, what training with tables on the device gives."""
    made = {}

    def of(graph, model: str, places: tuple[str, ...]):
        if (model, places) not in made:
            made[model, places] = trained(graph, config_of(model, places=places), tmp_path_factory.mktemp("plain"))
        return made[model, places]

    return of


def same(found, expected) -> None:
    assert found[0] == expected[0]
    for one, other in zip(found[1], expected[1], strict=True):
        np.testing.assert_array_equal(one, other)


BY_ROWS = "paper=host", "venue=host"  # static features that are not read in place, where sums take another order
CASES = [
    {"places": TABLES},
    {"places": TABLES, "prefetch": False},
    {"places": ("author=disk", "topic=disk")},
    {"bytes_per_device": 0},
    {"bytes_per_device": 0, "host_bytes": 3000},
    *({"bytes_per_device": size, "policy": policy} for size in (76, 400) for policy in ("miss_penalty", "optimal")),
    {"bytes_per_device": 2000, "policy": "hotness", "prefetch": False},
    {"bytes_per_device": 2000, "policy": "none"},
    {"bytes_per_device": 3000, "policy": "optimal"},
    {"bytes_per_device": EVERYTHING},
]


@pytest.mark.parametrize(
    ("model", "cache"),
    [*(("rgcn", case) for case in CASES), *((model, CASES[number]) for model in ("rgat", "hgt") for number in (5,))],
    ids=str,
)
def test_the_same_bits_wherever_features_live(tmp_path, plain, model, cache):
    graph = random_graph(3)
    found = trained(graph, config_of(model, **cache), tmp_path)
    bounded = 0 <= cache.get("bytes_per_device", -1) < EVERYTHING
    same(found, plain(graph, model, BY_ROWS if bounded else ()))
    assert bool(found[2]) == (cache.get("bytes_per_device") != EVERYTHING)
