"""Test accuracy on graphs with one kind of node and edge, beside the published figures; on Tolokers the area under the ROC curve.

`HETJAX_DATA=... python experiments/accuracy/homogeneous_accuracy.py` trains every row of its table in one process, appends every run to
`experiments/accuracy/results/homogeneous_accuracy.csv`, and prints the table. A run that is there already is not trained again, so an
interrupted table continues where it stopped; `--again` trains and replaces the rows that are named.

A published figure with "(r)" was recalled from the paper and not read again; the others were read.

Run `k` has the seed `k`. It has the files' only split on `public`, the files' split `k` on `shipped`, the files' test nodes on `held out`
(validation is drawn with the seed `k`), and otherwise a split drawn with the seed `k`. A step is hetjax's own, on the whole graph. Validation picks the epoch by hetjax's own rule. To score
it, all nodes' logits are computed at once, without dropout.
"""

from hetjax.options import owners
from hetjax.system import runtime

if __name__ == "__main__":
    runtime.prepare()

import argparse
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from tqdm import tqdm

from experiments.accuracy.all_nodes import of_all_nodes
from experiments.runs import ROOT, read_rows, replace_rows
from hetjax.cache.features import Features
from hetjax.checkpoints.checkpoint import parameters
from hetjax.checkpoints.progress import Progress
from hetjax.datasets.load import load
from hetjax.graph.hetgraph import HetGraph
from hetjax.options.command_line import parse
from hetjax.options.config import SECTIONS, Config
from hetjax.sharding.registry import config_of, make_engine, sections
from hetjax.sharding.strategy import setup
from hetjax.tasks import metrics

OUT = Path(__file__).parent / "results" / "homogeneous_accuracy.csv"
KEYS = ("graph", "split", "model", "run")
Key = tuple[str, str, str]  # the first three of a row
SPLITS: dict[str, Callable[[int], dict[str, str]]] = {
    "public": lambda run: {},
    "shipped": lambda run: {"npz.split_number": str(run)},
    "held out": lambda run: {"npz.split_seed": str(run)},
    "shchur": lambda run: {"npz.split": "shchur", "npz.split_seed": str(run)},
    "random": lambda run: {"npz.split": "random", "npz.split_seed": str(run)},
}


class Row(NamedTuple):
    """One row of the table.

    Attributes:
      example: its configuration, `examples/NAME.yaml`.
      options: what differs from the example.
      published: the figure in the literature, per cent.
      runs: how many.
    """

    example: str
    options: dict[str, str] = {}  # noqa: RUF012
    published: str = ""
    runs: int = 10


SAGE, GIN, GATV2 = {"model.name": "sage"}, {"model.name": "gin", "model.norm": "layer"}, {"model.name": "gatv2"}
GCN = {"model.name": "gcn"}
NO_HEADS = GCN | {"model.heads": "4"}
HEADS = {"model.name": "gat", "model.heads": "8"}
DECOUPLED = {"model.decoupled": "true"}


def cited(graph: str, split: str, gcn: str = "", gat: str = "") -> dict[Key, Row]:
    """Return the five models on a citation graph, by the recipes of the papers of GCN and GAT."""
    return {
        (graph, split, "GCN"): Row(f"{graph}_gcn", {}, gcn),
        (graph, split, "GraphSAGE"): Row(f"{graph}_gcn", SAGE),
        (graph, split, "GIN"): Row(f"{graph}_gcn", GIN),
        (graph, split, "GAT"): Row(f"{graph}_gat", {}, gat),
        (graph, split, "GATv2"): Row(f"{graph}_gat", GATV2),
    }


ROWS = {
    **cited("cora", "public", "81.5", "83.0 (r)"),
    **cited("citeseer", "public", "70.3", "72.5 (r)"),
    **cited("cora", "random"),
    **cited("citeseer", "random"),
    **{
        (graph, split, f"{model}, decoupled"): Row(f"{graph}_gcn", options | DECOUPLED, runs=5)
        for graph in ("cora", "citeseer")
        for split in ("public", "random")
        for model, options in (("GCN", {}), ("GraphSAGE", SAGE))
    },
    ("coauthor_physics", "shchur", "GCN"): Row("coauthor_sage", GCN, "92.8 ± 1.0 (r)"),
    ("coauthor_physics", "shchur", "GraphSAGE"): Row("coauthor_sage", {}, "93.0 ± 0.8 (r)"),
    ("coauthor_physics", "shchur", "GAT"): Row("coauthor_sage", HEADS, "92.5 ± 0.9 (r)"),
    ("coauthor_physics", "random", "GCN"): Row("coauthor_sage", GCN),
    ("coauthor_physics", "random", "GraphSAGE"): Row("coauthor_sage"),
    ("coauthor_physics", "random", "GAT"): Row("coauthor_sage", HEADS),
    ("tolokers", "random", "GCN"): Row("tolokers_gat", NO_HEADS),
    ("tolokers", "random", "GraphSAGE"): Row("tolokers_gat", NO_HEADS | SAGE),
    ("tolokers", "shipped", "GCN"): Row("tolokers_gat", NO_HEADS, "83.64 ± 0.67 (r)"),
    ("tolokers", "shipped", "GraphSAGE"): Row("tolokers_gat", NO_HEADS | SAGE, "82.43 ± 0.44 (r)"),
    ("tolokers", "shipped", "GAT"): Row("tolokers_gat", {}, "83.70 ± 0.47 (r)"),
}

LEFT_OUT = (
    "| pubmed | public | none | 0 | left out: features of 1,060 nodes of 19,717 were to be had | 79.0, 79.0 (r) | |"
)


def configuration(row: Row, split: str, run: int, more: list[str]) -> Config:
    """Return the configuration of one run."""
    options = row.options | SPLITS[split](run) | {"train.seed": str(run)}
    given = [f"--config={ROOT / 'examples' / row.example}.yaml", *(f"--{k}={v}" for k, v in options.items()), *more]
    made, _ = parse(SECTIONS | sections(None), given, "homogeneous_accuracy", "", {})
    return config_of(made)


class Trained:
    """A trainer of the runs of one row; they differ in seeds and splits alone, so programs are compiled once."""

    def __init__(self, config: Config, graph: HetGraph):
        self.trainer = setup(config, graph).trainer
        self.init, self.step = jax.jit(self.trainer.init), jax.jit(self.trainer.step, donate_argnums=0)
        self.apply = jax.jit(self.trainer.model.apply)
        trainer = self.trainer
        features = Features(graph, trainer.widths, trainer.learnable, multiplied=trainer.model.multiplied)
        self.static = features.static

    def run(self, config: Config, graph: HetGraph) -> dict[str, Any]:
        """Train, and score the epoch that validation picks; return the row of the table."""
        metric = owners.own(config.task, "node_classification").metric
        options, done, test, started = config.train, Progress(), {}, time.perf_counter()
        batch = of_all_nodes(make_engine(config, replace(graph, features=self.small(graph))))
        state, seed = self.init(np.int32(options.seed)), np.int32(options.seed)
        while done.epoch < options.epochs and not done.out_of_patience(options):
            state, loss = self.step(state, self.static, batch, seed)
            done.count(float(loss), len(batch.arrays.weights), {})
            done.end_epoch()
            if done.epoch % options.evaluate_every == 0 or done.epoch == options.epochs:
                learned = {t: table.rows for t, table in state.tables.items()}
                logits = np.asarray(self.apply(state.params, batch.blocks, self.static | learned))
                done.validated(scores(logits, graph, "validation"), done.epoch, metric)
                if done.best and done.best["epoch"] == done.epoch:
                    test = scores(logits, graph, "test")
        assert done.best
        return {
            "metric": metric.replace("micro_f1", "accuracy"),
            "test": round(test[metric], 5),
            "validation": round(done.best[metric], 5),
            "epoch": done.best["epoch"],
            "epochs": done.epoch,
            "weights": parameters(state.params),
            "seconds": round(time.perf_counter() - started, 1),
        }

    @staticmethod
    def small(graph: HetGraph) -> dict[str, np.ndarray]:
        """Return features of the same widths without rows' memory: batches of the whole graph do not hold them."""
        return {t: np.broadcast_to(np.float32(0), x.shape) for t, x in graph.features.items()}


def scores(logits: np.ndarray, graph: HetGraph, split: str) -> dict[str, Any]:
    """Return the quality on the nodes of a split."""
    ids = graph.splits[split]
    return metrics.quality(logits[ids], graph.labels[ids])


def trained(key: Key, row: Row, runs: list[int], more: list[str], bar: tqdm) -> Iterator[dict[str, Any]]:
    """Yield some runs of a row, one after the other."""
    graph, last, made = None, None, None
    for run in runs:
        config = configuration(row, key[1], run, more)
        if graph is None or config.data != last:
            graph, last = load(config.data), config.data
        made = made or Trained(config, graph)
        found = dict(zip(KEYS, (*key, run))) | made.run(config, graph)
        bar.write(" ".join(map(str, found.values())))
        bar.update()
        yield found


def table(file: Path) -> str:
    """Return a Markdown table: mean and sample standard deviation, in the order of `ROWS`."""
    lines = ["| graph | split | model | runs | test (%) | published (%) | weights |", "|---|---|---|---|---|---|---|"]
    for key, found in written(ROWS, file).items():
        test = percent(found)
        spread = f" ± {statistics.stdev(test):.2f}" if len(test) > 1 else ""
        cells = (
            *key,
            len(test),
            f"{statistics.mean(test):.2f}{spread}",
            ROWS[key].published,
            f"{int(found[0]['weights']):,}",
        )
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join([*lines, LEFT_OUT])


def written(rows: Mapping[Key, Row], file: Path) -> dict[Key, list[dict]]:
    """Return the runs that a file has of each row, in the order of the rows; rows without runs are left out."""
    lines = read_rows(file)
    found = {key: [line for line in lines if tuple(line[name] for name in KEYS[:3]) == key] for key in rows}
    return {key: runs for key, runs in found.items() if runs}


def percent(runs: list[dict]) -> list[float]:
    return [100 * float(run["test"]) for run in runs]


def complete(rows: Mapping[Key, Row], file: Path, about: str | None) -> Path:
    """Train the runs of some rows that a file lacks, by the options of the command line; return the file.

    Args:
      file: by default.
      about: what `--help` says.
    """
    names = {"/".join(key).lower(): key for key in rows}
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", nargs="+", default=list(names), metavar="ROW", help=f"of these: {', '.join(names)}")
    parser.add_argument("--runs", type=int, help="runs of every row; default: as many as the table has")
    parser.add_argument("--again", action="store_true", help="train and replace runs that the file has")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a key that all rows have")
    parser.add_argument("--out", type=Path, default=file, help="the file of all runs")
    options = parser.parse_args()
    known = set() if options.again else {tuple(line[name] for name in KEYS) for line in read_rows(options.out)}
    tasks = {}
    for name in options.rows:
        key = names[name.lower()]
        tasks[key] = [run for run in range(options.runs or rows[key].runs) if (*key, str(run)) not in known]
    with tqdm(total=sum(map(len, tasks.values())), unit="run") as bar:
        for key, runs in tasks.items():
            for found in trained(key, rows[key], runs, [f"--{pair}" for pair in options.set], bar):
                replace_rows(options.out, KEYS, [found])
    made: Path = options.out
    return made


if __name__ == "__main__":
    print(table(complete(ROWS, OUT, __doc__)))
