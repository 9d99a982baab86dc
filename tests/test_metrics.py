"""The quality of predictions, for one label a node and for several."""

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, average_precision_score, f1_score, log_loss, roc_auc_score

from hetjax.options.config import Config, Train
from hetjax.tasks.metrics import STEPS, best_threshold, quality
from hetjax.tasks.node_classification import NodeClassification
from hetjax.tasks.ranking import average_precision, roc_auc
from hetjax.train import _line
from tests.support.graphs import random_graph


def test_one_label_by_hand():
    logits = np.log(np.array([[0.5, 0.25, 0.25], [0.1, 0.8, 0.1], [0.6, 0.2, 0.2]], np.float32))
    found = quality(logits, np.array([0, 1, 1], np.int32))
    np.testing.assert_allclose(found["loss"], -np.log([0.5, 0.8, 0.2]).mean(), rtol=1e-6)
    assert found["accuracy"] == found["micro_f1"] == pytest.approx(2 / 3)
    assert found["macro_f1"] == pytest.approx(2 / 3)  # of two classes; the third does not occur


def test_several_labels_by_hand():
    probability = np.array([[0.8, 0.4, 0.1], [0.3, 0.9, 0.2], [0.6, 0.7, 0.1], [0.2, 0.1, 0.3]])
    labels = np.array([[1, 0, 0], [1, 1, 0], [0, 1, 0], [0, 0, 0]], np.int8)
    found = quality(np.log(probability / (1 - probability)).astype(np.float32), labels)
    right = np.where(labels, probability, 1 - probability)
    np.testing.assert_allclose(found["loss"], -np.log(right).mean(axis=1).mean(), rtol=1e-6)
    assert found["accuracy"] == 0.5  # the first node and the last, to which no label applies
    assert found["micro_f1"] == pytest.approx(2 * 3 / (4 + 4))
    assert found["macro_f1"] == pytest.approx((1 / 2 + 1) / 2)  # the third class does not occur
    assert all(type(value) is float for value in found.values())


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_several_labels_equal_scikit_learn(seed, dtype):
    rng = np.random.default_rng(seed)
    logits = (3 * rng.standard_normal((200, 7)) - 1).astype(dtype)
    labels = (rng.random((200, 7)) < rng.uniform(0.1, 0.7, 7)).astype(np.int8)
    labels[:, [2, 4, 5]] = 0
    # Class 2 occurs on neither side, 4 and 5 only among predictions, 6 only among labels.
    logits[:, [2, 6]] = -np.abs(logits[:, [2, 6]])
    logits[0, 0] = 0  # not above 0
    found = quality(logits, labels)
    predicted = (logits > 0).astype(int)
    occur = [0, 1, 3, 4, 5, 6]
    assert not predicted[:, 2].any() and predicted[:, 4].any() and labels[:, 6].any()
    np.testing.assert_allclose(found["accuracy"], accuracy_score(labels, predicted))
    np.testing.assert_allclose(found["micro_f1"], f1_score(labels, predicted, average="micro"))
    np.testing.assert_allclose(found["macro_f1"], f1_score(labels, predicted, average="macro", labels=occur))
    probability = 1 / (1 + np.exp(-logits.astype(np.float64)))
    losses = [log_loss(labels[:, number], probability[:, number], labels=[0, 1]) for number in range(7)]
    np.testing.assert_allclose(found["loss"], np.mean(losses), rtol=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_the_threshold_is_that_of_the_highest_micro_f1(seed):
    rng = np.random.default_rng(seed)
    labels = (rng.random((60, 4)) < 0.3).astype(np.int8)
    logits = (rng.standard_normal((60, 4)) + 2 * labels - 2).astype(np.float32)
    found = best_threshold(logits, labels)
    probability, steps = 1 / (1 + np.exp(-logits.astype(float))), np.arange(1, STEPS) / STEPS
    scores = [f1_score(labels, probability > step, average="micro") for step in steps]
    assert found in steps and max(scores) > f1_score(labels, logits > 0, average="micro")
    np.testing.assert_allclose(quality(logits, labels, threshold=found)["micro_f1"], max(scores))


def test_of_equal_thresholds_the_nearest_to_a_half():
    sure, none = np.array([[1e4, -1e4]], np.float32), np.zeros((0, 2))
    with np.errstate(all="raise", under="ignore"):
        assert best_threshold(sure, np.array([[1, 0]])) == best_threshold(sure, np.array([[0, 0]])) == 0.5
    assert best_threshold(none, none) == 0.5
    assert (
        best_threshold(np.log(np.array([[3.0, 1.0]])), np.array([[1, 0]])) == 0.5
    )  # 0.75, and 0.5 which is not above it


def test_large_logits_of_several_labels():
    logits = np.array([[1e4, -1e4], [1e4, -1e4]], np.float32)
    with np.errstate(all="raise", under="ignore"):
        assert quality(logits, np.array([[1, 0], [1, 0]], np.int8))["loss"] == 0
        wrong = quality(logits, np.array([[1, 0], [0, 1]], np.int8))
        assert wrong == {"loss": 5e3, "accuracy": 0.5, "micro_f1": 0.5, "macro_f1": pytest.approx(1 / 3)}
        small = quality(np.full((1, 1), 40, np.float32), np.ones((1, 1), np.int8))
    np.testing.assert_allclose(small["loss"], np.exp(-40), rtol=1e-9)  # and not 0, the difference of two large numbers


@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.uint8, bool])
def test_the_type_of_several_labels_does_not_matter(dtype):
    rng = np.random.default_rng(0)
    logits, labels = rng.standard_normal((50, 4)), rng.integers(0, 2, (50, 4))
    assert quality(logits, labels.astype(dtype)) == quality(logits, labels)


def test_several_labels_of_which_none_occurs():
    found = quality(np.full((3, 2), -np.log(3)), np.zeros((3, 2), np.int8))
    assert found == {"loss": pytest.approx(np.log(4 / 3)), "accuracy": 1, "micro_f1": 0, "macro_f1": 0}
    assert set(quality(np.zeros((0, 2)), np.zeros((0, 2), np.int8)).values()) == {None}


def by_pairs(scores, positive):
    """Every pair of a positive and a negative node, one at a time."""
    wins, pairs = 0.0, 0
    for one in scores[positive]:
        for zero in scores[~positive]:
            wins += 1 if one > zero else 0.5 if one == zero else 0
            pairs += 1
    return wins / pairs


@pytest.mark.parametrize("seed", range(6))
def test_roc_auc_is_the_share_of_pairs_in_order(seed):
    rng = np.random.default_rng(seed)
    scores = rng.standard_normal(60) if seed % 2 else rng.integers(0, 5, 60).astype(float)  # with many ties
    positive = rng.random(60) < 0.3
    assert roc_auc(scores, positive) == by_pairs(scores, positive)
    np.testing.assert_allclose(roc_auc(scores, positive), roc_auc_score(positive, scores), rtol=1e-12)
    logits = np.stack([np.zeros(60), scores], axis=1).astype(np.float32)
    found = quality(logits, positive.astype(np.int32))
    assert found["roc_auc"] == by_pairs(scores.astype(np.float32), positive)
    np.testing.assert_allclose(found["average_precision"], average_precision_score(positive, logits[:, 1]))
    assert set(found) == {"loss", "accuracy", "micro_f1", "macro_f1", "roc_auc", "average_precision"}


@pytest.mark.parametrize("seed", range(4))
def test_areas_of_several_classes_equal_scikit_learn(seed):
    """One class against the others, of those that some nodes have and some have not."""
    rng = np.random.default_rng(seed)
    logits, labels = rng.standard_normal((80, 5)).astype(np.float32), rng.integers(0, 4, 80)
    found, plain = quality(logits, labels, ordered=True), quality(logits, labels)
    assert set(found) - set(plain) == {"roc_auc", "average_precision"}
    chances = np.exp(logits.astype(float)) / np.exp(logits.astype(float)).sum(axis=1, keepdims=True)
    marks = labels[:, None] == np.arange(4)
    np.testing.assert_allclose(found["roc_auc"], roc_auc_score(marks, chances[:, :4], average="macro"))
    np.testing.assert_allclose(
        found["average_precision"], average_precision_score(marks, chances[:, :4], average="macro")
    )
    several = rng.integers(0, 2, (80, 5))
    several[:, 3] = seed % 2  # which all nodes have, or none
    found, some = quality(logits, several, ordered=True), [0, 1, 2, 4]
    np.testing.assert_allclose(found["roc_auc"], roc_auc_score(several[:, some], logits[:, some]))
    np.testing.assert_allclose(found["average_precision"], average_precision_score(several[:, some], logits[:, some]))
    assert quality(logits, np.zeros(80, int), ordered=True)["roc_auc"] is None


def test_average_precision_by_hand():
    positive = np.array([True, False, True, False])
    assert average_precision(np.array([4.0, 3, 2, 1]), positive) == (1 + 2 / 3) / 2
    assert (
        average_precision(np.ones(4), positive) == 0.5 and average_precision(np.ones(4), ~positive & positive) is None
    )


def by(metric):
    """A task whose epochs are chosen by a metric."""
    return NodeClassification(random_graph(), Config(train=Train(metric=metric)))


def test_roc_auc_by_hand():
    scores, none = np.array([0.1, 0.4, 0.35, 0.8]), np.zeros(4, bool)
    assert roc_auc(scores, np.array([False, False, True, True])) == 0.75
    assert roc_auc(scores, scores > 0.3) == 1 and roc_auc(-scores, scores > 0.3) == 0
    assert roc_auc(np.ones(4), scores > 0.3) == 0.5
    assert roc_auc(scores, none) is None and roc_auc(scores, ~none) is None
    assert quality(np.zeros((0, 2)), np.zeros(0, int))["roc_auc"] is None
    assert "roc_auc" not in quality(np.zeros((1, 3)), np.zeros(1, int))


def test_what_is_printed_of_an_epoch_has_the_metric_that_decides():
    record = {"epoch": 2, "train_loss": 0.5, "validation_loss": 0.25, "validation_accuracy": 0.5}
    one, several = record | {"validation_micro_f1": 0.5}, record | {"validation_micro_f1": 0.75}
    assert _line(one, by("micro_f1")) == "epoch 2: train loss 0.5000, validation accuracy 0.5000"
    assert _line(several, by("micro_f1")).endswith("validation micro-F1 0.7500, accuracy 0.5000")
    assert _line(one, by("loss")).endswith("validation loss 0.2500, accuracy 0.5000")
    areas = one | {"validation_roc_auc": 0.9, "validation_average_precision": 0.8}
    assert _line(areas, by("average_precision")).endswith("average precision 0.8000, accuracy 0.5000, ROC AUC 0.9000")
    nothing = {"epoch": 1, "train_loss": 1.0} | dict.fromkeys(f"validation_{m}" for m in ("accuracy", "micro_f1"))
    assert _line(nothing, by("micro_f1")) == "epoch 1: train loss 1.0000"
