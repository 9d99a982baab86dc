"""A picture of a plan: the metagraph, and the metatree coloured by partition (or, of an edge-cut, who has what)."""

import math
from collections import Counter
from pathlib import Path

from matplotlib import colormaps
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Circle, FancyArrowPatch

from hetjax.drawing import picture, shown
from hetjax.graph.schema import Relation, Schema
from hetjax.partition.metatree import Metatree, Root
from hetjax.partition.plan import EdgeCut, Plan

SHARED, UNUSED = "0.4", "0.78"
MOST_ROWS = 150  # of the metatree; what is deeper is not drawn, and that is said
MOST_PARALLEL = 4  # relations between two types that are drawn one by one
MOST_NAMES = 10  # relations whose names stand in the metagraph
ROW, CHARACTER = 0.19, 0.078  # inches


@picture
def draw(plan: Plan | EdgeCut, report, file: Path) -> None:
    """Write `file`, a PNG."""
    (_draw_plan if isinstance(plan, Plan) else _draw_cut)(plan, report, file)


def _draw_plan(plan: Plan, report, file: Path) -> None:
    rows = _Rows(plan.tree)
    height = max(6.5, ROW * rows.count + 1.6)
    figure, (left, right) = _figure(7.6, max(5.0, rows.width), height)
    _metagraph(
        left, plan.sizes.schema, plan.tree.targets, {r: _colour_of(plan, r) for r in plan.sizes.schema.relations}
    )
    rows.draw(right, {root: _colour(part.number) for part in plan.parts for root in part.roots})
    handles = [
        Line2D([], [], color=_colour(part.number), lw=3, label=f"partition {part.number} (host {_hosts(part.hosts)})")
        for part in plan.parts
    ]
    handles += [Line2D([], [], color=SHARED, lw=3, label="in several partitions")]
    handles += [Line2D([], [], color=UNUSED, lw=3, label="not in the model")]
    handles += [Line2D([], [], color="0.3", lw=1.2, ls=":", label="folded once, with the one above")]
    title = f"{len(plan.tree.roots)} sub-metatrees of {shown(' and '.join(plan.tree.targets))}, {plan.tree.hops} hops"
    _finish(figure, handles, f"{title}, mesh {len(plan.parts)} x {plan.data} ({plan.method})", file)


def _draw_cut(cut: EdgeCut, report, file: Path) -> None:
    figure, (left, right) = _figure(7.6, 8.0, max(6.5, 0.45 * cut.parts + 3.0))
    schema, shares = cut.sizes.schema, report.summary["cut_share_of"]
    scale = colormaps["plasma"].reversed()
    colours = {r: scale(0.1 + 0.9 * shares[str(r)]) for r in schema.relations}
    names = {r: f"{shown(r.name)} {shares[str(r)]:.0%}" for r in schema.relations}
    _metagraph(left, schema, (schema.target,), colours, names)
    start = [0] * cut.parts
    names = list(schema.nodes)
    for number, name in enumerate(names):
        counts = [int((cut.nodes[name] == part).sum()) for part in range(cut.parts)]
        right.barh(range(cut.parts), counts, 0.7, start, color=_colour(number), label=shown(name))
        start = [a + b for a, b in zip(start, counts)]
    halo = [row["halo_nodes"] for row in report.rows]
    right.barh(range(cut.parts), halo, 0.7, start, color="white", edgecolor="0.5", hatch="///", label="halo")
    right.set(yticks=range(cut.parts), ylabel="partition", xlabel="nodes")
    right.invert_yaxis()
    right.xaxis.set_major_formatter("{x:,.0f}")
    right.spines[["top", "right"]].set_visible(False)
    handles = [
        Line2D([], [], color=scale(0.1 + 0.9 * share), lw=3, label=f"{share:.0%} of edges cut") for share in (0, 0.5, 1)
    ]
    handles += right.get_legend_handles_labels()[0]
    _finish(
        figure, handles, f"{cut.method}, {cut.parts} partitions, {report.summary['cut_share']:.1%} of edges cut", file
    )


def _figure(left: float, right: float, height: float):
    figure = Figure(figsize=(left + right, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(1, 2, width_ratios=(left, right))


def _finish(figure: Figure, handles: list, title: str, file: Path) -> None:
    figure.suptitle(title, fontsize=13)
    figure.legend(handles=handles, loc="outside lower center", ncols=min(6, len(handles)), frameon=False, fontsize=9)
    figure.savefig(file, dpi=110)


def _colour(number: int):
    palette = colormaps["tab10" if number < 10 else "tab20b"].colors
    return palette[number % len(palette)]


def _colour_of(plan: Plan, relation: Relation):
    owners = [part.number for part in plan.parts if relation in part.program.relations]
    return UNUSED if not owners else SHARED if len(owners) > 1 else _colour(owners[0])


def _hosts(hosts: tuple[int, ...]) -> str:
    return str(hosts[0]) if len(hosts) == 1 else f"{hosts[0]} to {hosts[-1]}"


def _metagraph(axis, schema: Schema, targets: tuple[str, ...], colours: dict, names: dict | None = None) -> None:
    """Node types on a circle, the targets first, at the top; relations as arrows that bend apart."""
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
    """`(colour, label)` of every arrow, by its ends; of many relations with the same ends, an arrow per colour."""
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
    style = {"connectionstyle": f"arc3,rad={bend}", "arrowstyle": "-|>", "mutation_scale": 11}
    axis.add_patch(FancyArrowPatch(start, end, color=colour, lw=1.6, shrinkA=26, shrinkB=26, zorder=2, **style))
    if label:
        (x, y), (u, v) = start, end
        middle = ((x + u) / 2 + bend * (v - y) / 2, (y + v) / 2 - bend * (u - x) / 2)
        slope = math.degrees(math.atan2(v - y, u - x))
        turned = (slope + 90) % 180 - 90
        _label(axis, *middle, label, colour, turned)


def _radius(number: int) -> float:
    """Of a type's loop, counted from 0."""
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


class _Rows:
    """The metatree as rows of text: a column per hop, a row per leaf."""

    def __init__(self, tree: Metatree):
        self.tree, self.depth = tree, tree.hops
        while self.depth > 1 and _leaves(tree, self.depth) > MOST_ROWS:
            self.depth -= 1
        self.graph = tree.tree(self.depth)
        self.children = {vertex: sorted(self.graph.predecessors(vertex)) for vertex in self.graph}
        self.y: dict[int, float] = {}
        self.count = 0
        self._place(0)
        labels = [
            [self.text(v) for v in self.graph if self.graph.nodes[v]["hop"] == hop] for hop in range(self.depth + 1)
        ]
        widths = [CHARACTER * max(map(len, column)) + 0.75 for column in labels]
        self.x = [sum(widths[:hop]) for hop in range(self.depth + 1)]
        self.width = sum(widths)

    def _place(self, vertex: int) -> float:
        below = [self._place(child) for child in self.children[vertex]]
        if not below:
            self.count += 1
        self.y[vertex] = (below[0] + below[-1]) / 2 if below else float(self.count)
        return self.y[vertex]

    def text(self, vertex: int) -> str:
        about = self.graph.nodes[vertex]
        if not vertex:
            return shown(about["type"] or "targets")
        relation = about["relation"]
        return f"{shown(about['type'])}  ({shown(relation.name) if relation else 'itself'})"

    def draw(self, axis, colours: dict[Root, object]) -> None:
        folded = set()
        for vertex, about in self.graph.nodes(data=True):
            x, y = self.x[about["hop"]], self.y[vertex]
            colour = colours[about["root"]] if vertex else "black"
            axis.plot(x, y, "o", color=colour, ms=5, zorder=3)
            axis.text(x + 0.12, y, self.text(vertex), fontsize=8.5, va="center", color="black", zorder=4)
            for child in self.children[vertex]:
                below = self.graph.nodes[child]
                key = (colours[below["root"]], below["hop"], below["relation"], about["type"])
                again = about["hop"] and key in folded
                folded.add(key)
                self._link(axis, vertex, child, colours[below["root"]], ":" if again else "-")
        axis.set(xlim=(-0.2, self.width), ylim=(self.count + 1, 0))
        title = f"metatree to hop {self.depth} of {self.tree.hops}" if self.depth < self.tree.hops else "metatree"
        axis.set_title(title)
        axis.axis("off")

    def _link(self, axis, parent: int, child: int, colour, style: str) -> None:
        hop = self.graph.nodes[parent]["hop"]
        start, x = self.x[hop] + CHARACTER * len(self.text(parent)) + 0.2, self.x[hop + 1]
        bend, top, bottom = x - 0.22, self.y[parent], self.y[child]
        trunk = colour if hop else "0.7"  # of the root, all partitions' links hang
        axis.plot([start, bend, bend], [top, top, bottom], style, color=trunk, lw=1.2, zorder=1)
        axis.plot([bend, x], [bottom, bottom], style, color=colour, lw=1.2, zorder=2)


def _leaves(tree: Metatree, depth: int) -> int:
    """How many vertices the metatree has at a hop."""
    counts: dict[str, int] = {}
    still = 0
    for root in tree.roots:
        if tree.exchange == "every" and root.relation is None:
            still += 1
        else:
            counts[root.source] = counts.get(root.source, 0) + 1
    for hop in range(2, depth + 1):
        deeper = dict(counts) if tree.own else {}
        for relation in tree.allowed[-hop]:
            if relation.target in counts:
                deeper[relation.source] = deeper.get(relation.source, 0) + counts[relation.target]
        counts = deeper
    return still + sum(counts.values())
