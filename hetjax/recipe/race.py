"""The race: candidates are trained for some steps, the better half goes on, and the winner gives the options that were not given.

Successive halving (Jamieson and Talwalkar, AISTATS 2016, algorithm 1); what the rules choose is in every round, and stays unless the last other one is
better by a standard error. The race is bounded by counted work, not by seconds, and its random
numbers are those of `train.seed`, so that it chooses the same on every mesh and after a kill.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from hetjax.recipe.candidate import Candidate, Entrant
from hetjax.system.errors import InputError

FEWEST, MOST = 10, 40  # steps of the first round; fewer tell nothing
DEPTH = 40  # per cent of the bound that are left for other depths
LONGER = 2  # times as many steps, at most, by which depths are judged
MOST_WORK = 10**9  # counted, of any race


class Result(NamedTuple):
    """The end of a race.

    Attributes:
      winner: the candidate that is best.
      lines: what was tried, what each had, what was taken.
      work: the counted work of all training steps.
    """

    winner: Candidate
    lines: tuple[str, ...]
    work: int


def budget(share: float, run: int, divisions: int) -> int:
    """Return the work that a race may do.

    Args:
      share: `train.search_share`.
      run: the work of the run at its most epochs.
      divisions: of the labelled nodes; candidates are trained on each of them, as on a run of its own.
    """
    return min(int(share * run) * divisions, MOST_WORK)


def first_steps(works: Sequence[int], most: int) -> int:
    """Return the steps of the first round with which a race of so much work a step each stays within its bound."""
    rules, *others = works
    others = sorted(others, reverse=True)
    cost, steps, count = sum(works), 1, -(-len(others) // 2)
    while count > 1:  # the better half trains as long again, and the first with it
        cost, steps, count = cost + steps * (rules + sum(others[:count])), 2 * steps, -(-count // 2)
    return min(MOST, most // max(1, cost))


def race(
    candidates: Sequence[Candidate],
    works: Sequence[int],
    most: int,
    enter: Callable[[Candidate], Entrant],
    depths: Callable[[Candidate], Sequence[Candidate]],
    judged: str,
) -> Result | None:
    """Return the winner among candidates; None where the bound leaves no two of them enough steps.

    Args:
      candidates: what the rules choose, and then the others, the most promising first.
      works: the expected work of a step of each.
      most: the bound of the work of all steps.
      enter: makes an entrant.
      depths: gives the winner with other numbers of layers, in order; each is held against the best so far.
      judged: what judges, for a line.
    """
    count, half = len(candidates), most * (100 - DEPTH) // 100
    while count >= 2 and first_steps(works[:count], half) < FEWEST:
        count -= 1
    if count < 2:
        return None
    entrants, lines, work = [], [], 0
    for one in candidates[:count]:
        try:
            entrants.append(enter(one))
        except InputError as error:
            lines.append(f"not tried: {one.name}: {error}")
    last = steps = first_steps([one.work for one in entrants], half)
    if len(entrants) < 2 or steps < 1:
        return None
    if count < len(candidates):
        names = "; ".join(one.name for one in candidates[count:])
        lines.append(f"not tried, as the race would be longer than its share: {names}")
    rules, *others = entrants
    best: Entrant | None = None
    while best is None:
        work += _train([rules, *others], steps)
        ranked = sorted(others, key=lambda one: one.score, reverse=True)
        others, lost = ranked[: -(-len(ranked) // 2)], ranked[-(-len(ranked) // 2) :]
        if len(others) == 1:
            best, loser = (others[0], rules) if others[0].beats(rules) else (rules, others[0])
            lost.append(loser)
        lines.append(_line(steps, judged, [rules, *ranked], best))
        for other in lost:
            other.close()
        last, steps = steps, 2 * steps
    other_depths = depths(best.candidate)
    for number, one in enumerate(other_depths):
        other = enter(one)
        room = (most - work) // (len(other_depths) - number)
        longer = min(LONGER * last, (room + best.steps * best.work) // (best.work + other.work))
        if longer < best.steps:
            lines.append(f"not tried, as the race would be longer than its share: {one.name}")
            other.close()
            continue
        work += _train([best, other], longer)
        lines.append(_line(longer, judged, [best, other], other if other.beats(best) else best))
        loser, best = (best, other) if other.beats(best) else (other, best)
        loser.close()
    best.close()
    return Result(best.candidate, tuple(lines), work)


def _line(steps: int, judged: str, tried: Sequence[Entrant], taken: Entrant | None) -> str:
    found = "; ".join(one.words() for one in tried)
    end = f"taken: {taken.candidate.name}" if taken else "the first goes on, and the better half of the others"
    return f"after {steps} steps each, by {judged}: {found}; {end}"


def _train(entrants: Sequence[Entrant], steps: int) -> int:
    """Train up to so many steps; return the work."""
    work = sum((steps - one.steps) * one.work for one in entrants)
    for one in entrants:
        one.train(steps)
    return work
