"""Training a graph whose features and embeddings are four times the memory allowed, in chunks, at the same losses.

`HETJAX_DATA=... python experiments/tensor/tensor_memory.py` trains every model on one generated graph (Zipf degrees, directed) by tensor parallelism:
with all on the devices, and in chunks with `tensor.device_bytes` a quarter of what a device has of features and of the embeddings that
every layer makes. Columns: bytes of these; bytes allowed; the number of chunks; bytes that programs take as compiled, of arguments, results
and temporaries, beside each other where they are pipelined, and of what is held all the time; the most bytes of arrays that were
alive on a device when a program began or ended; the largest relative difference of a loss to training with all on the
devices; the median seconds of a step. Writes `experiments/tensor/results/tensor_memory.csv`.
"""

import argparse
import gc
import statistics
import time
from pathlib import Path

from hetjax.system import runtime

if __name__ == "__main__":
    runtime.prepare()

import jax

from experiments.runs import markdown, write_rows
from experiments.tensor.tensor_graphs import zipf
from hetjax.graph.hetgraph import HetGraph
from hetjax.options.config import Config, Mesh, Model, Sampling, Train
from hetjax.sharding import mesh as meshes
from hetjax.sharding import traffic
from hetjax.sharding.registry import make_engine
from hetjax.sharding.tensor.chunks import room
from hetjax.sharding.tensor.declared import Options

OUT = Path(__file__).parent / "results" / "tensor_memory.csv"
MODELS = {
    "GCN": {"name": "gcn"},
    "GCN, decoupled": {"name": "gcn", "decoupled": True},
    "GAT": {"name": "gat", "heads": 4},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=20_000)
    parser.add_argument("--degree", type=int, default=8, help="edges for every node")
    parser.add_argument("--width", type=int, default=256, help="of features")
    parser.add_argument("--hidden", type=int, default=128, help="width of embeddings")
    parser.add_argument("--devices", type=int, default=2)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument(
        "--times", type=float, default=4, help="features and embeddings are so many times the bytes allowed"
    )
    options = parser.parse_args()
    meshes.provide_cpu_devices(options.devices)
    graph = zipf(options.nodes, options.degree * options.nodes, options.width, 8)
    rows = []
    for name, model in MODELS.items():
        whole, _ = trained(graph, options, model, -1)
        layers = 2
        held = 4 * options.nodes * (options.width + layers * options.hidden) // options.devices
        allowed = int(held / options.times)
        losses, row = trained(graph, options, model, allowed)
        apart = max(abs(one / other - 1) for one, other in zip(losses, whole, strict=True))
        rows.append(
            {"model": name, "features_and_embeddings": held, "allowed": allowed} | row | {"loss_apart": f"{apart:.1e}"}
        )
        print(markdown(rows[-1:]), flush=True)
    write_rows(OUT, rows)


def trained(graph: HetGraph, options, model: dict, allowed: int) -> tuple[list[float], dict]:
    """Return the losses of some steps, and for chunks their memory and time."""
    config = Config(
        model=Model(hidden=options.hidden, **model),
        sampling=Sampling("full"),
        train=Train(learning_rate=0.01),
        mesh=Mesh(1, 1, "tensor", options.devices),
        strategies={"tensor": Options(device_bytes=allowed)},
    )
    engine = make_engine(config, graph)
    watched = Watch()
    (drawn,) = engine.batches.epoch(0)
    state, losses, seconds = engine.init(0), [], []
    gc.collect()  # what was tried before holds arrays
    if allowed >= 0:
        traffic.Program.__call__ = lambda *arguments: watched.call(*arguments)  # type: ignore[method-assign]
    for _ in range(options.steps):
        started = time.perf_counter()
        state, loss = engine.step(state, drawn.batch)
        losses.append(float(loss))
        seconds.append(time.perf_counter() - started)
    traffic.Program.__call__ = watched.plain  # type: ignore[method-assign]
    if allowed < 0:
        return losses, {}
    held, moving = room.needed(engine)
    return losses, {
        "chunks": sum(map(len, engine.chunks.values())),
        "held": held,
        "moving": room.peak(engine),
        "alive": watched.most,
        "seconds": round(statistics.median(seconds), 2),
    }


class Watch:
    """A record of the most bytes of arrays alive on the first device whenever a program began or ended."""

    def __init__(self):
        self.most, self.plain = 0, traffic.Program.__call__

    def call(self, *arguments):
        self.look()
        found = self.plain(*arguments)
        self.look()
        return found

    def look(self) -> None:
        first, alive = jax.devices()[0], {}
        for array in jax.live_arrays():  # an array and its shards are the same memory
            try:
                own = [shard.data for shard in array.addressable_shards if shard.device == first and shard.data.nbytes]
                alive.update((data.unsafe_buffer_pointer(), data.nbytes) for data in own)
            except RuntimeError:  # used up meanwhile by a fold of another thread
                continue
        self.most = max(self.most, sum(alive.values()))


if __name__ == "__main__":
    main()
