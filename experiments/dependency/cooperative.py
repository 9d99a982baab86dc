"""Co-operative mini-batches against vanilla execution: rows fetched and edges aggregated in a step, counted.

    python experiments/dependency/cooperative.py [--scale 1] [--parts 2 4] [--steps 5]

On a graph of ogbn-mag's shape, batches of 1024 and a fanout of 25 then 20, over METIS and random edge-cuts. Nothing is trained:
every partition's share of a step is sampled as training does it, and counted (hetjax/sharding/dependency/work.py). With
`communicate` a node is computed once, by its master; with `cache`, which is vanilla execution, by every partition that reaches it.
Writes experiments/dependency/results/cooperative.csv.
"""

from argparse import ArgumentParser
from pathlib import Path

import numpy as np
from tqdm import tqdm

from experiments.runs import markdown, write_rows
from hetjax.datasets import synthetic
from hetjax.graph.hetgraph import HetGraph
from hetjax.partition import EdgeCut, edge_cut
from hetjax.sampling import draw
from hetjax.sampling.sampler import Sampler
from hetjax.sharding.dependency.shares import nothing, shares
from hetjax.sharding.dependency.work import work

RESULTS = Path(__file__).parent / "results" / "cooperative.csv"
BATCH, FANOUTS, HIDDEN, LEARNED, FEATURES = 1024, (25, 20), 64, 64, 128


def embeddings(depth: int, node_type: str, ids: np.ndarray, part: int) -> np.ndarray:
    """Return which nodes of others vanilla execution computes: every embedding, and no features."""
    return np.full(len(ids), depth > 0)


def step(graph: HetGraph, cut: EdgeCut, number: int, mode: str) -> dict[str, float]:
    """Return the work of all partitions in a step, and that of the partition with most."""
    order = draw.shuffle(draw.key(0, 0, "order"), graph.splits["train"])
    seeds = order[number * BATCH : (number + 1) * BATCH]
    target = graph.schema.target
    keep = embeddings if mode == "cache" else nothing
    layers = shares(Sampler(graph), cut.owned, {target: seeds}, FANOUTS, (0, 0, number), keep)
    first, second = work(graph, cut.owned, layers, cut.owned.split(target, seeds))
    edges = sum(first.edges.values()) + sum(second.edges.values())
    static = sum(first.fetched[t] for t in first.fetched if t in graph.features)
    learned = sum(first.fetched[t] for t in first.fetched if t not in graph.features)
    inner = sum(second.fetched.values())
    return {
        "edges_folded": int(edges.sum()),
        "edges_most": int(edges.max()),
        "nodes_computed": int(sum(first.computed.values()).sum()),
        "features_fetched": int(np.sum(static)),
        "learned_rows_fetched": int(np.sum(learned)),
        "embeddings_fetched": int(np.sum(inner)),
        "bytes": int(4 * (FEATURES * np.sum(static) + 2 * LEARNED * np.sum(learned) + 2 * HIDDEN * np.sum(inner))),
    }


def main() -> None:
    parser = ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--scale", type=float, default=1.0, help="of the published graph")
    parser.add_argument("--parts", nargs="+", type=int, default=[2, 4])
    parser.add_argument("--methods", nargs="+", default=["random", "metis"])
    parser.add_argument("--steps", type=int, default=5)
    options = parser.parse_args()
    graph = synthetic.generate("ogbn-mag", options.scale, 32)
    rows = []
    for parts in options.parts:
        for method in options.methods:
            cut = edge_cut(graph, parts, method)
            for mode in ("cache", "communicate"):
                found = [step(graph, cut, number, mode) for number in tqdm(range(options.steps), mode)]
                mean = {name: round(float(np.mean([one[name] for one in found]))) for name in found[0]}
                rows.append({"scale": options.scale, "parts": parts, "partitioning": method, "mode": mode} | mean)
                write_rows(RESULTS, rows)
    print(markdown(rows))


if __name__ == "__main__":
    main()
