"""The pictures of a report, as vector graphics in the page itself."""

import base64
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hetjax.results.pictures import headless_pyplot, save
from hetjax.results.report.scores import Calibration
from hetjax.system.drawing import picture, shown

WIDTH = 5.2  # inches: on a phone the text can still be read
MOST_NUMBERS = 12  # classes up to which a confusion matrix has numbers


def drawn(place: Path, draw: Callable, *args: Any) -> str:
    """What a function draws into the file that is its last argument, as the address of an image; empty if it cannot.

    Args:
      place: a folder, where the file is while it is drawn.
    """
    with tempfile.TemporaryDirectory(prefix=".report-", dir=place) as folder:
        file = Path(folder, "picture.svg")
        draw(*args, file)
        return address(file, "svg+xml")


def address(file: Path, kind: str) -> str:
    """An image as an address that needs no other file."""
    return f"data:image/{kind};base64,{base64.b64encode(file.read_bytes()).decode()}" if file.exists() else ""


@picture
def draw_confusion(matrix: np.ndarray, names: Sequence[str], file: Path) -> None:
    """The shares of each class's nodes that are predicted as each class."""
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
    """The share that is right over the probability, bin by bin."""
    pyplot = headless_pyplot()
    figure, axis = pyplot.subplots(figsize=(WIDTH, 3.4), layout="constrained")
    width = np.diff(found.edges)
    axis.bar(found.edges[:-1], np.nan_to_num(found.right), width, align="edge", color="tab:blue", edgecolor="white")
    axis.plot([0, 1], [0, 1], color="black", linestyle=":", label="perfect calibration")
    axis.set(xlabel="probability of the prediction", ylabel="share that is right", xlim=(0, 1), ylim=(0, 1.02))
    figure.legend(frameon=False, loc="outside upper right")
    save(figure, file)
    pyplot.close(figure)
