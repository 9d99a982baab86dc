"""One device: mini-batches against the whole graph, evaluation against both, row-wise Adam, padding."""

import dataclasses
import itertools
import json

import chex
import jax
import jax.numpy as jnp
import jaxlib
import numpy as np
import optax
import pytest

from hetjax.kernels import cost_model, tables
from hetjax.kernels.native import platforms
from hetjax.kernels.tables import RowAdam, Shape, Table
from hetjax.options.config import Config, Model, Sampling, Train
from hetjax.sampling.blocks import NO_NODE
from hetjax.sampling.regime import mini_batch_regime
from hetjax.sampling.sampler import Sampler
from hetjax.sharding.evaluate import Chunks, Evaluator, evaluated_nodes
from hetjax.sharding.registry import make_engine
from hetjax.sharding.single.batches import SingleBatches
from hetjax.system import runtime
from hetjax.system.eager import eagerly
from hetjax.tasks import metrics
from hetjax.train import main
from tests.support.graphs import random_graph, smaller_graph
from tests.support.models import evaluated, readout
from tests.support.single import MODELS, setting, whole_batches, whole_graph


def sampled(sampler: Sampler, size: int) -> SingleBatches:
    """Mini-batches of so many seeds, two layers."""
    return SingleBatches(
        sampler, readout(sampler.graph), mini_batch_regime(len(sampler.graph.splits["train"]), size, (4, 3)), 1
    )


def whole_rows(graph, rows, batch, node_type):
    """Gradients of gathered rows, laid where the whole table has them."""
    out = np.zeros((graph.schema.nodes[node_type], rows.shape[1]), rows.dtype)
    ids = np.asarray(batch.inputs[node_type])
    out[ids[ids != NO_NODE]] = np.asarray(rows)[ids != NO_NODE]
    return out


@pytest.mark.parametrize(
    ("layers", "options"),
    [(1, MODELS[0]), (3, MODELS[1]), *((2, model) for model in MODELS)],
)
def test_unlimited_fanout_and_what_is_needed_equal_the_whole_graph(layers, options):
    """In float64: in float32 a gradient that nearly cancels holds mostly rounding, on either side."""
    graph = smaller_graph(3) if options else random_graph(3)
    graph = dataclasses.replace(graph, splits={**graph.splits, "train": graph.splits["train"][::-1].copy()})
    with jax.enable_x64(True):
        config, trainer, static = setting(graph, layers, **options)
        wide = jax.tree.map(
            lambda leaf: leaf.astype(float) if leaf.dtype == jnp.float32 else leaf, eagerly(trainer.init, np.int32(0))
        )
        whole = whole_graph(graph, layers, trainer.model.reads_own)
        (mini,) = make_engine(config, graph).batches.epoch(0)
        (needed,) = whole_batches(graph, layers, trainer.model.reads_own).epoch(0)
        gradients = jax.jit(trainer.gradients)
        found = [jax.tree.map(np.asarray, gradients(wide, static, drawn.batch, 0)) for drawn in (whole, mini, needed)]
    (loss, (weights, rows)), (mini_loss, (mini_weights, mini_rows)), (needed_loss, needed_gradients) = found
    np.testing.assert_allclose([mini_loss, needed_loss], loss, rtol=1e-12)
    rounding = 1e-14 * np.linalg.norm([np.linalg.norm(leaf) for leaf in jax.tree.leaves((weights, rows))])

    def close(found, expected, name):
        error = np.linalg.norm(np.asarray(found) - expected)
        assert error <= max(1e-10 * np.linalg.norm(expected), rounding), name

    for path, expected in jax.tree_util.tree_leaves_with_path(weights):
        found = jax.tree_util.tree_leaves(
            [leaf for name, leaf in jax.tree_util.tree_leaves_with_path(mini_weights) if name == path]
        )[0]
        close(found, expected, path)
    assert set(rows) == set(trainer.learnable)
    for name, expected in rows.items():
        close(whole_rows(graph, mini_rows[name], mini.batch, name), expected, name)
    jax.tree.map_with_path(lambda path, *each: close(*each, path), needed_gradients, (weights, rows))
    assert any(np.abs(expected).max() > 0 for expected in rows.values())


@pytest.mark.parametrize("reads_own", [False, True])
@pytest.mark.parametrize("training", [[7], [31, 4], range(40)])
def test_the_whole_graph_holds_what_training_nodes_depend_on(training, reads_own, monkeypatch):
    """Of every layer the edges into nodes that the layer above reads, counted here one by one; of all nodes all edges, once for all layers."""
    monkeypatch.setattr("hetjax.sampling.whole.MOST", 1)
    graph = random_graph(3)
    graph = dataclasses.replace(graph, splits={**graph.splits, "train": np.array(training)})
    blocks = whole_batches(graph, 3, reads_own).sample(np.array(training), ()).blocks
    asked, counts = {"paper": set(training)}, []
    for _ in range(3):
        below = {t: set(ids) if reads_own else set() for t, ids in asked.items()}
        counts.insert(0, {})
        for relation, edges in graph.relations.items():
            for node in asked.get(relation.target, ()):
                sources = edges.indices[edges.indptr[node] : edges.indptr[node + 1]].tolist()
                below.setdefault(relation.source, set()).update(sources)
                counts[0][relation.key] = counts[0].get(relation.key, 0) + len(sources)
        asked = below
    found = [{key: len(edges.indices) for key, edges in block.adjacency.items() if edges.targets} for block in blocks]
    assert found == counts
    for one, other in itertools.pairwise(blocks):
        same = {key for key, edges in other.adjacency.items() if edges is one.adjacency[key] and len(edges.indices)}
        assert bool(same) == (len(training) == 40 and reads_own)
    assert counts[2] != counts[0]
    types = graph.schema.layer_types([graph.schema.target], 3, reads_own)[1:]
    reached = Chunks(graph, 7, reads_own).reached({"paper": np.sort(np.array(training, np.int32))}, types)
    folded = [{key: edges.targets for key, edges in block.adjacency.items()} for block in blocks]
    assert folded == [{r.key: len(nodes[r.target]) for r in graph.relations if r.target in nodes} for nodes in reached]


def test_a_step_of_each_way_gives_the_same_state():
    """Where a batch touches every row, the states after some steps are equal too."""
    graph = random_graph(3, degree=30)
    config, trainer, static = setting(graph)
    whole = whole_graph(graph, 2)
    (mini,) = make_engine(config, graph).batches.epoch(0)
    states = []
    for drawn in (whole, mini):
        state, step = eagerly(trainer.init, np.int32(0)), jax.jit(trainer.step)
        for _ in range(5):
            state, _ = step(state, static, drawn.batch, 0)
        states.append(state)
    touched = np.asarray(states[1].tables["author"].count) == 5
    assert touched.sum() > 15
    chex.assert_trees_all_close(states[0].params, states[1].params, rtol=1e-3, atol=1e-5)
    for name in ("rows", "count"):
        one, other = (np.asarray(getattr(state.tables["author"], name))[touched] for state in states)
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize(
    "options",
    [{}, {"self_term": False}, {"input_projection": True}, {"name": "rgat", "heads": 2}, {"name": "hgt", "heads": 2}],
)
def test_evaluation_is_exact_in_chunks_of_any_size_and_on_the_whole_graph(options, monkeypatch):
    graph = smaller_graph(4) if options else random_graph(4)
    config, trainer, static = setting(graph, **options)
    state = eagerly(trainer.init, np.int32(1))
    blocks = whole_graph(graph, 2).batch.blocks
    learned = {name: table.rows for name, table in state.tables.items()}
    expected = jax.jit(trainer.model.apply)(state.params, blocks, static | learned)
    ids = graph.splits["test"]
    rows = {name: np.asarray(table) for name, table in learned.items()}
    for edges in (1, 30, 10**6):
        found = evaluated(Evaluator(trainer.model, graph, edges), state.params, dict(graph.features) | rows, ids)
        np.testing.assert_allclose(found, np.asarray(expected)[ids], rtol=1e-4, atol=1e-6)
    monkeypatch.setattr("hetjax.sampling.whole.MOST", 1)
    evaluator, counts = Evaluator(trainer.model, graph, 30, asked={"paper": ids[:2]}), {}
    layer = evaluator._layer
    evaluator._layer = lambda *given: counts.update({given[2:4]: len(given[4])}) or layer(*given)
    for asked in (ids[1:2], ids[:1], ids[:4]):
        found = evaluated(evaluator, state.params, dict(graph.features) | rows, asked)
        np.testing.assert_allclose(found, np.asarray(expected)[asked], rtol=1e-4, atol=1e-6)
        least = {(0, t): len(nodes) for t, nodes in evaluator.reached[0].items()} | {(1, "paper"): len(asked)}
        assert counts == least and counts[0, "paper"] < graph.schema.nodes["paper"]
    engine = make_engine(dataclasses.replace(config, sampling=Sampling(mode="full")), graph)
    held = engine.shard(state)
    for ids in (
        *(graph.splits[split] for split in ("test", "validation")),
        np.random.default_rng(0).permutation(len(graph.labels)),
    ):
        np.testing.assert_allclose(engine.outputs(held, ids), np.asarray(expected)[ids], rtol=1e-4, atol=1e-6)
    assert engine.whole.computed._cache_size() == 2  # one for both splits, one more for nodes of neither


def test_the_whole_graph_is_evaluated_alike_whatever_is_asked_for_first():
    graph, found = random_graph(4), []
    config = Config(model=Model(hidden=8, feature_width=6), sampling=Sampling(mode="full"))
    for splits in (("validation", "test"), ("test", "validation")):
        engine = make_engine(config, graph)
        state = engine.init(0)
        found.append({split: engine.outputs(state, graph.splits[split]) for split in splits})
        assert engine.outputs(state, graph.splits["test"][:0]).shape == (0, 3)
        assert engine.whole.computed._cache_size() == 1
    jax.tree.map(np.testing.assert_array_equal, *found)
    config = dataclasses.replace(config, sampling=dataclasses.replace(config.sampling, evaluation_edges=1))
    engine = make_engine(config, graph)  # whose batch was not drawn: no number of edges is known to fit
    chunks = engine.outputs(engine.init(0), graph.splits["test"])
    assert not engine.whole.computed._cache_size() and engine.evaluator.embedded._cache_size()
    np.testing.assert_allclose(chunks, found[0]["test"], rtol=1e-4, atol=1e-6)
    engine.batches.prepare()
    engine.whole.edges = 2 * engine.batches.edges
    assert not engine.whole.takes({"paper": graph.splits["test"]})
    assert engine.whole.takes({"paper": np.arange(len(graph.labels))})


def test_a_run_evaluates_test_nodes_only_if_it_reads_them():
    graph = random_graph(4)
    everyone = np.sort(np.concatenate([graph.splits[split] for split in ("train", "validation", "test")]))
    np.testing.assert_array_equal(evaluated_nodes(readout(graph), Train())["paper"], everyone)
    unread = Train(test=False, accuracy_nodes=0)
    np.testing.assert_array_equal(evaluated_nodes(readout(graph), unread)["paper"], np.sort(graph.splits["validation"]))


def test_evaluation_gathers_one_hot_rows_chunk_by_chunk():
    """In place each chunk would make matrices of all of them."""
    graph = random_graph(4)
    _, trainer, _ = setting(graph, one_hot=True)
    state, evaluator, first = eagerly(trainer.init, np.int32(1)), Evaluator(trainer.model, graph, 25), []
    embed, rows = evaluator.embedded, {t: np.asarray(table.rows) for t, table in state.tables.items()}

    def seen(params, block, x, depth, **rest):
        first.extend(x.values() if not depth else ())
        return embed(params, block, x, depth=depth, **rest)

    evaluator.embedded = seen
    evaluated(evaluator, state.params, dict(graph.features) | rows, graph.splits["test"])
    assert first and not any(isinstance(rows, jax.Array) for rows in first)


def test_evaluation_compiles_one_program_per_layer_and_type():
    graph = random_graph(4)
    _, trainer, static = setting(graph)
    state, asked = eagerly(trainer.init, np.int32(1)), evaluated_nodes(readout(graph), Train())
    evaluator = Evaluator(trainer.model, graph, 25, asked=asked)
    rows = {name: np.asarray(table.rows) for name, table in state.tables.items()}
    for split in ("validation", "test"):
        evaluated(evaluator, state.params, dict(graph.features) | rows, graph.splits[split])
    assert evaluator.embedded._cache_size() <= 4 + 2  # the last layer once per split's shapes


def poison(batch, graph):
    """Garbage wherever a batch is padded."""
    rng = np.random.default_rng(0)

    def spoil(edges):
        count = int(edges.indptr[-1])
        garbage = rng.integers(-(2**31), 2**31 - 1, len(edges.indices), np.int32)
        keep = np.arange(len(edges.indices)) < count
        changed = {"indices": np.where(keep, edges.indices, garbage)}
        if edges.reverse_indices is not None:
            changed["reverse_indices"] = np.where(keep, edges.reverse_indices, garbage)
            changed["reverse_edges"] = np.where(keep, edges.reverse_edges, garbage)
        return edges._replace(**changed)

    blocks = tuple(
        block._replace(adjacency={key: spoil(edges) for key, edges in block.adjacency.items()})
        for block in batch.blocks
    )
    empty = np.asarray(batch.arrays.weights) == 0
    inputs = {
        name: np.where(np.asarray(ids) == NO_NODE, 2**31 - 1 - rng.integers(0, 1000, len(ids)), ids).astype(np.int32)
        for name, ids in batch.inputs.items()
    }
    return batch._replace(
        blocks=blocks,
        inputs=inputs,
        arrays=batch.arrays._replace(labels=np.where(empty, 2**31 - 1, batch.arrays.labels).astype(np.int32)),
        seeds={t: np.where(empty, 2**31 - 1, rows).astype(np.int32) for t, rows in batch.seeds.items()},
    )


@pytest.mark.optimised
def test_poisoned_padding_changes_nothing():
    graph = random_graph(5, papers=200)
    config, trainer, static = setting(graph)
    batches = sampled(Sampler(graph, frozenset({"paper"}), frozenset(trainer.learnable)), 48)
    drawn = list(batches.epoch(0))
    assert drawn[-1].nodes < 48
    spoiled = poison(drawn[-1].batch, graph)
    assert not np.array_equal(spoiled.arrays.labels, drawn[-1].batch.arrays.labels)
    state, step = eagerly(trainer.init, np.int32(0)), jax.jit(trainer.step)
    chex.assert_trees_all_equal(step(state, static, drawn[-1].batch, 0), step(state, static, spoiled, 0))


def test_larger_capacities_change_nothing_but_rounding():
    graph = random_graph(5, papers=200)
    config, trainer, static = setting(graph)
    sampler = Sampler(graph, frozenset(), frozenset(trainer.learnable))
    tight, roomy = next(sampled(sampler, 48).epoch(0)), sampled(sampler, 48)
    roomy.prepare({k: v and 3 * v + 5 for k, v in tight.capacities.items()})
    wide = next(roomy.epoch(0))
    state, gradients = eagerly(trainer.init, np.int32(0)), jax.jit(trainer.gradients)
    loss, (weights, _) = gradients(state, static, tight.batch, 0)
    wide_loss, (wide_weights, _) = gradients(state, static, wide.batch, 0)
    np.testing.assert_allclose(loss, wide_loss, rtol=1e-6)
    chex.assert_trees_all_close(weights, wide_weights, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("ways", ["natively", "plainly"])
def test_row_adam_equals_dense_adam_where_every_row_is_touched(monkeypatch, ways):
    """In float64: optax corrects the bias by 1 - decay**count, of which float32 keeps four digits at first."""
    if ways == "plainly":
        monkeypatch.setattr(platforms, "ffi_version", lambda: None)
    adam, dense, rng = RowAdam(0.01), optax.adam(0.01), np.random.default_rng(0)
    with jax.enable_x64(True):
        made = tables.create(jax.random.key(0), Shape(9, 4, 0.5))
        table = Table(*(leaf.astype(float) for leaf in made[:3]), made.count)
        params, state = table.rows, dense.init(table.rows)
        for _ in range(20):
            gradient, order = rng.standard_normal((9, 4)), rng.permutation(9).astype(np.int32)
            table = tables.update(table, order, gradient[order], adam)
            updates, state = dense.update(gradient, state)
            params = optax.apply_updates(params, updates)
        np.testing.assert_allclose(table.rows, params, rtol=1e-11)


@pytest.mark.parametrize("everyone", [False, True])
def test_row_adam_equals_its_definition(everyone):
    adam = RowAdam(0.05, 0.8, 0.95, 1e-6)
    table = tables.create(jax.random.key(0), Shape(7, 3, 0.5))
    rows, first, second, count = (np.array(part, np.float64) for part in table)
    rng = np.random.default_rng(1)
    for _ in range(12):
        ids = np.arange(7) if everyone else rng.permutation(7)[:3]
        padded = None if everyone else np.array([*ids, NO_NODE, NO_NODE], np.int32)
        gradient = rng.standard_normal((7 if everyone else 5, 3)).astype(np.float32)
        table = jax.jit(tables.update, static_argnums=3)(table, padded, gradient, adam)
        for place, node in enumerate(ids):
            g = gradient[place].astype(np.float64)
            count[node] += 1
            first[node] = 0.8 * first[node] + 0.2 * g
            second[node] = 0.95 * second[node] + 0.05 * g**2
            mean, square = first[node] / (1 - 0.8 ** count[node]), second[node] / (1 - 0.95 ** count[node])
            rows[node] -= 0.05 * mean / (np.sqrt(square) + 1e-6)
    for found, expected in zip(table, (rows, first, second, count)):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


def test_a_tables_rows_do_not_depend_on_other_types():
    key = jax.random.key(0)
    one = tables.create_all(key, {"a": Shape(4, 3, 1), "b": Shape(5, 3, 1)})
    other = tables.create_all(key, {"b": Shape(5, 3, 1), "c": Shape(2, 3, 1)})
    chex.assert_trees_all_equal(one["b"], other["b"])
    assert not np.array_equal(one["a"].rows, one["b"].rows[:4])


def test_quality_equals_scikit_learn():
    from sklearn.metrics import accuracy_score, f1_score, log_loss

    rng = np.random.default_rng(0)
    logits, labels = rng.standard_normal((200, 6)) * 3, rng.integers(0, 5, 200)
    found = metrics.quality(logits, labels)
    predicted = logits.argmax(axis=1)
    np.testing.assert_allclose(found["accuracy"], accuracy_score(labels, predicted))
    for kind in ("micro", "macro"):
        np.testing.assert_allclose(found[f"{kind}_f1"], f1_score(labels, predicted, average=kind))
    probability = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found["loss"], log_loss(labels, probability, labels=range(6)), rtol=1e-6)
    assert set(metrics.quality(logits[:0], labels[:0]).values()) == {None}


def test_the_penalty_is_on_the_first_layer_and_what_it_reads():
    graph = random_graph(3)
    _, trainer, static = setting(graph)
    state, drawn = eagerly(trainer.init, np.int32(0)), whole_graph(graph, 2)
    learned = {name: table.rows for name, table in state.tables.items()}
    plain = jax.jit(trainer.loss)(state.params, learned, static, drawn.batch)
    squares = sum(
        float((np.asarray(leaf) ** 2).sum()) for leaf in jax.tree.leaves((state.params["params"]["layers_0"], learned))
    )
    found = jax.jit(trainer._replace(l2=0.01).loss)(state.params, learned, static, drawn.batch)
    np.testing.assert_allclose(found - plain, 0.01 * squares, rtol=1e-4)


def test_several_labels_a_node_in_both_modes():
    graph = smaller_graph(3)
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, (graph.schema.nodes["paper"], 3)).astype(np.int8)
    graph = dataclasses.replace(graph, labels=labels)
    config, trainer, static = setting(graph)
    state = eagerly(trainer.init, np.int32(0))
    whole = whole_graph(graph, 2)
    (mini,) = make_engine(config, graph).batches.epoch(0)
    losses = [float(jax.jit(trainer.gradients)(state, static, drawn.batch, 0)[0]) for drawn in (whole, mini)]
    learned = {name: table.rows for name, table in state.tables.items()}
    logits = np.asarray(jax.jit(trainer.model.apply)(state.params, whole.batch.blocks, static | learned))
    ids = graph.splits["train"]
    expected = metrics.quality(logits[ids], labels[ids])["loss"]
    np.testing.assert_allclose(losses, expected, rtol=1e-6)


@pytest.mark.parametrize("resumed", [False, True])
def test_the_step_is_compiled_once(resumed):
    """Whether its state is new, was read from a checkpoint, or comes from the step before."""
    graph = random_graph(3)
    config = Config(model=Model(hidden=8, feature_width=6), sampling=Sampling(mode="full"))
    engine = make_engine(config, graph)
    state = engine.shard(eagerly(engine.trainer.init, np.int32(0))) if resumed else engine.init(0)
    for epoch in range(3):
        state, _ = engine.step(state, next(engine.batches.epoch(epoch)).batch)
    assert engine.compiled._cache_size() == 1


@pytest.mark.parametrize(("model", "mode"), [("rgcn", "minibatch"), ("hgt", "full")])
def test_a_run_is_the_same_where_jax_has_another_backend_than_a_cpu(tmp_path, monkeypatch, model, mode):
    """What is asked of the backend's name, in training, evaluation and checkpoints; programs are the CPU's all the same."""
    options = ["--synthetic.scale=0.0003", "--synthetic.classes=4", f"--model.name={model}", f"--sampling.mode={mode}"]
    options += ["--model.hidden=8", "--sampling.batch_size=32", "--sampling.fanout=[3,2]", "--train.epochs=2"]
    found = []
    for name in ("cpu", "elsewhere"):
        if name == "elsewhere":
            monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
            monkeypatch.setattr(platforms, "ffi_version", lambda: None)
            monkeypatch.setattr(cost_model, "ACCELERATOR", cost_model.Costs())
        precision = "jax_default_matmul_precision"
        try:
            main([*options, "--train.order_costs=usual", "--workdir", str(tmp_path / name)])
            assert getattr(jax.config, precision) == (None if name == "cpu" else "highest")
        finally:
            jax.config.update(precision, None)
        lines = (tmp_path / name / "metrics.jsonl").read_text().splitlines()
        found.append([json.loads(line) for line in lines][:2])
    for one, other in zip(*found, strict=True):
        for key in ("train_loss", "validation_loss"):
            np.testing.assert_allclose(other[key], one[key], rtol=1e-4)


@pytest.mark.parametrize("mode", ["minibatch", "full"])
def test_a_step_of_the_whole_graph_alone_has_options_of_its_own(monkeypatch, mode):
    """Here one that XLA does not know."""
    asked = []
    monkeypatch.setattr(runtime, "whole_graph_options", lambda *about: asked.append(about) or {"no_such_option": ""})
    graph = random_graph(0)
    engine = make_engine(Config(model=Model(hidden=8, feature_width=6), sampling=Sampling(mode=mode)), graph)
    batch = next(iter(engine.batches.epoch(0))).batch
    if mode == "full":
        with pytest.raises(jax.errors.JaxRuntimeError, match="no_such_option"):
            engine.step(engine.init(0), batch)
        with pytest.raises(jax.errors.JaxRuntimeError, match="no_such_option"):
            engine.outputs(engine.init(0), graph.splits["test"])
    else:
        engine.step(engine.init(0), batch)
    assert asked == [("cpu", jaxlib.__version__)] * (mode == "full")
