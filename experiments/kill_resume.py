"""Kill a training run with SIGKILL at random moments, start it again, and hold the result against an undisturbed run.

`python experiments/kill_resume.py --kills 20` runs both ways of training; it writes `experiments/results/kill_resume.csv`
and exits with status 1 if any line of `metrics.jsonl` (times aside) or any bit of the final state differs. A run that was done before its moment came does not count.
"""

import argparse
import csv
import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import jax
import numpy as np
from orbax.checkpoint import v1 as ocp
from tqdm import tqdm

COMMON = "--data.scale 0.005 --data.classes 8 --model.hidden 16 --model.feature_width 16 --model.dropout 0.2 --train.epochs 20"
MODES = {
    "minibatch": "--sampling.mode minibatch --sampling.batch_size 128 --sampling.fanout [5,4] --train.checkpoint_steps 17",
    "full": "--sampling.mode full --train.epochs 60",
}
TIMES = ("seconds",)


def command(mode: str, workdir: Path) -> list[str]:
    return [sys.executable, "-m", "hetjax.train", "--workdir", str(workdir), *COMMON.split(), *MODES[mode].split()]


def records(workdir: Path) -> list[dict]:
    """The lines of metrics.jsonl without their times."""
    lines = (workdir / "metrics.jsonl").read_text().splitlines()
    return [{key: value for key, value in json.loads(line).items() if key not in TIMES} for line in lines]


def final_state(workdir: Path) -> list[tuple[str, np.ndarray]]:
    """Every array of the last checkpoint with its path."""
    last = max((workdir / "checkpoints").glob("[0-9]*"))
    return [
        (jax.tree_util.keystr(path), np.asarray(leaf))
        for path, leaf in jax.tree_util.tree_leaves_with_path(ocp.load(last / "state"))
    ]


def differences(one: Path, other: Path) -> list[str]:
    """What differs between two runs, to the last bit."""
    found = [f"record {a} != {b}" for a, b in zip(records(one), records(other), strict=True) if a != b]
    for (name, a), (other_name, b) in zip(final_state(one), final_state(other), strict=True):
        if name != other_name or a.dtype != b.dtype or a.tobytes() != b.tobytes():
            found.append(f"state {name} != {other_name}")
    return found


def run_killed(mode: str, workdir: Path, moment: float) -> str | None:
    """Run, kill the process `moment` seconds after its start, and run once more to the end.

    Returns what the killed process had saved, or None if it was done before it could be killed.
    """
    process = subprocess.Popen(command(mode, workdir), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        _, errors = process.communicate(timeout=moment)
        if process.returncode:
            raise RuntimeError(errors.decode())
        return None
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
    saved = sorted(folder.name.lstrip("0") for folder in (workdir / "checkpoints").glob("[0-9]*"))
    written = (workdir / "metrics.jsonl").exists()
    subprocess.run(command(mode, workdir), check=True, capture_output=True)
    return f"step {saved[-1]}" if saved else "training" if written else "start-up"


def write(file: Path, rows: list[dict]) -> None:
    """The table so far."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with open(file, "w", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20, help="random moments per way of training")
    parser.add_argument("--modes", nargs="+", choices=list(MODES), default=list(MODES), help="ways of training to try")
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    parser.add_argument(
        "--out", type=Path, default=Path(__file__).parent / "results" / "kill_resume.csv", help="the table to write"
    )
    options = parser.parse_args()
    chance, rows = random.Random(options.seed), []
    with tempfile.TemporaryDirectory() as folder:
        for mode in options.modes:
            whole = Path(folder) / f"{mode}-undisturbed"
            started = time.perf_counter()
            subprocess.run(command(mode, whole), check=True, capture_output=True)
            duration = time.perf_counter() - started
            with tqdm(total=options.kills, desc=mode) as bar:
                while bar.n < options.kills:
                    workdir = Path(folder) / f"{mode}-{len(rows)}"
                    moment = chance.uniform(0.25, 1) * duration
                    saved = run_killed(mode, workdir, moment)
                    if saved is not None:
                        wrong = differences(whole, workdir)
                        for line in wrong[:3]:
                            bar.write(f"{mode} killed after {moment:.2f} s: {line}")
                        row = {"mode": mode, "killed_after_seconds": round(moment, 2), "had_saved": saved}
                        rows.append(row | {"differences": len(wrong)})
                        write(options.out, rows)
                        bar.update()
                    shutil.rmtree(workdir)
    failed = sum(row["differences"] > 0 for row in rows)
    midway = sum(row["had_saved"].startswith("step") for row in rows)
    print(
        f"{len(rows)} runs killed, {len(rows) - failed} identical to the undisturbed one, {failed} not;"
        f" {midway} had saved a checkpoint; {options.out}"
    )
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
