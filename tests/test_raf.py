"""Relation-Aggregation-First: equal to one device, owners and replicas, the command line."""

import dataclasses
import functools
import json

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

from hetjax.graph import store
from hetjax.kernels import partials, tables
from hetjax.kernels.partials import Attention, Monoid
from hetjax.models import hgnn
from hetjax.models.hgnn import HGNN
from hetjax.options.command_line import run_command
from hetjax.options.config import Sampling
from hetjax.partition.metatree import Aggregation
from hetjax.sampling.whole import whole_graph
from hetjax.sharding import mesh as meshes
from hetjax.sharding.raf import batches as raf_batches
from hetjax.sharding.raf import combine, strategy
from hetjax.sharding.raf import engine as raf_engine
from hetjax.sharding.raf import site as sites
from hetjax.sharding.registry import make_engine
from hetjax.sharding.strategy import setup
from hetjax.system.eager import eagerly
from hetjax.system.errors import InputError
from hetjax.train import main
from tests.support.commands import SMALL, train
from tests.support.equivalence import GRAPHS, MODELS, compare, setting
from tests.support.graphs import random_graph, smaller_graph
from tests.support.models import readout
from tests.support.runs import continued, losses


@pytest.mark.parametrize(
    ("graph", "mesh", "mode", "model"),
    [
        ("few relations", (1, 1), "minibatch", "R-GCN"),
        ("random", (4, 1), "full", "R-GCN, bases"),
        ("few relations", (2, 1), "minibatch", "R-GCN, residual"),
        ("random", (2, 2), "minibatch", "HGNN, mean"),
        ("labels", (2, 2), "full", "HGNN, mean, no target"),
        ("donor", (4, 1), "minibatch", "R-GCN"),
        ("ogbn-mag", (2, 2), "minibatch", "R-GCN, no self term"),
        ("few relations", (2, 1), "full", "R-GCN, no self term"),
        ("few relations", (2, 2), "minibatch", "R-GCN, dropout"),
    ],
)
def test_equals_one_device(graph, mesh, mode, model):
    """In float32, as it is trained."""
    errors = compare(GRAPHS[graph](), mesh, mode, MODELS[model])
    assert errors.loss < 1e-5 and errors.gradient < 1e-5 and errors.state < 1e-4


@pytest.mark.parametrize(
    ("graph", "mesh", "mode", "model"),
    [
        ("few relations", (2, 1), "minibatch", "HGT, joint"),
        ("two relations", (1, 2), "full", "HGT, relation"),
        ("few relations", (2, 2), "minibatch", "R-GAT"),
        ("few relations", (2, 1), "full", "HGNN, no self term"),
        ("two relations", (2, 2), "minibatch", "HGT, dropout"),
        ("two relations", (2, 1), "full", "R-GAT, dropout"),
        ("two relations", (2, 1), "minibatch", "HGNN, dropout"),
    ],
)
def test_equals_one_device_in_double_precision(graph, mesh, mode, model):
    """Rounding then does not decide which way Adam steps along a gradient of zero, and all differences are rounding."""
    errors = compare(GRAPHS[graph](), mesh, mode, MODELS[model], wide=True)
    assert errors.loss < 1e-12 and errors.gradient < 1e-12 and errors.state < 1e-7


@pytest.mark.parametrize("model", ["R-GCN, residual", "HGT, joint", "HGNN, no self term"])
def test_evaluation_equals_one_device(model):
    """In chunks of a few edges, by partitions that fold their own relations alone."""
    graph = random_graph(3)
    one, many = (setting(graph, "minibatch", mesh, MODELS[model], {}) for mesh in ((1, 1), (3, 1)))
    one, many = (dataclasses.replace(c, sampling=Sampling(fanout=(3, 2), evaluation_edges=60)) for c in (one, many))
    alone, spread = make_engine(one, graph), make_engine(many, graph)
    assert all(len(part.relations) < len(graph.relations) for part in spread.site.graphs.values())
    state, ids = eagerly(alone.trainer.init, np.int32(0)), graph.splits["test"]
    expected = alone.outputs(state, ids)
    found = spread.outputs(spread.shard(state), ids)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("part", [7, 65_536])
def test_first_learnable_rows_are_those_of_one_device_to_the_bit(monkeypatch, part):
    """For any size of the parts that rows are drawn in, though that size decides their values."""
    monkeypatch.setattr(tables, "PART", part)
    graph = random_graph(3)
    engines = [make_engine(setting(graph, "minibatch", mesh, {}, {}), graph) for mesh in ((1, 1), (2, 1), (2, 2))]
    alone, *others = [engine.gather(engine.init(5)).tables for engine in engines]
    assert alone and max(len(table.rows) for table in alone.values()) > 7
    for found in others:
        assert found.keys() == alone.keys()
        for t, table in alone.items():
            np.testing.assert_array_equal(found[t].rows, table.rows)


def test_what_raf_sends_depends_on_neither_fanout_nor_width():
    graph = GRAPHS["ogbn-mag"]()
    wide = dataclasses.replace(graph, features={t: np.tile(matrix, 2) for t, matrix in graph.features.items()})

    def sent(graph, fanout, feature_width):
        config = setting(graph, "minibatch", (2, 1), {"self_term": False}, {})
        model = dataclasses.replace(config.model, feature_width=feature_width)
        config = dataclasses.replace(config, model=model, sampling=dataclasses.replace(config.sampling, fanout=fanout))
        engine = make_engine(config, graph)
        engine.step(engine.init(0), next(engine.batches.epoch(0)).batch)
        return {one.kind: one.bytes for one in engine.traffic()}

    assert sent(graph, (3, 2), 6) == sent(wide, (6, 5), 12) == {"partial_aggregations": 2 * 9 * 8 * 4}


def test_penalty_clipping_and_decay_count_every_weight_once():
    train = {
        "l2": 0.01,
        "gradient_clip": 0.05,
        "weight_decay": 0.1,
        "label_smoothing": 0.1,
        "class_weights": (1.0, 3.0, 0.5),
    }
    errors = compare(smaller_graph(3), (2, 2), "minibatch", MODELS["R-GCN"], **train)
    assert errors.loss < 1e-5 and errors.gradient < 1e-5 and errors.state < 1e-4


def test_a_relation_held_for_hop_two_is_not_applied_at_the_root(monkeypatch):
    graph = random_graph(3)
    config = setting(graph, "minibatch", (2, 1), {}, {})
    given = setup(config, graph)
    plan, trainer = strategy.Raf().partition(given), given.trainer
    roots = plan.tree.roots  # cites and extends, from papers to papers, are apart: each owner holds the other for hop 2
    plan = dataclasses.replace(plan, owners=(roots[::2], roots[1::2]))
    state, into = eagerly(trainer.init, np.int32(0)), {relation.key for relation in graph.schema.into("paper")}

    def step():
        engine = strategy.Raf().engine(given, plan)
        drawn = next(engine.batches.epoch(0))
        return drawn.batch, float(engine.gradients(engine.shard(state), drawn.batch)[0])

    batch, loss = step()
    applied = [set(part.blocks[-1].seeds.adjacency) for part in batch.parts.values()]
    assert set().union(*applied) == into and sum(map(len, applied)) == len(into)
    held = [set(part.blocks[0].inner.adjacency) & into for part in batch.parts.values()]
    assert any(below - root for below, root in zip(held, applied)), "no partition holds a relation for hop 2 alone"
    honest = sites.partition_models

    def greedy(plan):
        """Whatever a partition holds into the target is applied at the root, as in Heta's released code."""
        shares = []
        for share in honest(plan):
            *below, top = share.local_model.layers
            held = (
                r
                for r in share.local_model.relations
                if r.target == "paper" and r.source in share.local_model.types[-2]
            )
            fold = Aggregation(tuple(sorted(held)), top.seeds.selves)
            shares.append(
                share._replace(local_model=share.local_model._replace(layers=(*below, top._replace(seeds=fold))))
            )
        return shares

    for module in (raf_batches, raf_engine):
        monkeypatch.setattr(module, "partition_models", greedy)
    assert abs(step()[1] - loss) > 1e-3


def partial(monoid: Monoid, rng, some: bool):
    """A partial aggregate of four partitions, `[4, nodes, ...]`."""
    value = rng.standard_normal((4, 6, 3)).astype(np.float32)
    if monoid is not partials.SOFTMAX:
        return jax.vmap(monoid.lift)(value)
    largest = np.where(some, value[..., :2] * 50, -np.inf).astype(np.float32)
    weights = np.where(np.isfinite(largest), rng.uniform(1, 3, (4, 6, 2)), 0).astype(np.float32)
    return Attention(largest, weights, weights[..., None] * rng.standard_normal((4, 6, 2, 3)).astype(np.float32))


OWN = Monoid(lambda x: (x, x**2), lambda a, b: (a[0] + b[0], a[1] + b[1] + a[0] * b[0]), lambda c: c[0] + c[1])


@pytest.mark.parametrize("monoid", [*partials.NAMED.values(), OWN], ids=[*partials.NAMED, "own"])
def test_combining_over_an_axis_is_the_fold_and_so_is_its_gradient(monoid):
    rng = np.random.default_rng(0)
    given = partial(monoid, rng, rng.uniform(size=(4, 6, 2)) < 0.6)
    weights, places = rng.standard_normal(6).astype(np.float32)[:, None], range(4)

    def loss(partial):
        return jnp.sum(jnp.sin(monoid.total(partial)) * weights)

    def one(partial):
        first = jax.tree.map(lambda leaf: leaf[0], partial)
        value, gradient = jax.value_and_grad(lambda c: loss(combine.combine(monoid, c, "relation", places)))(first)
        return value[None], jax.tree.map(lambda leaf: leaf[None], gradient)

    mesh, axis = meshes.make(4, 1), P("relation")
    values, gradient = jax.jit(jax.shard_map(one, mesh=mesh, in_specs=axis, out_specs=axis, check_vma=False))(given)
    parts = [jax.tree.map(lambda leaf: leaf[part], given) for part in range(4)]
    expected = jax.value_and_grad(lambda *parts: loss(functools.reduce(monoid.combine, parts)), (0, 1, 2, 3))(*parts)
    np.testing.assert_allclose(values, np.full(4, expected[0]), rtol=1e-5)
    for part, wanted in enumerate(expected[1]):
        for leaf, right in zip(jax.tree.leaves(gradient), jax.tree.leaves(wanted)):
            np.testing.assert_allclose(leaf[part], right, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("looks", [True, False])
def test_a_fold_that_looks_at_no_target_is_given_none(looks):
    seen = []

    class Zeros(nn.Module):
        features: int

        def __call__(self, adjacency, sources, targets):
            seen.append(targets)
            return jnp.zeros((len(adjacency.indptr) - 1, self.features))

    model = HGNN(None, lambda relation, features: Zeros(features), reads_target=looks)
    graph = random_graph()
    widths = {name: matrix.shape[1] for name, matrix in graph.features.items()}
    stack = hgnn.build(model, graph.schema, widths, readout(graph), 4, 1)
    features = {name: jnp.zeros((graph.schema.nodes[name], width)) for name, width in stack.widths.items()}
    stack.init(jax.random.key(0), whole_graph(graph, [graph.schema.target], 1), features)
    assert seen and all((targets is not None) == looks for targets in seen)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run on two partitions, and the options that it was given."""
    folder = tmp_path_factory.mktemp("raf")
    store.save(smaller_graph(), folder / "graph")
    options = [
        "--data.format",
        "store",
        "--data.path",
        folder / "graph",
        *SMALL,
        "--model.name",
        "tests.support.equivalence:own_blind",
    ]
    done = train(folder / "run", *options, "--mesh.relation", "2")
    assert done.returncode == 0, done.stderr
    return folder / "run", list(map(str, options))


def test_a_run_on_two_partitions(finished):
    run, _ = finished
    summary = json.loads((run / "summary.json").read_text())
    assert summary["mesh"].items() >= {"relation": 2, "data": 1}.items() and 0 <= summary["test_accuracy"] <= 1
    partials_sent = {one["bytes"] for one in summary["sent_per_step"] if one["kind"] == "partial_aggregations"}
    assert partials_sent == {2 * 8 * (8 + 1) * 4}  # an all-reduce of the means of 8 seeds: 8 numbers and a count
    manifest = json.loads((run / "partition_raf_2x1" / "manifest.json").read_text())
    assert manifest["mesh"].items() <= summary["mesh"].items() and manifest["exchange"] == "last"


def test_a_resumed_run_equals_an_undisturbed_one(finished, tmp_path):
    assert continued(finished, tmp_path / "run", "--mesh.relation", "2") == losses(finished[0])


def test_a_run_continues_on_another_mesh(finished, tmp_path):
    found = continued(finished, tmp_path / "run", "--mesh.data", "2")
    np.testing.assert_allclose(found, losses(finished[0]), rtol=1e-4)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--mesh.relation", "9"], "mesh.relation is 9, and there are 4 relations into the root types"),
        (["--mesh.data", "9"], "mesh.data is 9, and there are 8 examples of a step"),
        (["--mesh.relation", "4", "--mesh.data", "2"], "needs 8 devices != 4 (cpu) that there are"),
        (["--mesh.relation", "0"], "mesh.relation is 0, and must be at least 1"),
    ],
)
def test_a_mesh_that_cannot_be_is_one_line(finished, tmp_path, capsys, options, words):
    with pytest.raises(SystemExit) as stopped:
        run_command(main, ["--workdir", str(tmp_path / "run"), *finished[1], *options])
    error = capsys.readouterr().err
    assert stopped.value.code == 2 and words in error and error.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_more_devices_than_there_are():
    with pytest.raises(InputError, match="mesh.relation 5 x mesh.data 1 needs 5 devices != 4"):
        meshes.make(5, 1)
