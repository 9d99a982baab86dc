"""Losses of finished runs, and runs that are continued from a checkpoint."""

import json
import shutil

from tests.support.commands import train


def losses(run) -> list[float]:
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [
        record[name] for record in records for name in ("train_loss", "validation_loss", "test_loss") if name in record
    ]


def continued(finished, folder, *mesh: str, start=train):
    """The run as it was when it had just written its first checkpoint of two, continued."""
    run, options = finished
    shutil.copytree(run, folder)
    (folder / "summary.json").unlink()
    shutil.rmtree(max((folder / "checkpoints").iterdir()))
    done = start(folder, *options, *mesh)
    assert done.returncode == 0 and "continuing from" in done.stdout, done.stderr
    return losses(folder)
