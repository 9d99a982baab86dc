"""Options of training, each against its definition: smoothing, clipping, decay, schedules, patience, projection."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from hetjax import train_graph
from hetjax.graph.names import Ids, Names
from hetjax.kernels import tables
from hetjax.kernels.adamw import AdamW
from hetjax.kernels.tables import RowAdam, Shape, Table
from hetjax.options.config import Config, Train
from hetjax.options.owners import made_task
from hetjax.sharding.trainer import schedule
from hetjax.system.eager import eagerly
from hetjax.system.errors import InputError
from hetjax.tasks.class_losses import cross_entropy
from hetjax.tasks.declared.node_classification import Options
from hetjax.tasks.node_classification import NodeClassification, class_weights, weights_in_order
from hetjax.training import run_options
from tests.support.equivalence import several_labels
from tests.support.graphs import random_graph
from tests.support.single import setting, whole_graph


def log_softmax(logits):
    shifted = logits - logits.max(axis=1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_cross_entropy_equals_its_definition(smoothing):
    rng = np.random.default_rng(0)
    logits, labels = rng.standard_normal((9, 4)).astype(np.float32), rng.integers(0, 4, 9)
    smooth = np.eye(4)[labels] * (1 - smoothing) + smoothing / 4
    expected = -(smooth * log_softmax(logits)).sum(axis=1)
    np.testing.assert_allclose(cross_entropy(logits, labels, smoothing), expected, rtol=1e-5)
    several = rng.integers(0, 2, (9, 4)).astype(np.int8)
    smooth, sure = several * (1 - smoothing) + smoothing / 2, 1 / (1 + np.exp(-logits))
    expected = -(smooth * np.log(sure) + (1 - smooth) * np.log(1 - sure)).mean(axis=1)
    np.testing.assert_allclose(cross_entropy(logits, several, smoothing), expected, rtol=1e-5)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_classes_are_weighed(smoothing):
    rng = np.random.default_rng(0)
    logits, labels, weights = (
        rng.standard_normal((9, 4)).astype(np.float32),
        rng.integers(0, 4, 9),
        (0.5, 1.0, 2.0, 4.0),
    )
    alone = cross_entropy(logits, labels, smoothing)
    np.testing.assert_allclose(
        cross_entropy(logits, labels, smoothing, weights), alone * np.array(weights)[labels], rtol=1e-6
    )
    several = rng.integers(0, 2, (9, 4)).astype(np.int8)
    smooth, sure = several * (1 - smoothing) + smoothing / 2, 1 / (1 + np.exp(-logits))
    terms = smooth * np.log(sure) + (1 - smooth) * np.log(1 - sure)
    found = cross_entropy(logits, several, smoothing, weights)
    np.testing.assert_allclose(found, -(terms * weights).mean(axis=1), rtol=1e-5)


def test_weights_of_classes_have_the_mean_one_over_the_training_nodes():
    graph = random_graph(3)
    labels = graph.labels[graph.splits["train"]]
    counts = np.bincount(labels, minlength=3)
    assert class_weights(graph, "none") == ()
    balanced = np.array(class_weights(graph, "balanced"))
    np.testing.assert_allclose(balanced * counts, len(labels) / 3)
    given = np.array(class_weights(graph, (2.0, 1.0, 4.0)))
    np.testing.assert_allclose([given[labels].mean(), given[0] / given[1], given[2] / given[1]], [1, 2, 4])
    first = dataclasses.replace(graph, splits={**graph.splits, "train": np.flatnonzero(graph.labels == 1)})
    assert class_weights(first, "balanced") == (1, 1, 1)  # of which no training node has two
    several = several_labels(graph)
    assert np.mean(class_weights(several, "balanced")) == pytest.approx(1)
    with pytest.raises(InputError, match="node_classification.class_weights has 2 numbers != 3 classes"):
        class_weights(graph, (1.0, 2.0))
    with pytest.raises(
        InputError, match="node_classification.class_weights is .*, and must be none, balanced, or numbers over 0"
    ):
        Options(class_weights=(1.0, 0.0))


def test_weights_of_classes_are_given_by_name_in_any_order():
    graph = random_graph(3)
    named = dataclasses.replace(graph, names=Names(classes=Ids(["rare", "b=c", "usual"])))

    def in_order(graph, *weights):
        return weights_in_order(graph, Options(class_weights=weights).class_weights)

    assert in_order(named, "usual=1", "b=c=0.5", "rare=2e1") == (20, 0.5, 1)
    assert in_order(graph, "2=1", "0=3", "1=2") == (3, 2, 1)
    assert in_order(named, 3.0, 2.0, 1.0) == (3, 2, 1)
    for weights, words in (
        (("rare=1", "usual=1"), "gives class 'b=c' no weight"),
        (("rare=1", "usual=1", "b=c=1", "rar=1"), "there is no class 'rar'; the nearest known one is rare"),
        (("usual=1", "usual=2"), "names 'usual' twice"),
        *(((text, "usual=1"), "must be none, balanced, or numbers") for text in ("rare", "rare=x", "=1", "rare=0")),
        *(
            ((text, "usual=1"), "must be none, balanced, or numbers")
            for text in ("rare=inf", "rare=nan", "rare=-1", "1")
        ),
    ):
        with pytest.raises(InputError, match=f"node_classification.class_weights.*{words}"):
            in_order(named, *weights)


def test_weights_of_classes_by_name_on_command_lines_in_files_and_in_python(tmp_path):
    def read(*arguments):
        return (
            run_options.read(["--workdir", str(tmp_path / "run"), *arguments])
            .config.task.own["node_classification"]
            .class_weights
        )

    file = tmp_path / "c.yaml"
    file.write_text("train:\n  class_weights: [a=2, 'b, c=1']\n", "utf-8")
    assert read("--config", str(file)) == ("a=2", "b, c=1")
    assert read("--node_classification.class_weights", "[a=2,b=1]") == ("a=2", "b=1")
    assert read("--node_classification.class_weights=[2,1]") == (2.0, 1.0)
    options = train_graph._arguments({"class_weights": {"a": 2, "b, c": 0.5}})
    assert read(*options) == ("a=2", "b, c=0.5")
    assert read(*train_graph._arguments({"class_weights": ["a=2", "b, c=1"]})) == ("a=2", "b, c=1")
    for wrong in ("{a: 2, b: 1}", "a=2,b=1", "ballanced", "3", "[a,b]", "[1,x]", "[[1],2]", "[inf,1]", "[1e400,1]"):
        with pytest.raises(
            InputError, match=r"^node_classification.class_weights is .* be none, balanced, or numbers over 0, one per"
        ):
            read("--node_classification.class_weights", wrong)


RATES = "learning_rate", "feature_learning_rate", "l2", "weight_decay", "gradient_clip"


@pytest.mark.parametrize("key", RATES)
@pytest.mark.parametrize("value", ["inf", "nan", "-1", "1e39", "1e400", ".inf", ".nan", "-.inf", "abc", "[1]", "1_0x"])
def test_rates_that_cannot_be_are_one_line(tmp_path, key, value):
    file = tmp_path / "c.yaml"
    file.write_text(f"train: {{{key}: {value}}}", "utf-8")
    for given in (["--config", str(file)], [f"--train.{key}={value}"]):
        with pytest.raises(InputError) as raised:
            run_options.read(["--workdir", str(tmp_path / "run"), *given])
        words = str(raised.value).removeprefix(f"{file}: ")
        assert words.startswith(f"train.{key} is ") and ("must be" in words or "should be a number" in words), words
        assert "\n" not in words and len(words) < 150


def test_a_rate_of_float32_is_taken():
    assert [getattr(Train(**{key: 1e30}), key) for key in RATES] == [1e30] * len(RATES)
    with pytest.raises(InputError, match="train.learning_rate is 0, and must be over 0"):
        Train(learning_rate=0)


def test_smoothing_reaches_the_loss():
    graph = random_graph(3)
    _, trainer, static = setting(graph)
    smooth = NodeClassification(graph, Config(task=made_task(label_smoothing=0.2)))
    state, drawn = eagerly(trainer.init, np.int32(0)), whole_graph(graph, 2)
    learned = {name: table.rows for name, table in state.tables.items()}
    logits = jax.jit(trainer.model.apply)(state.params, drawn.batch.blocks, static | learned)[
        drawn.batch.seeds["paper"]
    ]
    found = jax.jit(trainer._replace(task=smooth).loss)(state.params, learned, static, drawn.batch)
    np.testing.assert_allclose(found, cross_entropy(logits, drawn.batch.arrays.labels, 0.2).mean(), rtol=1e-6)


class Descent:
    """Plain gradient steps of rate 1, as `AdamW`."""

    def init(self, params):
        return ()

    def step(self, gradients, state, params):
        return jax.tree.map(jnp.subtract, params, gradients), state


@pytest.mark.parametrize("clip", [1e-3, 1e3])
def test_gradients_are_clipped_together_before_the_update(clip):
    """With plain gradient steps in place of Adam, what changes is the clipped gradient."""
    graph = random_graph(3)
    _, trainer, static = setting(graph)
    trainer = trainer._replace(optimizer=Descent(), clip=clip)
    state, drawn = eagerly(trainer.init, np.int32(0)), whole_graph(graph, 2)
    _, gradients = jax.jit(trainer.gradients)(state, static, drawn.batch, 0)
    norm = np.sqrt(sum((np.asarray(leaf, np.float64) ** 2).sum() for leaf in jax.tree.leaves(gradients)))
    assert 1e-3 < norm < 1e3
    scale = min(1, clip / norm)
    new, _ = jax.jit(trainer.step)(state, static, drawn.batch, 0)
    for old, now, gradient in zip(*map(jax.tree.leaves, (state.params, new.params, gradients[0]))):
        np.testing.assert_allclose(np.asarray(old) - now, scale * gradient, atol=1e-5 * scale + 1e-7)
    for name, table in new.tables.items():  # after one step Adam's first moment is a tenth of the gradient
        np.testing.assert_allclose(table.mu, 0.1 * scale * gradients[1][name], rtol=1e-4, atol=1e-9)


@pytest.mark.parametrize("form", ["constant", "cosine", "step"])
def test_row_adam_with_decay_and_schedule_equals_dense_adamw_where_every_row_is_touched(form):
    options = Train(schedule=form, epochs=6, schedule_epochs=2, schedule_factor=0.1)
    rate = schedule(0.02, options, steps=3)
    adam, dense = RowAdam(rate, weight_decay=0.3), optax.adamw(rate, weight_decay=0.3)
    rng = np.random.default_rng(0)
    with jax.enable_x64(True):
        made = tables.create(jax.random.key(0), Shape(9, 4, 0.5))
        table = Table(*(leaf.astype(float) for leaf in made[:3]), made.count)
        params, state = table.rows, dense.init(table.rows)
        for step in range(18):
            gradient = jnp.asarray(rng.standard_normal((9, 4)))
            table = tables.update(table, None, gradient, adam.at(jnp.int32(step)))
            updates, state = dense.update(gradient, state, params)
            params = optax.apply_updates(params, updates)
        np.testing.assert_allclose(table.rows, params, rtol=1e-11)


def test_schedules_by_their_definition():
    constant, cosine, step = (
        schedule(0.5, Train(schedule=form, epochs=10, schedule_epochs=4, schedule_factor=0.1), 5)
        for form in ("constant", "cosine", "step")
    )
    assert constant == 0.5
    for at in (0, 7, 19, 20, 39, 49, 50):
        np.testing.assert_allclose(cosine(at), 0.25 * (1 + np.cos(np.pi * at / 50)), atol=1e-7)
        np.testing.assert_allclose(step(at), 0.5 * 0.1 ** (at // 20), rtol=1e-6)


def test_both_learning_rates_follow_the_schedule():
    graph = random_graph(3)
    _, trainer, static = setting(graph)
    late = Train(schedule="step", schedule_epochs=1, schedule_factor=1e-9)
    rate = schedule(0.02, late, 1)
    trainer = trainer._replace(optimizer=AdamW(rate), adam=RowAdam(rate))
    drawn = whole_graph(graph, 2)
    step = jax.jit(trainer.step)
    before = step(eagerly(trainer.init, np.int32(0)), static, drawn.batch, 0)[0]
    after = step(before, static, drawn.batch, 0)[0]
    for old, new in zip(*(jax.tree.leaves((state.params, state.tables["author"].rows)) for state in (before, after))):
        np.testing.assert_allclose(old, new, atol=1e-7)


def test_projected_features_feed_the_first_layer():
    graph = random_graph(3)
    _, trainer, _ = setting(graph, name="hgt", heads=2, input_projection=True)
    state = eagerly(trainer.init, np.int32(0))
    params = state.params["params"]
    assert params["project_paper"]["kernel"].shape == (7, 8) and params["project_author"]["kernel"].shape == (6, 8)
    assert {name for name in params["layers_0"] if name.startswith("skip")} == {
        f"skip_{t}" for t in trainer.model.layers[0].targets
    }
    assert all(width == 8 for width in trainer.model.layers[0].widths.values())
    with pytest.raises(InputError, match="one_hot"):
        setting(graph, one_hot=True, input_projection=True)
