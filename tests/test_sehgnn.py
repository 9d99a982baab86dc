"""SeHGNN: metapaths and their means by hand, the model by its equations, no way for a label to its own node, every strategy as one device."""

import tracemalloc
from dataclasses import replace

import jax
import numpy as np
import pytest

from hetjax import from_arrays
from hetjax.datasets.load import load, load_abstract, load_some
from hetjax.graph import store
from hetjax.graph.hetgraph import HetGraph
from hetjax.graph.schema import Relation
from hetjax.metapaths import Metapath, along_metapaths, means, metapaths
from hetjax.options import owners
from hetjax.options.config import Config, Data, Sampling
from hetjax.sharding.evaluate import Evaluator
from hetjax.sharding.strategy import setup
from hetjax.system.eager import eagerly
from hetjax.system.errors import InputError
from tests.support.equivalence import compare, few, several_labels
from tests.support.graphs import evaluated, random_graph
from tests.support.label_changes import logits, relabelled
from tests.support.metapaths import product

SEHGNN = {"name": "sehgnn", "layers": 1, "heads": 2, "residual": True, "dropout": 0.3, "input_dropout": 0.1}


@pytest.fixture(params=[(2**24, 1), (50, 1), (50, 0)], ids=["at once", "in parts", "in parts, as full matrices"])
def at_once(request, monkeypatch):
    for name, value in zip(("AT_ONCE", "FULL"), request.param):
        monkeypatch.setattr(means, name, value)


def test_metapaths_are_all_that_end_at_the_target():
    schema = random_graph(3).schema
    found = metapaths(schema, 2)
    assert found[0] == Metapath("paper") and len(set(found)) == len(found)
    into = schema.into("paper")
    assert set(found[1:]) == {Metapath("paper", (r,)) for r in into} | {
        Metapath("paper", (one, two)) for one in into for two in schema.into(one.source)
    }
    assert len({path.name(schema) for path in found}) == len(found)
    with pytest.raises(InputError, match="metapaths of up to .* > 512"):
        metapaths(schema, 16)


def test_means_and_labels_are_those_of_the_products_of_matrices(at_once):
    graph = random_graph(3)
    made, train = along_metapaths(graph, 2, 2), graph.splits["train"]
    labels = np.zeros((len(graph.labels), graph.schema.classes))
    labels[train, graph.labels[train]] = 1
    for path in metapaths(graph.schema, 2):
        name, expected = path.name(graph.schema), product(graph, path)
        if path.source in graph.features:
            known = made.features[name if path.relations else "paper itself"]
            np.testing.assert_allclose(known, expected @ graph.features[path.source].astype(float), atol=1e-5)
        elif path.relations:
            csc = made.relations[Relation(path.source, name, "paper")]
            weighed = np.zeros_like(expected)
            weighed[np.repeat(np.arange(len(expected)), np.diff(csc.indptr)), csc.indices] = csc.weights
            np.testing.assert_allclose(weighed, expected, atol=1e-6)
        if path.source == "paper" and path.relations:
            others = expected.copy()
            others[train, train] = 0
            np.testing.assert_allclose(made.features[f"labels {name}"], others @ labels, atol=1e-6)
    assert {r.target for r in made.relations} == {"paper"}


def test_a_nodes_own_label_does_not_reach_what_metapaths_have(at_once):
    plain = random_graph(3)
    before = along_metapaths(plain, 1, 3).features
    labels = [name for name in before if name.startswith("labels ")]
    reached = 0
    for node in plain.splits["train"]:
        after = along_metapaths(relabelled(plain, np.array([node])), 1, 3, labels).features
        for name in labels:
            np.testing.assert_array_equal(before[name][node], after[name][node])
        reached += any(not np.array_equal(before[name], after[name]) for name in labels)
    assert labels and reached


@pytest.mark.parametrize("full", [0, 1])
def test_what_is_held_besides_the_result_is_bounded(full, monkeypatch):
    monkeypatch.setattr(means, "FULL", full)
    monkeypatch.setattr(means, "AT_ONCE", 2**16)
    nodes, edges, rng = 3000, 30_000, np.random.default_rng(0)
    ends = rng.integers(0, nodes, (2, edges))
    graph = from_arrays({("paper", "by", "author"): ends}, {}, {"paper": rng.integers(0, 3, nodes)}, reverse=True)
    (there,), (back,) = graph.schema.into("paper"), graph.schema.into("author")
    path, own = Metapath("paper", (there, back, there, back)), np.arange(nodes)
    y = np.ones((nodes, 3), np.float32)
    tracemalloc.start()
    means.means_of_others(graph, path, y, own)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert means.composed(graph, path).edges > 0.9 * nodes**2  # 36 MB or more, if it were held at once
    assert most < 32 * 2**16 + 80 * edges  # an index and a number of some intermediate products, and of the relations


@pytest.mark.parametrize("several", [False, True])
def test_a_nodes_own_label_does_not_reach_its_logits_and_others_do(several):
    plain = few("cites", "writes", "written_by")
    plain = several_labels(plain) if several else plain
    options = {key: value for key, value in SEHGNN.items() if key not in ("name", "layers")}
    train = plain.splits["train"]
    changed = [along_metapaths(relabelled(plain, np.array([node])), 2, 3) for node in train]
    before, *found = logits(along_metapaths(plain, 2, 3), *changed, name="sehgnn", layers=1, **options)
    for node, after in zip(train, found):
        np.testing.assert_array_equal(before[node], after[node])
    assert any(not np.array_equal(before, after) for after in found)
    others = np.setdiff1d(np.arange(len(plain.labels)), plain.splits["train"])
    one, two = (along_metapaths(graph, 1, 3).features for graph in (plain, relabelled(plain, others)))
    assert all(np.array_equal(one[name], two[name]) for name in one)


@pytest.mark.parametrize(
    ("mesh", "mode"),
    [
        ((2, 1), "minibatch"),
        ((2, 2), "full"),
        ((1, 2, "vanilla"), "minibatch"),
        ((1, 2, "dependency"), "full"),
        ((1, 1, "tensor", 2), "full"),
    ],
)
def test_every_strategy_equals_one_device(mesh, mode):
    graph = along_metapaths(few("cites", "writes"), 1, 2)
    errors = compare(graph, mesh, mode, SEHGNN | {"logit_norm": True}, steps=4, wide=True, fanout=(-1,))
    assert errors.loss < 1e-9 and errors.gradient < 1e-9 and errors.state < 1e-7


def test_a_partition_computes_its_own_metapaths_alone(tmp_path):
    store.save(random_graph(3), tmp_path / "graph")
    data = Data(format="store", path=str(tmp_path / "graph"), metapath_hops=2, metapath_label_hops=2)
    whole, outline = load(data), load_abstract(data)
    assert outline.schema == whole.schema
    assert {t: m.shape for t, m in outline.features.items()} == {t: m.shape for t, m in whole.features.items()}
    assert not any(matrix.any() for matrix in outline.features.values())
    some = whole.schema.relations[1:4]
    part = load_some(data, some, {relation.source for relation in some})
    assert part.schema.relations == some
    for name, matrix in part.features.items():
        np.testing.assert_array_equal(matrix, whole.features[name])


def test_what_does_not_go_with_it_is_refused():
    graph = along_metapaths(few("cites", "writes"), 1)
    for options, words in [({"layers": 2}, "one layer"), ({"head": False}, "ends with a head")]:
        config = Config(model=owners.made_model(**SEHGNN | options), sampling=Sampling(mode="full"))
        made = setup(config, graph)
        with pytest.raises(InputError, match=words):
            jax.eval_shape(made.trainer.init, 0)
    several = along_metapaths(several_labels(few("cites", "writes")), 1)
    with pytest.raises(InputError, match="3 classes or more, not for several labels a node"):
        setup(Config(model=owners.made_model(**SEHGNN, logit_norm=True), sampling=Sampling(mode="full")), several)
    with pytest.raises(InputError, match="metapath_hops is 0"):
        Data(metapath_label_hops=2)
    with pytest.raises(InputError, match="data.label_inputs is true"):
        Data(metapath_hops=2, label_inputs=True)


@pytest.mark.parametrize("norm", ["each", "together"])
def test_the_logits_are_those_of_the_equations(norm):
    """Without dropout, in plain NumPy: equations 5 to 7, and what follows."""
    graph = along_metapaths(few("cites", "writes"), 1, 2, ones=True)
    made = setup(
        Config(
            model=owners.made_model(
                **SEHGNN | {"hidden": 8, "output_layers": 4, "logit_norm": True, "metapath_norm": norm}
            ),
            sampling=Sampling(mode="full"),
        ),
        graph,
    )
    state = eagerly(made.trainer.init, np.int32(0))
    gamma = {"fuse": state.params["params"]["layers_0"]["fuse"] | {"gamma": np.float32(0.7)}}
    params = {"params": state.params["params"] | {"layers_0": state.params["params"]["layers_0"] | gamma}}
    assert not state.tables and len(graph.schema.relations) == 5
    found = evaluated(
        Evaluator(made.trainer.model, made.graph, 10**6),
        params,
        dict(made.graph.features),
        np.arange(len(graph.labels)),
    )
    np.testing.assert_allclose(found, by_hand(params["params"], graph, 2, norm), atol=2e-5)


def by_hand(params, graph: HetGraph, heads: int, norm: str) -> np.ndarray:
    params = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), params)
    layer = params["layers_0"]

    def linear(x, of):
        return x @ of["kernel"].reshape(x.shape[-1], -1) + of.get("bias", np.zeros(1)).ravel()

    def normalised(x, of, axes):
        off = x - x.mean(axis=axes, keepdims=True)
        return off / np.sqrt((off**2).mean(axis=axes, keepdims=True) + 1e-6) * of["scale"] + of["bias"]

    def prelu(x, of):
        return np.where(x >= 0, x, of["negative_slope"] * x)

    z = [linear(graph.features[r.source], layer[f"embed_{r.key}"]) for r in graph.schema.relations]
    h, own = np.stack(z, axis=1), z[[r.source for r in graph.schema.relations].index("paper itself")]
    for number in range(2):
        of = layer["project"]
        h = np.einsum("tpi,pio->tpo", h, of[f"kernel_{number}"]) + of[f"bias_{number}"]
        h = prelu(normalised(h, of[f"LayerNorm_{number}"], (2,) if norm == "each" else (1, 2)), of[f"PReLU_{number}"])
    q, k, v = (linear(h, layer["fuse"][name]).reshape(*h.shape[:2], heads, -1) for name in ("query", "key", "value"))
    scores = np.exp(np.einsum("tphd,tqhd->thpq", q, k) / np.sqrt(q.shape[-1]))
    mixed = np.einsum("thpq,tqhd->tphd", scores / scores.sum(axis=-1, keepdims=True), v).reshape(h.shape)
    h = linear((h + layer["fuse"]["gamma"] * mixed).reshape(len(h), -1), layer["join"]) + linear(own, layer["own"])
    h = prelu(h, layer["activation"])
    for number in range(3):
        of = layer["output"]
        h = linear(h, of[f"Dense_{number}"])
        h = prelu(normalised(h, of[f"LayerNorm_{number}"], (1,)), of[f"PReLU_{number}"])
    return normalised(linear(h, params["head"]), {"scale": 1, "bias": 0}, (1,))


def test_types_without_features_have_one_hot_ones(at_once):
    graph = random_graph(3)
    bare = replace(graph, features={"paper": graph.features["paper"]})
    made = along_metapaths(bare, 2, ones=True)
    paths = [path for path in metapaths(graph.schema, 2) if path.source != "paper"]
    assert paths and {r.target for r in made.relations} == {"paper"}
    for path in paths:
        np.testing.assert_allclose(made.features[path.name(graph.schema)], product(graph, path), atol=1e-6)
