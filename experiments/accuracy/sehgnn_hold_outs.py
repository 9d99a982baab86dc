"""Choose SeHGNN's options for HGB IMDB without the test nodes, over several divisions of its training nodes.

`HETJAX_DATA=... python experiments/accuracy/sehgnn_hold_outs.py --set model.hidden=128 --vary data.metapath_hops=2,3,4` trains what every combination changes of
`examples/imdb_sehgnn.yaml`, once per division, on the labelled training nodes alone: of a graph of metapaths no other node is needed. A row of each goes
to `experiments/accuracy/results/sehgnn_hold_outs.csv`. A fifth of the training nodes is held out in a division. Half of those choose the epoch, the threshold and the stack,
the other half is measured, and then the other way round: `stacked` and `alone` are the mean micro-F1 of both, over the divisions. Baselines
choose on both halves, so `stacked` is a little too high, of all alike.
`loss` is the lowest loss on all that are held out, and `epoch` where it was, also means.
"""

import argparse
import itertools
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
from tqdm import tqdm

from experiments.accuracy.all_nodes import of_all_nodes
from experiments.accuracy.hold_outs import ROOT, SECTIONS, append, divided
from hetjax.datasets.load import load, made, without_metapaths
from hetjax.graph.hetgraph import HetGraph
from hetjax.graph.names import Names
from hetjax.options.command_line import parse
from hetjax.options.config import Config, Data
from hetjax.sharding import registry
from hetjax.sharding.registry import make_engine
from hetjax.sharding.strategy import setup
from hetjax.tasks import baselines, metrics, stacking

EXAMPLE = ROOT / "examples" / "imdb_sehgnn.yaml"
OUT = Path(__file__).parent / "results" / "sehgnn_hold_outs.csv"
FRACTION = 0.2


class Divisions:
    """The graph of each division, with metapaths, and the baselines of its held-out nodes; means of features are computed once."""

    def __init__(self, count: int, data: Data):
        self.plain = load(replace(without_metapaths(data), validation_fraction=0, normalize_features="none"))
        self.divided = [divided(self.plain, FRACTION, number) for number in range(count)]
        self.found = [baselines.baselines(graph, "micro_f1") for graph in tqdm(self.divided, "baselines")]
        self.data: Data | None = None

    def graphs(self, data: Data) -> list[HetGraph]:
        """Return the graphs of the training and held-out nodes alone."""
        if self.data != data:
            self.data, ids = data, self.plain.splits["train"]
            made_once = made(self.plain, replace(data, metapath_label_hops=0))
            kept = {name: x[ids] for name, x in made_once.features.items()}
            self.made = []
            for graph in self.divided:
                labels = {name for name in made(graph, data, features=()).features if name.startswith("labels ")}
                whole = made(graph, data, features=labels)
                features = {
                    name: whole.features[name][ids] if name in labels else kept[name] for name in whole.features
                }
                self.made.append(_rows(whole, ids, features))
        return self.made


def _rows(graph: HetGraph, ids: np.ndarray, features: dict[str, np.ndarray]) -> HetGraph:
    """Return some target nodes of a graph of metapaths, and the nodes of the types that have one for each of them."""
    own, relations = {graph.schema.target, *features}, {}
    for relation, csc in graph.relations.items():
        starts, stops = csc.indptr[ids], csc.indptr[ids + 1]
        edges = np.concatenate([np.arange(start, stop) for start, stop in zip(starts, stops)])
        weights = None if csc.weights is None else csc.weights[edges]
        indices = csc.indices[edges]
        if relation.source in own:
            place = np.searchsorted(ids, indices).astype(indices.dtype)
            assert np.array_equal(ids[place], indices)
            indices = place
        indptr = np.concatenate([[0], np.cumsum(stops - starts)])
        relations[relation] = csc._replace(indptr=indptr, indices=indices, weights=weights)
    nodes = {name: len(ids) if name in own else count for name, count in graph.schema.nodes.items()}
    splits = {name: np.searchsorted(ids, graph.splits[name]).astype(np.int32) for name in ("train", "validation")}
    splits["test"] = np.zeros(0, np.int32)
    schema = replace(graph.schema, nodes=nodes)
    return replace(
        graph,
        schema=schema,
        relations=relations,
        features=features,
        labels=graph.labels[ids],
        splits=splits,
        names=Names(),
    )


def curves(config: Config, graphs: list[HetGraph]) -> Iterator[np.ndarray]:
    """Yield for each graph the logits of the held-out nodes at every evaluation, `[evaluations, nodes, classes]`."""
    trainer = setup(config, graphs[0]).trainer
    init, step = jax.jit(trainer.init), jax.jit(trainer.step, donate_argnums=0)
    apply = jax.jit(trainer.model.apply)
    for number, graph in enumerate(graphs):
        static = {name: jax.device_put(graph.features[name]) for name in trainer.widths if name in graph.features}
        batch = of_all_nodes(make_engine(config, graph))
        state, seed, found = init(np.int32(number)), np.int32(number), []
        for epoch in range(1, config.train.epochs + 1):
            state, _ = step(state, static, batch, seed)
            if epoch % config.train.evaluate_every == 0:
                learned = {name: table.rows for name, table in state.tables.items()}
                logits = np.asarray(apply(state.params, batch.blocks, static | learned))
                found.append(logits[graph.splits["validation"]])
        yield np.stack(found)


def measured(
    logits: np.ndarray, graph: HetGraph, found: dict, metric: str
) -> tuple[list[float], list[float], list[float]]:
    """Return the micro-F1 of each half of the held-out nodes, stacked and alone, by the choice of the other half; and
    the loss at every evaluation."""
    held = graph.splits["validation"]
    labels, stacked, alone = graph.labels[held], [], []
    order = np.random.default_rng(0).permutation(len(held))
    for half in (order[::2], order[1::2]):
        other = np.setdiff1d(order, half)
        ranks = [_rank(x[half], labels[half], metric) for x in logits]
        best = logits[int(np.argmax(ranks))]
        threshold = metrics.best_threshold(best[half], labels[half])
        alone.append(metrics.quality(best[other], labels[other], threshold=threshold)["micro_f1"])
        some = {
            name: replace(one, logits={"validation": one.logits["validation"][half]}) for name, one in found.items()
        }
        stack = stacking.fitted(best[half], some, graph.labels[held[half]], True)
        others = {name: one.logits["validation"][other] for name, one in found.items()}
        weighed = stack(best[other], others, True)
        stacked.append(metrics.quality(weighed, labels[other], threshold=stack.threshold)["micro_f1"])
    return stacked, alone, [metrics.quality(x, labels)["loss"] for x in logits]


def _rank(logits: np.ndarray, labels: np.ndarray, metric: str) -> float:
    quality = metrics.quality(logits, labels, threshold=metrics.best_threshold(logits, labels))
    return -quality["loss"] if metric == "loss" else quality[metric]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vary", action="append", default=[], metavar="KEY=VALUE,VALUE", help="a key and its values")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a key that all have")
    parser.add_argument("--divisions", type=int, default=4, help="ways to hold out nodes")
    parser.add_argument("--out", type=Path, default=OUT, help="the table to append to")
    options = parser.parse_args()
    keys = [pair.partition("=")[0] for pair in options.vary]
    if any(key.startswith("data.") and not key.startswith("data.metapath_") for key in keys):
        parser.error("the graph is read once: of data only what makes metapaths can be varied")
    choices = [pair.partition("=")[2].split(",") for pair in options.vary]
    given = [f"--config={EXAMPLE}", "--sampling.mode=full", *(f"--{pair}" for pair in options.set)]
    divisions = None
    for values in tqdm(list(itertools.product(*choices)), unit="combination"):
        variant = [f"{key}={value}" for key, value in zip(keys, values)]
        config = registry.config_of(
            parse(SECTIONS, [*given, *(f"--{pair}" for pair in variant)], "sehgnn_hold_outs", "", {})[0]
        )
        divisions = divisions or Divisions(options.divisions, config.data)
        graphs, started = divisions.graphs(config.data), time.perf_counter()
        results = [
            {metric: measured(logits, graph, found, metric) for metric in ("micro_f1", "loss")}
            for logits, graph, found in zip(curves(config, graphs), graphs, divisions.found)
        ]
        every = config.train.evaluate_every
        row: dict = {"set": " ".join(options.set), "variant": " ".join(variant), "divisions": options.divisions}
        for metric in ("micro_f1", "loss"):
            for place, name in enumerate(("stacked", "alone")):
                scores = [np.mean(one[metric][place]) for one in results]
                row[f"{name}_by_{metric}"] = round(100 * float(np.mean(scores)), 2)
        losses = np.array([one["loss"][2] for one in results])
        row["loss"] = round(float(losses.min(axis=1).mean()), 4)
        row["epoch"] = round(every * float(1 + losses.argmin(axis=1).mean()))
        row["epochs"], row["seconds"] = config.train.epochs, round(time.perf_counter() - started)
        tqdm.write(" ".join(f"{key}={value}" for key, value in row.items()))
        append(options.out, row)


if __name__ == "__main__":
    main()
