"""A picture of an edge-cut."""

from pathlib import Path

from matplotlib import colormaps
from matplotlib.lines import Line2D

from hetjax.partition.edge_cut import EdgeCut
from hetjax.partition.partitioning import Report
from hetjax.partition.picture import colour, figure, finish, metagraph
from hetjax.system.drawing import picture, shown


@picture
def draw(cut: EdgeCut, report: Report, file: Path) -> None:
    """Write `file`, a PNG: the metagraph with the edges that are cut, and what each partition has."""
    sheet, (left, right) = figure(7.6, 8.0, max(6.5, 0.45 * cut.parts + 3.0))
    schema, shares = cut.sizes.schema, report.summary["cut_share_of"]
    scale = colormaps["plasma"].reversed()
    colours = {r: scale(0.1 + 0.9 * shares[str(r)]) for r in schema.relations}
    shares_of = {r: f"{shown(r.name)} {shares[str(r)]:.0%}" for r in schema.relations}
    metagraph(left, schema, (schema.target,), colours, shares_of)
    start = [0] * cut.parts
    for number, name in enumerate(schema.nodes):
        counts = [int((cut.nodes[name] == part).sum()) for part in range(cut.parts)]
        right.barh(range(cut.parts), counts, 0.7, start, color=colour(number), label=shown(name))
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
    finish(
        sheet, handles, f"{cut.method}, {cut.parts} partitions, {report.summary['cut_share']:.1%} of edges cut", file
    )
