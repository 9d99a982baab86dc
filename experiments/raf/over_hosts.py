"""A training run over emulated hosts of limited bandwidth, measured: for bandwidth.py, ablation.py and sweep.py.

A way of training is run for one epoch and for three of as many steps, which differ by two epochs of training and nothing
else: the difference of the bytes on the links is theirs, and is held against `sent_per_step` of the run's summary. The
time is the median step's, its wait for a batch included.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from experiments.hosts import Host, run
from experiments.runs import ROOT, environment
from hetjax.graph import store

SETTING = [
    "--train.recipe=none",
    "--model.hidden=64",
    "--model.self_term=false",
    "--sampling.batch_size=1024",
    "--sampling.fanout=[25,20]",
    "--train.evaluate_every=1000",
    "--data.format=store",
    "--data.check=false",
]
JOIN = ["--coordinator={coordinator}", "--num_processes={count}", "--process_id={host}"]
RAF = ["--mesh.relation={count}"]
VANILLA = ["--mesh.data={count}", "--mesh.strategy=vanilla"]
METIS = [*VANILLA, "--vanilla.partitioning=metis"]
SHORT, LONG = 1, 3  # epochs


def stored(schema: str, scale: float, folder: Path) -> Path:
    """Return a synthetic graph as a store; from here on runs keep their compiled programs in `folder`."""
    os.environ |= environment(folder)
    out = folder / schema
    about = ["--synthetic.schema", schema, "--synthetic.scale", str(scale), "--out", str(out)]
    subprocess.run([sys.executable, "-m", "hetjax.convert", *about], check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
    return out


def steps_of(graph: Path, batch_size: int = 1024) -> int:
    """Return the steps of an epoch over all training nodes."""
    return -(-len(store.open(graph).splits["train"]) // batch_size)


def train(made: list[Host], graph: Path, options: Sequence[str], epochs: int, steps: int, folder: Path):
    """Train an R-GCN in Heta's setting on all hosts, a device each; return the summary, and the bytes that they sent.

    Args:
      options: what differs from `SETTING`.
    """
    workdir = folder / "run"
    shutil.rmtree(workdir, ignore_errors=True)
    length = [f"--train.epochs={epochs}", f"--train.steps_per_epoch={steps}"]
    command = [sys.executable, "-m", "hetjax.train", f"--workdir={workdir}", f"--data.path={graph}"]
    ended = run(made, [*command, *SETTING, *length, *options, *JOIN], folder)
    for number, one in enumerate(ended):
        if one.status != 0:
            sys.exit(f"{' '.join(options)}: host {number} ended with {one.status}\n{one.output[-3000:]}")
    return json.loads((workdir / "summary.json").read_text()), sum(one.sent for one in ended)


def measure(made: list[Host], graph: Path, options: Sequence[str], steps: int, folder: Path) -> dict:
    """Return the milliseconds of a step, the bytes counted in it, and the bytes on the wire.

    Args:
      steps: of an epoch, no more than the graph has.
    """
    _, once = train(made, graph, options, SHORT, steps, folder)
    summary, thrice = train(made, graph, options, LONG, steps, folder)
    laps = summary["milliseconds_per_step"]
    return {
        "milliseconds_per_step": round(laps["step"] + laps["waiting for a batch"], 1),
        "bytes_counted": round(sum(one["bytes"] for one in summary["sent_per_step"])),
        "bytes_on_wire": round((thrice - once) / (steps * (LONG - SHORT))),
    }
