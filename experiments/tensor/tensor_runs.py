"""Ways of training on the whole graph that tensor_hosts.py and tensor_ablation.py compare on emulated hosts.

Hosts have one device each. All ways of a graph stay in one process per host, and rounds take turns.
`python experiments/tensor/tensor_runs.py JOB.json COORDINATOR NUMBER` is what every host runs.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping
from pathlib import Path

from hetjax.system import runtime

if __name__ == "__main__":
    runtime.prepare()

from experiments.dependency import dependency_runs
from experiments.dependency.dependency_counts import config_of, setup_of
from experiments.dependency.dependency_host import begun, carried, trained
from experiments.dependency.dependency_runs import CACHE, COMMUNICATE, MODELS, setting, stored
from experiments.hosts import DEVICE, hosts, run, shape
from experiments.runs import replace_rows
from hetjax.options.config import Processes
from hetjax.processes.launch import process_group
from hetjax.sharding import mesh as meshes

Ways = Mapping[str, list[str]]  # options, by name

PARTS = ["--mesh.strategy=dependency", "--mesh.data={count}", "--dependency.partitioning=contiguous"]
SLICES = ["--mesh.strategy=tensor", "--mesh.feature={count}"]
WAYS = {
    "vanilla": [*PARTS, CACHE],
    "communicate": [*PARTS, COMMUNICATE],
    "coupled": SLICES,
    "decoupled": [*SLICES, "--model.decoupled=true"],
}
KEYS = ("graph", "model", "hidden", "head", "hosts", "rate", "own_core", "way")


def parser_of(words: str | None) -> ArgumentParser:
    """Return a parser of the options that these scripts have."""
    parser = dependency_runs.parser_of(words)
    says = "false: the last layer makes the logits, and a decoupled model folds a column per class, as in NeutronTP"
    parser.add_argument("--head", choices=["true", "false"], default="true", help=says)
    parser.add_argument(
        "--own_core", action="store_true", help="every host has a core for itself, while there are some"
    )
    return parser


def compared(options: Namespace, ways: Ways, file: Path, more: Callable[[str], dict] = lambda way: {}) -> list[dict]:
    """Write a row per graph and way, which replace those of a table.

    Args:
      options: as of `parser_of`; of the rates the first.
      more: of a way what else its rows say.
    """
    rows: list[dict] = []
    with tempfile.TemporaryDirectory() as made_here:
        folder = options.folder or Path(made_here)
        folder.mkdir(parents=True, exist_ok=True)
        for name in options.graphs:
            model, rate = options.model or MODELS[name], options.rates[0]
            about = {"graph": name, "model": model, "hidden": options.hidden, "head": options.head}
            about |= {"hosts": options.count, "rate": rate, "own_core": options.own_core}
            given = [one for one in setting(stored(name, folder), model, options.hidden) if "strategy" not in one]
            given.append(f"--model.head={options.head}")
            new = [about | more(row["way"]) | row for row in measured(given, ways, options, rate, folder)]
            replace_rows(file, KEYS, new)
            rows += new
    return rows


def measured(given: list[str], ways: Ways, options, rate: str, folder: Path) -> list[dict]:
    """Return a row per way, on hosts that are started for it, and how much faster than the first it is."""
    job, out = folder / "job.json", folder / "out.json"
    about: dict = {
        "setting": given,
        "rate": rate,
        "count": options.count,
        "rounds": options.rounds,
        "steps": options.steps,
        "own_core": options.own_core,
    }
    about["ways"] = ways
    job.write_text(json.dumps(about | {"out": str(out)}))
    command = [
        sys.executable,
        str(Path(__file__)),
        str(job),
        "{coordinator}",
        "{host}",
    ]
    with hosts(options.count, rate) as made:
        ended = run(made, command, folder, 1800)
    for number, one in enumerate(ended):
        if one.status != 0:
            sys.exit(f"{' '.join(given)}: host {number} ended with {one.status}\n{one.output[-3000:]}")
    rows = json.loads(out.read_text())
    slow = rows[0]["milliseconds_per_step"]
    return [
        row | {f"faster_than_{rows[0]['way'].replace(' ', '_')}": round(slow / row["milliseconds_per_step"], 2)}
        for row in rows
    ]


def on_host(job: dict, coordinator: str, number: int) -> None:
    """Run all ways, in turns, as one of the hosts."""
    subprocess.run(["tc", "qdisc", "replace", "dev", DEVICE, "root", *shape(job["rate"])], check=True)
    with process_group(Processes(coordinator, job["count"], number), {}) as group:
        meshes.provide_cpu_devices(1)
        ways, laps, wire, busy = {}, {}, dict.fromkeys(job["ways"], 0), dict.fromkeys(job["ways"], 0.0)
        for name, options in job["ways"].items():
            more = [option.format(count=group.count) for option in options]
            ways[name], laps[name] = begun(setup_of(config_of([*job["setting"], *more]), group)), []
        for _ in range(job["rounds"]):
            for name in ways:
                before, worked = carried(), time.process_time()
                ways[name], seconds = trained(ways[name], job["steps"])
                busy[name] += sum(group.all_gather("worked", time.process_time() - worked))
                group.barrier("trained")
                wire[name] += sum(group.all_gather("carried", carried() - before))
                laps[name].append(1000 * statistics.median(seconds))
        counted = {
            name: sum(group.all_gather("counted", sum(sent.bytes for sent in way.engine.traffic())))
            for name, way in ways.items()
        }
        if group.first:
            steps = job["rounds"] * job["steps"]
            rows = [
                {
                    "way": name,
                    "milliseconds_per_step": round(statistics.median(laps[name]), 2),
                    "fastest_round": round(min(laps[name]), 2),
                    "slowest_round": round(max(laps[name]), 2),
                    "cores_busy": round(busy[name] / steps / statistics.median(laps[name]) * 1000, 2),
                    "bytes_counted": round(counted[name]),
                    "bytes_on_wire": round(wire[name] / steps),
                }
                for name in ways
            ]
            Path(job["out"]).write_text(json.dumps(rows))


if __name__ == "__main__":
    given, number = json.loads(Path(sys.argv[1]).read_text()), int(sys.argv[3])
    if given["own_core"]:  # before there is a backend, which has as many threads as there are cores
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[number % len(cores)]})
    on_host(given, sys.argv[2], number)
