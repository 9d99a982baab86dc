"""Accuracy of model averaging beside training on the whole graph, and by the interval between averages (CATGNN, Figures 7 and 11).

`HETJAX_DATA=... python experiments/averaging/averaging.py` trains every row on four partitions (SPRING's, of the HGB graph Fennel's), each
with its nodes' neighbours, for five seeds, and on the whole graph with the same options and epochs; it appends every run to
`experiments/averaging/results/averaging.csv`, draws `averaging.png` from it, and prints the table. A run that is there already is not trained again.

The options are those of the examples; every epoch is evaluated on the whole graph, and validation picks the one that is
tested. `every` is the epochs between two averages; 0 is training on the whole graph. Splits are the public ones (of
Coauthor-Physics one sampled as Shchur et al. do), so seeds differ in weights and dropout.
"""

from hetjax.options import owners
from hetjax.system import runtime

if __name__ == "__main__":
    runtime.prepare()

import argparse
import statistics
import time
from pathlib import Path
from typing import Any

import jax
import matplotlib
import numpy as np

from experiments.runs import ROOT, read_rows, replace_rows

matplotlib.use("agg")
from matplotlib import pyplot as plt

from hetjax.cache.features import Features
from hetjax.checkpoints.progress import Progress
from hetjax.datasets.load import load
from hetjax.graph.hetgraph import HetGraph
from hetjax.options.command_line import parse
from hetjax.options.config import SECTIONS, Config
from hetjax.sampling.whole import whole_graph
from hetjax.sharding import mesh
from hetjax.sharding.registry import config_of, make_engine, sections
from hetjax.tasks import metrics

OUT = Path(__file__).parent / "results" / "averaging.csv"
KEYS = ("graph", "model", "every", "seed")
PARTS, EPOCHS = 4, 200
NAMES = {"GCN": "gcn", "GraphSAGE": "sage", "GAT": "gat"}
EXAMPLES = {"GCN": "gcn", "GraphSAGE": "gcn", "GAT": "gat"}
ROWS: dict[tuple[str, str], tuple[str, list[str]]] = {
    **{
        (graph, model): (f"{graph}_{EXAMPLES[model]}", [f"--model.name={name}"])
        for graph in ("cora", "citeseer")
        for model, name in NAMES.items()
    },
    ("dblp", "R-GCN"): ("dblp", []),
    ("dblp", "R-GCN, 2 hops"): ("dblp", ["--averaging.hops=2"]),
    **{
        ("coauthor_physics", model): (
            "coauthor_sage",
            [
                f"--model.name={name}",
                *(["--model.heads=8"] if name == "gat" else []),
                "--npz.split=shchur",
            ],
        )
        for model, name in NAMES.items()
    },
}
INTERVALS = {"cora": (1, 2, 5, 10, 20, 50)}  # of the others 1
HOPS = ", 2 hops"  # as many as layers; beside the same runs on the whole graph


def configuration(key: tuple[str, str], every: int, seed: int, epochs: int) -> Config:
    """Return the configuration of one run."""
    example, options = ROWS[key]
    given = [f"--config={ROOT / 'examples' / example}.yaml", *options]
    given += [f"--train.seed={seed}", f"--train.epochs={epochs}", "--train.patience=0", "--train.evaluate_every=1"]
    given += ["--mesh.strategy=averaging", f"--mesh.data={PARTS}", f"--averaging.every={every}"] if every else []
    made, _ = parse(SECTIONS | sections("averaging"), given, "averaging", "", {})
    return config_of(made)


def run(config: Config, graph: HetGraph) -> dict[str, Any]:
    """Train, and score the epoch that validation picks; return the rest of the row."""
    engine, done, test, started = make_engine(config, graph), Progress(), {}, time.perf_counter()
    trainer, changed = engine.trainer, engine.setup.graph
    blocks = jax.device_put(
        whole_graph(changed, [changed.schema.target], len(trainer.model.layers), trainer.model.reads_own)
    )
    static = Features(graph, trainer.widths, trainer.learnable, multiplied=trainer.model.multiplied).static
    apply, state = jax.jit(trainer.model.apply), engine.init(config.train.seed)
    for epoch in range(config.train.epochs):
        for drawn in engine.batches.epoch(epoch):
            state, loss = engine.step(state, drawn.batch)
            done.count(float(loss), drawn.nodes, {})
        done.end_epoch()
        whole = engine.gather(state)
        learned = {t: np.asarray(table.rows) for t, table in whole.tables.items()}
        logits = np.asarray(apply(jax.device_put(whole.params), blocks, static | learned))
        done.validated(
            scores(logits, graph, "validation"), epoch, owners.own(config.task, "node_classification").metric
        )
        if done.best and done.best["epoch"] == done.epoch:
            test = scores(logits, graph, "test")
    assert done.best
    return {
        "test": round(test["micro_f1"], 5),
        "validation": round(done.best["micro_f1"], 5),
        "epoch": done.best["epoch"],
        "epochs": done.epoch,
        "replication": round(engine.details().get("replication_factor", 1.0), 3),
        "seconds": round(time.perf_counter() - started, 1),
    }


def scores(logits: np.ndarray, graph: HetGraph, split: str) -> dict[str, Any]:
    """Return the quality on the nodes of a split."""
    ids = graph.splits[split]
    return metrics.quality(logits[ids], graph.labels[ids])


def by_row(written: list[dict]) -> dict[tuple[str, str], dict[int, list[float]]]:
    """Return test accuracies in per cent, by row and interval."""
    found: dict[tuple[str, str], dict[int, list[float]]] = {}
    for line in written:
        of = found.setdefault((line["graph"], line["model"]), {})
        of.setdefault(int(line["every"]), []).append(100 * float(line["test"]))
    for (graph, model), of in found.items():
        if model.endswith(HOPS):
            of[0] = found[graph, model.removesuffix(HOPS)][0]
    return found


def table(written: list[dict]) -> str:
    """Return a Markdown table: means and sample standard deviations, and whether they are within the whole graph's."""
    lines = [
        "| graph | model | averaged every | runs | test (%) | whole graph (%) | within one deviation |",
        "|---|---|---|---|---|---|---|",
    ]
    for (graph, model), of in by_row(written).items():
        for every in sorted(of.keys() - {0}):
            base, found = of.get(0, []), of[every]
            if min(len(base), len(found)) < 2:
                continue
            (b, s), (m, d) = ((statistics.mean(x), statistics.stdev(x)) for x in (base, found))
            cells = (
                graph,
                model,
                every,
                len(found),
                f"{m:.2f} ± {d:.2f}",
                f"{b:.2f} ± {s:.2f}",
                "yes" if m >= b - s else "no",
            )
            lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def draw(written: list[dict], file: Path) -> None:
    """Draw the accuracy by the interval, a line a model, its whole-graph training dashed; and beside it all rows at an interval of 1."""
    found = by_row(written)
    sheet, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    for number, (key, of) in enumerate((key, of) for key, of in found.items() if key[0] == "cora"):
        ticks = sorted(of.keys() - {0})
        means = [statistics.mean(of[every]) for every in ticks]
        spread = [statistics.stdev(of[every]) if len(of[every]) > 1 else 0 for every in ticks]
        left.errorbar(ticks, means, spread, marker="o", capsize=3, color=f"C{number}", label=key[1])
        if 0 in of:
            left.axhline(statistics.mean(of[0]), linestyle="--", linewidth=1, color=f"C{number}")
    left.set(
        xscale="log",
        xlabel="epochs between two averages",
        ylabel="test accuracy (%)",
        title="Cora, 4 partitions; dashed: whole graph",
    )
    left.legend()
    names = [key for key, of in found.items() if {0, 1} <= of.keys()]
    for shift, every, label in ((-0.2, 0, "whole graph"), (0.2, 1, "4 partitions, averaged every epoch")):
        values = [found[key][every] for key in names]
        spread = [statistics.stdev(of) if len(of) > 1 else 0 for of in values]
        right.barh(np.arange(len(names)) + shift, list(map(statistics.mean, values)), 0.38, xerr=spread, label=label)
    right.set(
        xlim=(50, 105),
        xlabel="test accuracy (%)",
        yticks=range(len(names)),
        yticklabels=[" ".join(key) for key in names],
    )
    right.invert_yaxis()
    right.legend(loc="lower center", bbox_to_anchor=(0.4, 1), ncols=2, frameon=False, fontsize="small")
    sheet.savefig(file, dpi=110)


def main() -> None:
    names = {"/".join(key).lower(): key for key in ROWS}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", nargs="+", default=list(names), metavar="ROW", help=f"of these: {', '.join(names)}")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument(
        "--every", type=int, nargs="+", help="intervals, 0 being the whole graph; default: as the table has"
    )
    options = parser.parse_args()
    mesh.provide_cpu_devices(PARTS)
    known = {tuple(line[name] for name in KEYS) for line in read_rows(OUT)}
    for key in (names[name.lower()] for name in options.rows):
        for seed in range(options.seeds):
            graph = None
            for every in options.every or (*([] if key[1].endswith(HOPS) else [0]), *INTERVALS.get(key[0], (1,))):
                if (*key, str(every), str(seed)) in known:
                    continue
                config = configuration(key, every, seed, options.epochs)
                graph = graph or load(config.data)
                row = dict(zip(KEYS, (*key, every, seed))) | run(config, graph)
                replace_rows(OUT, KEYS, [row])
                print(*row.values(), flush=True)
    written = read_rows(OUT)
    draw(written, OUT.with_suffix(".png"))
    print(table(written))


if __name__ == "__main__":
    main()
