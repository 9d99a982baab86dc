"""Findings of the doctor."""

from typing import Literal, NamedTuple

Kind = Literal["fine", "note", "wrong"]


class Finding(NamedTuple):
    """One thing that was looked at.

    Attributes:
      kind: `wrong`: training fails, or its results mislead; `note`: worth knowing.
      words: what was found.
      remedy: what to do; empty where there is nothing to do.
    """

    kind: Kind
    words: str
    remedy: str = ""

    def __str__(self) -> str:
        return f"{self.kind:5}  {self.words}" + (f"\n       -> {self.remedy}" if self.remedy else "")
