"""The check that the network between processes is as it was when costs were stored: some milliseconds of messages in both directions.

They use the connections of the processes, so nothing is compiled for them. Rows of CPUs use these connections too. Process 0
sends to all others, and they send back: the link between two others is not measured.
"""

import statistics
import time
from typing import Any

import numpy as np

from hetjax.processes.group import ProcessGroup

LASTS = 0.003  # seconds of an exchange, by what a number costs
AT_ONCE = 2**16  # numbers that go first and are not timed: a link of limited bandwidth lets some through at once
LEAST, MOST = 2**8, 2**20  # numbers that process 0 sends to each
GUESS = 1e-7  # seconds of a number, of a link that nothing is known of
SLOWER = 3.5  # times as long as in such messages a number takes in a step's all-to-all: 2.0 to 4.8, measured from 100 Mbit/s to 10 Gbit/s
ROUNDS, TRIES = 5, 3
ALIKE = 1.5  # exchanges, and costs, that differ by less are those of the same link


def usual(processes: ProcessGroup, sent: float) -> float:
    """Return the seconds that an exchange takes, to be stored: the median of some, as process 0 sees it. All processes call this together."""
    return statistics.median(exchange(processes, sent) for _ in range(TRIES))


def holds(processes: ProcessGroup, sent: float, seconds: float) -> bool:
    """Return whether an exchange takes about as long as before, in one of some tries. All processes call this together; process 0 decides.

    Args:
      seconds: the seconds that `usual` or `reckoned` gave for the same `sent`.
    """
    return any(processes.broadcast_object("exchange", alike(exchange(processes, sent), seconds)) for _ in range(TRIES))


def reckoned(processes: ProcessGroup) -> dict[str, Any]:
    """Return the cost of a link from messages alone: less exact than `link.measure`, but nothing is compiled. All processes call it together.

    Returns:
      `link`, as `link.measure` gives it; and the inputs of `holds`: `asked`, and the seconds of the `exchange`.
    """
    asked, sent, seconds = GUESS, GUESS, 0.0
    for _ in range(2):
        asked = sent
        seconds = processes.broadcast_object("exchange", exchange(processes, asked))
        sent = seconds / (_numbers(processes, asked) * (processes.count - 1))
    start = statistics.median(_there_and_back(processes, 1) for _ in range(ROUNDS))
    link = SLOWER * sent, processes.broadcast_object("exchange", start)
    return {"link": link, "asked": asked, "exchange": seconds}


def exchange(processes: ProcessGroup, sent: float) -> float:
    """Return the seconds that process 0 takes to send elements to all others, and to have them back: the median of some rounds.

    All processes call this together. It takes `ROUNDS + 1` messages each way, and one before.

    Args:
      sent: the seconds of an element, which say how many are sent.
    """
    numbers = _numbers(processes, sent)
    processes.barrier("exchange")  # who comes late is not waited for in what is timed
    _there_and_back(processes, AT_ONCE // (processes.count - 1))
    return statistics.median(_there_and_back(processes, numbers) for _ in range(ROUNDS))


def _numbers(processes: ProcessGroup, sent: float) -> int:
    """Return the number of elements that process 0 sends to each other process in an exchange."""
    return min(MOST, max(LEAST, int(LASTS / (sent * (processes.count - 1)))))


def _there_and_back(processes: ProcessGroup, numbers: int) -> float:
    started = time.perf_counter()
    given = processes.broadcast("exchange", {"numbers": np.zeros(numbers, np.float32)})
    processes.gather("exchange", {} if processes.first else {str(processes.number): given["numbers"]})
    return time.perf_counter() - started


def alike(one: float, other: float) -> bool:
    return max(one / other, other / one) <= ALIKE
