"""The parts of a run."""

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from hetjax.checkpoints.checkpoint import Checkpoints
from hetjax.checkpoints.progress import Progress
from hetjax.graph.hetgraph import HetGraph
from hetjax.options.config import Config
from hetjax.processes.group import ProcessGroup
from hetjax.sharding.strategy import Engine
from hetjax.system.logs import log
from hetjax.tasks.baselines import Found
from hetjax.tasks.quality import Quality
from hetjax.tasks.stack_fit import Tried
from hetjax.tasks.stacking import Stacked
from hetjax.tasks.task import Task
from hetjax.training import meters
from hetjax.training.records import Records
from hetjax.training.workdir import Workdir


class Saved(NamedTuple):
    """The last checkpoint of this process.

    Attributes:
      time: the time at which it was written, by `time.monotonic`.
      copied: whether a state like it is copied into memory in place of being written: one that is small, and in no file.
    """

    time: float
    copied: bool


class Snapshot(NamedTuple):
    """The content of a checkpoint.

    Attributes:
      step: the step after which it was taken.
      state: the state in process 0; others may have None.
      progress: the progress at that step.
    """

    step: int
    state: Any
    progress: dict[str, Any]


@dataclass
class Run:
    """The parts of a run.

    Attributes:
      config, workdir, processes: the inputs of the run.
      graph: its shape, labels and splits.
      engine: the engine, which trains.
      checkpoints, progress, state: those of the run; the last is as the engine has it.
      programs: the counter of compiled programs.
      records: `metrics.jsonl`, in process 0.
      started: the time at which this process began.
      resumed_seconds: time trained by processes before it.
      clock: the clock of the parts of a step.
      saved: the last checkpoint, in process 0.
      unsaved: a snapshot of the best epoch, if that has no checkpoint; its state is a copy.
      rises: the detector of a loss that rises steeply.
      reported: the epoch that was last printed.
      compiling: epochs that compiled something.
      outputs: the outputs of the test examples, in process 0, when they were read.
      baselines: the baselines, as `hetjax.tasks.baselines` gives them, in process 0, if they are asked for.
      tried: the attempt to stack the model's outputs with theirs, in process 0, once it is known.
      stacking_seconds: the time that it took.
      stack_quality: the quality of the stack on the test examples, where it is kept.
    """

    config: Config
    workdir: Workdir
    processes: ProcessGroup
    graph: HetGraph
    engine: Engine
    checkpoints: Checkpoints
    progress: Progress
    state: Any
    programs: meters.ProgramCounter
    records: Records | None
    started: float
    resumed_seconds: float
    clock: meters.Clock = field(default_factory=meters.Clock)
    saved: Saved | None = None
    unsaved: Snapshot | None = None
    rises: meters.Rises = field(default_factory=meters.Rises)
    reported: int = 0
    compiling: int = 0
    outputs: np.ndarray | None = None
    baselines: Found = field(default_factory=dict)
    tried: Tried | None = None
    stacking_seconds: float = 0.0
    stack_quality: Quality | None = None

    @property
    def task(self) -> Task:
        """The task of the run."""
        return self.engine.setup.task

    @property
    def chosen(self) -> Mapping[str, float]:
        """The way in which the model's outputs are read, chosen by validation, as `Task.quality` takes it."""
        return self.task.chosen(self.progress.best or {})

    @property
    def stacked(self) -> Stacked | None:
        """The stack that predictions are made with; None: the model is alone."""
        return self.tried.stacked if self.tried and self.tried.kept else None

    @property
    def steps_done(self) -> int:
        """The number of steps of all epochs."""
        return self.progress.steps_done(self.engine.batches.steps())

    def seconds(self) -> float:
        """Return the time of this run, over all of its processes."""
        return self.resumed_seconds + time.perf_counter() - self.started

    def close(self) -> None:
        """Let the loggers know that the run ends, done or not."""
        if self.records and self.records.loggers:
            done = self.workdir.file("summary.json").exists()
            self.records.loggers.close(self.workdir.path if done else None)

    def say(self, words: str, level: int = logging.INFO) -> None:
        """Say something, in process 0."""
        if self.processes.first and words:
            log.log(level, words)
