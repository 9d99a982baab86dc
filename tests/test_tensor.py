"""Tensor parallelism: equal to one device for every model, counted in the compiled programs, resumed, moved."""

import json
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

from hetjax.graph import store
from hetjax.graph.hetgraph import build
from hetjax.graph.schema import Relation, Schema
from hetjax.kernels import folded_attention
from hetjax.options.config import Config, Mesh, Model, Sampling
from hetjax.sharding import mesh as meshes
from hetjax.sharding import registry
from hetjax.sharding.columns import all_rows, to_columns, to_rows
from hetjax.sharding.mesh import FEATURE
from hetjax.sharding.registry import make_engine
from hetjax.sharding.tensor import costs
from hetjax.system.errors import InputError
from tests.support.commands import SMALL, train, train_anew
from tests.support.equivalence import GRAPHS, MODELS, compare, few, setting
from tests.support.graphs import smaller_graph


def tensor(parts: int) -> tuple:
    return 1, 1, "tensor", parts


FEW = few("cites", "writes", "of")


@pytest.mark.parametrize(
    ("model", "graph", "parts", "more"),
    [
        (
            "R-GCN, dropout",
            FEW,
            3,
            {"l2": 0.01, "gradient_clip": 0.05, "weight_decay": 0.1, "class_weights": "balanced"},
        ),
        ("GIN", GRAPHS["homogeneous, weights"](), 4, {}),
        ("GCN, residual", GRAPHS["homogeneous, weights"](), 3, {}),
        ("GAT, no head", GRAPHS["homogeneous"](), 3, {}),  # of 2 heads by columns, of 3 by heads
        ("GATv2, no head", GRAPHS["homogeneous"](), 3, {}),
        ("R-GAT, dropout", few("cites"), 3, {}),
        ("HGT, dropout", few("cites", "writes"), 2, {}),
        ("HGT, joint", few("cites"), 3, {}),
        ("R-GCN, decoupled", FEW, 3, {"l2": 0.01}),
        ("GIN, decoupled", GRAPHS["homogeneous, weights"](), 4, {}),
        ("R-GAT, decoupled", few("cites", "writes"), 3, {}),  # 4 heads: two, two, and none
        ("HGNN, dropout", few("cites", "writes"), 3, {}),  # a model of a user's own, which knows nothing of this
    ],
)
def test_equals_one_device_in_double_precision(model, graph, parts, more):
    errors = compare(graph, tensor(parts), "full", MODELS[model], steps=4, wide=True, **more)
    assert errors.loss < 1e-12 and errors.gradient < 1e-12 and errors.state < 1e-7


@pytest.mark.parametrize("model", ["rgat", "hgt"])
def test_attention_that_is_folded_first_equals_one_device(model, monkeypatch):
    """One head, of which no device has one more than others, and sources narrower than what they are multiplied to."""
    folded, seen = folded_attention._widened, []
    monkeypatch.setattr(folded_attention, "_widened", lambda *given: seen.append(given) or folded(*given))
    options = {"name": model, "heads": 1, "hidden": 32}
    errors = compare(few("cites"), tensor(2), "full", options, steps=3, wide=True)
    assert seen and errors.loss < 1e-12 and errors.gradient < 1e-12 and errors.state < 1e-7


@pytest.mark.parametrize("columns", [3, 8, 11])
def test_rows_become_columns_and_back_and_gradients_with_them(columns):
    """Widths that the devices do not divide evenly; what several arrays carry stays apart."""
    parts, rng = 4, np.random.default_rng(0)
    x, y = rng.standard_normal((8, columns)), rng.standard_normal((4, 2, 3))
    mesh, width = meshes.features(parts), -(-columns // parts)

    def both(x, y, pull):
        there, back = jax.vjp(lambda x, y: to_columns(parts, [x, y]), x, y)
        rows, to_there = jax.vjp(lambda there: to_rows(parts, there, [columns, 2]), there)
        return there[0], rows, back([pull, jnp.zeros_like(there[1])])[0], to_there([rows[0], rows[1]])[0]

    with jax.enable_x64(True):
        pull = rng.standard_normal((parts, 8, width))
        program = meshes.shard_map(both, mesh, P(FEATURE), P(FEATURE))
        there, rows, back, to_there = jax.jit(program)(x, y, pull.reshape(parts * 8, width))
    padded = np.pad(x, ((0, 0), (0, parts * width - columns)))
    np.testing.assert_array_equal(np.asarray(there).reshape(parts, 8, width), np.stack(np.split(padded, parts, axis=1)))
    np.testing.assert_array_equal(rows[0], x)
    np.testing.assert_array_equal(rows[1], y)
    np.testing.assert_array_equal(back, np.concatenate(pull, axis=1)[:, :columns])
    np.testing.assert_array_equal(to_there[0], there)


def test_gradients_of_rows_that_all_have_are_summed_without_a_reduce_scatter():
    mesh, x = meshes.features(4), np.arange(8.0)[:, None]

    def back(x, weight):
        return jax.grad(lambda x: jnp.sum(all_rows("rows", x)[:, 0] * weight[0]))(x)

    program = jax.jit(meshes.shard_map(back, mesh, P(FEATURE), P(FEATURE)))
    weights = np.random.default_rng(0).standard_normal((4, 8)).astype(np.float32)
    np.testing.assert_allclose(program(x, weights)[:, 0], weights.sum(0), rtol=1e-5)
    assert "reduce-scatter" not in program.lower(x, weights).compile().as_text()


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"mesh": Mesh(feature=2)}, "mesh.feature is 2, and must be 1 with mesh.strategy raf"),
        (
            {"mesh": Mesh(data=2, feature=2, strategy="tensor")},
            "mesh.data is 2, and must be 1 with mesh.strategy tensor",
        ),
        (
            {"mesh": Mesh(feature=9, strategy="tensor"), "model": Model(hidden=8)},
            "mesh.feature is 9, more slices than the 8 columns of model.hidden",
        ),
    ],
)
def test_what_cannot_be_divided_is_refused(config, words):
    with pytest.raises(InputError, match=words):
        registry.check(Config(**{"sampling": Sampling("full")} | config))


def test_more_slices_than_classes_or_devices_are_refused():
    config = setting(FEW, "full", tensor(4), {"head": False}, {})
    with pytest.raises(InputError, match="mesh.feature is 4, more slices than the 3 outputs that the last layer makes"):
        make_engine(config, FEW)
    with pytest.raises(
        InputError, match="mesh.feature is 3, more slices than the 2 heads that a decoupled model folds by"
    ):
        make_engine(setting(FEW, "full", tensor(3), MODELS["R-GAT, decoupled"] | {"heads": 2}, {}), FEW)
    with pytest.raises(InputError, match="mesh.feature 5 needs 5 devices != 4"):
        make_engine(setting(FEW, "full", tensor(5), {}, {}), FEW)
    with pytest.raises(InputError, match="tensor.device_bytes is -3, and must be at least -1"):
        setting(FEW, "full", tensor(2), {}, {"options": {"device_bytes": -3}})


@pytest.mark.parametrize("model", ["HGT, joint", "R-GAT, dropout"])
def test_a_device_with_one_node_of_a_type_asks_for_it(model):
    """Its queries are one row, as those are that all targets share."""
    relations = Relation("a", "to", "b"), Relation("b", "to", "a")
    chance, sizes = np.random.default_rng(0), {"a": 6, "b": 2}
    edges = {r: tuple(chance.integers(0, sizes[t], 9) for t in (r.source, r.target)) for r in relations}
    features = {t: chance.standard_normal((count, 5), np.float32) for t, count in sizes.items()}
    splits = {name: np.array(ids, np.int32) for name, ids in (("train", range(4)), ("validation", [4]), ("test", [5]))}
    labels = chance.integers(0, 3, 6).astype(np.int32)
    graph = build(Schema(sizes, relations, "a", 3), edges, features, labels, splits)
    errors = compare(graph, (1, 1, "tensor", 2), "full", MODELS[model], steps=2, wide=True)
    assert max(errors) < 1e-9


SLICED, RAF = ["--mesh.strategy", "tensor", "--mesh.feature"], ["--mesh.relation", "2", "--mesh.feature", "2"]


@pytest.mark.parametrize(
    ("mode", "sent", "others"),
    [
        ("full", "columns", {"alone": [], "chunks": [*SLICED, 2, "--tensor.device_bytes", 60000]}),
        ("minibatch", "partial products", {"raf": RAF}),
    ],
)
def test_a_run_resumes_and_moves_to_another_mesh(tmp_path, mode, sent, others):
    """Evaluation is by the same slices, and says what the other mesh says."""
    store.save(smaller_graph(), tmp_path / "graph")
    options = [
        "--data.format",
        "store",
        "--data.path",
        tmp_path / "graph",
        *SMALL,
        "--sampling.mode",
        mode,
        "--verbose",
    ]
    same = [*options, *SLICED, 3]
    done = train_anew(tmp_path / "run", *same)
    assert done.returncode == 0 and sent in done.stdout, done.stdout + done.stderr
    lines = {"run": losses(tmp_path / "run")}
    for name, mesh in {"again": same, **{name: [*options, *mesh] for name, mesh in others.items()}}.items():
        shutil.copytree(tmp_path / "run", tmp_path / name)
        (tmp_path / name / "summary.json").unlink()
        shutil.rmtree(max((tmp_path / name / "checkpoints").iterdir()))
        done = train(tmp_path / name, *mesh)
        assert done.returncode == 0 and "continuing from" in done.stdout, done.stderr
        lines[name] = losses(tmp_path / name)
    assert lines["again"] == lines["run"]
    for name in others:
        np.testing.assert_allclose(lines[name], lines["run"], rtol=1e-4)


def losses(run) -> list[float]:
    """All that a run wrote."""
    records = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return [value for record in records for key, value in record.items() if key.endswith("_loss")]


@pytest.mark.parametrize(
    ("model", "graph", "parts", "layers"),
    [
        ("GCN", GRAPHS["homogeneous"](), 3, 3),
        ("GIN", FEW, 4, 3),
        ("R-GCN", FEW, 3, 2),
        ("GATv2", GRAPHS["homogeneous"](), 2, 2),
        ("R-GAT", few("cites", "writes"), 2, 2),
        ("HGT, dropout", few("cites", "writes"), 2, 1),
        ("R-GCN, decoupled", FEW, 3, 2),
        ("R-GCN, decoupled", FEW, 3, 5),
        ("GCN, decoupled", GRAPHS["homogeneous"](), 2, 3),
        ("GAT, decoupled", GRAPHS["homogeneous"](), 2, 3),
    ],
)
def test_bytes_are_those_of_the_formula(model, graph, parts, layers):
    """Of linear folds a layer's go together: one all-to-all there and one back, and as many of gradients."""
    options = MODELS[model] | {"layers": layers, "input_projection": False, "input_dropout": 0.0}
    engine = make_engine(setting(graph, "full", tensor(parts), options, {}), graph)
    (drawn,) = engine.batches.epoch(0)
    engine.step(engine.init(0), drawn.batch)
    found = {sent.kind: sent.bytes for sent in engine.traffic()}
    expected = costs.sent(engine.trainer, engine.setup.graph, parts)
    assert {kind: found[kind] for kind in found if kind != "gradients"} == expected
    names = [sent.collective for sent in engine.updated.sent()]
    assert set(names) == {"all-to-all", "all-reduce"}
    if "decoupled" in model:
        assert names.count("all-to-all") == 4
    elif model in ("GCN", "GIN"):
        folded = 3 * (
            model == "GCN"
        )  # whose first layer folds features, of which it has the columns: no gradient either
        assert names.count("all-to-all") == 4 * layers - folded
