"""The cost of full neighbours, and the gaps of partitions without them, on which CATGNN's Figures 2 and 12 rest; nothing is trained.

`HETJAX_DATA=FOLDER python experiments/averaging/full_neighbours.py` divides the published graphs in 4 and 16 by 2PS-L, SPRING and `slim`, and gives
partitions the edges as they were placed (`hops` 0) or full neighbourhoods of 1, 2 and 3 hops. Two layers of means over neighbours,
of random features, are then computed in every partition for the nodes that it trains, and compared with the whole graph. Columns of
`experiments/averaging/results/full_neighbours.csv`:

- `nodes`, `edges`: of all partitions, by those of the graph;
- `neighbours_missing`: share of the neighbours of nodes, each in the partition that trains it;
- `exact_1`, `exact_2`: share of nodes whose mean after one and after two layers is that of the whole graph (float64, to 1e-9); `hops` of
  at least as many layers must give 1, and the script fails if they do not.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np
from tqdm import tqdm

from experiments.partitioning.stream_graphs import PUBLISHED, published
from experiments.runs import markdown, write_rows
from hetjax.partition.stream import Held, Options, partition_stream
from hetjax.partition.stream.neighbours import full_neighbours
from hetjax.partition.stream.registry import BUILT_IN
from hetjax.partition.stream.run import Reader

METHODS = ("2ps-l", "spring", "slim")
LAYERS, WIDTH = 2, 4


def means(pairs: np.ndarray, features: np.ndarray) -> list[np.ndarray]:
    """Return the mean over in-neighbours, layer by layer; edges are there both ways."""
    count = np.bincount(pairs[:, 1], minlength=len(features))[:, None]
    found = []
    for _ in range(LAYERS):
        sums = np.stack([np.bincount(pairs[:, 1], one[pairs[:, 0]], len(features)) for one in features.T], axis=1)
        features = sums / np.maximum(count, 1)
        found.append(features)
    return found


def parts_of(stream: Held, made, parts: int, hops: int, placed: np.ndarray):
    """Yield `(nodes, own, edges as places)` of every partition."""
    if hops == 0:
        for part in range(parts):
            edges = stream.pairs[placed == part]
            nodes = np.union1d(edges, np.flatnonzero(made.owners == part))
            yield nodes, made.owners[nodes] == part, np.searchsorted(nodes, edges)
        return
    with tempfile.TemporaryDirectory() as folder:
        full_neighbours(Reader(stream), made.owners, parts, hops, False, Path(folder))
        for part in range(parts):
            names = ("nodes", "own", "edges")
            yield tuple(np.load(Path(folder, f"part_{part}", f"{name}.npy")) for name in names)


def rows_of(name: str, parts: int, method: str) -> list[dict]:
    pairs, nodes = published(name)
    stream = Held(pairs[np.random.default_rng(0).permutation(len(pairs))], nodes)
    with tempfile.TemporaryDirectory() as folder:
        made = partition_stream(stream, BUILT_IN[method], Options(parts), file=Path(folder, "parts.npy"))
        placed = np.load(Path(folder, "parts.npy"))
    features = np.random.default_rng(1).standard_normal((nodes, WIDTH))
    whole, degrees, rows = means(pairs, features), np.bincount(pairs[:, 1], minlength=nodes), []
    for hops in range(4):
        counts, edges_of, missing, exact = 0, 0, 0, [0] * LAYERS
        for ids, own, edges in parts_of(stream, made, parts, hops, placed):
            mine = ids[own]
            missing += int((degrees[mine] - np.bincount(edges[:, 1], minlength=len(ids))[own]).sum())
            for layer, local in enumerate(means(edges, features[ids])):
                exact[layer] += int((np.abs(local[own] - whole[layer][mine]).max(axis=1, initial=0) < 1e-9).sum())
            counts, edges_of = counts + len(ids), edges_of + len(edges)
        shares = [round(one / nodes, 4) for one in exact]
        if any(share < 1 for share in shares[:hops]):
            raise SystemExit(f"{name}, {method}, {hops} hops: {shares}")
        rows.append(
            {
                "graph": name,
                "parts": parts,
                "method": method,
                "hops": hops,
                "nodes": round(counts / nodes, 3),
                "edges": round(edges_of / len(pairs), 3),
                "neighbours_missing": round(missing / degrees.sum(), 4),
                "exact_1": shares[0],
                "exact_2": shares[1],
            }
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", type=int, nargs="+", default=[4, 16], help="partitions")
    out = Path(__file__).parent / "results"
    parser.add_argument("--out", type=Path, default=out, help="where the table is written")
    options = parser.parse_args()
    grid = [(name, parts, method) for name in PUBLISHED for parts in options.parts for method in METHODS]
    rows = [row for one in tqdm(grid, unit="partitioning") for row in rows_of(*one)]
    write_rows(options.out / "full_neighbours.csv", rows)
    print(markdown(rows))


if __name__ == "__main__":
    main()
