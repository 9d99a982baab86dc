"""A picture of a meta-partitioning."""

from pathlib import Path

from matplotlib.lines import Line2D

from hetjax.graph.schema import Relation
from hetjax.partition.meta_partitioning import MetaPartitioning
from hetjax.partition.metatree import Metatree, Root
from hetjax.partition.picture import colour, figure, finish, metagraph
from hetjax.system.drawing import picture, shown

SHARED, UNUSED = "0.4", "0.78"
MOST_ROWS = 150  # of the metatree; what is deeper is not drawn, and that is said
ROW, CHARACTER = 0.19, 0.078  # inches


@picture
def draw(plan: MetaPartitioning, file: Path) -> None:
    """Write `file`, a PNG: the metagraph, and the metatree coloured by partition."""
    rows = _Rows(plan.tree)
    height = max(6.5, ROW * rows.count + 1.6)
    sheet, (left, right) = figure(7.6, max(5.0, rows.width), height)
    metagraph(left, plan.sizes.schema, plan.tree.targets, {r: _colour_of(plan, r) for r in plan.sizes.schema.relations})
    rows.draw(right, {root: colour(part.number) for part in plan.parts for root in part.roots})
    handles = [
        Line2D([], [], color=colour(part.number), lw=3, label=f"partition {part.number} (host {_hosts(part.hosts)})")
        for part in plan.parts
    ]
    handles += [Line2D([], [], color=SHARED, lw=3, label="in several partitions")]
    handles += [Line2D([], [], color=UNUSED, lw=3, label="not in the model")]
    handles += [Line2D([], [], color="0.3", lw=1.2, ls=":", label="aggregated once, with the one above")]
    title = f"{len(plan.tree.roots)} sub-metatrees of {shown(' and '.join(plan.tree.targets))}, {plan.tree.hops} hops"
    finish(sheet, handles, f"{title}, mesh {len(plan.parts)} x {plan.data} ({plan.method})", file)


def _colour_of(plan: MetaPartitioning, relation: Relation):
    owners = [part.number for part in plan.parts if relation in part.local_model.relations]
    return UNUSED if not owners else SHARED if len(owners) > 1 else colour(owners[0])


def _hosts(hosts: tuple[int, ...]) -> str:
    return str(hosts[0]) if len(hosts) == 1 else f"{hosts[0]} to {hosts[-1]}"


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
        attributes = self.graph.nodes[vertex]
        if not vertex:
            return shown(attributes["type"] or "targets")
        relation = attributes["relation"]
        return f"{shown(attributes['type'])}  ({shown(relation.name) if relation else 'itself'})"

    def draw(self, axis, colours: dict[Root, object]) -> None:
        seen = set()
        for vertex, attributes in self.graph.nodes(data=True):
            x, y = self.x[attributes["hop"]], self.y[vertex]
            colour = colours[attributes["root"]] if vertex else "black"
            axis.plot(x, y, "o", color=colour, ms=5, zorder=3)
            axis.text(x + 0.12, y, self.text(vertex), fontsize=8.5, va="center", color="black", zorder=4)
            for child in self.children[vertex]:
                below = self.graph.nodes[child]
                key = (colours[below["root"]], below["hop"], below["relation"], attributes["type"])
                again = attributes["hop"] and key in seen
                seen.add(key)
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
    """Count the vertices that the metatree has at a hop."""
    counts: dict[str, int] = {}
    still = 0
    for root in tree.roots:
        if tree.exchange == "every" and root.relation is None:
            still += 1
        else:
            counts[root.source] = counts.get(root.source, 0) + 1
    for hop in range(2, depth + 1):
        deeper = dict(counts) if tree.reads_own else {}
        for relation in tree.allowed[-hop]:
            if relation.target in counts:
                deeper[relation.source] = deeper.get(relation.source, 0) + counts[relation.target]
        counts = deeper
    return still + sum(counts.values())
