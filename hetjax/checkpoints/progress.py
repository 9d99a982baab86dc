"""The progress of a run, the step at which it resumes, and the end of its patience.

What a checkpoint says of it decides what is kept and what is cut, so it is held against what a run can say.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from hetjax.checkpoints.checkpoint import Checkpoint, Checkpoints
from hetjax.kernels.cost_model import Costs
from hetjax.options.config import Train
from hetjax.processes.group import ProcessGroup
from hetjax.system.errors import InputError
from hetjax.tasks.metrics import HALF
from hetjax.tasks.quality import Quality

COUNTS, SUMS = ("epoch", "step", "nodes", "metrics_bytes"), ("loss_sum", "seconds")
KEYS = (*COUNTS, *SUMS, "best", "graph", "capacities")
LATER = ("lowered", "recent", "costs", "options")  # which checkpoints of before have not
OF_BEST = ("step", "epoch")
MOST, MOST_ROWS = 2**53, 2**31  # of any count, and of what a batch has room for


@dataclass
class Progress:
    """The progress of a run, saved with every checkpoint.

    Attributes:
      epoch: the epoch under way, from 0.
      step: steps of it that are done.
      loss_sum, nodes: over the seeds of those steps.
      best: step, epoch and quality of the checkpoint that is best by the metric of the task on the validation nodes, if there was one.
      metrics_bytes: size of `metrics.jsonl`.
      graph: digest of the graph; a run does not continue on another graph.
      capacities: of the batches, so that a resumed run has the same shapes.
      seconds: time trained.
      lowered: how often the guard has lowered the learning rates (`hetjax.training.guard`).
      recent: the losses of the last two steps.
      costs: what orders are counted with (`kernels.cost_model.Costs`), as results depend on orders in their last bits; none in a
        checkpoint of before, which had the usual ones.
      options: `data` and `model` options of the run, by `section.key`, so that an edited `config.yaml` is noticed.
    """

    epoch: int = 0
    step: int = 0
    loss_sum: float = 0.0
    nodes: int = 0
    best: dict | None = None
    metrics_bytes: int = 0
    graph: str = ""
    capacities: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    lowered: int = 0
    recent: list[float] = field(default_factory=list)
    costs: list[float] = field(default_factory=list)
    options: dict[str, Any] = field(default_factory=dict)

    def count(self, loss: float, nodes: int, capacities: dict[str, int]) -> None:
        """Count a step that was done."""
        self.step += 1
        self.loss_sum += loss * nodes
        self.nodes += nodes
        self.capacities = capacities
        self.recent = [*self.recent, loss][-2:]

    def steps_done(self, steps: int) -> int:
        """Return the steps of all epochs that were done, of so many each."""
        return self.epoch * steps + self.step

    def end_epoch(self) -> float:
        """End the epoch, and return its mean loss."""
        loss = self.loss_sum / max(1, self.nodes)
        self.epoch, self.step, self.loss_sum, self.nodes = self.epoch + 1, 0, 0.0, 0
        return loss

    def validated(self, quality: Quality, step: int, metric: str, higher: bool = True) -> None:
        """Remember the quality on the validation examples after the epoch that ended, if it is the best so far by a metric.

        Of epochs that are equal by the metric the one of the lower loss is better, and of equal losses too the earliest.

        Args:
          higher: whether a higher value of the metric is better.
        """
        if quality[metric] is None:
            return
        best = self.best if self.best and self.best.get(metric) is not None else None
        if best is None or _rank(quality, metric, higher) > _rank(best, metric, higher):
            self.best = {"step": step, "epoch": self.epoch} | quality

    def out_of_patience(self, options: Train) -> bool:
        """Return whether the validation has not become better for `train.patience` epochs; never before it was read again."""
        due = self.step == 0 and self.epoch % options.evaluate_every == 0
        if not (options.patience and due and self.best):
            return False
        return self.epoch - self.best["epoch"] >= options.patience


def _rank(quality: Mapping[str, Any], metric: str, higher: bool) -> tuple[float, float]:
    return quality[metric] if higher else -quality[metric], -quality["loss"]


def newest(
    checkpoints: Checkpoints, processes: ProcessGroup, say: Callable[[str], None]
) -> tuple[Checkpoint | None, Progress]:
    """Return the checkpoint to continue from, and its progress; process 0 decides."""
    resume = None
    if processes.first and (newest := checkpoints.newest_whole(say, check_progress)):
        resume = [newest[0].step, newest[1]]
    step, progress = processes.broadcast_object("resume", resume) or (None, {})
    found = Progress(**progress)
    if not processes.first:
        found.loss_sum, found.nodes = 0.0, 0  # which process 0 has counted
    return None if step is None else checkpoints.at(step), found


def check_progress(given: dict[str, Any]) -> None:
    """Raise a ValueError for the first key or value that no run writes."""
    for key in sorted((given.keys() - set(LATER)) ^ set(KEYS)):
        raise ValueError(f"{key[:40]} is missing, or not known")
    for name in COUNTS:
        _count(name, given[name])
    _finite("loss_sum", given["loss_sum"])  # a loss may be negative
    _number("seconds", given["seconds"])
    _count("lowered", given.get("lowered", 0))
    for name in ("recent", "costs"):
        if not isinstance(given.get(name, []), list):
            raise ValueError(f"{name} is no list")
        for number in given.get(name, []):
            (_finite if name == "recent" else _number)(name, number)
    *counted, far = Costs._fields  # which is 0 on some platforms, and was not kept before it was counted
    if not all(given.get("costs", [])[: len(counted)]):
        raise ValueError("a cost is 0")
    if len(given.get("costs", [])) not in (0, len(counted), len(Costs._fields)):
        raise ValueError(f"costs are {len(given['costs'])} numbers, and should be {len(Costs._fields)}")
    if not isinstance(given.get("options", {}), dict):
        raise ValueError("options are no dictionary")
    if not isinstance(given["graph"], str):
        raise ValueError("graph is no text")
    if not isinstance(given["capacities"], dict):
        raise ValueError("capacities are no dictionary")
    for name, room in given["capacities"].items():
        _count(f"the capacity of {name[:80]}", room, MOST_ROWS)
    if given["best"] is not None:
        for name in OF_BEST:
            _count(f"best.{name}", given["best"][name])
        _finite("best.loss", given["best"].get("loss"))
        if not 0 < given["best"].get("threshold", HALF) < 1:
            raise ValueError(f"best.threshold is {given['best']['threshold']!r:.40}, and should be between 0 and 1")
        for name, value in given["best"].items():
            if value is not None and name not in OF_BEST:
                _finite(f"best.{name:.40}", value)


def check_step(progress: Progress, checkpoint: Checkpoint, steps: int) -> None:
    """Raise an InputError where the progress is that of another step than the checkpoint's, at so many steps an epoch."""
    step = progress.steps_done(steps)
    if step != checkpoint.step:
        raise InputError(
            f"{checkpoint.folder / 'progress.json'}: step {step} of the run != {checkpoint.step}, the checkpoint's; "
            "move this checkpoint away, or give another --workdir"
        )


def _count(name: str, value: Any, most: int = MOST) -> None:
    if type(value) is not int or not 0 <= value <= most:
        raise ValueError(f"{name} is {value!r:.40}, and should be a whole number up to {most}")


def _number(name: str, value: Any) -> None:
    _finite(name, value)
    if value < 0:
        raise ValueError(f"{name} is {value!r:.40}, and should be a number")


def _finite(name: str, value: Any) -> None:
    if type(value) not in (int, float) or not math.isfinite(value):
        raise ValueError(f"{name} is {value!r:.40}, and should be a number")
