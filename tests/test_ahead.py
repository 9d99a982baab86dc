"""Rows that are read for the next step while one is under way."""

import threading

import pytest

from hetjax.cache.ahead import Ahead


class Slow:
    """A table that answers when it is told to."""

    def __init__(self):
        self.go, self.read = threading.Event(), []

    def begin(self, request):
        assert self.go.wait(60)
        self.read.append(request)
        if request == "broken":
            raise OSError("no such rows")
        return f"rows of {request}"


def test_a_step_goes_on_while_rows_are_read_and_gets_them_once():
    ahead, table = Ahead(), Slow()
    request = ["next"]
    ahead.begin({"author": table}, {"author": request})
    assert not table.read  # and this thread is here
    table.go.set()
    ahead.wait()
    assert table.read == [request]
    assert ahead.fetched("author", table, request) == "rows of ['next']"
    assert table.read == [request]
    assert ahead.fetched("author", table, request) == "rows of ['next']"
    assert table.read == [request] * 2  # each is given once


def test_a_step_that_asks_for_something_else_reads_anew():
    ahead, table = Ahead(), Slow()
    table.go.set()
    ahead.begin({"author": table}, {"author": "next"})
    assert ahead.fetched("author", table, "other") == "rows of other"
    assert table.read == ["next", "other"]  # one after the other, though nobody waited
    assert ahead.fetched("paper", table, "third") == "rows of third"


def test_what_went_wrong_is_raised_to_the_step_that_asks():
    ahead, table = Ahead(), Slow()
    table.go.set()
    ahead.begin({"author": table}, {"author": "broken"})
    ahead.wait()
    with pytest.raises(OSError, match="no such rows"):
        ahead.fetched("author", table, "broken")
