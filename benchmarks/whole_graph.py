"""Time hetjax's epoch on the whole graph of one device, as `hetjax.train` runs it, on a graph that peers can read too.

`python benchmarks/whole_graph.py GRAPH.npz --model gcn|gat|rgcn|rgat|hgt` prints one JSON line: the median milliseconds of an epoch
(forward, loss of the training nodes, backward, Adam), the loss after as many epochs as the peers take, and the most memory that the process
held, the reading of the graph included. Compilation is timed apart. `graph_file.py` says what the file holds. Of the last three the line also has the
floor of an epoch (`bytes_moved.py`).
"""

import argparse
import json
import statistics
import time

from hetjax.system import runtime

if __name__ == "__main__":
    runtime.prepare()

import bytes_moved
import jax
from graph_file import held, read

from hetjax.options import owners
from hetjax.options.command_line import run_command
from hetjax.options.config import Config, Sampling, Train
from hetjax.sharding import mesh as meshes
from hetjax.sharding.registry import make_engine

WARM = 2  # epochs that are not timed


def configuration(model: str, hidden: int, heads: int) -> Config:
    """Return the configuration of a model as the peers have it: of one relation as in the papers, of several with a linear head."""
    own: dict = {"rgat": {"heads": heads, "self_term": False}, "rgcn": {"self_term": False}, "hgt": {"heads": heads}}
    own |= {"gcn": {"head": False}, "gat": {"head": False, "heads": heads, "output_heads": 1}}
    return Config(
        model=owners.made_model(name=model, hidden=hidden, feature_width=64, **own[model]),
        sampling=Sampling(mode="full"),
        train=Train(epochs=1, learning_rate=0.01),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graph", help="an .npz file")
    parser.add_argument("--model", choices=["gcn", "gat", "rgcn", "rgat", "hgt"], required=True)
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--steps", type=int, default=10, help="epochs that are timed, after those that compile")
    options = parser.parse_args()
    meshes.provide_cpu_devices(1, alone=True)
    graph = read(options.graph)
    engine = make_engine(configuration(options.model, options.hidden, options.heads), graph)
    state, times, loss = engine.init(0), [], None
    for number in range(options.steps + WARM):
        for drawn in engine.batches.epoch(number):
            started = time.perf_counter()
            state, loss = engine.step(state, drawn.batch)
            jax.block_until_ready((state, loss))
            times.append(1000 * (time.perf_counter() - started))
    report = {
        "ms_per_step": round(statistics.median(times[WARM:]), 1),
        "loss": float(loss),
        "system": f"hetjax, jax {jax.__version__}, {jax.default_backend()}",
        "peak_mib": round(held() / 2**20),
        "compile_seconds": round(sum(times[:WARM]) / 1000, 1),
    }
    if options.model in bytes_moved.ORDERS and options.heads == bytes_moved.HEADS:
        report |= bytes_moved.floor(options.model, drawn.batch, graph, options.hidden)
        report["times_floor"] = round(report["ms_per_step"] / report["floor_ms"], 2)
    print(json.dumps(report))


if __name__ == "__main__":
    run_command(lambda arguments: main())
