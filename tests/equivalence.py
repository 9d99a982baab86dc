"""Training on a mesh held against training on one device: for tests/test_raf.py and experiments/raf_equivalence.py."""

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from flax.traverse_util import flatten_dict

import hetjax
from hetjax.assembly import make_batches, make_engine, make_plan, make_trainer
from hetjax.config import Config, Mesh, Model, Sampling, Train
from hetjax.datasets import synthetic
from hetjax.models.segment import neighbour_sum
from hetjax.sampling.blocks import NO_NODE
from hetjax.sharding.raf import Raf
from hetjax.sharding.vanilla import Vanilla
from tests.conftest import random_graph


class Bounded(nn.Module):
    """A relation-specific aggregation of a user's own, with weights and a nonlinearity."""

    features: int

    @nn.compact
    def __call__(self, adjacency, sources, targets):
        sources = sources.astype(jnp.promote_types(sources.dtype, jnp.float32))
        return nn.tanh(nn.Dense(self.features)(neighbour_sum(adjacency, sources)))


def across(aggregation: str, **more) -> hetjax.HGNN:
    return hetjax.HGNN(None, lambda relation, features: Bounded(features), aggregation, **more)


own_mean, own_blind, own_max = across("mean"), across("mean", looks_at_target=False), across("max")
own_alone = across("sum", looks_at_target=False, self_term=False)
MODELS = {
    "R-GCN": {},
    "R-GCN, bases": {"bases": 2, "head": False},
    "R-GCN, residual": {"residual": True, "input_projection": True, "norm": "layer"},
    "R-GCN, one-hot": {"one_hot": True, "bases": 2},
    "R-GAT": {"name": "rgat", "heads": 2},
    "HGT, joint": {"name": "hgt", "heads": 2, "input_projection": True},
    "HGT, relation": {"name": "hgt", "heads": 2, "softmax": "relation", "norm": "layer"},
    "HGNN, mean": {"name": "tests.equivalence:own_mean"},
    "HGNN, mean, no target": {"name": "tests.equivalence:own_blind"},
    "HGNN, max": {"name": "tests.equivalence:own_max"},
    "HGNN, no self term": {"name": "tests.equivalence:own_alone"},
}
GRAPHS = {
    "random": lambda: random_graph(3),
    "labels": lambda: several_labels(random_graph(3)),
    "ogbn-mag": lambda: synthetic.generate("ogbn-mag", 0.0003, 4),
    "freebase": lambda: synthetic.generate("freebase", 0.0003, 4),
    "donor": lambda: synthetic.generate("donor", 0.00005, 2),
}


def several_labels(graph):
    """The same graph, its nodes with any number of labels each."""
    labels = np.random.default_rng(0).integers(0, 2, (graph.schema.nodes["paper"], 3)).astype(np.int8)
    return dataclasses.replace(graph, labels=labels)


class Errors(NamedTuple):
    """Relative differences to one device: of the loss, the largest of any gradient, and of any weight or table after."""

    loss: float
    gradient: float
    state: float


def compare(graph, mesh, mode: str, model: dict, steps: int = 10, wide: bool = False, plan=None, **train) -> Errors:
    """Train some steps on one device and on a mesh.

    Args:
      mesh: partitions and replicas; then the strategy, if it is not RAF.
      mode: of the sampling.
      model: options.
      steps: of Adam, from which the state is compared; the loss and the gradients are those of the first.
      wide: in float64. In float32 a gradient that is zero but for rounding (of a key's bias, which a softmax within one
        relation does not see) makes Adam step as far as any other, in a direction that rounding decides.
      plan: who has what, if not as `make_plan` says.
      **train: options.
    """
    with jax.enable_x64(True) if wide else contextlib.nullcontext():
        one, many = (setting(graph, mode, shape, model, train) for shape in ((1, 1), mesh))
        trainer = make_trainer(graph, one)
        plan = plan or make_plan(graph, many)
        alone, spread = make_engine(trainer, graph, one, None), make_engine(trainer, graph, many, plan)
        learnable = frozenset(trainer.learnable)
        drawn = make_batches(graph, one, learnable, {}), make_batches(graph, many, learnable, {}, plan, spread.mesh)
        state = jax.jit(trainer.init)(0)
        state = jax.tree.map(lambda leaf: leaf.astype(float) if wide and leaf.dtype == jnp.float32 else leaf, state)
        states, found = spread.place(state), None
        for batch, on_mesh in zip(*(first(batches, steps) for batches in drawn), strict=True):
            found = found or gradients(graph, trainer, alone, spread, state, states, batch, on_mesh)
            state, _ = alone.step(state, batch)
            states, _ = spread.step(states, on_mesh)
        here, there = named(state), named(spread.whole(states))
        for name, table in state.tables.items():
            np.testing.assert_array_equal(table.count, spread.whole(states).tables[name].count)
        drift = differ(there, here, norm(here.values()))
        return Errors(*found, max(drift.values()))


def setting(graph, mode, mesh, model, train) -> Config:
    return Config(
        model=Model(hidden=8, feature_width=6, **model),
        sampling=Sampling(mode=mode, fanout=(3, 2), batch_size=9),
        train=Train(learning_rate=0.02, **train),
        mesh=Mesh(*mesh),
    )


def first(source, count: int) -> Iterator:
    """So many batches, over as many epochs as that takes."""
    epoch = 0
    while count > 0:
        for drawn in source.epoch(epoch):
            if count > 0:
                yield drawn.batch
            count -= 1
        epoch += 1


def named(state) -> dict:
    """Weights and learnable features by name."""
    return flatten_dict(state.params) | {name: table.rows for name, table in state.tables.items()}


def gradients(graph, trainer, alone, spread, state, states, batch, on_mesh) -> tuple[float, float]:
    """Errors of the loss and of the gradients, of every partition's copy; what any partition has is all there is."""
    loss, (weights, rows) = jax.jit(trainer.gradients)(state, alone.static, batch)
    found_loss, parts = found_by(spread, states, on_mesh)
    nodes = graph.schema.nodes
    expected = flatten_dict(weights) | {
        name: laid(leaf, batch.inputs.get(name), nodes[name]) for name, leaf in rows.items()
    }
    seen, errors = set(), []
    for part in parts:
        mine = {name: laid(leaf, part.ids.get(name), nodes[name]) for name, leaf in part.rows.items()}
        mine |= flatten_dict(part.weights)
        seen |= set(mine)
        errors += differ(mine, {name: expected[name] for name in mine}, norm(expected.values())).values()
    assert seen == set(expected)
    return abs(float(found_loss / loss) - 1), max(errors)


def found_by(spread: Raf | Vanilla, states, on_mesh) -> tuple[float, list]:
    """The loss and every partition's gradients, of rows by the ids of their nodes."""
    loss, found = spread.gradients(states, on_mesh)
    if isinstance(spread, Raf):
        penalty = spread.add([part.counted for part in found])[0][0, 0] if spread.trainer.l2 else 0.0
        return float(loss) + float(penalty), found
    owned, rows, ids = spread.owned, {}, {}
    for name, leaf in found.rows.items():
        if name not in found.ids:
            rows[name] = owned.whole(name, np.asarray(leaf))
            continue
        numbers = np.split(np.asarray(found.ids[name]), owned.parts)
        mine = [np.append(own, NO_NODE)[np.minimum(at, len(own))] for own, at in zip(owned.ids[name], numbers)]
        rows[name], ids[name] = leaf, np.concatenate(mine)
    return float(loss), [found._replace(rows=rows, ids=ids)]


def laid(rows, ids, nodes: int) -> np.ndarray:
    """Gradients of some rows, where the whole table has them."""
    if ids is None:
        return np.asarray(rows)
    out, ids = np.zeros((nodes, rows.shape[1]), rows.dtype), np.asarray(ids)
    assert len(set(ids[ids != NO_NODE])) == (ids != NO_NODE).sum()
    out[ids[ids != NO_NODE]] = np.asarray(rows)[ids != NO_NODE]
    return out


def differ(found: dict, expected: dict, size: float) -> dict:
    """The relative error of each array; a norm under a hundredth of `size`, that of all together, counts as so much.

    Attention has gradients that are zero but for the rounding of larger ones.
    """
    return {
        name: norm([np.asarray(found[name]) - np.asarray(leaf)]) / max(norm([leaf]), size / 100, 1e-300)
        for name, leaf in expected.items()
    }


def norm(leaves) -> float:
    return float(np.sqrt(sum(np.sum(np.square(np.asarray(leaf, np.float64))) for leaf in leaves)))
