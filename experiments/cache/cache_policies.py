"""Training with the device's cache filled by each policy, at one budget (Heta's Figure 11).

`python experiments/cache/cache_policies.py` trains an R-GCN in Heta's setting (batches of 1024, Freebase's of 128, fanout 25 then
20, 64 wide, no self terms) for some steps on a graph of each schema, all features on the host, and a cache on the device of a tenth of
their bytes (moments included): `none`, `hotness`, `miss_penalty`, `optimal`. The losses of all are compared to the last bit.
On a computer without an accelerator the device is the host: bytes and hits mean what they would elsewhere, the times of a
step do not, since what the cache saves is a copy within the same memory.

Prints its table, and writes `experiments/cache/results/cache_policies.{csv,png}`, where the rows of other schemas stay as they are.
"""

import argparse
import csv
import tempfile
from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("Agg")
from matplotlib import pyplot
from tqdm import tqdm

from experiments.runs import records, replace_rows, train
from hetjax.datasets.schemas import SHAPES

SIZES = {  # scale, batch; Freebase has few training nodes
    "ogbn-mag": (0.1, 1024),
    "freebase": (0.05, 128),
    "donor": (0.05, 1024),
    "igb-het": (0.01, 1024),
    "mag240m": (0.002, 1024),
}
POLICIES = ("none", "hotness", "miss_penalty", "optimal")


def feature_bytes(schema: str, scale: float) -> int:
    """Return the bytes of all features, of learnable ones (64 wide) with moments and counts."""
    shape = SHAPES[schema]
    nodes = shape.schema(scale, shape.classes).nodes
    static = {name: width * np.dtype(dtype).itemsize for name, (width, dtype) in shape.features.items()}
    return sum(count * static.get(name, 12 * 64 + 4) for name, count in nodes.items())


def draw(rows: list[dict], file: Path) -> None:
    """Draw the cost of misses and the milliseconds of a step, bars by policy."""
    schemas = list(dict.fromkeys(row["schema"] for row in rows))
    figure, axes = pyplot.subplots(1, 3, figsize=(13, 3.6), layout="constrained")
    about = (
        ("hit_rate", "hits, % of reads", 0.01),
        ("mib_a_step", "MiB moved in a step", 1),
        ("step_ms", "milliseconds of a step", 1),
    )
    for axis, (key, label, unit) in zip(axes, about):
        for number, policy in enumerate(POLICIES):
            found = [row for row in rows if row["policy"] == policy]
            places = [schemas.index(row["schema"]) + (number - 1.5) * 0.2 for row in found]
            axis.bar(places, [float(row[key]) / unit for row in found], 0.18, label=policy.replace("_", " "))
        axis.set(ylabel=label, xticks=range(len(schemas)))
        axis.set_xticklabels(schemas)
        axis.grid(axis="y", alpha=0.3)
    axes[0].legend(frameon=False)
    figure.savefig(file, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--schemas", nargs="+", choices=list(SIZES), default=list(SIZES), help="graphs")
    parser.add_argument("--scale", type=float, default=1.0, help="multiplies every schema's scale")
    parser.add_argument("--steps", type=int, default=20, help="of each of two epochs")
    parser.add_argument("--share", type=float, default=0.1, help="of all features' bytes, the budget")
    out = Path(__file__).parent / "results"
    parser.add_argument("--out", type=Path, default=out, help="where the table is written")
    options = parser.parse_args()
    file = options.out / "cache_policies.csv"
    with tempfile.TemporaryDirectory() as made:
        for schema in options.schemas:
            (scale, batch), losses = SIZES[schema], set()
            scale *= options.scale
            budget = int(options.share * feature_bytes(schema, scale))
            for policy in tqdm(POLICIES, schema, unit="run"):
                workdir = Path(made) / f"{schema}_{policy}"
                summary = train(workdir, "quickstart", setting(schema, scale, batch, options.steps, budget, policy))
                epochs = [record for record in records(workdir) if "epoch" in record]
                losses.add(tuple(record["train_loss"] for record in epochs))
                about = {"schema": schema, "scale": scale, "policy": policy, "budget_bytes": budget}
                row = about | of(summary, epochs[-1]["step"])
                tqdm.write(str(row))
                replace_rows(file, ("schema", "policy"), [row])
            print(f"{schema}: losses {'the same to the last bit' if len(losses) == 1 else f'DIFFER: {losses}'}")
    with open(file, newline="") as stream:
        draw(list(csv.DictReader(stream)), options.out / "cache_policies.png")


def setting(schema: str, scale: float, batch: int, steps: int, budget: int, policy: str) -> dict[str, str]:
    return {
        "synthetic.schema": schema,
        "synthetic.scale": str(scale),
        "synthetic.classes": "0",
        "model.self_term": "false",
        "sampling.fanout": "[25,20]",
        "sampling.batch_size": str(batch),
        "train.epochs": "2",
        "train.steps_per_epoch": str(steps),
        "cache.bytes_per_device": str(budget),
        "cache.policy": policy,
    }


def of(summary: dict, steps: int) -> dict:
    """Return a row of the table."""
    types = summary["cache"]
    hits, misses = (sum(one[name] for one in types) for name in ("hits", "misses"))
    moved = sum(one["sent_bytes"] + one["returned_bytes"] for one in types)
    rates = {one["node_type"]: one["hit_rate"] for one in types if one["hit_rate"] is not None}
    return {
        "hit_rate": round(hits / (hits + misses), 4),
        "mib_a_step": round(moved / steps / 2**20, 2),
        "step_ms": round(summary["milliseconds_per_step"]["step"], 1),
        "hit_rates": " ".join(f"{name}={rate:.3f}" for name, rate in rates.items()),
    }


if __name__ == "__main__":
    main()
