"""Replication factors of every method of partitioning a stream, without and with full neighbours: CATGNN's Figure 6.

`HETJAX_DATA=FOLDER python experiments/partitioning/replication.py` divides the published graphs, every edge both ways, and three generated ones
(`stream_graphs.generate`) in 4, 8, 16 and 32, each stream in random orders, and writes `experiments/partitioning/results/replication.csv` and a
picture. `slim` is hetjax's own. `ne` is in-memory neighbourhood expansion (`expansion`), which streams nothing, once.

Columns: replication factors, `rf` of the edges as they are placed, each once, and `rf_full` with all neighbours of the nodes that a
partition trains (the mean over orders, and the standard deviation); balances, the largest value by the mean, of edges placed, of nodes
trained, of nodes and of edges with full neighbours; `cut`: share of edges whose ends two partitions train. Of methods that place edges
a random one of a node's replicas trains it. With full neighbours a partition has what these nodes ask for and nothing else; the paper
leaves the placed edges there too, so that its figures of these methods are higher.
"""

import argparse
import tempfile
from pathlib import Path

import matplotlib

matplotlib.use("agg")

import matplotlib.pyplot as plt
import numpy as np
from tqdm import tqdm

from experiments.partitioning.expansion import expansion
from experiments.partitioning.stream_graphs import PUBLISHED, generate, published
from experiments.runs import markdown, write_rows
from hetjax.partition.stream import Held, Options, Partitioner, partition_stream, picture
from hetjax.partition.stream.neighbours import full_neighbours
from hetjax.partition.stream.registry import BUILT_IN
from hetjax.partition.stream.report import report
from hetjax.partition.stream.run import Reader
from hetjax.partition.stream.state import mark_all

NE, OWN = "ne", "slim"
GENERATED = dict.fromkeys(("rmat", "zipf", "communities"), (30_000, 300_000))  # nodes, edges
MEASURES = ("replication_factor", "replication_factor_full", "balance_edges", "balance_own_nodes", "balance_full_nodes")


class Expansion(Partitioner):
    """A partitioner that places edges as `expansion` found them."""

    name = NE

    def place(self, pairs: np.ndarray, out: np.ndarray) -> None:
        out[:] = expansion(pairs, self.graph.nodes, self.options.parts, self.options.seed)
        mark_all(pairs, out, self.replicas)
        self.loads += np.bincount(out, minlength=self.options.parts)


def graph_of(name: str) -> tuple[np.ndarray, int]:
    if name in PUBLISHED:
        return published(name)
    nodes, edges = GENERATED[name]
    with tempfile.TemporaryDirectory() as folder:
        generate(name, nodes, edges, file := Path(folder, "edges.npy"))
        pairs = np.load(file)
    return np.unique(pairs[pairs[:, 0] != pairs[:, 1]], axis=0), nodes


def measured(pairs: np.ndarray, nodes: int, method: str, parts: int, seed: int) -> list[float]:
    """Return `MEASURES`, the balance of edges with full neighbours, and the share of cut edges, of one order of the stream."""
    stream = Held(pairs[np.random.default_rng(seed).permutation(len(pairs))], nodes)
    kind = BUILT_IN[method] if method != NE else Expansion
    if method == NE:  # in one chunk, as it is no stream
        stream.chunks = lambda nodes: iter([(stream.pairs, 1.0)])
    made = partition_stream(stream, kind, Options(parts, seed=seed), nodes)
    full = full_neighbours(Reader(stream), made.owners, parts)
    summary = report(made, full, 1).summary
    edges = full.edges.max() / full.edges.mean()
    return [*(summary[name] for name in MEASURES), float(edges), summary["cut_share"]]


def row(name: str, pairs: np.ndarray, nodes: int, parts: int, method: str, seeds: int) -> dict:
    orders = range(seeds if method != NE else 1)  # plain Python takes minutes
    found = np.array([measured(pairs, nodes, method, parts, seed) for seed in orders])
    mean, spread = found.mean(axis=0).round(3).tolist(), found.std(axis=0).round(3).tolist()
    return {
        "graph": name,
        "parts": parts,
        "method": method,
        "rf": mean[0],
        "rf_spread": spread[0],
        "rf_full": mean[1],
        "rf_full_spread": spread[1],
        "balance_edges": mean[2],
        "balance_own_nodes": mean[3],
        "balance_full_nodes": mean[4],
        "balance_full_edges": mean[5],
        "cut": mean[6],
    }


def verdicts(rows: list[dict]) -> list[dict]:
    """Return for each replication factor in how many cells a method is at or below all other streaming ones, and our own beside NE."""
    cells = {(one["graph"], one["parts"]) for one in rows}
    value = {(one["graph"], one["parts"], one["method"]): one for one in rows}
    lines = []
    for measure in ("rf", "rf_full"):
        best_spring = sum(
            all(value[*cell, "spring"][measure] <= value[*cell, other][measure] for other in BUILT_IN if other != OWN)
            for cell in cells
        )
        best_own = sum(
            all(value[*cell, OWN][measure] <= value[*cell, other][measure] for other in BUILT_IN) for cell in cells
        )
        beside = [value[*cell, OWN][measure] / value[*cell, NE][measure] for cell in cells]
        lines.append(
            {
                "measure": measure,
                "cells": len(cells),
                "spring_is_best_of_the_published": best_spring,
                "slim_is_best_of_all": best_own,
                "slim_by_ne_median": round(float(np.median(beside)), 3),
                "slim_by_ne_most": round(max(beside), 3),
                "slim_within_1.2_of_ne": sum(one <= 1.2 for one in beside),
            }
        )
    return lines


def draw(rows: list[dict], file: Path) -> None:
    """Draw the replication factors by the number of partitions, a column per graph."""
    graphs = list(dict.fromkeys(one["graph"] for one in rows))
    figure, axes = plt.subplots(
        2, len(graphs), squeeze=False, figsize=(2.6 * len(graphs), 6), layout="constrained", sharex=True
    )
    for axis, (measure, words) in zip(axes, (("rf", "as placed"), ("rf_full", "with full neighbours"))):
        for column, graph in zip(axis, graphs):
            for number, method in enumerate([*BUILT_IN, NE]):
                line = [
                    (one["parts"], one[measure]) for one in rows if (one["graph"], one["method"]) == (graph, method)
                ]
                style = {"color": "black", "lw": 2.2} if method == OWN else {"color": f"C{number}", "lw": 1.2}
                column.plot(*zip(*line), marker="o", ms=3, ls="--" if method == NE else "-", label=method, **style)
            column.set_xscale("log", base=2)
            column.set_xticks([4, 8, 16, 32], ["4", "8", "16", "32"])
            column.set_yscale("log")
            column.yaxis.set_major_formatter("{x:.1f}")
            column.yaxis.set_minor_formatter(lambda value, _: f"{value:.1f}" if f"{value:.0e}"[0] in "1235" else "")
            column.tick_params(labelsize=7, which="both")
            if measure == "rf":
                column.set_title(graph, fontsize=10)
            else:
                column.set_xlabel("partitions", fontsize=8)
        axis[0].set_ylabel(f"replication factor, {words}", fontsize=8)
    figure.legend(*axes[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=8, frameon=False)
    figure.savefig(file, dpi=110)


def draw_one(out: Path) -> None:
    """Draw the picture that a partitioning has beside its report, of Coauthor Physics in 8 by `slim`."""
    pairs, nodes = published("coauthor_physics")
    stream = Held(pairs[np.random.default_rng(0).permutation(len(pairs))], nodes)
    made = partition_stream(stream, BUILT_IN[OWN], Options(8))
    picture.draw(report(made, full_neighbours(Reader(stream), made.owners, 8), 1), out / "stream_partition.png")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", type=int, nargs="+", default=[4, 8, 16, 32], help="partitions")
    parser.add_argument("--graphs", nargs="+", default=[*PUBLISHED, *GENERATED], help="graphs")
    parser.add_argument("--seeds", type=int, default=3, help="random orders of every stream")
    out = Path(__file__).parent / "results"
    parser.add_argument("--out", type=Path, default=out, help="where the tables are written")
    options = parser.parse_args()
    rows = []
    for name in options.graphs:
        pairs, nodes = graph_of(name)
        grid = [(parts, method) for parts in options.parts for method in (*BUILT_IN, NE)]
        rows += [row(name, pairs, nodes, *one, options.seeds) for one in tqdm(grid, desc=name)]
        write_rows(options.out / "replication.csv", rows)
    write_rows(options.out / "replication_verdicts.csv", verdicts(rows))
    draw(rows, options.out / "replication.png")
    draw_one(options.out)
    print(markdown(rows) + "\n\n" + markdown(verdicts(rows)))


if __name__ == "__main__":
    main()
