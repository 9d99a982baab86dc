"""Train mini-batches on a synthetic graph of the full size of ogbn-mag: generated, stored, opened, trained, measured.

`python experiments/scale/scale.py` makes the graph (1.9 million nodes, 42 million edges with reverses), writes it as a store,
trains 50 mini-batches of 1024 with fanout 25 then 20, evaluates exactly, and writes `experiments/scale/results/scale.json`:
seconds and peak memory of either command, a step's parts, and the programs compiled. Other schemas and sizes by options.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MEASURED = "import resource, runpy, sys; sys.argv = sys.argv[1:]\ntry: runpy.run_module(sys.argv[0], run_name='__main__', alter_sys=True)\nfinally: print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"


def measured(module: str, *arguments) -> tuple[float, float]:
    """Run a module; return its seconds and its peak memory in MiB."""
    started = time.perf_counter()
    command = [sys.executable, "-c", MEASURED, module, *map(str, arguments)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    print(done.stdout.rsplit("\n", 2)[0])
    return round(time.perf_counter() - started, 1), round(int(done.stdout.split()[-1]) / 1024)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--schema", default="ogbn-mag", help="of the graph")
    parser.add_argument("--scale", type=float, default=1.0, help="relative to the published size")
    parser.add_argument("--steps", type=int, default=50, help="mini-batches to train")
    out = Path(__file__).parent / "results" / "scale.json"
    parser.add_argument("--out", type=Path, default=out, help="the file to write")
    options = parser.parse_args()
    data = ["--synthetic.schema", options.schema, "--synthetic.scale", options.scale, "--synthetic.classes", 0]
    with tempfile.TemporaryDirectory() as folder:
        store, run = Path(folder) / "store", Path(folder) / "run"
        made = measured("hetjax.convert", *data, "--out", store)
        steps = ["--train.recipe", "none", "--train.epochs", 1, "--train.steps_per_epoch", options.steps]
        trained = measured("hetjax.train", "--data.format", "store", "--data.path", store, *steps, "--workdir", run)
        summary = json.loads((run / "summary.json").read_text())
    keys = ("nodes", "edges", "milliseconds_per_step", "compiled_programs", "learnable_features", "device", "versions")
    result = {"schema": options.schema, "scale": options.scale, "steps": options.steps}
    result |= {
        f"{name}_{what}": value
        for name, pair in (("convert", made), ("train", trained))
        for what, value in zip(("seconds", "peak_mib"), pair)
    }
    result |= {key: summary[key] for key in keys}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
