"""Errors that do not depend on each other, all of which a user should see at once."""

from collections.abc import Iterator
from contextlib import contextmanager

from hetjax.system.errors import InputError
from hetjax.system.logs import log

MOST = 20  # that are shown


class Errors:
    """Errors that were found so far; the work goes on, to find others."""

    def __init__(self) -> None:
        self.found: list[InputError] = []

    def __bool__(self) -> bool:
        return bool(self.found)

    @contextmanager
    def collected(self) -> Iterator[None]:
        """Keep an InputError for later; after `MOST` of them it is raised."""
        try:
            yield
        except InputError as error:
            if str(error) not in map(str, self.found):
                self.found.append(error)
            if len(self.found) >= MOST:
                self.check()

    @contextmanager
    def checked(self) -> Iterator[None]:
        """Raise an InputError at once, with those that were found before: what follows depends on this."""
        before = len(self.found)
        with self.collected():
            yield
        if len(self.found) > before:
            self.check()

    def check(self) -> None:
        """Raise the first error, if there is one, after a warning for each of the others."""
        for error in self.found[1:]:
            log.warning(f"also wrong: {error}")
        if self.found:
            raise self.found[0]
