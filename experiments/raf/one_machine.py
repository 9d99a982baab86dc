"""RAF on one machine: the time of a step that is divided among devices, or among processes.

`python experiments/raf/one_machine.py` trains R-GCN on a synthetic graph for one epoch of `--steps` steps, in `--rounds` turns: on one
device; by RAF on two partitions, the two devices of one process; and by RAF in two processes of one device each. The
work is the same, sampling included. Prints the median milliseconds of a step, its wait for a batch included, and writes
`experiments/raf/results/one_machine.csv`.
"""

import argparse
import json
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

from tqdm import tqdm

from experiments.raf.over_hosts import SETTING, stored
from experiments.runs import ROOT, write_rows

RAF = "--mesh.relation=2"
WAYS = {"one device": (1, []), "two devices of a process": (1, [RAF]), "two processes": (2, [RAF])}


def port() -> int:
    """Return a port that nobody listens at."""
    with socket.socket() as found:
        found.bind(("localhost", 0))
        return found.getsockname()[1]


def milliseconds(graph: Path, processes: int, options: list[str], steps: int) -> float:
    """Return the milliseconds of a step, by the summary of a run."""
    with tempfile.TemporaryDirectory() as folder:
        about = [
            f"--workdir={folder}/run",
            f"--data.path={graph}",
            "--train.epochs=1",
            f"--train.steps_per_epoch={steps}",
        ]
        command = [sys.executable, "-m", "hetjax.train", *SETTING, *about, *options]
        meeting = [f"--coordinator=localhost:{port()}", f"--num_processes={processes}"] if processes > 1 else []
        running = [
            subprocess.Popen(
                [*command, *meeting, *([f"--process_id={number}"] if meeting else [])],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                cwd=ROOT,
            )
            for number in range(processes)
        ]
        for process in running:
            _, errors = process.communicate()
            if process.returncode:
                sys.exit(f"{' '.join(command)}\n{errors[-3000:]}")
        laps = json.loads(Path(folder, "run", "summary.json").read_text())["milliseconds_per_step"]
        return laps["step"] + laps["waiting for a batch"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--schema", default="ogbn-mag")
    parser.add_argument("--scale", type=float, default=0.5)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "one_machine.csv")
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder, tqdm(total=options.rounds * len(WAYS), unit="run") as bar:
        graph = stored(options.schema, options.scale, Path(folder))
        for number in range(options.rounds):
            for way, how in WAYS.items():
                found = milliseconds(graph, *how, options.steps)
                about = {"schema": options.schema, "scale": options.scale, "steps": options.steps}
                rows.append(about | {"round": number + 1, "way": way, "milliseconds_per_step": round(found, 1)})
                bar.update()
    for way in WAYS:
        print(way, *(row["milliseconds_per_step"] for row in rows if row["way"] == way))
    write_rows(options.out, rows)


if __name__ == "__main__":
    main()
