"""Work and bytes of every worker in a step on the whole graph, by partitions of the nodes and by tensor parallelism.

`HETJAX_DATA=... python experiments/tensor/tensor_load.py` counts, in one process and without training, what NeutronTP's
Figures 10 and 12 to 14 are about: for every graph, number of workers, layers and width, the values that edges aggregate
(edges times columns, in all layers, forward) by the worker that aggregates most and by the one that aggregates least,
the rows that each receives, and the bytes that all send, but for gradients of weights. Partitions are ranges of ids
(`contiguous`); `vanilla` computes every dependency, `communicate` fetches it. Counts of `coupled` and `decoupled` are
those of `hetjax/sharding/tensor/costs.py`, which tests hold against compiled programs. Where there are as many classes
as workers, models make logits without a head, so that a decoupled one aggregates a column per class, as in the paper;
on graphs of two classes (`--head tolokers web`) they have a head, and a decoupled one aggregates the whole width.
Writes `experiments/tensor/results/tensor_load.{csv,png}`.
"""

import argparse
import itertools
import os
import tempfile
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import numpy as np
from matplotlib import pyplot
from tqdm import tqdm

from experiments.dependency.dependency_counts import config_of, counted, most, setup_of
from experiments.dependency.dependency_runs import GRAPHS, MODELS, setting, stored
from experiments.runs import markdown, read_rows, replace_rows
from hetjax.partition import edge_cut
from hetjax.sharding.columns import slice_of
from hetjax.sharding.dependency.declared import Options
from hetjax.sharding.strategy import Setup
from hetjax.sharding.tensor import costs

RESULTS = Path(__file__).parent / "results"
KEYS = ("graph", "model", "layers", "hidden", "workers", "way")
MODES = {"vanilla": "cache", "communicate": "communicate"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", nargs="+", choices=list(GRAPHS), default=["tolokers", "ogbn-mag"])
    parser.add_argument("--workers", type=int, nargs="+", default=[2, 4, 8, 16])
    parser.add_argument("--layers", type=int, nargs="+", default=[2, 3, 5], help="with the first width and 4 workers")
    parser.add_argument("--hidden", type=int, nargs="+", default=[128, 1024], help="with 2 layers and 4 workers")
    parser.add_argument("--head", nargs="*", default=["tolokers", "web"], help="graphs whose models have a head")
    parser.add_argument("--folder", type=Path, help="where graphs are kept for another time; unset: nowhere")
    options = parser.parse_args()
    rows: list[dict] = []
    with tempfile.TemporaryDirectory() as made_here:
        folder = options.folder or Path(made_here)
        os.makedirs(folder, exist_ok=True)
        for name in tqdm(options.graphs, unit="graph"):
            graph = stored(name, folder)
            turns = [(2, options.hidden[0], workers) for workers in options.workers]
            turns += [(layers, options.hidden[0], 4) for layers in options.layers if layers != 2]
            turns += [(2, hidden, 4) for hidden in options.hidden[1:]]
            for layers, hidden, workers in turns:
                about = {"graph": name, "model": MODELS[name], "layers": layers, "hidden": hidden, "workers": workers}
                more = [f"--model.layers={layers}", f"--model.head={str(name in options.head).lower()}"]
                given = setup_of(config_of([*setting(graph, MODELS[name], hidden), *more]))
                cut = edge_cut(given.graph, workers, "contiguous")
                rows += [about | {"way": way} | by_nodes(given, cut, mode) for way, mode in MODES.items()]
                rows.append(about | {"way": "coupled"} | by_columns(given, workers))
                apart = setup_of(config_of([*setting(graph, MODELS[name], hidden), *more, "--model.decoupled=true"]))
                rows.append(about | {"way": "decoupled"} | by_columns(apart, workers))
            replace_rows(RESULTS / "tensor_load.csv", KEYS, [row for row in rows if row["graph"] == name])
    print(markdown(rows))
    draw(read_rows(RESULTS / "tensor_load.csv"), RESULTS / "tensor_load.png")


def by_nodes(given: Setup, cut, mode: str) -> dict:
    """Return the row of partitions of the nodes; an edge aggregates the columns of the narrower side of its layer."""
    found = counted(given, cut, Options(mode=mode))
    folded, received = np.zeros(cut.parts), np.zeros(cut.parts)
    for layer, done in zip(given.trainer.model.layers, found.done):
        for relation, edges in done.edges.items():
            folded += edges * min(layer.widths[relation.source], layer.features)
        received += most(done.fetched)
    return row(folded, received, found.bytes)


def by_columns(given: Setup, workers: int) -> dict:
    """Return the row of slices of the columns, which are all alike; the rows received are those that an all-to-all carries."""
    trainer, graph = given.trainer, given.graph
    if trainer.model.decoupled:
        width = slice_of(trainer.model.decoupled.widths[-1], workers)
        layers = [[graph.relations[r].edges * width for r in layer.relations] for layer in trainer.model.layers]
        folded = float(sum(itertools.chain.from_iterable(layers)))
    else:
        kept = costs.still(trainer, graph)
        folded = sum(
            costs.operations(layer, graph, workers, frozenset() if depth else kept)["folded"]
            for depth, layer in enumerate(trainer.model.layers)
        )
    own = sum(slice_of(count, workers) for count in graph.schema.nodes.values())
    alike = np.ones(workers)
    return row(folded * alike, own * (workers - 1) * alike, round(sum(costs.sent(trainer, graph, workers).values())))


def row(folded: np.ndarray, received: np.ndarray, sent: int) -> dict:
    return {
        "folded_most": round(float(folded.max())),
        "folded_least": round(float(folded.min())),
        "folded_ratio": round(float(folded.max() / max(1, folded.min())), 3),
        "rows_received_ratio": round(float(received.max() / max(1, received.min())), 3),
        "bytes": int(sent),
    }


def draw(rows: list[dict], file: Path) -> None:
    """Draw the aggregated values of the busiest worker, most over least, and the bytes, by the number of workers; a column per graph."""
    rows = [row for row in rows if row["layers"] == "2" and row["hidden"] == min((r["hidden"] for r in rows), key=int)]
    graphs = list(dict.fromkeys(row["graph"] for row in rows))
    shown = {
        "folded_most": "numbers folded by\nthe busiest worker",
        "folded_ratio": "most / least",
        "bytes": "bytes a step",
    }
    figure, axes = pyplot.subplots(3, len(graphs), figsize=(3.2 * len(graphs), 7), layout="constrained", squeeze=False)
    for column, graph in enumerate(graphs):
        for line, (field, words) in enumerate(shown.items()):
            axis = axes[line][column]
            for way in dict.fromkeys(row["way"] for row in rows):
                points = sorted(
                    (int(r["workers"]), float(r[field])) for r in rows if (r["graph"], r["way"]) == (graph, way)
                )
                axis.plot(*zip(*points), "o-", label=way)
            axis.set(
                xscale="log", yscale="log" if field != "folded_ratio" else "linear", ylabel=words if not column else ""
            )
            axis.set_xticks([count for count, _ in points], [str(count) for count, _ in points])
            axis.tick_params("x", which="minor", bottom=False, labelbottom=False)
        axes[0][column].set_title(graph)
        axes[2][column].set_xlabel("workers")
    axes[0][0].legend(frameon=False, fontsize=8)
    figure.savefig(file, dpi=110)


if __name__ == "__main__":
    main()
