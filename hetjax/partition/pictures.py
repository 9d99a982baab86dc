"""The picture of a partitioning: one function for every kind, which a kind of a user's own joins by `draw.register`."""

from functools import singledispatch
from pathlib import Path

from hetjax.partition import cut_picture, meta_picture
from hetjax.partition.edge_cut import EdgeCut
from hetjax.partition.meta_partitioning import MetaPartitioning
from hetjax.partition.partitioning import Partitioning, Report


@singledispatch
def draw(partitioning: Partitioning, report: Report, file: Path) -> None:
    """Write `file`, a PNG with a picture of a partitioning.

    Args:
      partitioning: of any kind that is registered.
      report: as `reports.report` returns it.
    """
    raise TypeError(f"no picture of a {type(partitioning).__name__} is registered")


@draw.register
def _(partitioning: MetaPartitioning, report: Report, file: Path) -> None:
    meta_picture.draw(partitioning, file)


@draw.register
def _(partitioning: EdgeCut, report: Report, file: Path) -> None:
    cut_picture.draw(partitioning, report, file)
