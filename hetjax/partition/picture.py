"""Common parts of the pictures of partitionings: the metagraph, colours, and the frame around both halves."""

import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyArrowPatch

from hetjax.graph.schema import Relation, Schema
from hetjax.system import durable
from hetjax.system.drawing import picture, shown

MOST_PARALLEL = 4  # relations between two types that are drawn one by one
MOST_NAMES = 10  # relations whose names stand in the metagraph


def figure(left: float, right: float, height: float) -> tuple[Figure, np.ndarray]:
    figure = Figure(figsize=(left + right, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(1, 2, width_ratios=(left, right))


def finish(figure: Figure, handles: list, title: str, file: Path) -> None:
    figure.suptitle(title, fontsize=13)
    figure.legend(handles=handles, loc="outside lower center", ncols=min(6, len(handles)), frameon=False, fontsize=9)
    figure.savefig(file, dpi=110)


@picture
def draw_metagraph(schema: Schema, colours: dict[Relation, Any], file: Path) -> None:
    """Write `file`, a PNG of the metagraph alone."""
    sheet = Figure(figsize=(8, 8), layout="constrained")
    FigureCanvasAgg(sheet)
    metagraph(sheet.subplots(), schema, (schema.target,), colours)
    with durable.new_file(file) as partial:
        sheet.savefig(partial, dpi=110, format="png")


def colour(number: int) -> tuple[float, float, float, float]:
    palette = colormaps["tab10" if number < 10 else "tab20b"]
    return palette(number % palette.N)


def metagraph(axis: Axes, schema: Schema, targets: tuple[str, ...], colours: dict, names: dict | None = None) -> None:
    """Draw node types on a circle, the targets first, at the top; relations as arrows that bend apart."""
    order = sorted(schema.nodes, key=lambda name: name not in targets)
    angles = {name: math.pi / 2 - 2 * math.pi * number / len(order) for number, name in enumerate(order)}
    place = {name: (math.cos(angle), math.sin(angle)) for name, angle in angles.items()}
    arrows_of = _arrows(schema, colours, names or {})
    for (source, target), arrows in arrows_of.items():
        for number, (colour, label) in enumerate(arrows):
            (_loop if source == target else _arrow)(axis, place[source], place[target], number, colour, label)
    for name, (x, y) in place.items():
        face = "#ffe9a8" if name in targets else "white"
        text = f"{shown(name)}\n{schema.nodes[name]:,}"
        box = {"boxstyle": "round,pad=0.4", "facecolor": face, "edgecolor": "0.2"}
        axis.text(x, y, text, ha="center", va="center", fontsize=9, bbox=box, zorder=5)
    loops = [len(arrows) for (source, target), arrows in arrows_of.items() if source == target]
    edge = max(1.35, 1.1 + 2 * _radius(max(loops, default=1) - 1))  # behind the label of the widest loop
    axis.set(xlim=(-edge, edge), ylim=(-edge, edge), aspect="equal", title="metagraph")
    axis.axis("off")


def _arrows(schema: Schema, colours: dict, names: dict) -> dict[tuple[str, str], list]:
    """Return `(colour, label)` of every arrow, by its ends; of many relations with the same ends, an arrow per colour."""
    between: dict[tuple[str, str], list[Relation]] = {}
    for relation in schema.relations:
        between.setdefault((relation.source, relation.target), []).append(relation)
    arrows = {}
    for ends, relations in between.items():
        if len(relations) <= MOST_PARALLEL:
            named = len(schema.relations) <= MOST_NAMES
            arrows[ends] = [(colours[r], names.get(r, shown(r.name)) if named else "") for r in relations]
        else:
            counts = Counter(colours[r] for r in relations)
            arrows[ends] = [(colour, f"{count} relations") for colour, count in counts.items()]
    return arrows


def _arrow(axis, start, end, number: int, colour, label: str) -> None:
    bend = 0.14 + 0.11 * number
    style: dict[str, Any] = {"connectionstyle": f"arc3,rad={bend}", "arrowstyle": "-|>", "mutation_scale": 11}
    axis.add_patch(FancyArrowPatch(start, end, color=colour, lw=1.6, shrinkA=26, shrinkB=26, zorder=2, **style))
    if label:
        (x, y), (u, v) = start, end
        middle = ((x + u) / 2 + bend * (v - y) / 2, (y + v) / 2 - bend * (u - x) / 2)
        slope = math.degrees(math.atan2(v - y, u - x))
        turned = (slope + 90) % 180 - 90
        _label(axis, *middle, label, colour, turned)


def _radius(number: int) -> float:
    """Return the radius of a type's loop, counted from 0."""
    return 0.13 + 0.05 * number


def _loop(axis, start, end, number: int, colour, label: str) -> None:
    radius = _radius(number)
    x, y = start[0] * (1 + radius), start[1] * (1 + radius)
    axis.add_patch(Circle((x, y), radius, fill=False, color=colour, lw=1.6, zorder=1))
    if label:
        _label(axis, x + start[0] * radius, y + start[1] * radius, label, colour, 0)


def _label(axis, x: float, y: float, text: str, colour, turned: float) -> None:
    box = {"facecolor": "white", "edgecolor": "none", "pad": 0.8, "alpha": 0.85}
    axis.text(x, y, text, color=colour, fontsize=8, ha="center", va="center", rotation=turned, bbox=box, zorder=4)
