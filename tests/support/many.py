"""Several processes on this computer: how tests start them, and what each does to be compared with one device.

For tests/test_many.py and experiments/equivalence.py. The processes run this file; process 0 compares with what one
device gave, and all compare their gradients, and the copies that they have of the same weights and rows.
"""

import itertools
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np

from hetjax.options.config import Mesh, Processes
from hetjax.processes.launch import process_group
from hetjax.sharding import mesh as meshes
from hetjax.sharding import registry
from hetjax.sharding.strategy import setup
from tests.support.equivalence import (
    GRAPHS,
    MODELS,
    Errors,
    alone,
    floats,
    on_mesh,
    read_reference,
    setting,
    write_reference,
)

ROOT = Path(__file__).parents[2]
LIMIT = 150  # seconds that processes are given


def free_port() -> int:
    with socket.create_server(("", 0)) as server:
        return server.getsockname()[1]


def start(folder, commands: list[list], environments=({}, {}, {}, {})) -> list[subprocess.Popen]:
    """Start processes, each with its output in a file, and with more in its environment if that is given."""
    given = os.environ | {"PYTHONPATH": str(ROOT), "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
    made = []
    for number, (command, more) in enumerate(zip(commands, environments)):
        with open(folder / f"log_{number}", "w") as log:
            whole = [sys.executable, *map(str, command)]
            made.append(subprocess.Popen(whole, stdout=log, stderr=subprocess.STDOUT, env=given | more, cwd=ROOT))
    return made


def finish(folder, processes, seconds: float = LIMIT) -> list[tuple[int, str]]:
    """Wait for processes, and end those that take too long; returns the exit status and the output of each.

    If one failed, every output is printed.
    """
    deadline = time.monotonic() + seconds
    try:
        for process in processes:
            process.wait(max(0.1, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        print(f"not done after {seconds} s")
    finally:
        for process in processes:
            process.kill()
            process.wait()
    found = [(process.returncode, (folder / f"log_{number}").read_text()) for number, process in enumerate(processes)]
    if any(status for status, _ in found):
        for number, (status, log) in enumerate(found):
            print(f"--- process {number} ended with {status}:\n{log}")
    return found


def run(folder, commands: list[list], seconds: float = LIMIT) -> list[tuple[int, str]]:
    return finish(folder, start(folder, commands), seconds)


class Case(NamedTuple):
    """What is trained, on a mesh and on one device; names are those of tests/support/equivalence.py."""

    graph: str
    mesh: tuple
    mode: str
    model: str
    wide: bool
    train: dict


def compare_in(folder, count: int, cases: list[Case], steps: int = 4, seconds: float = LIMIT) -> list[Errors]:
    """The errors of each case, of as many steps on a mesh of the devices of `count` processes, four together or as many as are needed.

    So many seconds are given to each case.
    """
    given = []
    for number, case in enumerate(cases):
        with floats(case.wide):
            reference = alone(GRAPHS[case.graph](), case.mode, MODELS[case.model], steps, case.wide, **case.train)
        write_reference(reference, folder / f"{number}.npz")
        given.append(case._asdict() | {"reference": str(folder / f"{number}.npz")})
    file, out = folder / "cases.json", folder / "out.json"
    devices = max(4, *(Mesh(*case.mesh).devices for case in cases))
    file.write_text(json.dumps({"devices": devices // count, "cases": given}))
    about = "-m", "tests.support.many", f"localhost:{free_port()}", count
    done = run(folder, [[*about, number, file, out] for number in range(count)], seconds * len(cases))
    assert all(status == 0 for status, _ in done)
    return [Errors(*errors) for errors in json.loads(out.read_text())]


def main(coordinator: str, count: str, number: str, file: str, out: str) -> None:
    """One of the processes.

    On one core, another for each test, it has the fewest threads that there can be: collectives that wait for each other hang.
    """
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[int(coordinator.rsplit(":", 1)[1]) % len(cores)]})
    jax.config.update("jax_numpy_rank_promotion", "raise")
    about = json.loads(Path(file).read_text())
    with process_group(Processes(coordinator, int(count), int(number), start_seconds=60), {}) as group:
        meshes.provide_cpu_devices(about["devices"])
        found = [held(case, group) for case in about["cases"]]
        if group.first:
            Path(out).write_text(json.dumps(found))


def held(about: dict, group) -> list[float]:
    """Errors of one case: of the loss, of the worst gradient, and of the state."""
    case = Case(**{name: about[name] for name in Case._fields})
    with floats(case.wide):
        reference, graph = read_reference(about["reference"]), GRAPHS[case.graph]()
        given = tuple(case.mesh), case.mode, MODELS[case.model], case.wide, group
        errors = on_mesh(reference, graph, *given, **case.train)
        if "placement" in case.train and case.mesh[2:]:
            same_bits(case, graph, group)
    return [float(error) for error in errors]


def same_bits(case: Case, graph, group) -> None:
    """Raise an AssertionError where training with features on the host is not, to the last bit, what it is with all on the devices."""
    found = []
    for places in (case.train["placement"], ()):
        config = setting(graph, case.mode, case.mesh, MODELS[case.model], case.train | {"placement": places})
        strategy, given = registry.by_name(config.mesh.strategy), setup(config, graph, group)
        engine = strategy.engine(given, strategy.partition(given))
        state, losses = engine.init(3), []
        for drawn, upcoming in itertools.pairwise([*engine.batches.epoch(0), None]):
            state, loss = engine.step(state, drawn.batch, upcoming and upcoming.batch)
            losses.append(float(loss))
        found.append([np.array(losses), *jax.tree.leaves(engine.gather(state))])
        assert all(len(of["devices"]) == 4 // group.count for of in engine.cache_report())
    assert all(np.asarray(one).tobytes() == np.asarray(other).tobytes() for one, other in zip(*found, strict=True))


if __name__ == "__main__":
    main(*sys.argv[1:])
