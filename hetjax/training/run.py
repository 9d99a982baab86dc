"""What a run is made of."""

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
from hetjax.tasks.stacking import Stacked
from hetjax.tasks.task import Task
from hetjax.training import meters
from hetjax.training.records import Records
from hetjax.training.workdir import Workdir


class Saved(NamedTuple):
    """The last checkpoint of this process.

    Attributes:
      time: when it was written, by `time.monotonic`.
      copied: whether a state like it is copied into memory in place of being written: one that is small, and in no file.
    """

    time: float
    copied: bool


class Snapshot(NamedTuple):
    """What a checkpoint holds.

    Attributes:
      step: after which it was taken.
      state: in process 0; others may have None.
      progress: as it was then.
    """

    step: int
    state: Any
    progress: dict[str, Any]


@dataclass
class Run:
    """What a run is made of.

    Attributes:
      config, workdir, processes: as given.
      graph: its shape, labels and splits.
      engine: what trains.
      checkpoints, progress, state: of the run; the last is as the engine has it.
      programs: how many were compiled.
      records: `metrics.jsonl`, in process 0.
      started: when this process began.
      resumed_seconds: time trained by processes before it.
      clock: where the time of a step goes.
      saved: the last checkpoint, in process 0.
      unsaved: a snapshot of the best epoch, if that has no checkpoint; its state is a copy.
      rises: whether the loss rises steeply.
      reported: the epoch that was last printed.
      compiling: epochs that compiled something.
      outputs: of the test examples, in process 0, when they were read.
      baselines: as `hetjax.tasks.baselines` gives them, in process 0, if they are asked for.
      stacked: how the model's outputs are weighed with theirs, in process 0, once that is known.
      stacking_seconds: that it took to know.
      alone: what the model has on the test examples without that.
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
    stacked: Stacked | None = None
    stacking_seconds: float = 0.0
    alone: Quality | None = None

    @property
    def task(self) -> Task:
        """The task of the run."""
        return self.engine.setup.task

    @property
    def chosen(self) -> Mapping[str, float]:
        """The way in which outputs are read, chosen by validation, as `Task.quality` takes it."""
        return self.stacked.chosen if self.stacked else self.task.chosen(self.progress.best or {})

    @property
    def steps_done(self) -> int:
        """Of all epochs."""
        return self.progress.steps_done(self.engine.batches.steps())

    def seconds(self) -> float:
        """Time of this run, over all of its processes."""
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
