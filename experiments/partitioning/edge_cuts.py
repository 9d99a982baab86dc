"""Edge-cuts by every method: how much they cut, how even they are, and what a full batch reads from other partitions.

`python experiments/partitioning/edge_cuts.py` divides three graphs in 2, 4 and 8 by every method, prints its table, and writes
`experiments/partitioning/results/edge_cuts.csv`:

- `ogbn-mag`: synthetic, in its shape, at a fiftieth of its size, 32 communities planted; ids tell nothing;
- `web`: one type, a tenth of the nodes and edges of SNAP's web-Google (875,713 and 5,105,039). Both degrees have heavy
  tails. Pages lie site by site, as a crawl finds them; three links in four stay within the site;
- `web, shuffled ids`: the same graph, its ids a random order.

Two variants of Fennel are not the package's: `fennel, one limit` has the load limit of the paper, which knows no node types;
`fennel, by ids` takes the nodes in the order of their ids, type by type.

Columns: `cut_share` of the edges; balances, largest by mean, of nodes, of the node type that is worst off, of edges and of
training nodes; per layer of a model of two layers, a full batch, all partitions together: rows read from others if
dependencies are communicated; if they are cached, the redundant share of the edges that the first layer aggregates (the last
has none); `seconds` of dividing, which are of one run and no measurement of speed.
"""

import argparse
import time
from pathlib import Path

import numpy as np
from tqdm import tqdm

from experiments.runs import markdown, write_rows
from hetjax.datasets.synthetic import generate
from hetjax.graph.hetgraph import HetGraph, build
from hetjax.graph.homogeneous import homogeneous
from hetjax.graph.schema import Relation, Schema
from hetjax.graph.sizes import sizes
from hetjax.partition import EdgeCut, edge_cut, reports
from hetjax.partition.dependencies import dependencies
from hetjax.partition.fennel import fennel, random_order

ONE_LIMIT, BY_IDS = "fennel, one limit", "fennel, by ids"
WEB_NODES, WEB_EDGES, SITE = 875_713, 5_105_039, 200
TAIL, WITHIN = 2.0, 0.75  # exponent of the ranks; links that stay within their site


def web(scale: float, shuffled: bool, seed: int = 0) -> HetGraph:
    """Return a web of sites. An end of an edge has rank `floor(n u ** 2)` among the pages, or among those of its site."""
    rng = np.random.default_rng(seed)
    count, edges = round(WEB_NODES * scale), round(WEB_EDGES * scale)
    page = rng.permutation(count)  # of every rank
    source = page[(count * rng.random(edges) ** TAIL).astype(np.int64)]
    near = source // SITE * SITE + (SITE * rng.random(edges) ** TAIL).astype(np.int64)
    far = page[(count * rng.random(edges) ** TAIL).astype(np.int64)]
    target = np.where(rng.random(edges) < WITHIN, np.minimum(near, count - 1), far)
    if shuffled:
        order = rng.permutation(count)
        source, target = order[source], order[target]
    relation, train = Relation("page", "links", "page"), rng.permutation(count)[: count // 2]
    schema = Schema({"page": count}, (relation,), "page", 2)
    return build(schema, {relation: (source, target)}, {}, np.zeros(count, np.int32), {"train": train})


def divide(graph: HetGraph, parts: int, method: str) -> EdgeCut:
    """Return an edge-cut by one of the package's methods, or by a variant of Fennel."""
    if method in EdgeCut.methods:
        return edge_cut(graph, parts, method)
    counts = list(graph.schema.nodes.values())
    order = np.arange(sum(counts)) if method == BY_IDS else random_order(sum(counts), 0)
    limited = [sum(counts)] if method == ONE_LIMIT else counts
    owners = np.split(fennel(*homogeneous(graph), limited, parts, order), np.cumsum(counts)[:-1])
    return EdgeCut(sizes(graph), dict(zip(graph.schema.nodes, owners)), parts, "fennel")


def balance(counts: np.ndarray) -> float:
    return round(float(counts.max() / counts.mean()), 3)


def total(counts) -> int:
    return int(sum(count.sum() for count in counts.values()))


def row(name: str, graph: HetGraph, parts: int, method: str) -> dict:
    started = time.perf_counter()
    cut = divide(graph, parts, method)
    seconds = time.perf_counter() - started
    report, layers = reports.report(cut, graph), dependencies(graph, cut)
    nodes = {name: np.bincount(of, minlength=parts) for name, of in cut.nodes.items()}
    return {
        "graph": name,
        "parts": parts,
        "method": method,
        "cut_share": report.summary["cut_share"],
        "balance_nodes": balance(sum(nodes.values())),
        "balance_worst_type": max(map(balance, nodes.values())),
        "balance_edges": report.summary["balance_edges"],
        "balance_training": balance(np.array([row["training_nodes"] for row in report.rows])),
        **{f"remote_rows_{layer.layer}": total(layer.remote) for layer in layers},
        "redundant_share": round(total(layers[-1].redundant_edges) / max(1, total(layers[-1].cached_edges)), 4),
        "seconds": round(seconds, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", type=int, nargs="+", default=[2, 4, 8], help="partitions")
    parser.add_argument("--scale", type=float, default=1.0, help="multiplies the size of every graph")
    out = Path(__file__).parent / "results"
    parser.add_argument("--out", type=Path, default=out, help="where the table is written")
    options = parser.parse_args()
    graphs = {
        "ogbn-mag": generate("ogbn-mag", 0.02 * options.scale, classes=32),
        "web": web(0.1 * options.scale, False),
        "web, shuffled ids": web(0.1 * options.scale, True),
    }
    for method in ("contiguous", "fennel"):
        edge_cut(web(0.001, False), 2, method)  # compiles
    grid = [
        (name, parts, method)
        for name, graph in graphs.items()
        for parts in options.parts
        for method in (*EdgeCut.methods, BY_IDS, ONE_LIMIT)
        if method != ONE_LIMIT or len(graph.schema.nodes) > 1
    ]
    rows = [row(name, graphs[name], parts, method) for name, parts, method in tqdm(grid, unit="cut")]
    write_rows(options.out / "edge_cuts.csv", rows)
    print(markdown(rows))


if __name__ == "__main__":
    main()
