"""Tensor parallelism against one device: every model, 1 to 8 slices of the columns, in float64.

    python experiments/tensor_equivalence.py [--processes 1 2 4]

Prints a line per case and writes experiments/results/tensor_equivalence.csv: relative errors of the loss, of the worst gradient,
and of the worst weight or table after ten steps of Adam. Graphs are directed; one has one relation, the others several, with a type of
fewer nodes than there are slices and a type without any. A case that the file has is not run again.
"""

import itertools
import sys
import tempfile
from argparse import ArgumentParser
from pathlib import Path

from runs import ROOT, read_rows, write_rows

sys.path.insert(0, str(ROOT))

from tests import quick  # isort: split

import jax

quick.compile_quickly()
jax.config.update("jax_num_cpu_devices", 8)

from tests.equivalence import GRAPHS, MODELS, Errors, alone, floats, on_mesh
from tests.many import Case, compare_in

RESULTS = Path(__file__).parent / "results" / "tensor_equivalence.csv"
ON = {
    "homogeneous": ("GCN", "SAGE", "GIN", "GAT", "GATv2", "GCN, decoupled", "SAGE, decoupled", "GAT, decoupled"),
    "homogeneous, weights": ("GCN", "SAGE", "GIN", "GIN, decoupled"),
    "random": ("R-GCN", "R-GCN, dropout", "R-GCN, one-hot", "R-GCN, residual", "R-GAT", "R-GAT, dropout"),
}
ON["random"] += (
    "HGT, joint",
    "HGT, relation",
    "HGT, dropout",
    "HGNN, mean",
    "HGNN, max",
    "R-GCN, decoupled",
    "R-GAT, decoupled",
)
PARTS = 1, 2, 3, 4, 8
MOST = {"GAT, decoupled": 2, "R-GAT, decoupled": 2, "GCN, decoupled": 3}  # slices: as many as heads, or classes
SOME = "GCN", "GAT", "R-GCN", "R-GAT", "HGT, joint"  # in several processes
CASE = ("graph", "model", "parts", "processes")
FIELDS = (*CASE, "loss", "gradient", "state")
STEPS, BOUND = 10, 1e-9


def main() -> None:
    parser = ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--processes", nargs="+", type=int, choices=[1, 2, 4], default=[1])
    options = parser.parse_args()
    rows = {tuple(row[name] for name in CASE): row for row in read_rows(RESULTS)}
    for count, (graph, models) in itertools.product(options.processes, ON.items()):
        for model in models:
            most = MOST.get(model, max(PARTS))
            cases = [(graph, model, str(parts), str(count)) for parts in PARTS if parts % count == 0 and parts <= most]
            wanted = [case for case in cases if case not in rows and (count == 1 or (model in SOME and case[2] == "4"))]
            for case, errors in zip(wanted, found(graph, model, wanted, count) if wanted else (), strict=True):
                rows[case] = dict(zip(FIELDS, (*case, *(f"{error:.1e}" for error in errors))))
                print(*rows[case].values(), "OVER ITS BOUND" if max(errors) > BOUND else "", flush=True)
            write_rows(RESULTS, [rows[case] for case in sorted(rows)])


def found(graph: str, model: str, wanted: list[tuple[str, ...]], count: int) -> list[Errors]:
    """The errors of some cases of one graph and model."""
    meshes = [(1, 1, "tensor", int(case[2])) for case in wanted]
    if count > 1:
        with tempfile.TemporaryDirectory() as folder:
            several = [Case(graph, mesh, "full", model, True, {}) for mesh in meshes]
            return compare_in(Path(folder), count, several, STEPS, 1200)
    with floats(wide=True):
        data = GRAPHS[graph]()
        reference = alone(data, "full", MODELS[model], STEPS, True)
        return [on_mesh(reference, data, mesh, "full", MODELS[model], True) for mesh in meshes]


if __name__ == "__main__":
    main()
