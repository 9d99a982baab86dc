"""Metrics: their names, their units, and the direction that is better."""

from typing import NamedTuple

Quality = dict[str, float | None]  # by the name of a metric; None of no examples


class Metric(NamedTuple):
    """A scalar that says how good outputs are.

    Attributes:
      label: its name in a line or a table.
      unit: `%`: a share of 1, shown in per cent; or the unit of the number; empty: none.
      higher: whether a higher number is better.
    """

    label: str
    unit: str = "%"
    higher: bool = True

    def words(self, value: float | None) -> str:
        """Return a value as it is shown; `none` where it is undefined."""
        if value is None:
            return "none"
        if self.unit == "%":
            return f"{100 * value:.2f} %"
        plain = value == 0 or 1e-2 <= abs(value) < 1e6
        return f"{value:.4f} {self.unit}".rstrip() if plain else f"{value:.4g} {self.unit}".rstrip()
