"""The number of clusters that SPRING begins with, and the number after merging: CATGNN's Tables 2 and 3.

`HETJAX_DATA=FOLDER python experiments/averaging/spring_clusters.py` streams the graphs of the paper in its sorted order and in random ones, and writes
`experiments/averaging/results/spring_clusters.csv`. The paper prints neither the order of its streams, nor the threshold of volumes, nor the
number of partitions, which bounds merging and, in what its authors released, also volumes: 0.1 |E| / p. So each is varied:

- `edges`: `both`: every edge both ways, loops once, as Table 3 counts them; `once`: one of both;
- `order`: `sorted` by both ends; `random`: mean and standard deviation over the seeds;
- `volume`: the threshold is `volume |E| / parts`; `none`: there is none.

Nodes without edges but their own loops are left out, as in Table 2, which leaves out single nodes; Citeseer has 48.
"""

import argparse
from pathlib import Path

import numpy as np
from tqdm import tqdm

from experiments.partitioning.stream_graphs import once, published
from experiments.runs import markdown, replace_rows
from hetjax.partition.stream import Held, Options, partition_stream
from hetjax.partition.stream.methods.spring import Spring

PRINTED = {"cora": (372, 101), "citeseer": (904, 411), "pubmed": (6113, 90), "coauthor_physics": (1528, 97)}
EDGES = {"cora": 10556, "citeseer": 9228, "pubmed": 88651, "coauthor_physics": 495924}  # Table 3
VOLUMES = {"0.1": 0.1, "0.5": 0.5, "1": 1.0, "2": 2.0, "none": 1e9}


def counts(pairs: np.ndarray, nodes: int, parts: int, volume: float) -> tuple[int, int]:
    """Return the clusters before and after they are merged, except for those of a node that has no edge but loops."""
    made = partition_stream(Held(pairs, nodes), Spring, Options(parts, volume=volume))
    alone = len(np.unique(pairs)) - len(np.unique(pairs[pairs[:, 0] != pairs[:, 1]]))
    return made.method.about["clusters"] - alone, made.method.about["merged_clusters"] - alone


def row(name: str, kind: str, order: str, parts: int, volume: str, seeds: int) -> dict:
    pairs, nodes = published(name)
    given = len(pairs)
    pairs = pairs if kind == "both" else once(pairs)
    orders = [np.random.default_rng(seed).permutation(len(pairs)) for seed in range(seeds)]
    streams = [pairs] if order == "sorted" else [pairs[places] for places in orders]
    found = np.array([counts(stream, nodes, parts, VOLUMES[volume]) for stream in streams])
    mean, spread = found.mean(axis=0), found.std(axis=0)
    before, after = PRINTED[name]
    return {
        "graph": name,
        "edges_of_the_graph": given,
        "edges_printed": EDGES[name],
        "edges": kind,
        "order": order,
        "parts": parts,
        "volume": volume,
        "clusters": round(float(mean[0]), 1),
        "clusters_spread": round(float(spread[0]), 1),
        "clusters_printed": before,
        "merged": round(float(mean[1]), 1),
        "merged_spread": round(float(spread[1]), 1),
        "merged_printed": after,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10, help="random orders")
    parser.add_argument("--parts", type=int, nargs="+", default=[1, 2, 4, 8, 16], help="partitions")
    parser.add_argument("--graphs", nargs="+", default=list(PRINTED), help="graphs")
    out = Path(__file__).parent / "results"
    parser.add_argument("--out", type=Path, default=out, help="where the table is written")
    options = parser.parse_args()
    grid = [
        (name, kind, order, parts, volume, options.seeds)
        for name in options.graphs
        for kind in ("both", "once")
        for order in ("sorted", "random")
        for parts in options.parts
        for volume in VOLUMES
    ]
    rows = [row(*one) for one in tqdm(grid, unit="row")]
    replace_rows(options.out / "spring_clusters.csv", ("graph", "edges", "order", "parts", "volume"), rows)
    print(markdown(rows))


if __name__ == "__main__":
    main()
