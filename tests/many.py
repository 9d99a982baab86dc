"""One of several processes that train on a mesh: `python -m tests.many COORDINATOR COUNT NUMBER CASES.json OUT.json`.

For tests/test_many.py and experiments/raf_equivalence.py. Process 0 compares with what one device gave; all compare
their gradients, and the copies that they have of the same weights and rows. A case that fails ends all processes.
"""

import contextlib
import json
import sys
from pathlib import Path

import jax

from hetjax.config import Processes
from hetjax.processes.launch import joined
from hetjax.sharding import mesh as meshes
from tests.equivalence import GRAPHS, MODELS, on_mesh, read_reference


def main(coordinator: str, count: str, number: str, file: str, out: str) -> None:
    jax.config.update("jax_numpy_rank_promotion", "raise")
    jax.config.update("jax_disable_most_optimizations", True)
    about = json.loads(Path(file).read_text())
    with joined(Processes(coordinator, int(count), int(number), start_seconds=60), {}) as peers:
        meshes.provide(about["devices"])
        found = [run(case, peers) for case in about["cases"]]
        if peers.first:
            Path(out).write_text(json.dumps(found))


def run(case: dict, peers) -> list[float]:
    """Errors of one case: of the loss, of the worst gradient in any process, and of the state."""
    with jax.enable_x64(True) if case["wide"] else contextlib.nullcontext():
        reference, graph = read_reference(case["reference"]), GRAPHS[case["graph"]]()
        about = tuple(case["mesh"]), case["mode"], MODELS[case["model"]], case["wide"], peers
        errors = on_mesh(reference, graph, *about, **case.get("train", {}))
    worst = max(peers.share("errors", errors.gradient))
    return [float(errors.loss), worst, float(errors.state)]


if __name__ == "__main__":
    main(*sys.argv[1:])
