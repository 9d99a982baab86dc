"""Rows of tables on the host that are read for the next step while one is under way."""

from collections.abc import Mapping
from typing import Any, Protocol


class Readable(Protocol):
    """A table on the host."""

    def begin(self, request: Any) -> Any:
        """Read rows that no step under way is about to change, and send them."""


class Ahead:
    """What was read for the next step; a step that asks for something else reads anew."""

    def __init__(self) -> None:
        self.read: dict[str, tuple[Any, Any]] = {}

    def begin(self, tables: Mapping[str, Readable], requests: Mapping[str, Any]) -> None:
        """Read of every table what the next step will request."""
        self.read = {t: (requests[t], table.begin(requests[t])) for t, table in tables.items()}

    def fetched(self, node_type: str, table: Readable, request: Any) -> Any:
        """What `begin` gave of this very request, or gives now."""
        known, rows = self.read.pop(node_type, (None, None))
        return rows if known is request else table.begin(request)
