"""Rows of tables on the host that are read for the next step while the current step is computed."""

from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, Protocol


class Readable(Protocol):
    """A table on the host."""

    def begin(self, request: Any) -> Any:
        """Read rows that no step under way is about to change, and send them."""


class Ahead:
    """Reader of the next step's rows, in a thread, because the caller's may compute the current step. A step that requests other rows reads anew."""

    def __init__(self) -> None:
        self.thread = ThreadPoolExecutor(1, "rows ahead")
        self.read: dict[str, tuple[Any, Future]] = {}

    def begin(self, tables: Mapping[str, Readable], requests: Mapping[str, Any]) -> None:
        """Begin to read the rows of every table that the next step will request; nobody changes a table until `wait`."""
        self.read = {t: (requests[t], self.thread.submit(table.begin, requests[t])) for t, table in tables.items()}

    def wait(self) -> None:
        """Wait until all was read. An error is raised to the step that asks for its rows."""
        wait([rows for _, rows in self.read.values()])

    def fetched(self, node_type: str, table: Readable, request: Any) -> Any:
        """Return the rows of this very request: those that were read, or else those that are read now."""
        read_request, rows = self.read.pop(node_type, (None, None))
        if rows:
            wait([rows])  # a step that failed did not
        return rows.result() if rows and read_request is request else table.begin(request)
