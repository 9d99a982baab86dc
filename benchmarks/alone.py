"""Time hetjax's sampler, or its evaluation, alone.

`python benchmarks/alone.py GRAPH.npz sampling` samples batches as training does, in one thread and nothing beside it, and prints a
JSON line with the edges that it sampled in a second: sampled, renumbered, grouped by source too where a gradient needs that, and padded.

`python benchmarks/alone.py GRAPH.npz evaluation --model rgcn|rgat|hgt` computes the embeddings of all nodes of all types, layer by
layer, from all of their neighbours, and the logits of the target type's nodes; the line has the nodes of the graph per second.
The first pass compiles, and is not counted.
"""

import argparse
import json
import time

from hetjax.system import runtime

if __name__ == "__main__":
    runtime.prepare()

import jax
import numpy as np
from graph_file import read
from step import MODELS, configuration

from hetjax.options.command_line import run_command
from hetjax.options.config import Config
from hetjax.sampling.whole import count_edges
from hetjax.sharding import mesh as meshes
from hetjax.sharding.evaluate import Evaluator
from hetjax.sharding.registry import make_engine
from hetjax.sharding.strategy import setup
from hetjax.system.runtime import peak_memory


def sampling(graph, config: Config, trainer, rounds: int) -> dict:
    """Return the edges per second of every batch."""
    batches = make_engine(config, graph).batches
    batches.prepare()
    batches.fit(batches.agree(batches._needs(batches.samples(0))))
    rates, times = [], []
    for number in range(rounds + 2):
        epoch, step = divmod(number, batches.steps())
        order = batches._order(epoch)
        started = time.perf_counter()
        seeds, sample = batches._sample(order, epoch, step)
        jax.block_until_ready(batches.send(seeds, sample))
        seconds = time.perf_counter() - started
        edges = count_edges(sample.blocks)
        rates.append(edges / seconds)
        times.append(seconds)
    return {"per_second": float(np.median(rates[2:])), "ms": 1000 * float(np.median(times[2:])), "edges": edges}


def evaluation(graph, config: Config, trainer, rounds: int) -> dict:
    """Return the nodes per second of every pass."""
    state = trainer.init(np.int32(0))
    features = graph.features | {t: np.asarray(table.rows) for t, table in state.tables.items()}
    evaluator = Evaluator(trainer.model, graph, config.sampling.evaluation_edges)
    everyone, times = np.arange(graph.schema.nodes[graph.schema.target], dtype=np.int32), []
    nodes = sum(graph.schema.nodes.values())
    for _ in range(rounds + 1):
        started = time.perf_counter()
        evaluator.embed(state.params, features, {evaluator.model.roots[0]: everyone})
        times.append(time.perf_counter() - started)
    return {"per_second": nodes / float(np.median(times[1:])), "ms": 1000 * float(np.median(times[1:])), "nodes": nodes}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graph", help="an .npz file")
    parser.add_argument("what", choices=["sampling", "evaluation"])
    parser.add_argument("--model", choices=list(MODELS), default="rgcn")
    parser.add_argument("--batch", type=int, default=1024, help="seeds, when sampling")
    parser.add_argument("--fanout", default="25,20", help="per relation, the seeds' own hop first")
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=10, help="batches, or passes over the graph")
    options = parser.parse_args()
    meshes.provide_cpu_devices(1, alone=True)
    graph = read(options.graph)
    config = configuration(options.model, options.batch, options.fanout, options.hidden)
    measured = {"sampling": sampling, "evaluation": evaluation}[options.what]
    found = measured(graph, config, setup(config, graph).trainer, options.rounds)
    about = {"system": f"hetjax, jax {jax.__version__}", "what": options.what, "model": options.model}
    print(json.dumps(about | found | {"peak_mib": round(peak_memory() / 2**20)}))


if __name__ == "__main__":
    run_command(lambda arguments: main())
