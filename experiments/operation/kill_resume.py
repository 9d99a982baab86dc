"""Kill a training run with SIGKILL at random moments, start it again, and hold the result against an undisturbed run.

`python experiments/operation/kill_resume.py --kills 20` tries every model in every way of training: in mini-batches, on the
whole graph, and in mini-batches with the features on the host or on disk and a cache on the device. It writes
`experiments/operation/results/kill_resume.csv`, where other models and ways stay as they are, and exits with status 1 if any line of
`metrics.jsonl` (times aside) or any bit of the final state differs. A run that was done before its moment came does not
count.
"""

import argparse
import itertools
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
from orbax.checkpoint import v1 as ocp
from tqdm import tqdm

from experiments.runs import environment, records, replace_rows

COMMON = "--synthetic.scale 0.005 --synthetic.classes 8 --model.hidden 16 --model.feature_width 16 --model.dropout 0.2 --train.checkpoint_seconds 0.3"
MODES = {
    "minibatch": "--sampling.mode minibatch --sampling.batch_size 128 --sampling.fanout [5,4] --train.checkpoint_steps 17",
    "full": "--sampling.mode full",
}
MODES["host"] = MODES["minibatch"] + " --cache.bytes_per_device 100000"  # features on the host, the hottest rows cached
MODES["disk"] = MODES["host"] + " --cache.host_bytes 0"
MODELS = {"rgcn": "", "rgat": "--model.heads 2", "hgt": "--model.heads 2"}


LONGEST = 150  # seconds that a run may take; one that takes longer hangs


class Way(NamedTuple):
    """The setting of a run: a model, one of `MODES`, and the number of epochs."""

    model: str
    mode: str
    epochs: int


def start(way: Way, workdir: Path) -> subprocess.Popen:
    """Start or continue the run in `workdir`."""
    options = (
        f"--model.name {way.model} {MODELS[way.model]} {COMMON} {MODES[way.mode]} --train.epochs {way.epochs}".split()
    )
    command = [sys.executable, "-m", "hetjax.train", "--workdir", str(workdir), *options]
    return subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(workdir.parent) | {"PYTHONFAULTHANDLER": "1"},
    )


def finish(process: subprocess.Popen) -> None:
    """Wait for a run that must succeed; one that hangs says where it stands."""
    try:
        _, errors = process.communicate(timeout=LONGEST)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGABRT)
        _, errors = process.communicate()
    if process.returncode:
        raise RuntimeError(errors)


def timeless(workdir: Path) -> list[dict]:
    """Return the lines of metrics.jsonl without their times."""
    return [{key: value for key, value in record.items() if key != "seconds"} for record in records(workdir)]


def final_state(workdir: Path) -> list[tuple[str, np.ndarray]]:
    """Return every array of the last checkpoint with its path."""
    last = max((workdir / "checkpoints").glob("[0-9]*"))
    weights = jax.tree_util.tree_leaves_with_path(ocp.load(last / "state"))
    tables = sorted((last / "tables").glob("*.npy"))
    return [(jax.tree_util.keystr(path), np.asarray(leaf)) for path, leaf in weights] + [
        (file.name, np.load(file, allow_pickle=False)) for file in tables
    ]


def differences(one: Path, other: Path) -> list[str]:
    """Return the differences between two runs, to the last bit."""
    found = [f"record {a} != {b}" for a, b in zip(timeless(one), timeless(other), strict=True) if a != b]
    for (name, a), (other_name, b) in zip(final_state(one), final_state(other), strict=True):
        if name != other_name or a.dtype != b.dtype or a.tobytes() != b.tobytes():
            found.append(f"state {name} != {other_name}")
    return found


def run_killed(way: Way, workdir: Path, moment: float) -> str | None:
    """Run, kill the process `moment` seconds after its start, and run once more to the end.

    Returns what the killed process had saved, or None if it was done before it could be killed.
    """
    process = start(way, workdir)
    try:
        process.wait(timeout=moment)
        finish(process)
        return None
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
    saved = sorted(int(folder.name) for folder in (workdir / "checkpoints").glob("[0-9]*"))
    written = (workdir / "metrics.jsonl").exists()
    finish(start(way, workdir))
    return f"step {saved[-1]}" if saved else "training" if written else "start-up"


def kill(way: Way, folder: Path, kills: int, chance: random.Random) -> list[dict]:
    """Return the rows of the table for one way."""
    name = f"{way.model}-{way.mode}"
    whole, again, rows = folder / name, folder / f"{name}-again", []
    finish(start(way, whole))
    started = time.perf_counter()
    finish(start(way, again))  # its programs are compiled, as those of the runs that are killed
    duration, wrong = time.perf_counter() - started, differences(whole, again)
    if wrong:
        raise RuntimeError(f"two undisturbed runs differ: {wrong[0]}")
    with tqdm(total=kills, desc=name) as bar:
        while bar.n < kills:
            workdir, moment = folder / f"{name}-killed", chance.uniform(0.25, 1) * duration
            started = time.perf_counter()
            saved = run_killed(way, workdir, moment)
            if saved is None:  # moments of a slower machine would go on coming too late
                duration = time.perf_counter() - started
            else:
                wrong = differences(whole, workdir)
                for line in wrong[:3]:
                    bar.write(f"{name} killed after {moment:.2f} s: {line}")
                row = {
                    "model": way.model,
                    "mode": way.mode,
                    "killed_after_seconds": round(moment, 2),
                    "had_saved": saved,
                }
                rows.append(row | {"differences": len(wrong)})
                bar.update()
            shutil.rmtree(workdir)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20, help="random moments per model and way of training")
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS), help="models to try")
    parser.add_argument("--modes", nargs="+", choices=list(MODES), default=list(MODES), help="ways of training to try")
    parser.add_argument(
        "--epochs", type=int, default=20, help="of mini-batches; the whole graph is trained three times as long"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    parser.add_argument(
        "--out", type=Path, default=Path(__file__).parent / "results" / "kill_resume.csv", help="the table to write"
    )
    options = parser.parse_args()
    chance, rows = random.Random(options.seed), []
    with tempfile.TemporaryDirectory() as folder:
        for model, mode in itertools.product(options.models, options.modes):
            epochs = options.epochs * (3 if mode == "full" else 1)  # which have one step each
            rows += kill(Way(model, mode, epochs), Path(folder), options.kills, chance)
            replace_rows(options.out, ("model", "mode"), rows)
    failed = sum(row["differences"] > 0 for row in rows)
    midway = sum(row["had_saved"].startswith("step") for row in rows)
    print(
        f"{len(rows)} runs killed, {len(rows) - failed} identical to the undisturbed one, {failed} not;"
        f" {midway} had saved a checkpoint; {options.out}"
    )
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
