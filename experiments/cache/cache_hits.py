"""Hit rates of the device's cache by budget: partitions of meta-partitioning against the whole graph (Heta's Figure 12).

`python experiments/cache/cache_hits.py` samples two epochs of an R-GCN in Heta's setting (batches of 1024, fanout 25 then 20, no
self terms) on a graph of each schema, on the whole graph and on two partitions. From the first the cache is filled, by
every policy and at every budget, a share of the bytes of all features with the moments of learnable ones; on the second
its hits are counted. Nothing is trained: what is read does not depend on it. A partition's device has the same budget as
the whole graph's. Penalties are those measured on this machine, of all types of the whole graph.

Prints its tables, and writes `experiments/cache/results/cache_hits.{csv,png}`: per schema, division, policy and budget the hit
rate of all types on all partitions, on each, and of every type, and the milliseconds a step that misses cost by the penalties.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import jax
import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot
from tqdm import tqdm

from experiments.runs import write_rows
from hetjax.cache.allocate import RowWorth, allocate
from hetjax.cache.hotness import reads
from hetjax.cache.penalty import measure
from hetjax.datasets.synthetic import generate
from hetjax.graph.hetgraph import HetGraph
from hetjax.options.config import Cache, Config, Mesh, Model, Sampling, Train
from hetjax.sharding import mesh as meshes
from hetjax.sharding.registry import make_engine

SCALES = {"ogbn-mag": 0.1, "freebase": 0.05, "donor": 0.05, "igb-het": 0.01, "mag240m": 0.002}
BUDGETS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
POLICIES = ("hotness", "miss_penalty", "optimal")
WHOLE, PARTS = "whole graph", "meta-partitioning"


def setting(mesh: Mesh, steps: int) -> Config:
    return Config(
        model=Model(self_term=False),
        sampling=Sampling(batch_size=1024, fanout=(25, 20)),
        train=Train(epochs=2, steps_per_epoch=steps),
        mesh=mesh,
        cache=Cache(bytes_per_device=0),
    )


def epochs(graph: HetGraph, parts: int, steps: int, folder: Path) -> Iterator[list[list[dict]]]:
    """Yield for each of two epochs, for each partition, the ids that every batch reads."""
    config = setting(Mesh(relation=parts), steps)
    batches = make_engine(config, graph, folder=folder).batches
    for epoch in range(2):
        found = [[] for _ in range(parts)]
        for sample in tqdm(batches.samples(epoch), f"{parts} partitions, epoch {epoch}", batches.steps(), leave=False):
            for part, one in enumerate([[sample]] if parts == 1 else sample.parts.values()):
                found[part].append(one[0].inputs)
        yield found


def penalties(graph: HetGraph, folder: Path) -> tuple[dict[str, float], dict[str, int]]:
    """Return the seconds of a missed byte, and the bytes of a row, of every type that the model reads."""
    config = setting(Mesh(), 0)
    engine = make_engine(config, graph, folder=folder)
    engine.features.init(jax.random.key(0))
    hosted = {name: one for (name, _), one in engine.features.hosted.items()}
    return measure(hosted, engine.trainer.learnable), {t: one.row_bytes for t, one in hosted.items()}


def hits(kept: dict, counts: dict) -> tuple[dict[str, int], dict[str, int]]:
    """Return the reads of each type that the cache answers, and all."""
    return {t: int(counts[t][ids].sum()) for t, ids in kept.items()}, {t: int(counts[t].sum()) for t in kept}


def measured(schema: str, scale: float, steps: int, folder: Path) -> list[dict]:
    graph = generate(schema, scale)
    (penalty, row_bytes), rows = penalties(graph, folder), []
    nodes = {t: graph.schema.nodes[t] for t in penalty}
    everything = sum(nodes[t] * row_bytes[t] for t in nodes)
    for division, parts in ((WHOLE, 1), (PARTS, 2)):
        first, second = epochs(graph, parts, steps, folder)
        seen, read = ([reads(part, nodes) for part in epoch] for epoch in (first, second))
        for share in BUDGETS:
            for policy in POLICIES:
                found, total, cost, each = dict.fromkeys(nodes, 0), dict.fromkeys(nodes, 0), 0.0, []
                for before, after in zip(seen, read):
                    kinds = {t: RowWorth(before[t], row_bytes[t], penalty[t]) for t in nodes if after[t].any()}
                    hit, asked = hits(allocate(kinds, int(share * everything), policy), after)
                    for t in kinds:
                        found[t], total[t] = found[t] + hit[t], total[t] + asked[t]
                    each.append(round(sum(hit.values()) / max(1, sum(asked.values())), 4))
                    cost += sum((asked[t] - hit[t]) * row_bytes[t] * penalty[t] for t in kinds)
                about = {"schema": schema, "scale": scale, "division": division, "policy": policy, "budget": share}
                rate = {t: round(found[t] / total[t], 4) for t in nodes if total[t]}
                rows.append(
                    about
                    | {
                        "budget_bytes": int(share * everything),
                        "hit_rate": round(sum(found.values()) / sum(total.values()), 4),
                        "of_each_partition": " ".join(map(str, each)),
                    }
                    | {"miss_ms_a_step": round(1000 * cost / len(first[0]), 3)}
                    | {"hit_rates": " ".join(f"{t}={value}" for t, value in rate.items())}
                )
    return rows


def draw(rows: list[dict], file: Path) -> None:
    """Draw the hit rate by budget, a panel per schema."""
    schemas = list(dict.fromkeys(row["schema"] for row in rows))
    figure, axes = pyplot.subplots(
        2, len(schemas), figsize=(3.2 * len(schemas), 5.6), layout="constrained", squeeze=False
    )
    colours = dict(zip(POLICIES, ("tab:orange", "tab:blue", "tab:green")))
    for (above, below), schema in zip(axes.T, schemas):
        for division, style in ((WHOLE, "--"), (PARTS, "-")):
            for policy, colour in colours.items():
                found = [r for r in rows if (r["schema"], r["division"], r["policy"]) == (schema, division, policy)]
                budgets = [100 * row["budget"] for row in found]
                for axis, key, unit in ((above, "hit_rate", 0.01), (below, "miss_ms_a_step", 1)):
                    label = f"{policy.replace('_', ' ')}, {division}"
                    axis.plot(budgets, [row[key] / unit for row in found], style, color=colour, marker=".", label=label)
        above.set(title=schema, xscale="log", ylim=(0, 103))
        below.set(xlabel="budget, % of all features", xscale="log", ylim=(0, None))
        for axis in (above, below):
            axis.grid(alpha=0.3)
            axis.set_xticks([1, 2, 5, 10, 20, 50], ["1", "2", "5", "10", "20", "50"])
            axis.minorticks_off()
    axes[0][0].set_ylabel("hits, % of reads")
    axes[1][0].set_ylabel("cost of misses, ms a step")
    figure.legend(*axes[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
    figure.savefig(file, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--schemas", nargs="+", choices=list(SCALES), default=list(SCALES), help="graphs")
    parser.add_argument("--scale", type=float, default=1.0, help="multiplies every schema's scale")
    parser.add_argument("--steps", type=int, default=40, help="most batches of an epoch")
    out = Path(__file__).parent / "results"
    parser.add_argument("--out", type=Path, default=out, help="where the table is written")
    options, rows = parser.parse_args(), []
    meshes.provide_cpu_devices(2)
    for schema in options.schemas:
        rows += measured(schema, SCALES[schema] * options.scale, options.steps, options.out / "nothing")
        write_rows(options.out / "cache_hits.csv", rows)
        said = {(r["division"], r["policy"], r["budget"]): r for r in rows if r["schema"] == schema}
        for share in BUDGETS:
            for division in (WHOLE, PARTS):
                costs = {policy: said[division, policy, share]["miss_ms_a_step"] for policy in POLICIES}
                least, best = costs.pop("optimal"), said[division, "optimal", share]
                others = ", ".join(f"{policy} {cost - least:+.3f}" for policy, cost in costs.items())
                rate = f"{best['hit_rate']:.3f} (by partition {best['of_each_partition']})"
                print(f"{schema}, {share:.0%}, {division}: optimal hits {rate}, {least:.3f} ms of misses; {others}")
    draw(rows, options.out / "cache_hits.png")


if __name__ == "__main__":
    main()
