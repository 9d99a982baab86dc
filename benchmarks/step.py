"""Time hetjax's mini-batch training step, as `hetjax.train` runs it, on a graph that peers can read too.

`python benchmarks/step.py GRAPH.npz --model rgcn|rgat|hgt` prints one JSON line: the median milliseconds of a step of a full batch, from one
batch to the next, sampling and update included; and of its parts, of which sampling runs ahead in a thread, and takes that
thread's core from the step: so the step is also timed with nothing sampled beside it. Steps that compile are timed apart.
`graph_file.py` says what the file holds. The line also has the bytes that a step moves and the multiplications of its best orders (`bytes_moved.py` says
which), how fast this machine does both, and how many times as long as that the step takes, with and without sampling.
"""

import argparse
import collections
import itertools
import json
import time
from dataclasses import replace
from typing import NamedTuple

from hetjax.system import runtime

if __name__ == "__main__":
    runtime.prepare()

import bytes_moved
import jax
import numpy as np
from graph_file import held, read

from hetjax.graph.hetgraph import HetGraph
from hetjax.kernels import segment
from hetjax.kernels.native import platforms
from hetjax.models import hgt, rgat, rgcn
from hetjax.options import owners
from hetjax.options.command_line import run_command
from hetjax.options.config import Config, Sampling, Train
from hetjax.sampling.blocks import Batch
from hetjax.sharding import mesh as meshes
from hetjax.sharding.registry import make_engine
from hetjax.train import with_upcoming
from hetjax.training.meters import ProgramCounter

MODELS = {"rgcn": {}, "rgat": {"heads": 4}, "hgt": {"heads": 4}}


def configuration(model: str, batch: int, fanout: str, hidden: int, threads: int = 0) -> Config:
    """Return the configuration of a model as the peers have it."""
    own = {} if model == "hgt" else {"self_term": False}  # as the peers' R-GCN and R-GAT
    return Config(
        model=owners.made_model(name=model, hidden=hidden, feature_width=64, **own, **MODELS[model]),
        sampling=Sampling(batch_size=batch, fanout=tuple(map(int, fanout.split(","))), threads=threads),
        train=Train(epochs=1, learning_rate=0.01),
    )


class Steps(NamedTuple):
    """Steps that were trained.

    Attributes:
      timed, compiling: seconds of a step's parts, by step; those that compiled programs apart.
      losses: of every step.
      alone: milliseconds of steps with nothing sampled beside them.
      batch: the last.
      programs: how many were compiled.
    """

    timed: list[dict[str, float]]
    compiling: list[dict[str, float]]
    losses: list[float]
    alone: list[float]
    batch: Batch
    programs: int


def main() -> None:
    options = parse()
    jax.config.update("jax_enable_x64", options.double)
    if options.plain:
        platforms.ffi_version, segment._sum_by_rows = lambda: None, segment._sum_by_segments
        for module in (rgcn, rgat, hgt):
            module.multiply_first = lambda *_: True
    meshes.provide_cpu_devices(1, alone=True)
    graph = read(options.graph)
    if options.double:
        graph = replace(graph, features={t: matrix.astype(float) for t, matrix in graph.features.items()})
    steps = train(graph, options)
    print(json.dumps(describe(steps, graph, options) | beside_floor(steps, graph, options)))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graph", help="an .npz file")
    parser.add_argument("--model", choices=list(MODELS), default="rgcn")
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--fanout", default="25,20", help="per relation, the seeds' own hop first")
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--steps", type=int, default=20, help="that are timed, after those that compile")
    parser.add_argument("--threads", type=int, default=0, help="that draw batches, as `sampling.threads`")
    parser.add_argument("--losses", type=int, default=0, help="stop after this step, and print the loss of every step")
    parser.add_argument(
        "--plain", action="store_true", help="by the operations of XLA alone, and with no change of their order"
    )
    parser.add_argument("--double", action="store_true", help="in float64; features are then gathered for each batch")
    parser.add_argument("--nudge", action="store_true", help="from weights that are the next larger numbers")
    return parser.parse_args()


def train(graph: HetGraph, options: argparse.Namespace) -> Steps:
    size = min(options.batch, len(graph.splits["train"]))  # so that an epoch has a full batch, which alone is timed
    config = configuration(options.model, size, options.fanout, options.hidden, options.threads)
    programs, engine = ProgramCounter(), make_engine(config, graph)
    state, timed, compiling, losses = engine.init(0), [], [], []
    if options.double:
        state = jax.tree.map(lambda leaf: leaf.astype(float) if leaf.dtype == np.float32 else leaf, state)
    if options.nudge:
        state = state._replace(params=jax.tree.map(lambda leaf: jax.numpy.nextafter(leaf, np.inf), state.params))
    last = time.perf_counter()
    epochs = (
        drawn
        for number in itertools.count()
        for drawn in engine.batches.epoch(number)
        if drawn.batch.arrays.weights.all()
    )
    recent = collections.deque(maxlen=3)
    for drawn, following in with_upcoming(epochs):
        recent.append(drawn.batch)
        waited, before = time.perf_counter(), programs.count
        state, loss = engine.step(state, drawn.batch, following and following.batch)
        losses.append(float(loss))
        done = time.perf_counter()
        times = {"waiting": waited - last, "step": done - waited, "sampling, in a thread ahead": drawn.seconds}
        last = done
        (compiling if programs.count > before or len(compiling) < 3 else timed).append(times)
        if len(losses) == options.losses or (not options.losses and len(timed) == options.steps):
            break
    epochs.close()
    alone = []
    for batch in itertools.islice(itertools.cycle(recent), len(timed)):
        started = time.perf_counter()
        state, loss = engine.step(state, batch)
        jax.block_until_ready((state, loss))
        alone.append(1000 * (time.perf_counter() - started))
    return Steps(timed, compiling, losses, alone, batch, programs.count)


def milliseconds(steps: Steps) -> float:
    """Return the milliseconds of a step, from one batch to the next."""
    return round(1000 * float(np.median([row["waiting"] + row["step"] for row in steps.timed])), 1)


def describe(steps: Steps, graph: HetGraph, options: argparse.Namespace) -> dict:
    timed = steps.timed
    return {
        "ms_per_step": milliseconds(steps),
        "parts": {name: round(1000 * float(np.median([row[name] for row in timed])), 1) for name in timed[0]}
        | {"step, nothing sampled beside it": round(float(np.median(steps.alone)), 1)},
        "steps": len(timed),
        "compile_seconds": round(sum(row["step"] for row in steps.compiling), 1),
        "programs": steps.programs,
        "system": f"hetjax, jax {jax.__version__}, {jax.default_backend()}",
        "model": options.model,
        "edges": sum(edges for block in steps.batch.blocks for *_, edges in bytes_moved.counts(block, graph).values()),
        "peak_mib": round(held() / 2**20),
        "loss": steps.losses[-1],
    } | ({"losses": steps.losses} if options.losses else {})


def beside_floor(steps: Steps, graph: HetGraph, options: argparse.Namespace) -> dict:
    """Return the bytes and multiplications that a step needs, and how many times as long as these the step takes."""
    alone = float(np.median(steps.alone))
    found = bytes_moved.floor(options.model, steps.batch, graph, options.hidden)
    return found | {
        "times_floor": round(milliseconds(steps) / found["floor_ms"], 2),
        "times_floor_without_sampling": round(alone / found["floor_ms"], 2),
    }


if __name__ == "__main__":
    run_command(lambda arguments: main())
