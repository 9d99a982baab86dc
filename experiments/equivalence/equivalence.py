"""Relation-Aggregation-First and vanilla execution against one device: every model, graph, mesh and way of sampling.

    python experiments/equivalence/equivalence.py [--models R-GCN ...] [--graphs ogbn-mag ...] [--processes 1 2 4]

Prints a line per case and writes experiments/equivalence/results/equivalence.csv: the largest relative error of the loss, of any
gradient (weights and learnable rows), and of any weight or table after ten steps of Adam; in one process or in several; in
float32, and in float64, where rounding does not decide which way Adam steps along a gradient that is zero. All cases take
many hours on two cores; a case that the file has is not run again.
"""

import csv
import itertools
import tempfile
import time
from argparse import ArgumentParser
from pathlib import Path

from tests.support import quick  # isort: split

quick.compile_quickly()

from hetjax.sharding import mesh as meshes
from hetjax.sharding import registry
from hetjax.sharding.strategy import setup
from hetjax.system.errors import InputError
from tests.support.equivalence import GRAPHS, MODELS, Errors, alone, floats, on_mesh, setting
from tests.support.many import Case, compare_in

RESULTS = Path(__file__).parent / "results" / "equivalence.csv"
STRATEGIES = {"raf": ((2, 1), (4, 1), (1, 2), (2, 2), (1, 1)), "vanilla": ((1, 2), (1, 4))}
MESHES = [(*mesh, strategy) for strategy, given in STRATEGIES.items() for mesh in given]
CASE = ("graph", "model", "mode", "strategy", "relation", "data", "bits", "processes")
FIELDS = (*CASE, "loss", "gradient", "state", "seconds")
BOUNDS = {32: (1e-5, 1e-5, 1e-4), 64: (1e-12, 1e-12, 1e-7)}
STEPS = 10
SECONDS = 1200  # that processes are given for a case


def main() -> None:
    parser = ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--graphs", nargs="+", choices=list(GRAPHS), default=list(GRAPHS))
    parser.add_argument("--bits", nargs="+", type=int, choices=list(BOUNDS), default=list(BOUNDS))
    parser.add_argument("--modes", nargs="+", choices=["minibatch", "full"], default=["minibatch", "full"])
    parser.add_argument("--strategies", nargs="+", choices=list(STRATEGIES), default=list(STRATEGIES))
    parser.add_argument("--processes", nargs="+", type=int, choices=[1, 2, 4], default=[1])
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no case after so long")
    options = parser.parse_args()
    rows, started = read(), time.perf_counter()
    for count, graph, model, mode, bits in itertools.product(
        options.processes, options.graphs, options.models, options.modes, options.bits
    ):
        cases = [Case(graph, mesh, mode, model, bits == 64, {}) for mesh in MESHES if mesh[2] in options.strategies]
        names = [key(case, count) for case in cases]
        wanted = [(n, case) for n, case in zip(names, cases) if n not in rows and can_be(case, count)]
        if not wanted or time.perf_counter() - started > options.seconds:
            continue
        found = errors([case for _, case in wanted], count)
        for (name, _), (one, seconds) in zip(wanted, found, strict=True):
            rows[name] = *(f"{error:.1e}" for error in one), f"{seconds:.0f}"
            over = any(error > bound for error, bound in zip(one, BOUNDS[bits]))
            print(*name, *rows[name], "OVER ITS BOUND" if over else "", flush=True)
        write(rows)


def key(case: Case, count: int) -> tuple[str, ...]:
    """Return the name of a case in the table."""
    relation, data, strategy = case.mesh
    bits = 64 if case.wide else 32
    return case.graph, case.model, case.mode, strategy, *map(str, (relation, data, bits, count))


def can_be(case: Case, count: int) -> bool:
    """Return whether the processes can provide the mesh, and the graph has so many relations or seeds to divide."""
    try:
        graph = GRAPHS[case.graph]()
        meshes.share_of(dict(zip(meshes.BOTH, case.mesh)), count)
        config = setting(graph, case.mode, case.mesh, MODELS[case.model], {})
        registry.by_name(config.mesh.strategy).partition(setup(config, graph))
    except InputError:
        return False
    return True


def errors(cases: list[Case], count: int) -> list[tuple[Errors, float]]:
    """Return the errors of cases that differ in their mesh alone, with the seconds of each; the plain path is run once for all."""
    started = time.perf_counter()
    if count > 1:
        with tempfile.TemporaryDirectory() as folder:
            found = compare_in(Path(folder), count, cases, STEPS, SECONDS)
        return [(one, (time.perf_counter() - started) / len(cases)) for one in found]
    made, (case, *_) = [], cases
    graph, model = GRAPHS[case.graph](), MODELS[case.model]
    with floats(case.wide):
        reference = alone(graph, case.mode, model, STEPS, case.wide)
        for case in cases:
            found = on_mesh(reference, graph, case.mesh, case.mode, model, case.wide)
            made.append((found, time.perf_counter() - started))
            started = time.perf_counter()
    return made


def read() -> dict[tuple, tuple]:
    if not RESULTS.exists():
        return {}
    with open(RESULTS, newline="") as stream:
        return {
            tuple(row[name] for name in CASE): tuple(row[name] for name in FIELDS[len(CASE) :])
            for row in csv.DictReader(stream)
        }


def write(rows: dict[tuple, tuple]) -> None:
    with open(RESULTS, "w", newline="") as stream:
        csv.writer(stream, lineterminator="\n").writerows([FIELDS, *((*case, *rows[case]) for case in sorted(rows))])


if __name__ == "__main__":
    main()
