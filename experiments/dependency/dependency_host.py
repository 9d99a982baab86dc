"""The program of every emulated host for dependency_runs.py: some ways of training, in turns, in one process that stays.

`python experiments/dependency/dependency_host.py JOB.json --coordinator ADDRESS --count N --number I`: a process that trains every way for so
many steps in every round, so that whatever else the computer does falls on all ways alike. A way that is far slower than the fastest
is left out of later rounds. It limits its own link, and reads the bytes that the link carried.
"""

import argparse
import itertools
import json
import os
import statistics
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from hetjax.system import runtime

if __name__ == "__main__":
    runtime.prepare()

from experiments.dependency.dependency_counts import config_of, predicted, rows_of, setup_of
from experiments.hosts import DEVICE, shape
from hetjax.options.config import Processes
from hetjax.processes.launch import process_group
from hetjax.sharding import mesh as meshes
from hetjax.sharding import registry
from hetjax.sharding.dependency.batches import DependencyBatches
from hetjax.sharding.dependency.costs import Costs, read_or_measure
from hetjax.sharding.dependency.prices import priced
from hetjax.sharding.dependency.shares import Names
from hetjax.sharding.dependency.strategy import message, sampler_of
from hetjax.sharding.strategy import Engine, Setup

WARM = 2  # steps that are not measured
STARTS = 5  # that find costs kept
FIRST_ROUNDS, FAR = 3, 2.0  # after so many rounds, ways that take so many times as long as the fastest are left out


class Way(NamedTuple):
    """One way of training, ready to go on."""

    engine: Engine
    state: Any
    batch: Any


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("job", type=Path, help="what is to be run, as dependency_runs.py writes it")
    parser.add_argument("--coordinator", required=True, help="address and port of host 0")
    parser.add_argument("--count", type=int, required=True, help="hosts")
    parser.add_argument("--number", type=int, required=True, help="of this host")
    given = parser.parse_args()
    job = json.loads(given.job.read_text())
    with process_group(Processes(given.coordinator, given.count, given.number), {}) as group:
        meshes.provide_cpu_devices(1)
        known: dict[str, Way] = {}
        found = [row for rate in job["rates"] for row in at_rate(job, rate, group, known)]
        if group.first:
            Path(job["out"]).write_text(json.dumps(found))


def at_rate(job: dict, rate: str, group, known: dict[str, Way]) -> list[dict]:
    """Return a row for every way at one bandwidth. Costs are measured anew, as they depend on it, and hybrid chooses anew.

    Args:
      known: ways that were begun, which is added to.
    """
    subprocess.run(["tc", "qdisc", "replace", "dev", DEVICE, "root", *shape(rate)], check=True)
    with tempfile.TemporaryDirectory() as cache:
        os.environ["XDG_CACHE_HOME"] = cache
        common = [*job["setting"], f"--mesh.data={group.count}"]
        setups = {name: setup_of(config_of([*common, *options]), group) for name, options in job["ways"].items()}
        group.barrier("limited")
        first = next(iter(setups.values()))
        size = message(first, registry.find(first.config).partition(first).owned, Names(sampler_of(first)))
        costs, took = costs_of(first, size, group)
        ways = {name: known.get(name) or begun(one) for name, one in setups.items()}
    laps: dict[str, list[list[float]]] = {name: [] for name in ways}
    wire = dict.fromkeys(ways, 0)
    for number in range(job["rounds"]):
        for name in [*ways] if number < FIRST_ROUNDS else near(laps, group):
            before = carried()
            ways[name], seconds = trained(ways[name], job["steps"])
            group.barrier("trained")  # behind all that the others still wait for: nothing stands in the queue of a link
            wire[name] += sum(group.all_gather("carried", carried() - before))
            laps[name].append(seconds)
    known.update((name, way) for name, way in ways.items() if not chooses(way))
    return [
        {"rate": rate, "way": name}
        | took
        | row(way, laps[name], wire[name] / (len(laps[name]) * job["steps"]), costs, group)
        for name, way in ways.items()
    ]


def costs_of(given: Setup, size: int, group) -> tuple[Costs, dict[str, float]]:
    """Return the costs, measured with an empty cache, and the seconds of that and of the next starts, in a median of five.

    Args:
      size: number of values of a message.
    """
    mesh, seconds = meshes.row(meshes.make(1, group.count), 0), []
    for _ in range(1 + STARTS):
        group.barrier("costs")
        started = time.perf_counter()
        costs = read_or_measure(given, mesh, size)
        seconds.append(time.perf_counter() - started)
    kept = statistics.median(seconds[1:])
    return costs, {"costs_seconds": round(seconds[0], 2), "costs_kept_seconds": round(kept, 4)}


def near(laps: dict[str, list[list[float]]], group) -> list[str]:
    """Return the ways that are not far slower than the fastest, by the first rounds of host 0."""
    times = {name: statistics.median(itertools.chain(*of[:FIRST_ROUNDS])) for name, of in laps.items()}
    first = group.all_gather("near", times)[0]
    return [name for name, time in first.items() if time < FAR * min(first.values())]


def chooses(way: Way) -> bool:
    """Return whether measured costs decide which dependencies are computed."""
    options = way.engine.setup.config.strategies["dependency"]
    return options.mode == "hybrid" and options.cached < 0


def begun(given: Setup) -> Way:
    """Return a way after some steps, so that all is compiled."""
    strategy = registry.find(given.config)
    engine = strategy.engine(given, strategy.partition(given))
    engine.batches.prepare()
    drawn = next(iter(engine.batches.epoch(0)))
    return trained(Way(engine, engine.init(0), drawn.batch), WARM)[0]


def trained(way: Way, steps: int) -> tuple[Way, list[float]]:
    """Return the way after so many more steps, and the seconds of each."""
    seconds, state = [], way.state
    for _ in range(steps):
        started = time.perf_counter()
        state, loss = way.engine.step(state, way.batch)
        float(loss)
        seconds.append(time.perf_counter() - started)
    return way._replace(state=state), seconds


def carried() -> int:
    """Return the bytes that this host has sent."""
    line = next(
        line for line in Path("/proc/net/dev").read_text().splitlines() if line.strip().startswith(f"{DEVICE}:")
    )
    return int(line.partition(":")[2].split()[8])


def row(way: Way, laps: list[list[float]], wire: float, costs: Costs, group) -> dict:
    """Return the row of a way; the spread is of the rounds' medians."""
    engine, medians = way.engine, [1000 * statistics.median(of) for of in laps]
    assert isinstance(engine.batches, DependencyBatches)
    counted = sum(group.all_gather("counted", sum(sent.bytes for sent in engine.traffic())))
    done = engine.batches.done
    return {
        "milliseconds_per_step": round(statistics.median(medians), 2),
        "fastest_round": round(min(medians), 2),
        "slowest_round": round(max(medians), 2),
        "rounds": " ".join(f"{median:.2f}" for median in medians),
        "predicted_extra_ms": round(
            1000 * predicted(engine.setup, done, engine.batches.sent, engine.prices or priced(engine.setup, costs)), 2
        ),
        "bytes_counted": round(counted),
        "bytes_on_wire": round(wire),
        **rows_of(done, engine.batches.sent, engine.batches.padded),
        "t_sent_ns": round(1e9 * costs.sent, 3),
        "t_copy_ns": round(1e9 * costs.copy, 3),
        "t_vertex_ns": round(1e9 * max(max(of.values(), default=0) for of in costs.vertex), 1),
        "t_edge_ns": round(1e9 * max(max(of.values(), default=0) for of in costs.edge), 2),
        "t_source_ns": round(1e9 * max(max(of.values(), default=0) for of in costs.source), 1),
    }


if __name__ == "__main__":
    main()
