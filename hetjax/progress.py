"""How far a run is, where it resumes, and when it has no patience left."""

import sys
from dataclasses import dataclass, field

from hetjax.checkpoint import Checkpoint, Checkpoints
from hetjax.config import Train
from hetjax.processes.peers import Alone


@dataclass
class Progress:
    """How far a run is; saved with every checkpoint.

    Attributes:
      epoch: the epoch under way, from 0.
      step: steps of it that are done.
      loss_sum, nodes: over the seeds of those steps.
      best: step, epoch and quality of the checkpoint with the best micro-F1 (for one label a node, the accuracy) on the
        validation nodes, if there was one.
      metrics_bytes: size of `metrics.jsonl`.
      graph: digest of the graph; a run does not continue on another graph.
      capacities: of the batches, so that a resumed run has the same shapes.
      seconds: time trained.
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

    def count(self, loss: float, nodes: int, capacities: dict[str, int]) -> None:
        """A step is done."""
        self.step += 1
        self.loss_sum += loss * nodes
        self.nodes += nodes
        self.capacities = capacities

    def end_epoch(self) -> float:
        """The epoch is done; returns its mean loss."""
        loss = self.loss_sum / self.nodes
        self.epoch, self.step, self.loss_sum, self.nodes = self.epoch + 1, 0, 0.0, 0
        return loss

    def validated(self, quality: dict, step: int) -> None:
        """Remember the quality on the validation nodes after the epoch that ended, if it is the best so far."""
        found, best = (one and (one["micro_f1"], -one["loss"]) for one in (_known(quality), self.best))
        if found and (best is None or found > best):
            self.best = {"step": step, "epoch": self.epoch} | quality

    def out_of_patience(self, options: Train) -> bool:
        """Whether the validation has not become better for `train.patience` epochs; never before it was read again."""
        due = self.step == 0 and self.epoch % options.evaluate_every == 0
        return bool(options.patience and due and self.best) and self.epoch - self.best["epoch"] >= options.patience


def _known(quality: dict) -> dict | None:
    return None if quality["micro_f1"] is None else quality


def newest(checkpoints: Checkpoints, processes: Alone) -> tuple[Checkpoint | None, Progress]:
    """The checkpoint to continue from, and its progress: process 0 decides, as it alone may delete what is damaged."""
    found = None
    if processes.first:
        found = checkpoints.newest_whole(lambda words: print(f"hetjax: {words}", file=sys.stderr))
        found = found and [found[0].step, found[1]]
    step, progress = processes.first_says("resume", found) or (None, {})
    return None if step is None else checkpoints.at(step), Progress(**progress)
