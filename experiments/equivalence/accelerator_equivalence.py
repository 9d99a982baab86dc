"""One accelerator against the CPU: the same models, batches and first weights, trained ten steps on both.

    python experiments/equivalence/accelerator_equivalence.py [--models R-GCN ...] [--processes 4]

Where jax finds an accelerator (a GPU, say), this trains every model on it, by operations of XLA, and on the CPU, by hetjax's own kernels; with every feature on the
device and, in mini-batches, with every feature in the host's memory. Prints a line per case and writes `experiments/equivalence/results/accelerator_equivalence.csv`: the largest relative
error of the first step's loss and of any of its gradients, and of any weight or table after ten steps of Adam, in float64 and in float32, where matrices are multiplied in full
precision, as hetjax trains on accelerators. A case is written when it is done. The command ends with status 1 if a case is over its bound (`BOUNDS`).
"""

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from experiments.runs import replace_rows
from hetjax.system import runtime

if __name__ == "__main__":
    runtime.prepare()

import jax

from tests.support.equivalence import GRAPHS, MODELS, alone, apart, floats, read_reference, write_reference

RESULTS = Path(__file__).parent / "results" / "accelerator_equivalence.csv"
FIELDS = ("graph", "model", "mode", "placement", "bits", "device", "jax", "loss", "gradient", "state")
BOUNDS = {32: (1e-5, 1e-4, 1e-3), 64: (1e-12, 1e-11, 1e-7)}
OF_ONE_RELATION = {"GCN": "homogeneous, weights", "SAGE": "homogeneous, weights", "GIN": "homogeneous, weights"}
OF_ONE_RELATION |= {"GAT": "homogeneous", "GATv2": "homogeneous"}
ON_CPU = {"JAX_PLATFORMS": "cpu"}
ON_ACCELERATOR = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}  # which several processes share
STEPS = 10


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--bits", nargs="+", type=int, choices=list(BOUNDS), default=list(BOUNDS))
    parser.add_argument("--processes", type=int, default=1, help="that share the models, on each platform")
    parser.add_argument("--train", type=Path, metavar="FOLDER", help="only train, and write there what that gives")
    options = parser.parse_args()
    if options.train:
        train(cases(options.models, options.bits), options.train)
        return 0
    return int(any(over(row) for row in compared(options)))


def cases(models: list[str], bits: list[int]) -> list[tuple]:
    """Return the cases, by graph, model, mode, placement and bits; on the whole graph every feature is on the device."""
    ways = (("minibatch", "device"), ("minibatch", "host"), ("full", "device"))
    graphs = {model: OF_ONE_RELATION.get(model.split(",")[0], "few relations") for model in models}
    return [(graphs[model], model, *way, width) for model, way, width in itertools.product(models, ways, bits)]


def train(wanted: list[tuple], folder: Path) -> None:
    about = folder / f"about_{os.getpid()}.json"
    about.write_text(json.dumps([jax.default_backend(), jax.devices()[0].device_kind]))
    about.rename(folder / "about.json")
    for case in wanted:
        name, model, mode, placement, bits = case
        graph = GRAPHS[name]()
        read = {end for relation in graph.relations for end in (relation.source, relation.target)}
        placed = tuple(f"{t}=host" for t in sorted(read)) if placement == "host" else ()
        with floats(bits == 64):
            given = {"placement": placed, "fanout": (3, 2, 2)[: MODELS[model].get("layers", 2)]}
            partial = folder / f"partial_{file(folder, case).name}"
            write_reference(alone(graph, mode, MODELS[model], STEPS, bits == 64, **given), partial)
        partial.rename(file(folder, case))


def compared(options: argparse.Namespace) -> list[tuple]:
    """Train on both platforms, and compare them."""
    with tempfile.TemporaryDirectory() as temporary:
        folders = [Path(temporary) / name for name in ("cpu", "accelerator")]
        started = []
        for folder, platform in zip(folders, (ON_CPU, ON_ACCELERATOR)):
            folder.mkdir()
            for number in range(options.processes):
                if models := options.models[number :: options.processes]:
                    given = ["--models", *models, "--bits", *map(str, options.bits), "--train", str(folder)]
                    command = [sys.executable, __file__, *given]
                    started.append(subprocess.Popen(command, env=os.environ | platform))
        try:
            return list(compared_when_done(cases(options.models, options.bits), folders, started))
        finally:
            for process in started:
                process.terminate()
                process.wait()


def compared_when_done(waiting: list[tuple], folders: list[Path], started: list[subprocess.Popen]) -> Iterator[tuple]:
    """Yield the rows of all cases, each when both platforms have written it."""
    while waiting:
        failed = any(process.poll() for process in started)
        for case in [case for case in waiting if all(file(folder, case).exists() for folder in folders)]:
            waiting.remove(case)
            row = compare(case, folders)
            print(*row, *(["OVER ITS BOUND"] if over(row) else []), sep=", ", flush=True)
            yield row
        if failed and waiting:
            sys.exit("a process failed; its error stands above")
        time.sleep(0.1)


def compare(case: tuple, folders: list[Path]) -> tuple:
    """Return a row of the table, from the results of both platforms for a case; it is written there."""
    backend, device = json.loads((folders[1] / "about.json").read_text())
    if backend == "cpu":
        sys.exit("jax finds no accelerator here")
    expected, found = (read_reference(file(folder, case)) for folder in folders)
    row = *case, device, jax.__version__, *(f"{error:.1e}" for error in apart(found, expected))
    replace_rows(RESULTS, FIELDS[:5], [dict(zip(FIELDS, row))])
    return row


def over(row: tuple) -> bool:
    """Return whether an error is over the bound of its floats."""
    return any(not float(error) <= bound for error, bound in zip(row[-3:], BOUNDS[row[4]]))


def file(folder: Path, case: tuple) -> Path:
    return folder / f"{'_'.join(map(str, case)).replace(' ', '_').replace(',', '')}.npz"


if __name__ == "__main__":
    sys.exit(main())
