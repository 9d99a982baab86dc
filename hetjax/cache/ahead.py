"""Rows of tables on the host that are read for the next step while one is under way."""

from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, Protocol


class Readable(Protocol):
    """A table on the host."""

    def begin(self, request: Any) -> Any:
        """Read rows that no step under way is about to change, and send them."""


class Ahead:
    """What is read for the next step, in a thread, because the caller's may compute this step; one that asks for something else reads anew."""

    def __init__(self) -> None:
        self.thread = ThreadPoolExecutor(1, "rows ahead")
        self.read: dict[str, tuple[Any, Future]] = {}

    def begin(self, tables: Mapping[str, Readable], requests: Mapping[str, Any]) -> None:
        """Begin to read of every table what the next step will request; nobody changes a table until `wait`."""
        self.read = {t: (requests[t], self.thread.submit(table.begin, requests[t])) for t, table in tables.items()}

    def wait(self) -> None:
        """Wait until all was read; what went wrong is raised to the step that asks for it."""
        wait([rows for _, rows in self.read.values()])

    def fetched(self, node_type: str, table: Readable, request: Any) -> Any:
        """What was read of this very request, or is now."""
        known, rows = self.read.pop(node_type, (None, None))
        if rows:
            wait([rows])  # a step that failed did not
        return rows.result() if rows and known is request else table.begin(request)
