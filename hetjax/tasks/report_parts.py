"""Parts of a run's page, as plain values that its template sets out."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

Row = Sequence[Any]
MOST_ROWS = 500  # of a table


class Table(NamedTuple):
    """A table: a caption, a head, and rows whose first cell is their head."""

    caption: str
    head: Row
    rows: Sequence[Row]


class Image(NamedTuple):
    """An image, its description in words, and whether it is so wide that a phone scrolls it."""

    address: str
    words: str
    wide: bool = False


class Part(NamedTuple):
    """A part of the page, under a heading.

    Attributes:
      words: sentences before all else.
      folded: what can be unfolded, by its title.
    """

    heading: str
    words: Sequence[str] = ()
    images: Sequence[Image] = ()
    tables: Sequence[Table] = ()
    folded: Mapping[str, Table | str] = {}

    @property
    def anchor(self) -> str:
        return self.heading.lower().replace(" ", "-")


def percent(share: float | None) -> str:
    return "–" if share is None or math.isnan(share) else f"{100 * share:.1f} %"
