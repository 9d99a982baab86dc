"""Several processes on this computer that train one model: equal to one device, resumed, killed, started wrongly."""

import json
import os
import socket
import subprocess
import sys
import time

import jax
import pytest

from tests.equivalence import GRAPHS, MODELS, alone, write_reference
from tests.test_command_line import PROGRAMS, ROOT

LIMIT = 150  # seconds that processes are given


def free_port() -> int:
    with socket.create_server(("", 0)) as server:
        return server.getsockname()[1]


def start(folder, commands: list[list]) -> list[subprocess.Popen]:
    """Start processes, each with its output in a file."""
    given = os.environ | {"PYTHONPATH": str(ROOT), "JAX_COMPILATION_CACHE_DIR": PROGRAMS.name}
    given |= {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    made = []
    for number, command in enumerate(commands):
        with open(folder / f"log_{number}", "w") as log:
            whole = [sys.executable, *map(str, command)]
            made.append(subprocess.Popen(whole, stdout=log, stderr=subprocess.STDOUT, env=given, cwd=ROOT))
    return made


def finish(folder, processes, seconds: float = LIMIT) -> list[tuple[int, str]]:
    """Wait for processes, and end those that take too long; returns the exit status and the output of each."""
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
    for number, (status, log) in enumerate(found):
        print(f"--- process {number} ended with {status}:\n{log}")
    return found


def run(folder, commands: list[list], seconds: float = LIMIT) -> list[tuple[int, str]]:
    return finish(folder, start(folder, commands), seconds)


CASES = {
    2: [
        ("random", (4, 1), "minibatch", "R-GCN", False, {"l2": 0.01, "gradient_clip": 0.05}),
        ("ogbn-mag", (2, 1), "minibatch", "HGT, joint", True, {}),
    ],
    4: [("random", (2, 2), "minibatch", "R-GCN, residual", False, {})],
}
BOUNDS = {False: (1e-5, 1e-5, 1e-4), True: (1e-12, 1e-12, 1e-7)}


@pytest.mark.parametrize("count", CASES)
def test_processes_equal_one_device(tmp_path, count):
    """Loss, gradients, and the state after some steps; and replicas have the same bits."""
    jax.config.update("jax_disable_most_optimizations", True)
    given = []
    for number, (graph, mesh, mode, model, wide, train) in enumerate(CASES[count]):
        with jax.enable_x64(wide):
            reference = alone(GRAPHS[graph](), mode, MODELS[model], 4, wide, **train)
        write_reference(reference, tmp_path / f"{number}.npz")
        names = "graph", "mesh", "mode", "model", "wide", "train", "reference"
        given.append(dict(zip(names, (graph, mesh, mode, model, wide, train, str(tmp_path / f"{number}.npz")))))
    jax.config.update("jax_disable_most_optimizations", False)
    file, out = tmp_path / "cases.json", tmp_path / "out.json"
    file.write_text(json.dumps({"devices": 4 // count, "cases": given}))
    about = "-m", "tests.many", f"localhost:{free_port()}", count
    done = run(tmp_path, [[*about, number, file, out] for number in range(count)])
    assert all(status == 0 for status, _ in done)
    for case, errors in zip(CASES[count], json.loads(out.read_text()), strict=True):
        assert all(error < bound for error, bound in zip(errors, BOUNDS[case[4]])), (case, errors)
