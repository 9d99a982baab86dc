"""Relation-Aggregation-First against one device: every model, graph, mesh and way of sampling.

    python experiments/raf_equivalence.py [--models R-GCN ...] [--graphs random ...] [--processes 1 2 4]

Prints a line per case and writes experiments/results/raf_equivalence.csv: the largest relative error of the loss, of
any gradient (weights and learnable rows), and of any weight or table after ten steps of Adam; in one process or in several;
in float32, and in float64, where rounding does not decide which way Adam steps along a gradient that is zero. All cases take hours on two
cores; a case that the file has is not run again.
"""

import csv
import itertools
import sys
import tempfile
import time
from argparse import ArgumentParser
from pathlib import Path

import jax

sys.path.insert(0, str(Path(__file__).parent.parent))
jax.config.update("jax_num_cpu_devices", 4)
jax.config.update("jax_disable_most_optimizations", True)  # compiles in half the time

from hetjax.assembly import make_plan  # noqa: E402
from hetjax.errors import InputError  # noqa: E402
from hetjax.sharding import mesh as meshes  # noqa: E402
from tests.equivalence import GRAPHS, MODELS, compare, setting  # noqa: E402
from tests.many import Case, compare_in  # noqa: E402

RESULTS = Path(__file__).parent / "results" / "raf_equivalence.csv"
MESHES = ((2, 1), (4, 1), (1, 2), (2, 2), (1, 1))
CASE = ("graph", "model", "mode", "relation", "data", "bits", "processes")
FIELDS = (*CASE, "loss", "gradient", "state", "seconds")
BOUNDS = {32: (1e-5, 1e-5, 1e-4), 64: (1e-12, 1e-12, 1e-7)}


def main() -> None:
    parser = ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--graphs", nargs="+", choices=list(GRAPHS), default=list(GRAPHS))
    parser.add_argument("--bits", nargs="+", type=int, choices=list(BOUNDS), default=list(BOUNDS))
    parser.add_argument("--modes", nargs="+", choices=["minibatch", "full"], default=["minibatch", "full"])
    parser.add_argument("--processes", nargs="+", type=int, choices=[1, 2, 4], default=[1])
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no case after so long")
    options = parser.parse_args()
    rows, started = read(), time.perf_counter()
    for count, mesh, graph, model, mode, bits in itertools.product(
        options.processes, MESHES, options.graphs, options.models, options.modes, options.bits
    ):
        case = graph, model, mode, *map(str, mesh), str(bits), str(count)
        about = Case(graph, mesh, mode, model, bits == 64, {})
        if case not in rows and time.perf_counter() - started < options.seconds and can_be(about, count):
            rows[case] = run(about, count)
            write(rows)
            over = any(float(error) > bound for error, bound in zip(rows[case], BOUNDS[bits]))
            print(*case, *rows[case], "OVER ITS BOUND" if over else "", flush=True)


def can_be(case: Case, count: int) -> bool:
    """Whether the processes can provide the mesh, and the graph has so many relations to divide."""
    try:
        graph = GRAPHS[case.graph]()
        meshes.share_of(*case.mesh, count)
        make_plan(graph, setting(graph, case.mode, case.mesh, MODELS[case.model], {}))
    except InputError:
        return False
    return True


def run(case: Case, count: int) -> tuple[str, ...]:
    started = time.perf_counter()
    if count == 1:
        errors = compare(GRAPHS[case.graph](), case.mesh, case.mode, MODELS[case.model], wide=case.wide)
    else:
        with tempfile.TemporaryDirectory() as folder:
            (errors,) = compare_in(Path(folder), count, [case], steps=10)
    return *(f"{error:.1e}" for error in errors), f"{time.perf_counter() - started:.0f}"


def read() -> dict[tuple, tuple]:
    if not RESULTS.exists():
        return {}
    with open(RESULTS, newline="") as stream:
        return {
            tuple(row.get(name, "1") for name in CASE): tuple(row[name] for name in FIELDS[len(CASE) :])
            for row in csv.DictReader(stream)
        }


def write(rows: dict[tuple, tuple]) -> None:
    with open(RESULTS, "w", newline="") as stream:
        csv.writer(stream).writerows([FIELDS, *((*case, *found) for case, found in rows.items())])


if __name__ == "__main__":
    main()
