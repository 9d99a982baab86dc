"""Several targets at once: their loss, their heads, what is refused, and what a run writes and predicts."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hetjax
from hetjax.options import owners
from hetjax.options.config import Config, Model, Sampling
from hetjax.options.run_folder import check_trusted
from hetjax.sharding.strategy import setup
from hetjax.system.errors import InputError
from hetjax.tasks import registry
from hetjax.tasks.sub_tasks import config_of
from tests.support import equivalence
from tests.support.targets import KIND, LIKES, PRICE, TARGETS, shop

QUICK = {"model.layers": 1, "model.hidden": 4, "sampling.mode": "full", "train.recipe": "none", "train.dropout": 0}
WEIGHTS = (2.0, 0.5, 1.0)


def made(graph, targets=TARGETS, **options):
    """The task of some targets on a graph."""
    return registry.make(config(targets, **options), graph)


def config(targets=TARGETS, own=(), **options):
    sections = {"task": owners.SharedTask(name="several"), **dict(own)}
    sections["several"] = owners.sections(owners.TASK)["several"](targets=tuple(targets), **options)
    return Config(task=owners.choosers_of(sections)["task"])


def outputs_and_arrays(task, examples, seed=0):
    """Outputs of the head, in float64, on random embeddings; and the arrays."""
    seeds, rng = task.seeds(examples), np.random.default_rng(seed)
    embeddings = {t: jnp.asarray(rng.standard_normal((len(ids), 4)), jnp.float32) for t, ids in seeds.nodes.items()}
    head = task.head(True)
    params = head.init(jax.random.key(1), embeddings, seeds.arrays)
    return head, params, embeddings, seeds


def test_the_loss_and_its_gradients_are_the_weighted_sums_of_those_of_each_task():
    graph = shop()
    task = made(graph, weights=WEIGHTS)
    examples = task.examples("train")
    head, params, embeddings, seeds = outputs_and_arrays(task, examples)

    def together(x):
        return task.loss(head.apply(params, x, seeds.arrays), seeds.arrays) / task.weight(seeds.arrays)

    def apart(x):
        total = 0.0
        for part, weight in zip(task.parts, WEIGHTS):
            own = part.task.seeds(part.task.examples("train"))
            rows = {t: x[t][np.searchsorted(seeds.nodes[t], ids)] for t, ids in own.nodes.items()}
            weights = {"params": params["params"][f"heads_{part.number}"]}
            outputs = part.task.head(True).apply(weights, rows, own.arrays)
            total += weight * part.task.loss(outputs, own.arrays) / part.task.weight(own.arrays)
        return total

    for found, expected in zip(*(jax.tree.leaves(jax.value_and_grad(f)(embeddings)) for f in (together, apart))):
        np.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-7)


def test_learned_weights_are_those_of_the_papers_formula():
    task = made(shop(), weights="learned")
    examples = task.examples("train")
    head, params, embeddings, seeds = outputs_and_arrays(task, examples)
    s = np.array([0.3, -0.7, 1.1], np.float32)
    params = {"params": {**params["params"], "log_variance": s}}
    outputs = head.apply(params, embeddings, seeds.arrays)
    found = task.loss(outputs, seeds.arrays) / task.weight(seeds.arrays)
    expected = 0.0
    for part in task.parts:
        own = seeds.arrays[part.number].arrays
        mean = part.task.loss(part.own(outputs), own) / part.task.weight(own)
        expected += np.exp(-s[part.number]) * mean + s[part.number] / 2
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    quality = task.quality(np.asarray(outputs), examples)
    np.testing.assert_allclose(quality["loss"], expected, rtol=1e-4)


def test_seeds_are_distinct_and_rows_of_other_tasks_are_zeros():
    task = made(shop())
    examples = np.concatenate([task.examples("test")[::2], task.examples("train")[1::3]])
    seeds = task.seeds(examples)
    for t, ids in seeds.nodes.items():
        assert ids.dtype == np.int32 and np.all(np.diff(ids) > 0), t
    for part, places, own in task.apart(examples):
        arrays = seeds.arrays[part.number]
        others = np.setdiff1d(np.arange(len(examples)), places)
        assert not any(np.any(leaf[others]) for leaf in jax.tree.leaves(arrays))
        if arrays.rows is not None:
            np.testing.assert_array_equal(seeds.nodes[part.task.root][arrays.rows[places]], own)
        else:
            ends = (arrays.arrays.source, arrays.arrays.target)
            for t, at, ids in zip(part.task.pairs.types, ends, part.task.pairs.ends):
                np.testing.assert_array_equal(seeds.nodes[t][at[places]], ids[own])
    assert len(task.seeds(examples[:0]).arrays) == len(task.parts)
    values = {t: np.arange(count) for t, count in shop().schema.nodes.items()}
    for part, places, own in task.apart(examples):
        np.testing.assert_array_equal(task.node_values(examples, values)[places], part.task.node_values(own, values))


@pytest.mark.parametrize(
    ("targets", "more", "message"),
    [
        ((), {}, f"several.targets names no columns; the graph has {KIND}"),
        ((KIND, "user.kin"), {}, "several.targets is 'user.kin', and no column of labels"),
        ((KIND, "user"), {}, f"several.targets has {KIND} twice"),
        ((KIND, f"{PRICE}=several"), {}, f"the task of {PRICE} is several"),
        ((KIND, f"{PRICE}=node_classification"), {}, f"several.targets: {PRICE}: the labels are numbers, not classes"),
        ((KIND, f"{PRICE}=regression"), {}, "task.name is 'regression', and must be"),
        ((KIND, PRICE), {"weights": (1.0,)}, "several.weights has 1 numbers != 2 targets"),
        ((KIND, PRICE), {"chosen_by": LIKES}, f"several.chosen_by is {LIKES}, and several.targets are {KIND}, {PRICE}"),
        ((KIND, "tests.support.pairs:Pairs"), {}, "no column of labels"),
        ((f"{KIND}=tests.support.pairs:Pairs",), {}, "examples of several nodes and no method relocated"),
    ],
)
def test_errors(targets, more, message):
    with pytest.raises(InputError, match=message):
        made(shop(), targets, **more)


def test_options_are_of_the_tasks_that_there_are():
    regression = owners.sections(owners.TASK)["node_regression"](loss="huber")
    own = {"node_regression": regression}
    task = registry.make(config((KIND, PRICE), own), shop())
    assert task.parts[1].task.own.loss == "huber"
    with pytest.raises(InputError, match=r"node_regression.loss is huber, and task.name several has no such option"):
        registry.make(config((KIND,), own), shop())
    with pytest.raises(InputError, match=r"several.weights is \[0.0\], and must be equal, learned"):
        config((KIND,), weights=(0.0,))
    sections = {"task": owners.SharedTask(name="several", target=PRICE)}
    sections["several"] = owners.sections(owners.TASK)["several"](targets=(KIND, PRICE))
    with pytest.raises(InputError, match=f"task.target is {PRICE}, and with task.name several it is the first"):
        owners.choosers_of(sections)


def test_a_target_without_training_rows_is_an_error():
    graph, task = shop(train=False), registry.find("several")
    with pytest.raises(InputError, match=f"several.targets: {PRICE} has 0 training rows among 20"):
        task.check(graph, config())
    task.check(shop(), config())


def test_a_module_that_a_folder_names_as_the_task_of_a_target_is_not_imported(tmp_path):
    with pytest.raises(InputError, match="task.name is 'others:Task', a module whose code would run"):
        check_trusted(tmp_path / "config.yaml", config((KIND, f"{PRICE}=others:Task")), False)


def test_edges_of_every_target_on_pairs_are_left_out():
    graph = shop()
    given = config((KIND, LIKES))
    hiding = owners.replace(given.task, hide_targets="all")
    found = setup(Config(task=hiding, model=Model(layers=1, hidden=4), sampling=Sampling(mode="full")), graph).graph
    assert found.edges < graph.edges and found.target == graph.target


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    options = QUICK | {"task.name": "several", "several.targets": list(TARGETS), "train.epochs": 2}
    options.pop("train.dropout")
    return hetjax.train(shop(), workdir=tmp_path_factory.mktemp("runs") / "run", **options)


def test_a_run_has_results_of_each_target(run):
    summary = run.summary
    assert {f"test_{KIND}.accuracy", f"test_{PRICE}.rmse", f"test_{LIKES}.accuracy", "test_loss"} <= summary.keys()
    assert summary["chosen_by"] == "loss" and summary["targets"] == list(TARGETS)
    assert {f"{KIND}: larger class", f"{PRICE}: mean", f"{LIKES}: larger class"} <= summary["baselines"].keys()
    page = (run.path / "report.html").read_text()
    assert all(f"{target}: " in page for target in TARGETS)
    assert json.loads((run.path / "metrics.jsonl").read_text().splitlines()[0])[f"validation_{PRICE}.rmse"] > 0


def test_each_target_is_predicted_served_and_predicted_on_another_graph(run):
    summary, graph = run.summary, shop()
    rows = {KIND: "node", PRICE: "node", LIKES: "source"}
    for target in TARGETS:
        table = run.predict(target=target).table().to_pandas()
        assert rows[target] in table
        assert len(table) == len(graph.column(target).labels)
    kinds = run.predict().table().to_pandas()
    aimed = graph.with_target(KIND)
    test = kinds[kinds["split"] == "test"]
    right = np.array(aimed.names.class_names(2))[aimed.labels[aimed.splits["test"]]] == test["class"]
    assert right.mean() == pytest.approx(summary[f"test_{KIND}.accuracy"])
    np.testing.assert_allclose(
        run.predict(target=PRICE).table().to_pandas()["prediction"],
        hetjax.load(run.path, target="item").predict(np.arange(20)),
        rtol=1e-5,
    )
    again = run.predict(graph.with_target(PRICE), target=PRICE)
    np.testing.assert_array_equal(again.outputs, run.predict(target=PRICE).outputs)
    with pytest.raises(InputError, match="no column of labels"):
        run.predict(target="item.colour")


def test_every_strategy_equals_one_device():
    graph = shop()
    cases = (((2, 1), "minibatch"), ((1, 2, "vanilla"), "minibatch"))
    with equivalence.damped():
        for (mesh, mode), weights in zip(cases, (WEIGHTS, "learned")):
            errors = equivalence.compare(
                graph, mesh, mode, {"layers": 1}, steps=3, wide=True, task="several", fanout=(3,),
                targets=TARGETS, weights=weights,
            )  # fmt: skip
            assert max(errors) < 1e-9, (mesh, errors)
    assert config_of(config(), PRICE, "node_regression").task.own == {}
