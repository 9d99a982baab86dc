"""The guard of a run: where the loss explodes, training goes back to its best epoch, or to its start, and on with a tenth of the learning rate.

A loss explodes if it is not finite, or if `meters.Rises` calls it steep. Both are read from training itself, the same in all
processes, so a run goes back at the same step on every mesh. It goes back by a checkpoint: a run that is killed meanwhile comes by there again.
A step's loss is that of the weights before it. So a loss that explodes right after the best epoch is that of the epoch's own weights, as where the
first step of all was too long: then the run goes back to its start.
"""

from dataclasses import replace

from hetjax.options.config import Config
from hetjax.training.run import Run

FACTOR, MOST = 0.1, 4  # of the learning rates each time, and how many times


def lowered(config: Config, times: int) -> Config:
    """Return the configuration with both learning rates lowered so many times."""
    if not times:
        return config
    train, factor = config.train, FACTOR**times
    rows = train.feature_learning_rate
    rate, row_rate = train.learning_rate * factor, None if rows is None else rows * factor
    return replace(config, train=replace(train, learning_rate=rate, feature_learning_rate=row_rate))


def watches(run: Run) -> bool:
    """Return whether a loss that explodes takes the run back: if the option says so, it has not happened too often, and all processes see the same loss."""
    return run.config.train.on_divergence == "back" and run.engine.same_losses and run.progress.lowered < MOST


def go_back(run: Run, error: FloatingPointError) -> int:
    """Leave the best checkpoint as the newest, or none, and say so; return how often learning rates are lowered from there on."""
    done, times = run.progress, run.progress.lowered + 1
    exploded = run.steps_done  # the step whose loss it was
    best = done.best if done.best and done.best["step"] < exploded else None
    rate = lowered(run.config, times).train.learning_rate
    where = f"epoch {best['epoch']}, the best" if best else "its start"
    run.say(f"{error}; the run goes back to {where}, and on with train.learning_rate {rate:.3g}")
    if run.processes.first:
        for checkpoint in list(run.checkpoints.newest_first()):
            if not best or checkpoint.step > best["step"]:
                run.checkpoints.remove(checkpoint)
    run.processes.barrier("gone back")
    return times
