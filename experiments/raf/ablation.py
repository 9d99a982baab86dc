"""RAF with relations placed at random, against meta-partitioning, over emulated hosts.

`python experiments/raf/ablation.py` (as root, on Linux) stores a synthetic graph of each schema, divides it between two hosts by
meta-partitioning and, so many times, at random, and trains an R-GCN on each division (experiments/raf/over_hosts.py). What is
placed is a relation into the target with all that hangs below it: a partition that does not have these cannot aggregate on its
own, so the randomness is in who owns which sub-metatree. The table has what the division sends in a step (counted, and on
the wire), how long the step takes, and how much longer the partition with most to aggregate takes than the mean. Writes
`experiments/raf/results/ablation.{csv,png}`.
"""

import argparse
import random
import statistics
import tempfile
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot
from tqdm import tqdm

import hetjax
from experiments.hosts import hosts
from experiments.raf.over_hosts import RAF, measure, steps_of, stored
from experiments.runs import markdown, write_rows
from hetjax.partition import MetaPartitioning, Workload, save
from hetjax.partition.reports import report

SIZES = {"ogbn-mag": (0.05, 1024), "freebase": (0.04, 128), "donor": (0.02, 1024)}  # scale, batch
META = "meta-partitioning"


def at_random(plan: MetaPartitioning, chance: random.Random) -> MetaPartitioning:
    """Return the same metatree with random owners of its sub-metatrees; every partition owns something."""
    parts = len(plan.owners)
    while True:
        of = [chance.randrange(parts) for _ in plan.tree.roots]
        if len(set(of)) == parts:
            owners = tuple(tuple(r for r, o in zip(plan.tree.roots, of) if o == part) for part in range(parts))
            return MetaPartitioning(
                plan.sizes, plan.tree, owners, method="given", workload=plan.workload, store=plan.store
            )


def draw(rows: list[dict], file: Path) -> None:
    """Draw the milliseconds and bytes of a step, a dot per division."""
    figure, axes = pyplot.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    schemas = list(dict.fromkeys(row["schema"] for row in rows))
    about = ("milliseconds_per_step", "milliseconds a step", 1), ("bytes_counted", "MiB sent in a step", 2**20)
    for axis, (key, label, unit) in zip(axes, about):
        for marker, meta in (("o", False), ("D", True)):
            found = [row for row in rows if (row["division"] == META) == meta]
            places = [schemas.index(row["schema"]) for row in found]
            name = META if meta else "at random"
            axis.plot(places, [row[key] / unit for row in found], marker, label=name, alpha=0.7)
        axis.set(ylabel=label, xticks=range(len(schemas)), ylim=(0, None))
        axis.set_xticklabels(schemas)
        axis.margins(x=0.2)
        axis.grid(axis="y", alpha=0.3)
    axes[0].legend(frameon=False)
    figure.savefig(file, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--schemas", nargs="+", choices=list(SIZES), default=list(SIZES), help="graphs")
    parser.add_argument("--scale", type=float, default=1.0, help="multiplies every schema's scale")
    parser.add_argument("--rate", default="1gbit", help="bandwidth of every host, as tc writes it")
    parser.add_argument("--times", type=int, default=3, help="divisions at random")
    parser.add_argument("--steps", type=int, default=8, help="of an epoch that is run")
    parser.add_argument("--seed", type=int, default=0, help="of the divisions")
    out = Path(__file__).parent / "results"
    parser.add_argument("--out", type=Path, default=out, help="where the table is written")
    options = parser.parse_args()
    chance, rows = random.Random(options.seed), []
    with tempfile.TemporaryDirectory() as made_here:
        folder = Path(made_here)
        for schema in options.schemas:
            scale, batch = SIZES[schema]
            scale *= options.scale
            graph = stored(schema, scale, folder)
            steps, size = min(options.steps, steps_of(graph, batch)), f"--sampling.batch_size={batch}"
            meta = hetjax.partition(graph, 2, self_term=False, workload=Workload(batch))
            plans = {META: meta} | {f"at random {n}": at_random(meta, chance) for n in range(options.times)}
            for number, (name, plan) in enumerate(tqdm(plans.items(), desc=schema, unit="division")):
                where = folder / f"plan_{schema}_{number}"
                save(plan, where)
                loads = [row["expected_load_bytes"] for row in report(plan).rows]
                with hosts(2, options.rate) as made:
                    found = measure(made, graph, [*RAF, size, f"--raf.plan={where}"], steps, folder)
                owners = " | ".join(", ".join(root.relation.name for root in roots) for roots in plan.owners)
                balance = round(max(loads) / statistics.mean(loads), 2)
                about = {"schema": schema, "scale": scale, "batch": batch, "rate": options.rate, "division": name}
                rows.append(about | found | {"expected_load_by_mean": balance, "owners": owners})
                tqdm.write(str(rows[-1]))
                write_rows(options.out / "ablation.csv", rows)
    draw(rows, options.out / "ablation.png")
    print(markdown(rows))


if __name__ == "__main__":
    main()
