"""Calls of a function for one thing after another, some at a time in threads; the results come in their order."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from hetjax.system.runtime import cores

MOST = 8  # threads; each holds a piece of a table
Item = TypeVar("Item")
Result = TypeVar("Result")


def under_way() -> int:
    """Return how many things at most are asked for before the results of those before are taken."""
    return 2 * min(cores(), MOST)


def in_order(function: Callable[[Item], Result], given: Iterable[Item]) -> Iterator[Result]:
    """Map as `map` does, by functions that work without the interpreter's lock; `under_way` at most at a time."""
    most, things = under_way(), iter(given)
    waiting: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(most // 2) as pool:
        try:
            while True:
                try:
                    waiting.append(pool.submit(function, next(things)))
                except StopIteration:
                    break
                except Exception as error:  # has its turn after what came before
                    waiting.append(Future())
                    waiting[-1].set_exception(error)
                if len(waiting) == most:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)


def beside(function: Callable[[Item], Result]) -> Callable[[Item], tuple[Item, Result]]:
    """Return a function that gives a thing with what is made of it."""
    return lambda thing: (thing, function(thing))
