"""Push-pull: equal to one device for every model, counted in the compiled programs, evaluated on slices, moved to other meshes."""

from collections import Counter

import jax
import numpy as np
import pytest

from hetjax.options.config import Cache, Config, Mesh, Model, Sampling
from hetjax.sharding import registry
from hetjax.sharding.push_pull import costs
from hetjax.sharding.push_pull.weights import division
from hetjax.sharding.registry import make_engine
from hetjax.system.errors import InputError
from tests.support.equivalence import GRAPHS, MODELS, compare, few, setting

FEW, CITES = few("cites", "writes", "of"), few("cites")
HAUNTED = few("cites", "writes", "of", "haunts")  # by a type without nodes
DROPPING = {"dropout": 0.3}
RGAT = {"name": "rgat", "heads": 2, "attention_dropout": 0.4} | DROPPING
HGT = {"name": "hgt", "heads": 2, "attention_dropout": 0.4} | DROPPING
GAT = {"name": "gat", "heads": 2, "attention_dropout": 0.4, "layers": 1} | DROPPING
SMALL = {"batch_size": 4, "fanout": (2, 2)}


def sliced(parts: int, data: int = 1) -> tuple:
    return 1, data, "tensor", parts


@pytest.mark.parametrize(
    ("model", "graph", "mesh", "more"),
    [
        (DROPPING, FEW, sliced(3), {"l2": 0.01, "gradient_clip": 0.05, "weight_decay": 0.1}),
        ({"residual": True, "feature_width": 8}, HAUNTED, sliced(2, 2), {"l2": 0.01, "gradient_clip": 0.05}),
        ({"name": "gcn"} | DROPPING, GRAPHS["homogeneous, weights"](), sliced(4), {}),
        ({"name": "sage", "layers": 1}, GRAPHS["homogeneous"](), sliced(4), {"fanout": (3,)}),
        (MODELS["GIN"], GRAPHS["homogeneous"](), sliced(2), {}),
        (GAT, GRAPHS["homogeneous"](), sliced(3), {"fanout": (3,)}),
        (GAT | {"name": "gatv2"}, GRAPHS["homogeneous"](), sliced(2), {"fanout": (3,)}),  # not linear: given whole rows
        (RGAT, few("cites", "writes"), sliced(2), {}),
        (HGT | {"feature_width": 8}, few("cites", "writes"), sliced(3), {}),
        (HGT | {"softmax": "relation", "layers": 1}, CITES, sliced(4), {"fanout": (3,)}),
        ({"input_projection": True}, few("writes", "haunts"), sliced(2), {}),  # likewise, of a type without nodes
        (MODELS["HGNN, dropout"] | {"layers": 1}, CITES, sliced(2), {"fanout": (3,)}),  # of a user's own: likewise
        (DROPPING, HAUNTED, (2, 1, "raf", 2), {"l2": 0.01, "gradient_clip": 0.05, "weight_decay": 0.1}),
        (HGT, few("cites", "writes"), (2, 1, "raf", 2), {}),
        (
            HGT | {"layers": 1},
            few("cites", "writes"),
            (2, 1, "raf", 2),
            {"fanout": (3,)},
        ),  # no seed's row is read again
        (MODELS["R-GCN, one-hot"], few("cites", "writes"), (1, 2, "raf", 2), {}),
    ],
)
def test_equals_one_device_in_double_precision(model, graph, mesh, more):
    errors = compare(graph, mesh, "minibatch", model, steps=2, wide=True, **SMALL | more)
    assert errors.loss < 1e-12 and errors.gradient < 1e-12 and errors.state < 1e-7


@pytest.mark.parametrize(
    ("model", "graph", "parts"),
    [
        ({"feature_width": 8, "residual": True}, FEW, 3),
        (RGAT, few("cites", "writes"), 2),
        (HGT, CITES, 2),
        (MODELS["GATv2"], GRAPHS["homogeneous"](), 4),
    ],
)
def test_bytes_are_those_of_the_formula(model, graph, parts):
    """Nor is there a reduce-scatter among the collectives; of linear folds one message goes there, and one back."""
    engine = make_engine(setting(graph, "minibatch", sliced(parts), model, dict(SMALL)), graph)
    drawn = next(engine.batches.epoch(0))
    engine.step(engine.init(0), drawn.batch)
    found: Counter = Counter()
    for sent in engine.traffic():
        found[sent.kind] += sent.bytes
    expected = costs.sent(engine.trainer, engine.first, costs.sizes(drawn.batch, engine.first, 1))
    assert {kind: found[kind] for kind in found if kind != "gradients"} == expected
    assert found["gradients"] >= costs.of_weights(engine.trainer, parts)
    names = [sent.collective for sent in engine.updated.sent()]
    assert set(names) <= {"all-to-all", "all-reduce", "all-gather"}
    if engine.first.division:
        assert names.count("all-gather") == 1


def test_a_device_has_its_columns_alone():
    engine = make_engine(setting(HAUNTED, "minibatch", sliced(4), {"feature_width": 6}, {}), HAUNTED)
    state = engine.init(0)
    device = jax.devices()[0]
    held = jax.tree.leaves((engine.static, state.tables))
    found = sum(shard.data.nbytes for leaf in held for shard in leaf.addressable_shards if shard.device == device)
    assert found == costs.resident(engine.trainer, HAUNTED, 4)


@pytest.mark.parametrize("model", [{"name": "rgat", "heads": 2}, {"layers": 1}])
def test_evaluates_on_slices_and_moves_to_another_mesh(model, monkeypatch):
    """A state that one mesh gathers, another shards; logits are those of one device."""
    train = SMALL | {"fanout": (2,) * model.get("layers", 2)}

    def engine_on(mesh):
        return make_engine(setting(HAUNTED, "minibatch", mesh, model, dict(train)), HAUNTED)

    ids = np.arange(HAUNTED.schema.nodes["paper"], dtype=np.int32)[::3]
    here = engine_on(sliced(3))
    state, _ = here.step(here.init(0), next(here.batches.epoch(0)).batch)
    whole = here.gather(state)
    alone = engine_on((1, 1))
    expected = alone.outputs(alone.shard(whole), ids)
    asked, layer = [], here.evaluation._layer
    here.evaluation._layer = lambda *about: asked.append(about[2]) or layer(*about)
    np.testing.assert_allclose(here.outputs(state, ids), expected, rtol=1e-4, atol=1e-5)
    assert asked == sorted(asked), "another process, whose sets have another order, would wait for another type"
    monkeypatch.setattr("hetjax.sampling.whole.MOST", 1)
    asked, here.evaluation.evaluator.reached, here.evaluation.evaluator.asked = [], None, {"paper": ids[:0]}
    here.evaluation._layer = lambda *about: asked.append(len(about[3])) or layer(*about)
    np.testing.assert_allclose(here.outputs(state, ids[:2]), expected[:2], rtol=1e-4, atol=1e-5)
    assert sum(asked) < sum(HAUNTED.schema.nodes[t] for t in here.evaluation.evaluator.needed[1])
    for mesh in (sliced(2), (2, 1, "raf", 2)):
        there = engine_on(mesh)
        moved = there.shard(whole)
        np.testing.assert_allclose(there.outputs(moved, ids), expected, rtol=1e-4, atol=1e-5)
        for one, other in zip(jax.tree.leaves(there.gather(moved)), jax.tree.leaves(whole), strict=True):
            np.testing.assert_array_equal(one, other)


def test_a_layer_that_is_not_linear_in_its_features_is_given_rows():
    """One that is has the weights divided that its features meet, and no other."""

    def found(model):
        engine = make_engine(setting(FEW, "minibatch", (1, 1), model, {}), FEW)
        return division(engine.trainer, 2)

    for model in (MODELS["HGNN, mean"], MODELS["R-GCN, one-hot"], {"input_projection": True}, {"input_dropout": 0.1}):
        assert found(model) is None
    divided = found({"name": "hgt", "heads": 2})
    assert {path[1] for path in divided.axes} == {"layers_0"} and {path[2] for path in divided.axes} == {
        f"{role}_{t}"
        for role, types in (
            ("key", FEW.features.keys() | {"author"}),
            ("value", FEW.features.keys() | {"author"}),
            ("query", ["paper"]),
        )
        for t in types
    }
    assert {path[-1] for path in divided.added} == {"bias"} and len(divided.added) == len(divided.axes)


@pytest.mark.parametrize(
    ("mesh", "more", "words"),
    [
        (sliced(8), {}, "mesh.feature is 8, more slices than the 7 columns of the features of .paper., the widest"),
        (sliced(3, 2), {"batch_size": 5}, "mesh.data x mesh.feature are 6 replicas, and there are 5 seeds of a step"),
        (sliced(5), {}, "mesh.feature 5 needs 5 devices != 4"),
        ((2, 1, "raf", 3), {}, "mesh.relation 2 x mesh.data 1 x mesh.feature 3 needs 6 devices != 4"),
    ],
)
def test_what_cannot_be_divided_is_refused(mesh, more, words):
    graph = FEW.only(list(FEW.relations))
    with pytest.raises(InputError, match=words):
        make_engine(setting(graph, "minibatch", mesh, {}, dict(more)), graph)


def test_slices_stay_on_devices_and_are_of_mini_batches():
    mesh = Mesh(relation=2, feature=2)
    with pytest.raises(
        InputError, match="mesh.feature is 2, and must be 1 with mesh.strategy raf and sampling.mode full"
    ):
        registry.check(Config(mesh=mesh, sampling=Sampling("full"), model=Model()))
    with pytest.raises(InputError, match="cache.bytes_per_device is 8, and slices of features .* stay on the devices"):
        registry.check(Config(mesh=mesh, cache=Cache(bytes_per_device=8)))
