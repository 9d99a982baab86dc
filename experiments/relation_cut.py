"""Training with relations that are cut, held against one device, in float64: 2 and 4 partitions, mini-batches and the whole graph.

`python experiments/relation_cut.py` trains 4 steps of every cell on a small random graph, and writes the relative errors to
`experiments/results/relation_cut.csv`. A cell that is there already is not trained again.
"""

from pathlib import Path

from runs import read_rows, replace_rows

from tests import quick
from tests.equivalence import MODELS, compare, few

OUT = Path(__file__).parent / "results" / "relation_cut.csv"
KEYS = ("model", "mode", "partitions", "cut")
NAMES = ("R-GCN", "R-GAT", "R-GAT, dropout", "HGT, joint", "HGT, relation", "R-GCN, bases", "SAGE", "GIN")
CUTS = {2: (("writes=2",),), 4: (("writes=4",), ("writes=2", "cites=2"))}


def main() -> None:
    quick.compile_quickly()
    graph, known = few("cites", "writes", "written_by"), {tuple(row[key] for key in KEYS) for row in read_rows(OUT)}
    for model in NAMES:
        for parts, cuts in ((parts, cut) for parts, several in CUTS.items() for cut in several):
            for mode in ("minibatch", "full"):
                cell = model, mode, str(parts), " ".join(cuts)
                if cell in known:
                    continue
                options = {"steps": 4, "wide": True, "options": {"cut": cuts}}
                errors = compare(graph, (parts, 1, "raf"), mode, MODELS[model], **options)
                row = dict(zip(KEYS, cell)) | {name: f"{error:.1e}" for name, error in errors._asdict().items()}
                replace_rows(OUT, KEYS, [row])
                print(*row.values(), flush=True)


if __name__ == "__main__":
    main()
