"""The parts of a run's page about classes: quality by class, confusions, calibration."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from hetjax.system.drawing import headless_pyplot, picture, save, shown
from hetjax.system.svg import WIDTH, drawn
from hetjax.tasks import class_scores as scores
from hetjax.tasks.class_scores import Calibration
from hetjax.tasks.predictions import ClassPredictions
from hetjax.tasks.report_parts import MOST_ROWS, Image, Part, Table, percent

MOST_CONFUSED, MOST_PAIRS = 30, 10  # classes of a picture, confusions that are listed
MOST_NUMBERS = 12  # classes up to which a confusion matrix has numbers


def parts(test: ClassPredictions, labels: np.ndarray, folder: Path) -> list[Part]:
    """Return the quality of predictions class by class, their confusions and their calibration.

    Args:
      test: the predictions of the test nodes.
      labels: their labels, as in `HetGraph`.
      folder: the folder of pictures while they are drawn.
    """
    if not len(labels):
        return []
    names, predicted = test.class_names, test.classes
    found = scores.per_class(labels, predicted, len(names))
    there = np.flatnonzero((found.nodes > 0) | ~np.isnan(found.precision))
    order = there if len(there) <= MOST_ROWS else np.sort(there[np.argsort(-found.nodes[there])][:MOST_ROWS])
    rows = [[names[n], *(percent(column[n]) for column in found[:3]), f"{found.nodes[n]:,}"] for n in order]
    words = [f"How well each class is predicted, on {len(labels):,} test nodes of type {test.target}."]
    if len(order) < len(names):
        words.append(f"{len(order):,} of {len(names):,} classes are shown: the largest of those that occur.")
    found_parts = [Part("Classes", words, tables=[Table("Test nodes by class", HEAD, rows)])]
    if not test.multilabel:
        found_parts.append(
            _confusion(folder, labels, predicted, names, order[np.argsort(-found.nodes[order], kind="stable")])
        )
    return [*found_parts, _calibration(folder, test, labels)]


HEAD = "class", "precision", "recall", "F1", "nodes"


def _confusion(
    folder: Path, labels: np.ndarray, predicted: np.ndarray, names: Sequence[str], order: np.ndarray
) -> Part:
    """Return the part of the page about confusions between the largest classes."""
    largest, nodes = np.sort(order[:MOST_CONFUSED]), np.bincount(labels, minlength=len(names))
    part = scores.confusion(labels, predicted, largest)
    rows = [
        [shown(names[a]), shown(names[b]), f"{count:,}", percent(count / nodes[a])]
        for a, b, count in scores.confused(labels, predicted, MOST_PAIRS)
    ]
    image = drawn(folder, draw_confusion, part, [names[n] for n in largest])
    alt = f"Confusion matrix of {len(largest)} classes: rows are classes, columns are predictions. The table below has the largest confusions."
    table = Table("The largest confusions", ("class", "predicted as", "nodes", "share of the class"), rows)
    words = [f"The {len(largest)} largest of {len(names)} classes."] if len(largest) < len(order) else []
    return Part("Confusion", words, [Image(image, alt)], [table] if rows else [])


def _calibration(folder: Path, test: ClassPredictions, labels: np.ndarray) -> Part:
    if test.multilabel:
        probability, right = test.probabilities.ravel(), (labels != 0).ravel()
        of = "Each pair of a node and a class is one prediction."
    else:
        chosen = np.take_along_axis(test.probabilities, test.classes[:, None], axis=1)
        probability, right = chosen[:, 0], test.classes == labels
        of = "The probability is that of the predicted class."
    found = scores.calibration(probability, right)
    rows = [
        [f"{low:.1f} to {high:.1f}", f"{count:,}", percent(mean), percent(share)]
        for low, high, count, mean, share in zip(found.edges, found.edges[1:], *found[1:4])
        if count
    ]
    words = f"The expected calibration error is {percent(found.error)}: on average, the probability of a prediction and the share of predictions that are right differ by this much. {of}"
    alt = "The share of predictions that are right, by their probability, in ten bins; the table below has the numbers."
    table = Table("Predictions by probability", ("probability", "predictions", "mean probability", "share right"), rows)
    return Part("Calibration", [words], [Image(drawn(folder, draw_calibration, found), alt)], [table])


@picture
def draw_confusion(matrix: np.ndarray, names: Sequence[str], file: Path) -> None:
    """Draw the shares of each class's nodes that are predicted as each class."""
    pyplot, count = headless_pyplot(), len(names)
    with np.errstate(invalid="ignore", divide="ignore"):
        shares = np.nan_to_num(matrix / matrix.sum(axis=1, keepdims=True))
    figure, axis = pyplot.subplots(figsize=(WIDTH, WIDTH), layout="constrained")
    axis.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    short = [shown(name) if len(name) <= 18 else f"...{name[-15:]}" for name in names]
    size = 9 if count <= MOST_NUMBERS else 7
    axis.set_xticks(range(count), short, rotation=90, fontsize=size)
    axis.set_yticks(range(count), short, fontsize=size)
    axis.set(xlabel="predicted", ylabel="class")
    for row, column in np.ndindex(*shares.shape) if count <= MOST_NUMBERS else ():
        colour = "white" if shares[row, column] > 0.5 else "black"
        text = f"{matrix[row, column]}" if matrix[row, column] < 10**4 else f"{matrix[row, column]:.0e}"
        axis.text(column, row, text, ha="center", va="center", color=colour, fontsize=8)
    save(figure, file)
    pyplot.close(figure)


@picture
def draw_calibration(found: Calibration, file: Path) -> None:
    """Draw the share that is right over the probability, bin by bin."""
    pyplot = headless_pyplot()
    figure, axis = pyplot.subplots(figsize=(WIDTH, 3.4), layout="constrained")
    width = np.diff(found.edges)
    axis.bar(found.edges[:-1], np.nan_to_num(found.right), width, align="edge", color="tab:blue", edgecolor="white")
    axis.plot([0, 1], [0, 1], color="black", linestyle=":", label="perfect calibration")
    axis.set(xlabel="probability of the prediction", ylabel="share that is right", xlim=(0, 1), ylim=(0, 1.02))
    figure.legend(frameon=False, loc="outside upper right")
    save(figure, file)
    pyplot.close(figure)
