"""Tensor parallelism against one device: every model, 1 to 8 slices of the columns, in float64.

    python experiments/equivalence/tensor_equivalence.py [--processes 1 2 4] [--ways slices chunks ...]

Prints a line per case and writes experiments/equivalence/results/tensor_equivalence.csv: relative errors of the loss, of the worst gradient,
and of the worst weight or table after ten steps of Adam. Ways: `slices` of the whole graph; the same in `chunks of a node`, in `chunks`
of a third of the nodes and edges, and in `one chunk` of each type; `push-pull` in mini-batches, the same with two `replicas`
of every slice, and with `raf`, in two and in `four partitions` of relations. Graphs are directed; one has one relation, the others several, with a type of fewer nodes than there are slices and a
type without any. A case that the file has is not run again.
"""

import itertools
import tempfile
from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from experiments.runs import read_rows, write_rows
from tests.support import quick  # isort: split

import jax

quick.compile_quickly()
jax.config.update("jax_num_cpu_devices", 8)

from tests.support.equivalence import GRAPHS, MODELS, Errors, alone, floats, on_mesh
from tests.support.many import Case, compare_in

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
CHUNKED = {
    "homogeneous": ("GCN", "SAGE", "GIN", "GAT", "GATv2", "GCN, decoupled", "SAGE, decoupled", "GAT, decoupled"),
    "homogeneous, weights": ("GCN", "GIN, decoupled"),
    "few relations": ("R-GCN, dropout", "R-GAT", "HGT, joint", "HGT, relation", "R-GCN, decoupled", "R-GAT, decoupled"),
}
BATCHED = {
    "homogeneous": ("GCN", "SAGE", "GIN", "GAT", "GATv2"),
    "few relations": ("R-GCN", "R-GCN, dropout", "R-GAT", "HGT, joint", "HGT, relation", "HGNN, mean"),
}
PARTS = 1, 2, 3, 4, 8
MOST = {"GAT, decoupled": 3, "R-GAT, decoupled": 4, "GCN, decoupled": 3}  # slices: as many as heads, or classes
SOME = "GCN", "GAT", "GATv2", "R-GCN", "R-GAT", "HGT, joint", "HGT, relation", "GIN, decoupled", "GAT, decoupled"
SOME += "GCN, decoupled", "SAGE, decoupled", "R-GCN, decoupled", "R-GAT, decoupled"  # in several processes


class Way(NamedTuple):
    """A way of dividing the columns.

    Attributes:
      on: graphs, and of each the models.
      parts: numbers of slices.
      strategy: by its name.
      relation: partitions of relations.
      data: replicas, of each partition and slice.
    """

    on: Mapping[str, Sequence[str]]
    parts: Sequence[int] = PARTS
    strategy: str = "tensor"
    mode: str = "full"
    relation: int = 1
    data: int = 1

    @property
    def train(self) -> dict:
        return {} if self.mode == "full" else {"batch_size": 4, "fanout": (2, 2)}

    def numbers(self, model: str, count: int) -> list[int]:
        """Return the numbers of slices of a model in so many processes; for several processes the largest that there is, but for eight."""
        numbers = [parts for parts in self.parts if parts <= MOST.get(model, max(PARTS))]
        if count == 1:
            return numbers
        divided = self.relation if self.relation > 1 else 0  # whole partitions of relations are in a process
        held = [parts for parts in numbers if parts <= 4 and (divided or parts * self.data) % count == 0]
        return held[-1:] if model in SOME else []


WAYS = {
    "slices": Way(ON),
    "chunks of a node": Way(CHUNKED, (2,), "tests.test_tensor_chunks:One"),
    "chunks": Way(CHUNKED, (1, 2, 3, 4), "tests.test_tensor_chunks:Few"),
    "one chunk": Way(CHUNKED, (2,), "tests.test_tensor_chunks:All"),
    "push-pull": Way(BATCHED, (2, 3, 4), mode="minibatch"),
    "push-pull, replicas": Way(BATCHED, (2,), mode="minibatch", data=2),
    "push-pull, raf": Way({"few relations": BATCHED["few relations"]}, (2,), "raf", "minibatch", 2),
    "push-pull, raf, four partitions": Way(
        {"few relations": ("R-GCN", "R-GAT"), "random": ("HGT, joint",)}, (2,), "raf", "minibatch", 4
    ),
}
CASE = ("way", "graph", "model", "parts", "processes")
FIELDS = (*CASE, "loss", "gradient", "state")
STEPS, BOUND = 10, 1e-9


def main() -> None:
    parser = ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--processes", nargs="+", type=int, choices=[1, 2, 4], default=[1])
    parser.add_argument("--ways", nargs="+", choices=list(WAYS), default=list(WAYS))
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS))
    options = parser.parse_args()
    rows = {tuple(row[name] for name in CASE): row for row in read_rows(RESULTS)}
    for count, name in itertools.product(options.processes, options.ways):
        way = WAYS[name]
        models = [(graph, model) for graph, some in way.on.items() for model in some if model in options.models]
        cases = [
            (name, graph, model, str(parts), str(count))
            for graph, model in models
            for parts in way.numbers(model, count)
        ]
        wanted = (case for case in cases if case not in rows)
        for _, together in itertools.groupby(wanted, lambda case: case[1 : 3 if count == 1 else 2]):
            some = list(together)
            for case, errors in zip(some, found(way, some, count), strict=True):
                rows[case] = dict(zip(FIELDS, (*case, *(f"{error:.1e}" for error in errors))))
                print(*rows[case].values(), "OVER ITS BOUND" if max(errors) > BOUND else "", flush=True)
            write_rows(RESULTS, [rows[case] for case in sorted(rows)])
    print(
        {name: max(float(row[name]) for row in rows.values()) for name in FIELDS[len(CASE) :]}, "at most, of", len(rows)
    )


def found(way: Way, wanted: Sequence[tuple[str, ...]], count: int) -> list[Errors]:
    """Return the errors of some cases of one graph; in one process of one model too."""
    _, graph, model, *_ = wanted[0]
    meshes = [(way.relation, way.data, way.strategy, int(case[3])) for case in wanted]
    if count > 1:
        with tempfile.TemporaryDirectory() as folder:
            several = [Case(graph, mesh, way.mode, case[2], True, way.train) for mesh, case in zip(meshes, wanted)]
            return compare_in(Path(folder), count, several, STEPS, 1200)
    with floats(wide=True):
        data = GRAPHS[graph]()
        reference = alone(data, way.mode, MODELS[model], STEPS, True, **way.train)
        return [on_mesh(reference, data, mesh, way.mode, MODELS[model], True, **way.train) for mesh in meshes]


if __name__ == "__main__":
    main()
