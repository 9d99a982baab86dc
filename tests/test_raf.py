"""Relation-Aggregation-First against one device: the loss, every gradient, and the state after ten steps."""

import dataclasses
from typing import NamedTuple

import flax.linen as nn
import jax
import numpy as np
import optax
import pytest
from flax.traverse_util import flatten_dict

import hetjax
from hetjax.config import Config, Mesh, Model, Sampling, Train
from hetjax.datasets import synthetic
from hetjax.models import hgnn
from hetjax.models.segment import neighbour_sum
from hetjax.sampling.blocks import NO_NODE
from hetjax.sharding.raf import Raf
from hetjax.train import make_batches, make_engine, make_plan, make_trainer
from tests.conftest import random_graph


class Doubled(nn.Module):
    """A relation-specific aggregation of a user's own, with weights and a nonlinearity."""

    features: int

    @nn.compact
    def __call__(self, adjacency, sources, targets):
        return nn.tanh(nn.Dense(self.features)(neighbour_sum(adjacency, sources)))


def across(aggregation: str, **more):
    return hetjax.HGNN(None, lambda relation, features: Doubled(features), aggregation, **more)


own_mean, own_blind, own_max = across("mean"), across("mean", looks_at_target=False), across("max")
MODELS = {
    "rgcn": {},
    "rgcn bases": {"bases": 2, "head": False},
    "rgcn residual": {"residual": True, "input_projection": True, "norm": "layer"},
    "rgcn one-hot": {"one_hot": True, "bases": 2},
    "rgat": {"name": "rgat", "heads": 2},
    "hgt": {"name": "hgt", "heads": 2, "input_projection": True},
    "hgt relation": {"name": "hgt", "heads": 2, "softmax": "relation", "norm": "layer"},
    "own mean": {"name": "tests.test_raf:own_mean"},
    "own blind": {"name": "tests.test_raf:own_blind"},
    "own max": {"name": "tests.test_raf:own_max"},
}
GRAPHS = {
    "random": lambda: random_graph(3),
    "ogbn-mag": lambda: synthetic.generate("ogbn-mag", 0.0003, 4),
    "freebase": lambda: synthetic.generate("freebase", 0.0003, 4),
    "donor": lambda: synthetic.generate("donor", 0.00005, 2),
}


class Errors(NamedTuple):
    """The largest relative difference to one device."""

    loss: float
    gradient: float
    state: float


def setting(graph, mode="minibatch", mesh=(1, 1), train=(), **model) -> Config:
    return Config(
        model=Model(hidden=8, feature_width=6, **model),
        sampling=Sampling(mode=mode, fanout=(3, 2), batch_size=9),
        train=Train(learning_rate=0.02, **dict(train)),
        mesh=Mesh(*mesh),
    )


def scatter(rows, ids, nodes: int) -> np.ndarray:
    """Gradients of some rows, laid where the whole table has them."""
    if ids is None:
        return np.asarray(rows)
    out, ids = np.zeros((nodes, rows.shape[1]), np.float32), np.asarray(ids)
    out[ids[ids != NO_NODE]] = np.asarray(rows)[ids != NO_NODE]
    return out


def close(found, expected, bound: float, rounding: float, name) -> float:
    """The relative error; the norm of what is zero but for rounding is not asked to agree."""
    error, size = np.linalg.norm(np.asarray(found) - np.asarray(expected)), np.linalg.norm(expected)
    assert error <= max(bound * size, rounding), f"{name}: {error / max(size, 1e-30):.2e} of {size:.2e}"
    return float(error / size) if size > rounding else 0.0


def compare(graph, mesh, mode, model: dict, steps: int = 10, train=()) -> Errors:
    """Train some steps on one device and on a mesh, holding one against the other."""
    config = setting(graph, mode, mesh, train, **model)
    trainer = make_trainer(graph, config)
    plan = make_plan(graph, config)
    one, many = make_engine(trainer, graph, setting(graph, mode, (1, 1), train, **model), None), None
    many = make_engine(trainer, graph, config, plan)
    plain = make_batches(graph, dataclasses.replace(config, mesh=Mesh()), trainer, {}, None, None)
    spread = make_batches(graph, config, trainer, {}, plan, many.mesh)
    state = jax.jit(trainer.init)(0)
    states, worst = many.place(state), 0.0
    drawn = zip(batches(plain, steps), batches(spread, steps), strict=True)
    ((batch, on_mesh), *more) = drawn
    loss, (weights, rows) = jax.jit(trainer.gradients)(state, one.static, batch)
    found_loss, found = many.gradients(states, on_mesh)
    if trainer.l2:
        found_loss += float(many.add([part.counted for part in found])[0][0, 0])
    rounding = 1e-7 * float(optax.tree.norm((weights, rows))) if "heads" in model else 0.0
    expected = flatten_dict(weights)
    for part in found:
        for path, leaf in flatten_dict(part.weights).items():
            worst = max(worst, close(leaf, expected[path], 1e-5, rounding, path))
        for name, leaf in part.rows.items():
            nodes = graph.schema.nodes[name]
            whole = scatter(rows[name], batch.inputs.get(name), nodes)
            worst = max(worst, close(scatter(leaf, part.ids.get(name), nodes), whole, 1e-5, rounding, name))
    assert set(expected) == {path for part in found for path in flatten_dict(part.weights)}
    np.testing.assert_allclose(found_loss, loss, rtol=1e-5)
    for batch, on_mesh in ((batch, on_mesh), *more):
        state, _ = one.step(state, batch)
        states, _ = many.step(states, on_mesh)
    left = jax.tree_util.tree_leaves_with_path(state._replace(optimizer=None))
    right = jax.tree.leaves(many.whole(states)._replace(optimizer=None))
    drift = max(close(b, a, 1e-4, 1e-4 if "heads" in model else 1e-6, path) for (path, a), b in zip(left, right, strict=True))
    return Errors(abs(float(found_loss / loss) - 1), worst, drift)


def batches(source, count: int):
    """So many, over as many epochs as that takes."""
    epoch = 0
    while count:
        for drawn in source.epoch(epoch):
            if count:
                count -= 1
                yield drawn.batch
        epoch += 1


@pytest.mark.parametrize(
    ("graph", "mesh", "mode", "model"),
    [
        ("random", (2, 1), "minibatch", "rgcn"),
    ],
)
def test_equals_one_device(graph, mesh, mode, model):
    compare(GRAPHS[graph](), mesh, mode, MODELS[model])
