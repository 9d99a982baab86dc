"""Dependency management against one device: every model, mode, schedule and partitioning, 1 to 8 partitions, in float64.

    python experiments/equivalence/dependency_equivalence.py [--seconds S] [--processes 1 2 4] [--grid | --divided]
        [--models M ...] [--most N]

Prints a line per case and writes experiments/equivalence/results/dependency_equivalence.csv: relative errors of the loss, of the worst
gradient, and of the worst weight or table after ten steps of Adam. Graphs are directed; one has one relation, the others several,
with a type of fewer nodes than there are partitions and a type without any. A case that the file has is not run again.

On each graph the cases cover all pairs: of any two columns of the table, whatever two values they can have together, some
case has both. `--grid` runs every way on every number of partitions instead, for each model and sampling, in one process.
`--divided` covers, for each model of several relations, all pairs of sampling, way, partitions and partitioning on more than one
partition, in one process: what is known on one partition does not count.
"""

import itertools
import tempfile
import time
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from experiments.runs import read_rows, write_rows
from tests.support import quick  # isort: split

import jax

quick.compile_quickly()
jax.config.update("jax_num_cpu_devices", 8)

from tests.support.equivalence import GRAPHS, MODELS, Errors, alone, floats, on_mesh
from tests.support.many import Case, compare_in

RESULTS = Path(__file__).parent / "results" / "dependency_equivalence.csv"
WAYS = {
    "cache": {"mode": "cache"},
    "communicate": {"mode": "communicate"},
    "ring": {"mode": "communicate", "schedule": "ring"},
    "overlap": {"mode": "communicate", "schedule": "overlap"},
    "hybrid, 0.3": {"mode": "hybrid", "cached": 0.3},
    "hybrid, 0.7": {"mode": "hybrid", "cached": 0.7, "schedule": "ring"},
    "hybrid, 0.5, overlap": {"mode": "hybrid", "cached": 0.5, "schedule": "overlap"},
    "hybrid, chosen": {"mode": "hybrid"},
}
HOMOGENEOUS, SEVERAL, FOUR = "homogeneous", "random", "four relations"
ON = {
    HOMOGENEOUS: ("GCN", "SAGE", "GIN", "GAT", "GATv2", "GAT, no head"),
    "homogeneous, weights": ("GCN", "SAGE", "GIN"),
}
ON[SEVERAL] = ("R-GCN", "R-GCN, dropout", "R-GAT", "R-GAT, dropout", "HGT, joint", "HGT, relation", "HGT, dropout")
ON[SEVERAL] += ("HGT, relation, dropout",)
PARTS, METHODS, MODES = ("1", "2", "3", "4", "8"), ("random", "contiguous", "fennel", "metis"), ("full", "minibatch")
CASE = ("graph", "model", "mode", "way", "parts", "partitioning", "processes")
FIELDS = (*CASE, "loss", "gradient", "state")
STEPS, BOUND = 10, 1e-9


def main() -> None:
    parser = ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no case after so long")
    parser.add_argument("--processes", nargs="+", choices=["1", "2", "4"], default=["1", "2", "4"])
    parser.add_argument("--grid", action="store_true", help="every way on every number of partitions")
    parser.add_argument("--divided", action="store_true", help="all pairs of each model of several relations, divided")
    parser.add_argument("--models", nargs="+", help="these alone")
    parser.add_argument("--most", type=int, help="so many cases that run together")
    options = parser.parse_args()
    rows = {tuple(row[name] for name in CASE): row for row in read_rows(RESULTS)}
    design, started = grid if options.grid else divided if options.divided else pairs, time.perf_counter()
    wanted = [case for graph in ON for case in design(graph, set(rows)) if case[-1] in options.processes]
    wanted = [case for case in wanted if not options.models or case[1] in options.models]
    for (count, graph, *_), some in itertools.groupby(sorted(wanted, key=program), program):
        if time.perf_counter() - started > options.seconds:
            break
        for case, errors in found(graph, list(some)[: options.most], int(count)):
            rows[case] = dict(zip(FIELDS, (*case, *(f"{error:.1e}" for error in errors))))
            print(*rows[case].values(), "OVER ITS BOUND" if max(errors) > BOUND else "", flush=True)
            write_rows(RESULTS, [rows[case] for case in sorted(rows)])
            if time.perf_counter() - started > options.seconds:
                break


def program(case: tuple[str, ...]) -> tuple[str, ...]:
    """Return the key of cases that run together: in one process, one device computes the reference of all of them."""
    graph, model, mode, *_, count = case
    return (count, graph, model, mode) if count == "1" else (count, graph)


def pairs(graph: str, known: set[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Return cases that with the known ones cover all pairs: always the one that has most pairs which no case before had."""
    columns = [graph], ON[graph], MODES, WAYS, PARTS, METHODS, ("1", "2", "4")
    return covering([case for case in itertools.product(*columns) if int(case[4]) % int(case[6]) == 0], known)


def divided(graph: str, known: set[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Return the same for each model of several relations by itself, on more than one partition in one process.

    On a graph of four relations, and what is known of them with all nine counts.
    """
    if graph != SEVERAL:
        return []
    columns, made = (MODES, WAYS, PARTS[1:], METHODS, ("1",)), []
    known = known | {(FOUR, *case[1:]) for case in known if case[0] == SEVERAL}
    for model in ON[graph]:
        made += covering([*itertools.product([FOUR], [model], *columns)], known)
    return made


def covering(possible: list[tuple[str, ...]], known: set[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Return some of the possible cases that with the known ones among them cover all pairs; among equal ones, the case
    with the rarest values."""
    of = {case: set(itertools.combinations(enumerate(case), 2)) for case in possible}
    before = [case for case in possible if case in known]
    covered = set().union(*(of[case] for case in before))
    uses = Counter(itertools.chain.from_iterable(map(enumerate, before)))
    made = []
    while left := {case: new for case in possible if (new := len(of[case] - covered))}:
        made.append(max(left, key=lambda case: (left[case], -sum(uses[value] for value in enumerate(case)))))
        covered |= of[made[-1]]
        uses.update(enumerate(made[-1]))
    return made


def grid(graph: str, known: set[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Return every way on every number of partitions, as far as it is not known; partitionings take turns, and all of them with 4."""
    made = []
    for model, mode, (turn, parts), (other, way) in itertools.product(
        ON[graph], MODES, enumerate(PARTS), enumerate(WAYS)
    ):
        methods = METHODS if parts == "4" and way in ("communicate", "hybrid, 0.3") else (METHODS[(turn + other) % 4],)
        made += [(graph, model, mode, way, parts, method, "1") for method in methods]
    return [case for case in made if case not in known]


def found(graph: str, wanted: list[tuple[str, ...]], count: int) -> Iterator[tuple[tuple[str, ...], Errors]]:
    """Yield cases of one graph and their errors; in one process of one model and sampling too."""
    _, model, mode, *_ = wanted[0]
    given = [
        ((1, int(case[4]), "dependency"), {"options": WAYS[case[3]] | {"partitioning": case[5]}}) for case in wanted
    ]
    if count > 1:
        with tempfile.TemporaryDirectory() as folder:
            several = [Case(graph, mesh, case[2], case[1], True, train) for case, (mesh, train) in zip(wanted, given)]
            yield from zip(wanted, compare_in(Path(folder), count, several, STEPS, 1200), strict=True)
        return
    with floats(wide=True):
        data = GRAPHS[graph]()
        reference = alone(data, mode, MODELS[model], STEPS, True)
        for case, (mesh, train) in zip(wanted, given, strict=True):
            yield case, on_mesh(reference, data, mesh, mode, MODELS[model], True, **train)


if __name__ == "__main__":
    main()
