"""The computation and the traffic of partitions in a step of the strategy `dependency`, counted in one process, without hosts.

For dependency_*.py and crossover.py. The counts are those of a run, to the row: they are made by the same functions.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from hetjax.options.command_line import parse
from hetjax.options.config import SECTIONS, Config
from hetjax.partition import EdgeCut
from hetjax.processes.group import ProcessGroup
from hetjax.sampling.sampler import ALL
from hetjax.sharding import mesh as meshes
from hetjax.sharding import registry
from hetjax.sharding.dependency import probes, rates
from hetjax.sharding.dependency.costs import Costs, by_name
from hetjax.sharding.dependency.declared import Options
from hetjax.sharding.dependency.exchange import counts
from hetjax.sharding.dependency.groups import Groups, grouped
from hetjax.sharding.dependency.prices import Prices, priced, slowest
from hetjax.sharding.dependency.schedule import schedule
from hetjax.sharding.dependency.shares import Names, Share, nothing, shares
from hetjax.sharding.dependency.strategy import chosen, everything, sampler_of
from hetjax.sharding.dependency.work import Work, work
from hetjax.sharding.strategy import Setup, setup
from hetjax.training.prepare import open_graph


class Counted(NamedTuple):
    """A step of some partitions.

    Attributes:
      done: per layer.
      padded: per layer and group of rows, rows sent, padding included.
      bytes: that all partitions send, but for the gradients of weights.
    """

    done: list[Work]
    padded: list[dict[str, int]]
    bytes: int


def config_of(options: Sequence[str]) -> Config:
    """Return the configuration of a command line."""
    instances, _ = parse(SECTIONS | registry.sections(None), options, "", "", {})
    return registry.config_of(instances)


def setup_of(config: Config, processes: ProcessGroup | None = None) -> Setup:
    """Return the setup that `python -m hetjax.train` makes."""
    return setup(config, open_graph(config, registry.find(config)), processes)


def measured_here(given: Setup) -> Costs:
    """Return `T_v` and `T_e` on one device; there is no `T_c`."""
    layers = probes.kinds(given)[:-1]
    below = probes.distinct(layers)
    mesh = meshes.row(meshes.make(1, 1), 0)
    seconds = probes.measure(given, mesh, below)
    return Costs(*by_name(layers, dict(zip(below, seconds))), 0.0, 0.0, rates.measure()[0], True)


def counted(given: Setup, cut: EdgeCut, options: Options, costs: Costs | None = None) -> Counted:
    """Return the counts of a step on the whole graph.

    Args:
      costs: what hybrid goes by.
    """
    graph, regime = given.graph, given.regime
    sampler = sampler_of(given)
    seeds = {graph.schema.target: graph.splits["train"]}
    hops, learnable = (ALL,) * len(regime.fanouts), frozenset(given.trainer.learnable)
    keep = everything(given) if options.mode == "cache" else nothing
    if options.mode == "hybrid":
        keep = chosen(given, cut.owned, Names(sampler), priced(given, costs, options.memory, options.cached))
    layers = shares(sampler, cut.owned, seeds, hops, (0,), keep, learnable)
    own = cut.owned.split(graph.schema.target, graph.splits["train"])
    groups = grouped(given, options.mode != "cache")
    return Counted(work(graph, cut.owned, layers, own), *sent(groups, layers, options.schedule != "all_to_all"))


def sent(groups: Groups, layers: Sequence[tuple[Share, ...]], ring: bool) -> tuple[list[dict], int]:
    """Return the rows per layer and group, and the bytes of all; gradients of rows are sent backward, but none of static features."""
    rows: list[dict[str, int]] = [{} for _ in groups]
    total = 0
    for depth, here in enumerate(groups):
        for name, group in here.items():
            plan = schedule(counts([of[depth] for of in layers], group.types), ring)
            rows[depth][name] = plan.sent
            _, dtype, width = name.rsplit("_", 2)
            ways = 1 if group.kind == "remote_features" else 2
            total += ways * plan.sent * int(width) * np.dtype(dtype).itemsize
    return rows, total


def most(values: Mapping[Any, np.ndarray]) -> np.ndarray:
    """Return the sums of every partition, over all types or relations."""
    return np.sum([*values.values()], axis=0) if values else np.zeros(1)


def rows_of(done: Sequence[Work], steps: int, padded: Sequence[Mapping[str, float]]) -> dict[str, int]:
    """Return the counts of a step, all layers together: of all partitions, and of the one that aggregates most edges."""
    edges = sum(most(one.edges) for one in done)
    return {
        "fetched_rows": total(most(one.fetched) for one in done) // steps,
        "rows_with_padding": round(sum(sum(of.values()) for of in padded)),
        "copied_nodes": total(most(one.copied) for one in done) // steps,
        "edges": int(np.sum(edges)) // steps,
        "copied_edges": total(most(one.copied_edges) for one in done) // steps,
        "most_edges": int(np.max(edges)) // steps,
        "kept_rows": total(most(one.kept) for one in done) // steps,
    }


def total(values) -> int:
    return int(sum(np.sum(value) for value in values))


def predicted(given: Setup, done: Sequence[Work], steps: int, prices: Prices) -> float:
    """Return the seconds, by the prices, of the extra work that the division causes in a step, of the partition that is worst off."""
    return slowest(given.graph, done, prices) / steps
