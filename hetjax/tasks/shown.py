"""The presentation of a run's scores: `summary.json` has the metrics and their names."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from hetjax.tasks.quality import Metric
from hetjax.tasks.task import Task

OF_BEFORE = {
    "accuracy": Metric("accuracy"),
    "micro_f1": Metric("micro-F1"),
    "macro_f1": Metric("macro-F1"),
    "roc_auc": Metric("ROC AUC"),
    "average_precision": Metric("average precision"),
    "loss": Metric("loss", "", higher=False),
}  # of a summary that does not say


class Shown(NamedTuple):
    """The metrics of a run.

    Attributes:
      metrics: the metrics by name.
      names: the names of those that are shown, the headline first.
      chosen_by: the one that the epoch was chosen by.
      compared_by: the one that the model is compared with baselines by.
      also_compared_by: others, of further targets.
      targets: of several targets their names, that of the headline first.
    """

    metrics: Mapping[str, Metric]
    names: list[str]
    chosen_by: str
    compared_by: str
    also_compared_by: Sequence[str] = ()
    targets: Sequence[str] = ()

    @property
    def headline(self) -> str:
        return self.names[0]

    @property
    def chosen_higher(self) -> bool:
        """True if a higher value of the metric that the epoch was chosen by is better."""
        return self.metrics[self.chosen_by].higher

    def words(self, summary: Mapping[str, Any], split: str = "test", target: str = "") -> str:
        """Return the scores on a split, as `summary` has them by `SPLIT_METRIC`; of several targets those of one, or of the first."""
        prefix = f"{target or self.targets[0]}." if self.targets else ""
        scores = {n: summary.get(f"{split}_{n}") for n in self.names if n.startswith(prefix)}
        parts = [f"{self.metrics[n].label} {self.metrics[n].words(score)}" for n, score in scores.items()]
        return f"{split} {', '.join(parts)}"


def of_task(task: Task, quality: Mapping[str, Any]) -> dict[str, Any]:
    """Return the summary's entries about the metrics of its task, from some quality that the run has."""
    return {
        "metrics": {name: metric._asdict() for name, metric in task.metrics.items()},
        "shown": task.shown(quality) or [task.headline],
        "chosen_by": task.metric,
        "compared_by": task.compared_by,
        "also_compared_by": list(task.also_compared_by),
        "targets": list(task.targets),
    }


def of_summary(summary: Mapping[str, Any]) -> Shown:
    """Return the metrics of a run from its summary; the exception that another shape causes may be any."""
    chosen_by = summary.get("chosen_by", "accuracy")
    if "metrics" in summary:
        metrics = {name: Metric(**about) for name, about in summary["metrics"].items()}
        more = summary.get("also_compared_by", ()), summary.get("targets", ())
        return Shown(metrics, summary["shown"], chosen_by, summary["compared_by"], *more)
    equal = summary["test_micro_f1"] == summary["test_accuracy"]  # as of one label a node
    areas = [name for name in ("roc_auc", "average_precision") if summary.get(f"test_{name}") is not None]
    names = ["accuracy", *(["micro_f1"] if not equal else []), "macro_f1", *areas]
    metric = summary.get("chosen_by", "micro_f1")
    return Shown(OF_BEFORE, names, chosen_by, "micro_f1" if metric == "loss" else metric)
