"""Random schemas, graphs and models: every way to train equals one device, in float64.

    python experiments/random_schemas.py [--cases 200] [--seconds S]

Prints a line per case and way, and writes experiments/results/random_schemas.csv: relative errors of the loss, of the worst
gradient (weights and learnable rows), and of the worst weight or table after four steps of Adam. Five cases in a row have the
five models; tests/schemas.py says what is drawn. No numbers: the mesh has more partitions or replicas than there is work. All
cases take hours on two cores, the smaller come first, and a case that the file has is not run again.
"""

import csv
import os
import sys
import tempfile
import time
import traceback
from argparse import ArgumentParser
from pathlib import Path

from runs import ROOT, environment

KEPT = tempfile.TemporaryDirectory()
os.environ |= environment(Path(KEPT.name))  # the ways of a case have some programs in common

import jax

sys.path.insert(0, str(ROOT))
jax.config.update("jax_num_cpu_devices", 4)
jax.config.update("jax_disable_most_optimizations", True)  # compiles in half the time
jax.config.update("jax_numpy_rank_promotion", "raise")

from tests.schemas import BOUND, MODELS, Case, found, random_case

RESULTS = Path(__file__).parent / "results" / "random_schemas.csv"
ABOUT = ("case", "model", "types", "relations", "layers", "mode")
FIELDS = (*ABOUT, "way", "loss", "gradient", "state")


def main() -> None:
    parser = ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no case after so long")
    options, started, wrong = parser.parse_args(), time.perf_counter(), 0
    rows = read()
    cases = {number: random_case(number) for number in set(range(options.cases)) - {int(row[0]) for row in rows}}
    for number, case in sorted(cases.items(), key=cost):
        if time.perf_counter() - started > options.seconds:
            break
        try:
            for way, errors in found(case):
                over = errors and not max(errors) <= BOUND
                wrong += bool(over)
                rows.append((*about(number, case), way, *(f"{error:.1e}" for error in errors or ())))
                print(*rows[-1], "OVER ITS BOUND" if over else "", flush=True)
            write(rows)
        except Exception:
            traceback.print_exc()
            rows, wrong = [row for row in rows if row[0] != str(number)], wrong + 1
        jax.clear_caches()
    sys.exit(f"{wrong} failed" if wrong else 0)


def cost(numbered: tuple[int, Case]) -> tuple[int, int]:
    """What orders cases: how much there is to compile, then their numbers."""
    number, case = numbered
    return len(case.graph.schema.relations) * case.model["layers"], number


def about(number: int, case: Case) -> tuple[str, ...]:
    schema = case.graph.schema
    sizes = len(schema.nodes), len(schema.relations), case.model["layers"]
    return str(number), MODELS[number % len(MODELS)], *map(str, sizes), case.mode


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
