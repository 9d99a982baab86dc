"""Random schemas, graphs and models: every way to train equals one device, in float64.

    python experiments/equivalence/random_schemas.py [--first 0] [--cases 200] [--seconds S] [--jobs 2]

Prints a line per case and way, and writes experiments/equivalence/results/random_schemas.csv: relative errors of the loss, of the worst
gradient (weights and learnable rows), and of the worst weight or table after four steps of Adam. Where the last is over its
bound, `faint` has of how many arrays some number has moments that are not zero but under 1e-12 of all, and `damped` the error
after four steps of Adam with an epsilon of 1e-2, no array left out: this is held to the bound then. Five cases in a row have
five models, from case 1000 on eight in a row eight others, and from case 2000 on all of them, on graphs whose names, dtypes and
types are odd, with schedules and warm-ups, and from case 3000 on of a task of one to three root types; tests/support/schemas.py says what is drawn. No numbers: the mesh has
more partitions or replicas than there is work, or is refused, or all gradients are zero but for rounding. All cases take
hours on two cores, the smaller come first, and what the file has is not run again.
"""

import csv
import sys
import time
import traceback
from argparse import ArgumentParser
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from multiprocessing import get_context
from pathlib import Path

from tests.support import quick  # isort: split

import jax

quick.compile_quickly()

from tests.support.equivalence import damped
from tests.support.schemas import BOUND, WHOLE, Case, found, model_of, random_case, undecided, ways_of

RESULTS = Path(__file__).parent / "results" / "random_schemas.csv"
ABOUT = ("case", "model", "types", "relations", "layers", "mode")
FIELDS = (*ABOUT, "way", "loss", "gradient", "state", "faint", "damped")


def main() -> None:
    parser = ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--first", type=int, default=0, help="the number of the first case")
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no case after so long")
    parser.add_argument("--jobs", type=int, default=1, help="cases at a time, each in a process")
    options, started = parser.parse_args(), time.perf_counter()
    rows, failed = read(), 0
    done = {(int(row[0]), row[len(ABOUT)]) for row in rows}
    numbers = range(options.first, options.first + options.cases)
    missing = {number: [way for way in ways_of(number) if (number, way) not in done] for number in numbers}
    cases = {number: random_case(number) for number, ways in missing.items() if ways}
    left = sorted(cases, key=lambda number: cost(number, cases[number]))
    with ProcessPoolExecutor(options.jobs, get_context("spawn"), max_tasks_per_child=10) as pool:
        running = set()
        while running or left:
            while left and len(running) < options.jobs and time.perf_counter() - started < options.seconds:
                running.add(pool.submit(trained, left[0], missing[left.pop(0)]))
            if not running:
                break
            ended, running = wait(running, return_when=FIRST_COMPLETED)
            for case, wrong in (one.result() for one in ended):
                rows, failed = rows + case, failed + wrong
            write(rows)
    sys.exit(f"{failed} failed" if failed else 0)


def trained(number: int, ways: list[str]) -> tuple[list[tuple[str, ...]], int]:
    """Return the rows of some ways to train a case, none if it broke, and how many of them failed."""
    case, rows, wrong = random_case(number), [], 0
    try:
        of_all = dict(found(case, ways))
        moved = [way for way, errors in of_all.items() if errors and not errors.state <= BOUND]
        after = explained(case, moved)
        for way, errors in of_all.items():
            why, numbers = after.get(way, ()), [f"{error:.1e}" for error in errors or ()]
            rows.append((*about(number, case), way, *numbers, *why))
            held = errors and (errors.loss, errors.gradient, float(why[1]) if why else errors.state)
            over = held and not all(error <= BOUND for error in held)
            wrong += bool(over)
            print(*rows[-1], "OVER ITS BOUND" if over else "", flush=True)
    except Exception:
        print(f"case {number}:\n{traceback.format_exc()}", flush=True)
        rows, wrong = [], 1
    jax.clear_caches()
    return rows, wrong


def explained(case: Case, ways: list[str]) -> dict[str, tuple[str, str]]:
    """Return the last two columns of ways whose state is over its bound.

    Adam divides a gradient by its size: one that is zero but for rounding, as of a key's bias which a softmax does not see, becomes a step
    in a direction that rounding decides, and a penalty or the next steps enlarge it. With a large epsilon such steps vanish.
    """
    if not ways:
        return {}
    measures = {way == WHOLE: way for way in ways}  # the ways are compared with one of two
    arrays = {whole: "{} of {}".format(*undecided(case, way)) for whole, way in measures.items()}
    with damped():
        return {way: (arrays[way == WHOLE], f"{errors.state:.1e}") for way, errors in found(case, ways) if errors}


def cost(number: int, case: Case) -> tuple[int, int]:
    """Return the sort key of a case: the amount to compile, then its number."""
    return len(case.graph.schema.relations) * case.model["layers"], number


def about(number: int, case: Case) -> tuple[str, ...]:
    schema = case.graph.schema
    sizes = len(schema.nodes), len(schema.relations), case.model["layers"]
    return str(number), model_of(number), *map(str, sizes), case.mode


def read() -> list[tuple[str, ...]]:
    if not RESULTS.exists():
        return []
    with open(RESULTS, newline="") as stream:
        return list(map(tuple, csv.reader(stream)))[1:]


def write(rows: list[tuple[str, ...]]) -> None:
    with open(RESULTS, "w", newline="") as stream:
        csv.writer(stream, lineterminator="\n").writerows([FIELDS, *rows])


if __name__ == "__main__":
    main()
