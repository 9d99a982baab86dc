"""Choose between configurations without the test nodes: quality on held-out training nodes, over many divisions of them.

`HETJAX_DATA=... python experiments/accuracy/hold_outs.py --example mutag --vary rgcn.bases=10,30 --vary train.l2=0,0.0005` trains
every combination on the whole graph once per division, in one process, and prints the mean over the divisions of the
validation micro-F1 (for one label a node: the accuracy) at the epoch where that mean is largest, and at the last. All
combinations see the same divisions. Rows are appended to `experiments/accuracy/results/hold_outs.csv`.
"""

import argparse
import csv
import itertools
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
from tqdm import tqdm

from experiments.accuracy.all_nodes import of_all_nodes
from hetjax.datasets.load import load
from hetjax.datasets.splits import hold_out
from hetjax.graph.hetgraph import HetGraph
from hetjax.options import owners
from hetjax.options.command_line import parse
from hetjax.options.config import Config, Data
from hetjax.sharding import registry
from hetjax.sharding.registry import make_engine
from hetjax.sharding.strategy import setup
from hetjax.tasks import metrics

ROOT = Path(__file__).parents[2]
SECTIONS = owners.all_sections()


def none_held_out(data: Data) -> dict:
    """Return the reader's section of options, with no training node held out."""
    options = owners.reader_options(data)
    return {data.format: replace(options, validation_fraction=0)} if hasattr(options, "validation_fraction") else {}


def curves(config: Config, graphs: list, every: int, bar: tqdm) -> np.ndarray:
    """Return the validation micro-F1 every so many epochs, `[graphs, evaluations]`."""
    trainer = setup(config, graphs[0]).trainer
    init, step = jax.jit(trainer.init), jax.jit(trainer.step, donate_argnums=0)
    apply = jax.jit(trainer.model.apply)
    found = []
    for seed, graph in enumerate(graphs):
        static = {name: jax.device_put(graph.features[name]) for name in trainer.widths if name in graph.features}
        batch = of_all_nodes(make_engine(config, graph))
        state, seed, ids = init(np.int32(seed)), np.int32(seed), graph.splits["validation"]
        found.append([])
        for epoch in range(1, config.train.epochs + 1):
            state, _ = step(state, static, batch, seed)
            if epoch % every == 0:
                learned = {name: table.rows for name, table in state.tables.items()}
                logits = np.asarray(apply(state.params, batch.blocks, static | learned))
                found[-1].append(metrics.quality(logits[ids], graph.labels[ids])["micro_f1"])
        bar.update()
    return np.array(found)


def divided(graph: HetGraph, fraction: float, division: int) -> HetGraph:
    """Return the graph with a share of its training nodes held out."""
    train, validation = hold_out(graph.splits["train"], fraction, division)
    return replace(graph, splits=graph.splits | {"train": train, "validation": validation})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--example", required=True, help="examples/NAME.yaml, which the combinations change")
    parser.add_argument("--vary", action="append", default=[], metavar="KEY=VALUE,VALUE", help="a key and its values")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a key that all have")
    parser.add_argument("--divisions", type=int, default=10, help="ways to hold out nodes")
    parser.add_argument("--fraction", type=float, default=0.2, help="of the training nodes, held out")
    parser.add_argument("--every", type=int, default=1, help="epochs between two looks at them")
    parser.add_argument(
        "--out", type=Path, default=Path(__file__).parent / "results" / "hold_outs.csv", help="the table to append to"
    )
    options = parser.parse_args()
    keys = [pair.partition("=")[0] for pair in options.vary]
    if any(key.startswith("data.") for key in keys):
        parser.error(
            "--vary changes the model and its training; data.* is for --set, as all combinations see one graph"
        )
    choices = [pair.partition("=")[2].split(",") for pair in options.vary]
    given = [f"--config={ROOT / 'examples' / options.example}.yaml", "--sampling.mode=full"]
    given += [f"--{pair}" for pair in options.set]
    combinations = list(itertools.product(*choices))
    graphs: list = []
    with tqdm(total=len(combinations) * options.divisions, unit="run") as bar:
        for values in combinations:
            variant = [f"{key}={value}" for key, value in zip(keys, values)]
            made, _ = parse(SECTIONS, [*given, *(f"--{pair}" for pair in variant)], "hold_outs", "", {})
            config = registry.config_of(made)
            if not graphs:
                graph = load(replace(config.data, own=none_held_out(config.data)))
                graphs = [divided(graph, options.fraction, division) for division in range(options.divisions)]
            found = curves(config, graphs, options.every, bar)
            mean = found.mean(axis=0)
            best = int(mean.argmax())
            row = {
                "example": options.example,
                "set": " ".join(options.set),
                "variant": " ".join(variant),
                "divisions": options.divisions,
                "best_epoch": (best + 1) * options.every,
                "mean": round(100 * float(mean[best]), 2),
                "deviation": round(100 * float(found[:, best].std(ddof=1)), 2),
                "last_epoch": config.train.epochs,
                "last_mean": round(100 * float(mean[-1]), 2),
                "own_best_mean": round(100 * float(found.max(axis=1).mean()), 2),
            }
            bar.write(" ".join(f"{key}={value}" for key, value in row.items()))
            append(options.out, row)


def append(file: Path, row: dict) -> None:
    """Append a line, and the header before the first."""
    file.parent.mkdir(parents=True, exist_ok=True)
    new = not file.exists()
    with open(file, "a", newline="") as stream:
        writer = csv.DictWriter(stream, list(row))
        if new:
            writer.writeheader()
        writer.writerow(row)


if __name__ == "__main__":
    main()
