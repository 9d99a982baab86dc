"""When the state of a run is written: often enough that little is lost, and seldom enough that short epochs are not spent on writing."""

import time
from dataclasses import asdict

import jax
import numpy as np

from hetjax.run import Run, Saved, Snapshot

SMALL = 2**28  # bytes of a state of which a copy is kept in memory meanwhile


def save(run: Run) -> None:
    """Write a checkpoint, and before it that of the best epoch, if it is not written yet; process 0 does, and the others wait for it."""
    write_best(run)
    _write(run, _snapshot(run))


def save_if_due(run: Run) -> None:
    """As `save`, unless the last checkpoint is younger than `train.checkpoint_seconds`: then a copy of the state is kept, if it is the best."""
    last, wait = run.saved, run.config.train.checkpoint_seconds
    due = last is None or last.size > SMALL or time.monotonic() - last.time >= wait
    if run.processes.broadcast_object("a checkpoint is due", due):
        save(run)
    elif (best := run.progress.best) and best["step"] == _step(run):
        now = _snapshot(run)
        run.unsaved = now._replace(state=jax.tree.map(np.array, now.state) if run.processes.first else None)


def write_best(run: Run) -> None:
    """Write the checkpoint of the best epoch, if it is not written yet."""
    unsaved, best, run.unsaved = run.unsaved, run.progress.best, None
    if unsaved and best and unsaved.step == best["step"]:
        _write(run, unsaved)


def _step(run: Run) -> int:
    return run.progress.epoch * run.engine.batches.steps() + run.progress.step


def _snapshot(run: Run) -> Snapshot:
    """Of now; the next step may change its state."""
    state, done = run.engine.gather(run.state), run.progress
    run.engine.tell_progress(done)
    done.seconds = run.seconds()
    return Snapshot(_step(run), state, asdict(done))


def _write(run: Run, snapshot: Snapshot) -> None:
    if run.processes.first:
        assert snapshot.state is not None  # in process 0
        run.checkpoints.save(*snapshot)
        run.saved = Saved(time.monotonic(), sum(leaf.nbytes for leaf in jax.tree.leaves(snapshot.state)))
    else:
        run.checkpoints.wait_for(snapshot.step)
    run.processes.barrier("saved")
