"""The times at which the state of a run is written: often enough that little is lost, and so seldom that short epochs do not wait for it."""

import time
from dataclasses import asdict

import jax
import numpy as np

from hetjax.system.mapped import mapping
from hetjax.training.run import Run, Saved, Snapshot

SMALL = 2**28  # bytes of a state of which a copy is kept in memory meanwhile, unless some of it lies in files


def save(run: Run) -> None:
    """Write a checkpoint, and before it that of the best epoch, if it is not written yet; process 0 does, and the others wait for it."""
    write_best(run)
    _write(run, _snapshot(run))


def save_the_end(run: Run) -> None:
    """Save a run that ends before its last epoch, as `save`, unless its newest checkpoint is of the current step."""
    there = run.processes.first and run.checkpoints.at(run.steps_done).folder.exists()
    if not run.processes.broadcast_object("there is a checkpoint of now", there):
        save(run)


def save_if_due(run: Run) -> None:
    """Save as `save`, unless the last checkpoint is younger than `train.checkpoint_seconds`: then a copy of the state is kept, if it is the best."""
    if run.processes.broadcast_object("a checkpoint is due", _due(run)):
        save(run)
    elif (best := run.progress.best) and best["step"] == run.steps_done:
        now = _snapshot(run)
        run.unsaved = now._replace(state=jax.tree.map(np.array, now.state) if run.processes.first else None)


def write_best(run: Run) -> None:
    """Write the checkpoint of the best epoch, if it is not written yet."""
    unsaved, best, run.unsaved = run.unsaved, run.progress.best, None
    if unsaved and best and unsaved.step == best["step"]:
        _write(run, unsaved)


def _due(run: Run) -> bool:
    """Return whether a checkpoint is due, by the clock of process 0, which decides for all; others do not know when the last was written."""
    last = run.saved
    return last is None or not last.copied or time.monotonic() - last.time >= run.config.train.checkpoint_seconds


def _snapshot(run: Run) -> Snapshot:
    """Return the current state, which the next step may change."""
    state, done = run.engine.gather(run.state), run.progress
    run.engine.tell_progress(done)
    done.seconds = run.seconds()
    return Snapshot(run.steps_done, state, asdict(done))


def _write(run: Run, snapshot: Snapshot) -> None:
    if run.processes.first:
        assert snapshot.state is not None  # in process 0
        run.checkpoints.save(*snapshot)
        leaves = jax.tree.leaves(snapshot.state)
        small = sum(leaf.nbytes for leaf in leaves) <= SMALL and not any(mapping(leaf) for leaf in leaves)
        run.saved = Saved(time.monotonic(), small and (run.saved is None or run.saved.copied))
    else:
        run.checkpoints.wait_for(snapshot.step)
    run.processes.barrier("saved")
