"""Scores of baselines on the validation nodes, before a model is chosen: they show whether features, or the labels of neighbours, say more."""

from dataclasses import dataclass, replace

from hetjax import models
from hetjax.datasets.load import Ahead
from hetjax.graph.hetgraph import HetGraph
from hetjax.options.config import Config
from hetjax.system.logs import log
from hetjax.tasks import baselines
from hetjax.tasks.folds import ENOUGH
from hetjax.tasks.node_classification import compared_by

BETTER, ROOM = 0.1, 4  # by how much one is, but where the larger class leaves little room, by a part of it


@dataclass(frozen=True)
class BaselineScores:
    """Scores of baselines on the validation nodes, by the run's metric.

    Attributes:
      larger: the larger class.
      features: logistic regression on the target's own features; 0 where it has none.
      neighbours: label propagation; None of a graph that is too large for it, of which nothing is concluded then.
    """

    larger: float
    features: float
    neighbours: float | None

    @property
    def much(self) -> float:
        """The difference by which one score must be better than another to count."""
        return min(BETTER, (1 - self.larger) / ROOM)

    @property
    def neighbours_say_more(self) -> bool:
        """Return whether the labels of neighbours say much more than features do."""
        return self.neighbours is not None and self.neighbours >= max(self.larger, self.features) + self.much

    @property
    def features_say_nothing(self) -> bool:
        """Return whether features say hardly more than the larger class does."""
        return self.features < self.larger + self.much

    @property
    def neighbours_say_nothing(self) -> bool:
        """Return whether the labels of neighbours say hardly more than the larger class does."""
        return self.neighbours is not None and self.neighbours < self.larger + self.much


def baseline_scores(config: Config, graph: HetGraph, metric: str, ahead: Ahead | None) -> BaselineScores | None:
    """Return the scores of baselines on a graph as it was read; None where there are too few validation and training nodes to tell.

    Args:
      metric: of the run.
      ahead: where the baselines are left for who needs them later.
    """
    validation, train = (len(graph.splits[name]) for name in ("validation", "train"))
    if config.data.metapath_hops or validation + train < ENOUGH:
        return None
    log.info("looking whether features or the labels of neighbours say more")
    target_features = {name: matrix for name, matrix in graph.features.items() if name == graph.schema.target}
    seen = models.folded(config.model.name, replace(graph, features=target_features))
    metric = compared_by(metric)
    found = baselines.baselines(seen, metric)
    if ahead:
        ahead.baselines = found
    scores = [None if isinstance(one, str) else one.score for one in found.values()]
    named_scores = ", ".join(
        f"{name} {100 * score:.1f} %" for name, score in zip(baselines.NAMES, scores) if score is not None
    )
    judged = "of the validation nodes" if validation >= ENOUGH else "in folds of the training and validation nodes"
    log.info(f"{judged}: {named_scores}")
    larger, features, neighbours = scores
    return BaselineScores(larger or 0.0, features or 0.0, neighbours)
