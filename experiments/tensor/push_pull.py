"""Push-pull in mini-batches beside data parallelism: bytes of a step, and bytes of features on a device, on a published schema.

`python experiments/tensor/push_pull.py [--scale 1]` draws mini-batches of a graph of ogbn-mag's schema and counts, without training:

- `push-pull`: `hetjax/sharding/push_pull/costs.py`, which tests hold against compiled programs, to the byte; padding included.
- `raf, data`: replicas of RAF that have all features each. They give each other the ids and gradients of the learnable rows that they
  read, and sum the gradients of the weights.
- `vanilla`: every row of features that a replica reads and another owns, at random, comes once; of learnable ones
gradients are sent backward. Without padding.

Columns: devices, what crosses for features (rows, partial products, logits, gradients of rows), for weights, and the bytes of features,
tables and their moments that one device holds. Writes `experiments/tensor/results/push_pull.csv`.
"""

import argparse
from pathlib import Path

import jax
import numpy as np

if __name__ == "__main__":
    jax.config.update("jax_num_cpu_devices", 4)

from tqdm import tqdm

from experiments.runs import markdown, replace_rows
from hetjax.datasets import synthetic
from hetjax.options.config import Config, Model, Sampling
from hetjax.sampling.blocks import round_up
from hetjax.sampling.sampler import Sampler
from hetjax.sharding import mesh as meshes
from hetjax.sharding.push_pull import costs
from hetjax.sharding.push_pull.batches import PushBatches
from hetjax.sharding.push_pull.first import first_layer
from hetjax.sharding.strategy import Setup, setup

RESULTS = Path(__file__).parent / "results"
KEYS = ("schema", "scale", "model", "devices", "way")
WIDTH, MIB = 64, 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--schema", default="ogbn-mag")
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--models", nargs="+", default=["rgcn", "rgat", "hgt", "gatv2"])
    parser.add_argument("--devices", nargs="+", type=int, default=[2, 4])
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--fanout", nargs="+", type=int, default=[25, 20])
    options = parser.parse_args()
    graph, rows = synthetic.generate(options.schema, options.scale, 32), []
    for model in tqdm(options.models, unit="model"):
        for devices in options.devices:
            config = Config(
                model=Model(name=model, hidden=WIDTH, feature_width=WIDTH),
                sampling=Sampling(batch_size=options.batch, fanout=tuple(options.fanout)),
            )
            given = setup(config, graph)
            about = {"schema": options.schema, "scale": options.scale, "model": model, "devices": devices}
            ways = {"push-pull": push_pull, "raf, data": replicas, "vanilla": vanilla}
            rows += [about | {"way": way} | row(given, devices, *count(given, devices)) for way, count in ways.items()]
            replace_rows(RESULTS / "push_pull.csv", KEYS, rows)
    print(markdown(rows))


def row(given: Setup, devices: int, crossing: float, resident: float) -> dict:
    weights = costs.of_weights(given.trainer, devices)
    return {
        "mib_of_features_a_step": round(crossing / MIB, 2),
        "mib_of_weights_a_step": round(weights / MIB, 2),
        "mib_of_features_on_a_device": round(resident / MIB, 1),
    }


def push_pull(given: Setup, devices: int) -> tuple[float, float]:
    first = first_layer(given.trainer, devices)
    batches = PushBatches(given, meshes.groups(1, devices), first.cut)
    batches.prepare()
    drawn = next(batches.epoch(0))
    sent = costs.sent(given.trainer, first, costs.sizes(drawn.batch, first, 1))
    return sum(sent.values()), costs.resident(given.trainer, given.graph, devices)


def read(given: Setup, devices: int) -> list[dict[str, np.ndarray]]:
    """Return the nodes whose features each replica reads in the first step."""
    graph, regime, model = given.graph, given.regime, given.trainer.model
    sampler = Sampler(graph, frozenset(), given.flowing, model.reads_own)
    seeds = graph.splits["train"][: regime.batch_size]
    size = -(-len(seeds) // devices)
    shares = [seeds[start : start + size].astype(np.int32) for start in range(0, len(seeds), size)]
    return [dict(sampler.sample({graph.schema.target: ids}, regime.fanouts, (0, 0, 0)).inputs) for ids in shares]


def replicas(given: Setup, devices: int) -> tuple[float, float]:
    """Return the bytes if all replicas send each other ids and gradients, counted as an all-gather; and the bytes of
    features on a device."""
    found, sent = read(given, devices), 0.0
    for t in given.trainer.learnable:
        rows = round_up(max(len(ids[t]) for ids in found if t in ids))
        sent += devices * (devices - 1) * rows * 4 * (1 + given.trainer.widths[t])
    return sent, costs.resident(given.trainer, given.graph, 1)


def vanilla(given: Setup, devices: int) -> tuple[float, float]:
    rng, trainer, graph = np.random.default_rng(0), given.trainer, given.graph
    owner = {t: rng.integers(0, devices, graph.schema.nodes[t], np.int8) for t in trainer.widths}
    sent = 0.0
    for part, inputs in enumerate(read(given, devices)):
        for t, ids in inputs.items():
            ways, size = (2, 4) if t in trainer.learnable else (1, graph.features[t].dtype.itemsize)
            sent += ways * int(np.sum(owner[t][ids] != part)) * trainer.widths[t] * size
    return sent, costs.resident(trainer, graph, 1) / devices


if __name__ == "__main__":
    main()
