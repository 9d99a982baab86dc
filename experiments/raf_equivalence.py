"""Relation-Aggregation-First against one device: every model, graph, mesh and way of sampling.

    python experiments/raf_equivalence.py [--models R-GCN ...] [--graphs random ...]

Prints a line per case and writes experiments/results/raf_equivalence.csv: the largest relative error of the loss, of
any gradient (weights and learnable rows), and of any weight or table after ten steps of Adam; in float32, and in
float64, where rounding does not decide which way Adam steps along a gradient that is zero. All cases take hours on two
cores; a case that the file has is not run again.
"""

import csv
import itertools
import sys
import time
from argparse import ArgumentParser
from pathlib import Path

import jax

sys.path.insert(0, str(Path(__file__).parent.parent))
jax.config.update("jax_num_cpu_devices", 4)
jax.config.update("jax_disable_most_optimizations", True)  # compiles in half the time

from tests.equivalence import GRAPHS, MODELS, compare  # noqa: E402

RESULTS = Path(__file__).parent / "results" / "raf_equivalence.csv"
MESHES = ((2, 1), (4, 1), (1, 2), (2, 2), (1, 1))
FIELDS = ("graph", "model", "mode", "relation", "data", "bits", "loss", "gradient", "state", "seconds")
BOUNDS = {32: (1e-5, 1e-5, 1e-4), 64: (1e-12, 1e-12, 1e-7)}


def main() -> None:
    parser = ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--graphs", nargs="+", choices=list(GRAPHS), default=list(GRAPHS))
    parser.add_argument("--bits", nargs="+", type=int, choices=list(BOUNDS), default=list(BOUNDS))
    parser.add_argument("--modes", nargs="+", choices=["minibatch", "full"], default=["minibatch", "full"])
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no case after so long")
    options = parser.parse_args()
    rows, started = read(), time.perf_counter()
    for mesh, graph, model, mode, bits in itertools.product(
        MESHES, options.graphs, options.models, options.modes, options.bits
    ):
        case = graph, model, mode, *map(str, mesh), str(bits)
        if case not in rows and time.perf_counter() - started < options.seconds:
            rows[case] = run(graph, model, mode, mesh, bits)
            write(rows)
            over = any(float(error) > bound for error, bound in zip(rows[case], BOUNDS[bits]))
            print(*case, *rows[case], "OVER ITS BOUND" if over else "", flush=True)


def run(graph: str, model: str, mode: str, mesh: tuple[int, int], bits: int) -> tuple[str, ...]:
    started = time.perf_counter()
    errors = compare(GRAPHS[graph](), mesh, mode, MODELS[model], wide=bits == 64)
    return *(f"{error:.1e}" for error in errors), f"{time.perf_counter() - started:.0f}"


def read() -> dict[tuple, tuple]:
    if not RESULTS.exists():
        return {}
    with open(RESULTS, newline="") as stream:
        return {
            tuple(row[name] for name in FIELDS[:6]): tuple(row[name] for name in FIELDS[6:])
            for row in csv.DictReader(stream)
        }


def write(rows: dict[tuple, tuple]) -> None:
    with open(RESULTS, "w", newline="") as stream:
        csv.writer(stream).writerows([FIELDS, *((*case, *found) for case, found in rows.items())])


if __name__ == "__main__":
    main()
