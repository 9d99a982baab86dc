"""The parts of a run's page about numbers: predicted and true values, residuals, and how often predicted quantiles hold."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hetjax.system.drawing import headless_pyplot, picture, save, shown
from hetjax.system.svg import WIDTH, drawn
from hetjax.tasks import number_scores
from hetjax.tasks.predictions import NumberPredictions
from hetjax.tasks.report_parts import Image, Part, Table, percent

MOST_DRAWN = 4  # numbers that are drawn
MOST_POINTS = 2000  # of a picture
BINS = 30
SHARES = (0.05, 0.25, 0.5, 0.75, 0.95)  # of the residuals, in a table
HEAD = "number", "RMSE", "MAE", "R2", "Spearman", "nodes"


def parts(test: NumberPredictions, values: np.ndarray, unit: str, folder: Path) -> list[Part]:
    """Return predicted against true values, residuals, and of quantiles the share of the values below each.

    Args:
      test: the predictions of the test nodes.
      values: their numbers `[nodes, numbers]`, NaN where one is not known.
      unit: of the numbers; empty: none.
      folder: the folder of pictures while they are drawn.
    """
    known = np.flatnonzero(~np.isnan(values).all(axis=0))
    if not len(known):
        return []
    points, names = test.values.reshape(values.shape), test.names.class_names(values.shape[1])
    rows = [_row(names[n], points[:, n], values[:, n]) for n in range(values.shape[1])]
    in_unit = f", in {unit}" if unit else ""
    words = [f"How near the predictions are, on {len(values):,} test nodes of type {test.target}{in_unit}."]
    if len(known) > MOST_DRAWN:
        words.append(f"The first {MOST_DRAWN} of {values.shape[1]} numbers are drawn.")
    table = [Table("Test nodes by number", HEAD, rows)] if values.shape[1] > 1 else []
    images: dict[str, list[Image]] = {"predicted": [], "residuals": []}
    for n in known[:MOST_DRAWN]:
        rows_known, of = ~np.isnan(values[:, n]), f" of number {names[n]}" * (values.shape[1] > 1)
        true, predicted = values[rows_known, n].astype(np.float64), points[rows_known, n].astype(np.float64)
        label = shown(names[n]) if values.shape[1] > 1 else ""
        for key, draw, alt in (
            ("predicted", draw_predicted, f"Predicted over true values{of}; the dotted line is where they are equal."),
            (
                "residuals",
                draw_residuals,
                f"Predicted less true values{of}: over the prediction, and how many there are.",
            ),
        ):
            images[key].append(Image(drawn(folder, draw, true, predicted, label, unit), alt))
    words_of_residuals = f"A residual is the prediction less the true value{in_unit}."
    found = [
        Part("Predicted and true", words, images["predicted"], table),
        Part("Residuals", [words_of_residuals], images["residuals"], [_residuals(points - values, names)]),
    ]
    return [*found, _intervals(test, values, names)] if test.quantiles else found


def _row(name: str, predicted: np.ndarray, values: np.ndarray) -> Sequence[Any]:
    known = ~np.isnan(values)
    scores = number_scores.scores(predicted[:, None].astype(np.float64), values[:, None])
    cells = ["–" if score is None else f"{score:.4g}" for score in scores.values()]
    return [name, *cells, f"{int(known.sum()):,}"]


def _residuals(off: np.ndarray, names: Sequence[str]) -> Table:
    """Return how far residuals, predicted less true, lie from 0, of each number that is known."""
    columns = {name: column[~np.isnan(column)] for name, column in zip(names, off.T)}
    rows = [
        [name if len(names) > 1 else "all", *(f"{one:.4g}" for one in np.quantile(column, SHARES))]
        for name, column in columns.items()
        if len(column)
    ]
    return Table("Residuals of test nodes", ("number", *(f"{100 * share:g} % are below" for share in SHARES)), rows)


def _intervals(test: NumberPredictions, values: np.ndarray, names: Sequence[str]) -> Part:
    """Return the share of the true values below each predicted quantile."""
    apart = test.intervals.reshape(*values.shape, -1)
    known = ~np.isnan(values)
    rows = [
        [
            name,
            *(
                percent(float(np.mean(values[known[:, n], n] <= apart[known[:, n], n, q])))
                for q in range(len(test.quantiles))
            ),
        ]
        for n, name in enumerate(names)
        if known[:, n].any()
    ]
    head = ("number", *(f"quantile {level:g}" for level in test.quantiles))
    words = (
        "The share of the true values that lie at or below each predicted quantile; it should be the quantile's level."
    )
    return Part("Quantiles", [words], tables=[Table("True values below predicted quantiles", head, rows)])


def _some(true: np.ndarray, predicted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the pairs that are drawn: all, or every so many of them."""
    step = -(-len(true) // MOST_POINTS)
    return true[::step], predicted[::step]


@picture
def draw_predicted(true: np.ndarray, predicted: np.ndarray, name: str, unit: str, file: Path) -> None:
    """Draw predicted over true values."""
    pyplot = headless_pyplot()
    figure, axis = pyplot.subplots(figsize=(WIDTH, WIDTH), layout="constrained")
    axis.scatter(*_some(true, predicted), s=10, color="tab:blue", alpha=0.5, linewidths=0)
    ends = min(true.min(), predicted.min()), max(true.max(), predicted.max())
    axis.plot(ends, ends, color="black", linestyle=":", label="equal")
    of = f" ({shown(unit)})" if unit else ""
    axis.set(xlabel=f"true {name}".rstrip() + of, ylabel=f"predicted {name}".rstrip() + of)
    axis.grid(alpha=0.3)
    figure.legend(frameon=False, loc="outside upper right")
    save(figure, file)
    pyplot.close(figure)


@picture
def draw_residuals(true: np.ndarray, predicted: np.ndarray, name: str, unit: str, file: Path) -> None:
    """Draw residuals over predictions, and beside them how many there are of each size."""
    pyplot = headless_pyplot()
    figure, (left, right) = pyplot.subplots(
        1, 2, sharey=True, figsize=(WIDTH, 3.4), width_ratios=(3, 1), layout="constrained"
    )
    some = _some(true, predicted)
    left.scatter(some[1], some[1] - some[0], s=10, color="tab:blue", alpha=0.5, linewidths=0)
    right.hist(predicted - true, bins=BINS, orientation="horizontal", color="tab:blue")
    of = f" ({shown(unit)})" if unit else ""
    left.set(xlabel=f"predicted {name}".rstrip() + of, ylabel="predicted less true" + of)
    right.set(xlabel="nodes")
    for axis in (left, right):
        axis.axhline(0, color="black", linestyle=":")
        axis.grid(alpha=0.3)
    save(figure, file)
    pyplot.close(figure)
