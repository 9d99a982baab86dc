"""A picture of a partitioning of a stream: what every partition has, without and with full neighbours."""

from pathlib import Path

from matplotlib.axes import Axes

from hetjax.partition.partitioning import Report
from hetjax.partition.picture import colour, figure, finish
from hetjax.system.drawing import picture


@picture
def draw(report: Report, file: Path) -> None:
    """Write `file`, a PNG."""
    total = report.summary
    sheet, (left, right) = figure(7.0, 7.0, min(12.0, max(4.5, 0.3 * len(report.rows) + 2.4)))
    trained = [row["own_nodes"] for row in report.rows]
    full = [row["full_nodes"] - row["own_nodes"] for row in report.rows]
    _bars(left, trained, full, "trains", "full neighbours", 0)
    _bars(left, [row["nodes"] for row in report.rows], None, "ends of its edges", "", 2)
    _bars(right, [row["full_edges"] for row in report.rows], None, "with full neighbours", "", 1)
    _bars(right, [row["edges"] for row in report.rows], None, "placed", "", 3)
    left.set(
        xlabel="nodes",
        ylabel="partition",
        title=f"replication {total['replication_factor']:.2f}, full {total['replication_factor_full']:.2f}",
    )
    right.set(xlabel="edges", title=f"{total['cut_share']:.1%} cut, balance {total['balance_edges']:.2f}")
    handles = [*left.get_legend_handles_labels()[0], *right.get_legend_handles_labels()[0]]
    finish(sheet, handles, f"{total['method']}, {total['partitions']} partitions", file)


def _bars(axis: Axes, values: list[int], more: list[int] | None, label: str, of_more: str, number: int) -> None:
    """Draw bars, the first of an axis above the middle of a partition's line and the second below."""
    height = 0.4
    at = [part + (height / 2 if axis.containers else -height / 2) for part in range(len(values))]
    axis.barh(at, values, height, color=colour(number), label=label)
    if more is not None:
        axis.barh(at, more, height, values, color="white", edgecolor="0.5", hatch="///", label=of_more)
    axis.set(yticks=range(len(values)))
    axis.yaxis.set_inverted(True)
    axis.xaxis.set_major_formatter("{x:,.0f}")
    axis.spines[["top", "right"]].set_visible(False)
