"""A model's logits weighed with those of baselines: kept where cross-validation says so, the same wherever it is used, and without a change to training."""

import json
import logging
from dataclasses import replace

import numpy as np
import pytest

import hetjax
from hetjax import predict
from hetjax.graph.hetgraph import build
from hetjax.graph.schema import Relation, Schema
from hetjax.inference import predicting
from hetjax.inference.restored import restore
from hetjax.inference.trained import Trained
from hetjax.system.errors import InputError
from hetjax.tasks import baselines, stack_fit, stacking, weigh
from hetjax.tasks.logistic import loss_of
from hetjax.tasks.metrics import quality
from hetjax.tasks.node_classification import class_weights
from hetjax.tasks.stacking import Stacked
from tests.support.communities import communities, shop
from tests.support.label_changes import relabelled
from tests.support.stacking import METAPATHS, run, two_labels

GRAPHS = {
    "features tell": lambda: communities(False, "all"),
    "edges tell": lambda: communities(True, "nothing"),
    "several labels": lambda: two_labels(shop("all")),
}


def noise(graph) -> np.ndarray:
    """Logits of validation nodes from a model that knows nothing."""
    shape = len(graph.splits["validation"]), graph.schema.classes
    return np.random.default_rng(0).standard_normal(shape, np.float32)


def stack_of(graph, model: np.ndarray, **more):
    """The best stack on the validation nodes of a graph, and what was found out about it."""
    labels = graph.labels[graph.splits["validation"]]
    found = more.pop("found", None)
    found = baselines.baselines(graph, "micro_f1") if found is None else found
    return stack_fit.tried(model, found, labels, **({"metric": "micro_f1"} | more))


@pytest.mark.parametrize("shift", [False, True])
@pytest.mark.parametrize("graph", GRAPHS)
def test_nothing_near_has_a_lower_loss_on_the_validation_nodes(graph, shift):
    graph = GRAPHS[graph]()
    found, labels, several = baselines.baselines(graph, "micro_f1"), graph.labels, graph.multilabel
    labels = labels[graph.splits["validation"]]
    members = [noise(graph), *baselines.said(found, "validation").values()]
    stack = np.stack([weigh.log_probabilities(x, several) for x in members])
    a, b = weigh.fitted(stack, labels, shift)
    y = labels if several else np.eye(graph.schema.classes)[labels]

    def loss(weights, bias) -> float:
        far = np.sum((weights - np.eye(len(weights))[0]) ** 2)
        scores = np.tensordot(weights, stack, 1) + bias
        return loss_of(scores, y, several)[0] + (weigh.LOOSE * far + np.sum(bias**2)) / 2

    least = loss(a, b)
    assert shift or not b.any()
    for step in (-0.05, 0.05):
        for number in range(len(a)):
            assert loss(np.maximum(0, a + step * np.eye(len(a))[number]), b) > least - 1e-2
        for number in range(len(b) if shift else 0):
            assert loss(a, b + step * np.eye(len(b))[number]) > least - 1e-2


@pytest.mark.parametrize(("kind", "teller"), [("features tell", 1), ("edges tell", 2)])
def test_a_model_that_knows_nothing_harms_no_baseline(kind, teller):
    graph, name = GRAPHS[kind](), baselines.NAMES[teller]
    found, ids = baselines.baselines(graph, "micro_f1"), graph.splits["test"]
    tried = stack_of(graph, noise(graph), found=found)
    stacked = tried.stacked
    assert tried.kept and tried.score > tried.alone + tried.error
    assert max(stacked.weights, key=stacked.weights.get) == name
    nothing = np.random.default_rng(1).standard_normal((len(ids), 3), np.float32)
    after = stacked(nothing, baselines.said(found, "test"), False)
    right = [np.mean(x.argmax(axis=1) == graph.labels[ids]) for x in (after, found[name].logits["test"])]
    assert right[0] >= right[1] > 0.9


def shifted_shares():
    """A graph most of whose validation nodes are of class 0, and the logits of a model that is right but for that."""
    graph = communities(False, "no features")
    ids = graph.splits["validation"]
    kept = ids[(graph.labels[ids] == 0) | (np.arange(len(ids)) % 10 == 0)]
    graph = replace(graph, splits=graph.splits | {"validation": kept})
    right = np.eye(3)[graph.labels[kept]]
    return graph, (right + np.random.default_rng(0).standard_normal(right.shape)).astype(np.float32)


def test_a_share_of_a_class_that_is_another_in_training_is_set_right():
    graph, logits = shifted_shares()
    tried = stack_of(graph, logits, found={})
    assert tried.kept and tried.stacked.bias[0] > max(tried.stacked.bias[1:])
    labels = graph.labels[graph.splits["validation"]]
    before, after = (np.mean(x.argmax(1) == labels) for x in (logits, tried.stacked(logits, {}, False)))
    assert after > before


def test_a_shift_that_the_metric_does_not_gain_by_is_not_kept():
    """A shift that more nodes are right by is another than one that classes alike gain by."""
    graph, logits = shifted_shares()
    labels = graph.labels[graph.splits["validation"]]
    by_nodes, by_classes = (stack_of(graph, logits, found={}, metric=name) for name in ("micro_f1", "macro_f1"))
    assert by_nodes.kept
    found = by_classes.stacked(logits, {}, False) if by_classes.kept else logits
    assert quality(found, labels)["macro_f1"] >= quality(logits, labels)["macro_f1"]


def test_what_helps_by_less_than_noise_is_not_kept():
    """A model that is right beside baselines that know nothing, and one of ten validation nodes whose score means little."""
    graph = communities(False, "nothing")
    right = 4 * np.eye(3)[graph.labels[graph.splits["validation"]]]
    tried = stack_of(graph, (right + np.random.default_rng(0).standard_normal(right.shape)).astype(np.float32))
    assert not tried.kept and tried.score <= tried.alone + tried.error
    assert tried.nodes == len(right) and tried.metric == "micro_f1"


@pytest.mark.parametrize("graph", GRAPHS)
def test_no_test_label_is_read(graph):
    graph = GRAPHS[graph]()
    poisoned = relabelled(graph, graph.splits["test"])
    one, two = (stack_of(g, noise(g), choose_threshold=True).stacked for g in (graph, poisoned))
    assert one.weights == two.weights and one.threshold == two.threshold
    np.testing.assert_array_equal(one.bias, two.bias)


def test_of_too_few_validation_nodes_nothing_is_learned():
    graph = communities(True, "all")
    few = graph.splits["validation"][: stack_fit.FEWEST - 1]
    few = replace(graph, splits=graph.splits | {"validation": few})
    assert stack_of(few, noise(few)) is None


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("features tell", ()),
        ("several labels", ("--node_classification.threshold=validation",)),
        ("edges tell", ("--data.label_inputs=true",)),
        ("several labels", METAPATHS),
    ],
    ids=["features", "several labels", "label inputs", "metapaths"],
)
def test_predictions_are_those_that_were_measured(kind, options, tmp_path):
    """By `predict` on the same graph and on another store of it, and by `load`."""
    graph = GRAPHS[kind]()
    summary = run(graph, tmp_path / "run", *options)
    ids = graph.splits["test"]
    found, stacking = Trained(tmp_path / "run").predict(), summary["stacking"]
    right = (found.classes[ids] == graph.labels[ids]).reshape(len(ids), -1).all(axis=1)
    assert right.mean() == pytest.approx(stacking["test_accuracy"], abs=1e-6)
    assert stacking["kept"] and stacking["test_micro_f1"] > summary["test_micro_f1"]
    assert max(weight for name, weight in stacking["weights"].items() if name != "model") > 0.5
    again = Trained(tmp_path / "run").predict(tmp_path / "store")
    np.testing.assert_array_equal(found.logits, again.logits)
    served = hetjax.load(tmp_path / "run")
    np.testing.assert_allclose(served.logits(ids[:5]), found.logits[ids[:5]], rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(Trained(tmp_path / "run").predict(ids[:5]), served.predict(ids[:5]))
    np.testing.assert_array_equal(Trained(tmp_path / "run").predict(list(ids[:5])), found.answers[ids[:5]])
    with pytest.raises(InputError, match="has no node 6000"):
        Trained(tmp_path / "run").predict([6000])


def test_a_graph_without_training_nodes_has_no_labels_that_a_stack_propagates(tmp_path):
    """There the model is alone, which `predict` says; a stack without label propagation stays."""
    graph = GRAPHS["edges tell"]()
    summary = run(graph, tmp_path / "run")
    assert summary["stacking"]["weights"]["label propagation"] > 0.1
    none = {name: ids[:0] for name, ids in graph.splits.items()}
    unlabelled = replace(graph, labels=np.full_like(graph.labels, -1), splits=none)
    found = predicting.predict(tmp_path / "run", unlabelled)
    (tmp_path / "run" / stacking.FILE).rename(tmp_path / "kept.npz")
    np.testing.assert_array_equal(found.logits, predicting.predict(tmp_path / "run", unlabelled).logits)
    stacked = Stacked({"model": 2.0}, np.zeros(graph.schema.classes), {})
    stacking.save(stacked, tmp_path / "run")
    again = predicting.predict(tmp_path / "run", unlabelled).logits
    assert np.ptp(again - 2 * found.logits, axis=1).max() < 0.1 < np.ptp(again - found.logits, axis=1).max()
    assert "not stacked" not in restore(tmp_path / "run", unlabelled).chosen
    (tmp_path / "kept.npz").rename(tmp_path / "run" / stacking.FILE)
    assert "not stacked, as there are no training nodes" in restore(tmp_path / "run", unlabelled).chosen


@pytest.mark.parametrize("name", ["label inputs", "metapaths"])
def test_what_was_trained_with_labels_predicts_a_graph_without_any(name, tmp_path):
    graph = shop("all")
    options = ["--data.label_inputs=true"] if name == "label inputs" else [*METAPATHS, "--data.metapath_label_hops=2"]
    run(graph, tmp_path / "run", *options)
    none = replace(graph, splits={split: ids[:0] for split, ids in graph.splits.items()})
    few = replace(graph, splits={**none.splits, "train": graph.splits["train"][:4]})
    unlabelled = replace(none, labels=np.full_like(graph.labels, -1))
    found = [predicting.predict(tmp_path / "run", other).logits for other in (none, few, unlabelled)]
    assert np.isfinite(found[0]).all()
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])
    assert "as there are no training nodes" in restore(tmp_path / "run", unlabelled).chosen


def test_training_is_the_same_without_it_and_on_a_mesh_the_result(tmp_path):
    graph = shop("all")
    with_it, on_mesh = (
        run(graph, tmp_path / "one"),
        run(graph, tmp_path / "mesh", "--mesh.data=2", "--mesh.strategy=vanilla"),
    )
    without = run(graph, tmp_path / "two", "--train.stacking=false")
    losses = [
        [json.loads(line).get("train_loss") for line in (tmp_path / name / "metrics.jsonl").read_text().splitlines()]
        for name in ("one", "two")
    ]
    assert losses[0] == losses[1] and not without["stacking"]
    assert with_it["test_micro_f1"] == without["test_micro_f1"]
    for name, weight in with_it["stacking"]["weights"].items():
        assert on_mesh["stacking"]["weights"][name] == pytest.approx(weight, rel=1e-3)
    assert on_mesh["test_micro_f1"] == pytest.approx(with_it["test_micro_f1"], abs=0.01)


def test_a_run_that_is_finished_again_gives_the_same(tmp_path, caplog):
    """And `predict` says what the logits are made of."""
    graph = shop("all")
    before = run(graph, tmp_path / "run")
    with caplog.at_level(logging.INFO, "hetjax"):
        predict.main([f"--workdir={tmp_path / 'run'}", f"--out={tmp_path / 'found.csv'}"])
    for name, weight in before["stacking"]["weights"].items():
        assert f"{weight:.2f} {name}" in caplog.text.split("stacked, as at the end of training: ")[1]
    file = tmp_path / "run" / stacking.FILE
    first = file.read_bytes()
    file.unlink()
    (tmp_path / "run" / "summary.json").unlink()  # as if it had been killed before its end
    after = run(graph, tmp_path / "run")
    assert before["stacking"] | {"seconds": 0} == after["stacking"] | {"seconds": 0}
    assert before["test_micro_f1"] == after["test_micro_f1"]
    one, two = np.load(file), {}
    file.write_bytes(first)
    two = np.load(file)
    assert set(one) == set(two)
    for name in one:
        np.testing.assert_array_equal(one[name], two[name])


DAMAGE = {
    "bias": (lambda a: np.full_like(a, np.nan), r"bias \[0\] is nan, and should be a finite number"),
    "threshold": (lambda a: np.float64(np.inf), "threshold is inf"),
    "model": (lambda a: np.float64(-1), "model is -1.0, and should be a finite number in 0"),
    "logistic regression": (lambda a: np.float64(1e9), "logistic regression is 1000000000.0"),
    "logistic regression.kernel": (lambda a: np.where(a == a[1, 2], np.nan, a), r"kernel \[1, 2\] is nan"),
    "logistic regression.mean": (lambda a: a[:2], r"mean: float64 \(2,\), and should be numbers \(3\)"),
    "logistic regression.by_rows": (lambda a: np.float64(2), "by_rows is 2.0"),
    "label propagation.scale": (lambda a: np.float64(-1), "scale is -1.0"),
    "label propagation.shift": (lambda a: a[:2], r"shift: float64 \(2,\), and should be numbers \(3\)"),
    "larger class.prior": (lambda a: a + 1, r"prior \[0\] is 1"),
    "logistic regression.bias": (lambda a: a.astype(np.int64), "bias: int64"),
    "label propagation.relations": (lambda a: np.array([["a", "b", "c"]]), "the graph has no such relation"),
    "label propagation": (None, "label propagation: lacks"),
    "weighed": (lambda a: np.array(["model", "modl"]), "weighed: 'modl', and known are model"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_every_damaged_array_is_named(name, tmp_path):
    graph = shop("all")
    found = baselines.baselines(graph, "micro_f1")
    learned = {one: found[one].learned for one in baselines.NAMES}
    everything = Stacked({"model": 1.0, **dict.fromkeys(learned, 0.5)}, np.zeros(3), learned)
    stacking.save(everything, tmp_path)
    assert stacking.saved(tmp_path, 3, graph).weights == everything.weights
    change, message = DAMAGE[name]
    arrays = dict(np.load(tmp_path / stacking.FILE))
    before = arrays.pop(name)
    np.savez(tmp_path / stacking.FILE, **arrays, **({name: change(before)} if change else {}))
    with pytest.raises(InputError, match=f"{stacking.FILE}: {message}" if change is None else message):
        stacking.saved(tmp_path, 3, graph)


def rare(seed: int = 0, several: bool = False):
    """Nodes of which one in twelve is of class 1, which features tell from class 0 with an error."""
    rng = np.random.default_rng(seed)
    labels, order = (rng.random(1800) < 1 / 12).astype(np.int64), rng.permutation(1800)
    features = (rng.standard_normal((1800, 2)) + 1.2 * labels[:, None]).astype(np.float32)
    relation, splits = (
        Relation("node", "to", "node"),
        dict(zip(("train", "validation", "test"), np.split(order, [600, 1200]))),
    )
    edges = {relation: (np.arange(1800), np.arange(1800))}
    return build(Schema({"node": 1800}, (relation,), "node", 2), edges, {"node": features}, labels, splits)


def recall(logits: np.ndarray, graph) -> float:
    """The share of the test nodes of class 1 that are predicted as such."""
    test = graph.labels[graph.splits["test"]]
    return np.mean(logits.argmax(axis=1)[test == 1])


def test_a_stack_keeps_the_weights_of_the_classes():
    graph = rare()
    found = baselines.baselines(graph, "micro_f1")
    logits = {
        split: graph.features["node"][ids] @ np.array([[0, 1.2], [0, 1.2]]) for split, ids in graph.splits.items()
    }
    logits = {split: (x - [0, 1.44]).astype(np.float32) for split, x in logits.items()}  # of classes of one size
    alone = recall(logits["test"], graph)
    stack = []
    for weights in (class_weights(graph, "balanced"), ()):
        tried = stack_of(graph, logits["validation"], found=found, class_weights=weights)
        stack.append(recall(tried.stacked(logits["test"], baselines.said(found, "test"), False), graph))
    assert stack[0] > alone - 0.05 > stack[1] + 0.2


def test_a_run_with_class_weights_is_stacked_by_them(tmp_path):
    graph = rare(1)
    more = "--node_classification.class_weights=balanced", "--train.epochs=30", "--train.learning_rate=0.03"
    run(graph, tmp_path / "run", *more)
    ids = graph.splits["test"]
    with_stack = Trained(tmp_path / "run").predict().logits[ids]
    (tmp_path / "run" / stacking.FILE).unlink(missing_ok=True)
    alone = Trained(tmp_path / "run").predict().logits[ids]
    assert recall(with_stack, graph) > recall(alone, graph) - 0.05


def test_a_damaged_file_is_one_line(tmp_path):
    graph = shop("all")
    stacked = stack_of(graph, noise(graph)).stacked
    stacking.save(stacked, tmp_path)
    kept = stacking.saved(tmp_path, 3)
    assert kept.weights == stacked.weights
    with pytest.raises(InputError, match="bias: float64 .3,., and should be numbers .4"):
        stacking.saved(tmp_path, 4)
    (tmp_path / stacking.FILE).write_bytes(b"no archive")
    with pytest.raises(InputError, match=stacking.FILE):
        stacking.saved(tmp_path, 3)
