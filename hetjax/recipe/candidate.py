"""A candidate of the race: a model with the options that it would be trained with, trained for some steps and judged by nodes that are held out."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import numpy as np

from hetjax import models
from hetjax.datasets.load import made
from hetjax.graph.hetgraph import HetGraph
from hetjax.options.config import Cache, Config, Mesh
from hetjax.recipe.compatible import Choice, applied
from hetjax.recipe.holdouts import HoldOuts
from hetjax.recipe.probes import error_of
from hetjax.sharding import registry

LOOKS = 4  # at the nodes that are held out, in the steps from one round to the next


class Candidate(NamedTuple):
    """Options that are tried together.

    Attributes:
      name: in lines.
      choices: all options that are not given.
    """

    name: str
    choices: tuple[Choice, ...]


class Score(NamedTuple):
    """The result of a candidate so far; a higher one is better.

    Attributes:
      metric: the mean over the divisions of the best value of the run's metric, negated where a lower one is better.
      loss: the mean over the divisions of the lowest loss, negated.
    """

    metric: float
    loss: float


def work_of_step(graph: HetGraph, layers: int) -> int:
    """Return the counted work of a step on the whole graph: edges and nodes once a layer, and the features that are not zero."""
    nodes = sum(graph.schema.nodes.values())
    return layers * (graph.edges + nodes) + sum(int(np.count_nonzero(matrix)) for matrix in graph.features.values())


class Entrant:
    """A candidate in training, on one device, by steps of the whole graph; one state for each division.

    Args:
      config: of the run.
      graph: as it was read.
      held: the divisions.
      seed: of weights and dropout.

    Raises:
      InputError: the candidate's options do not go together or with the graph.
    """

    def __init__(self, candidate: Candidate, config: Config, graph: HetGraph, held: HoldOuts):
        self.candidate, self.held, self.steps = candidate, held, 0
        self.config = alone(applied(config, candidate.choices))
        whole = models.folded(self.config.model.name, made(graph, self.config.data))
        self.work = work_of_step(whole, self.config.model.layers) * len(held.each)
        splits = {"train": held.pool, "validation": held.pool[:0], "test": held.pool[:0]}
        self.engine = registry.make_engine(self.config, replace(whole, splits=splits))
        self.states: list[Any] = [None] * len(held.each)
        self.batches = [self._batch(one.train) for one in held.each]
        self.best: list[list[Score]] = [[] for _ in held.each]

    def _batch(self, places: np.ndarray) -> Any:
        """Return the batch of the whole graph, of which some nodes of the pool alone have a loss."""
        task = self.engine.setup.task
        (drawn,) = self.engine.batches.epoch(0)
        rows = {root: np.asarray(ids)[places] for root, ids in drawn.batch.seeds.items()}
        return drawn.batch._replace(
            **jax.device_put({"seeds": rows, "arrays": task.seeds(self.held.pool[places]).arrays})
        )

    def train(self, steps: int) -> None:
        """Train up to so many steps in all, and look at the nodes that are held out every so often."""
        looks = {self.steps + (steps - self.steps) * (n + 1) // LOOKS for n in range(LOOKS)}
        for number, (batch, one) in enumerate(zip(self.batches, self.held.each, strict=True)):
            state = self.engine.init(int(self.engine.seed)) if self.states[number] is None else self.states[number]
            for step in range(self.steps + 1, steps + 1):
                state, loss = self.engine.step(state, batch)
                jax.block_until_ready(loss)
                if step in looks:
                    self.best[number].append(self._judged(state, one.held))
            self.states[number] = state
        self.steps = steps

    def _judged(self, state: Any, places: np.ndarray) -> Score:
        task, pool = self.engine.setup.task, self.held.pool
        outputs = self.engine.outputs(state, pool)
        assert outputs is not None  # of one process
        found = task.quality(outputs[places], pool[places])
        return Score(_finite(found[task.metric], task.metrics[task.metric].higher), _finite(found["loss"], False))

    @property
    def score(self) -> Score:
        """The result so far."""
        metrics, losses = zip(*((max(s.metric for s in own), max(s.loss for s in own)) for own in self.best))
        return Score(float(np.mean(metrics)), float(np.mean(losses)))

    def beats(self, other: "Entrant") -> bool:
        """Return whether the result is better than another's by one standard error of a share of the nodes that judge; losses decide nothing."""
        places = {place for one in self.held.each for place in one.held}
        share = min(1.0, abs(other.score.metric))
        return self.score.metric > other.score.metric + error_of(share, len(places))

    def words(self) -> str:
        """Return the result with the candidate's name."""
        task = self.engine.setup.task
        metric = task.metrics[task.metric]
        value = self.score.metric if metric.higher else -self.score.metric
        return f"{self.candidate.name} {metric.words(value)}"

    def close(self) -> None:
        """Give back what the candidate holds."""
        self.engine.close()
        self.states, self.batches = [], []


def _finite(value: float | None, higher: bool) -> float:
    """Return a value of which a higher one is better; the lowest of all for one that is undefined."""
    if value is None or not np.isfinite(value):
        return -float(np.finfo(np.float32).max)
    return float(value if higher else -value)


def alone(config: Config) -> Config:
    """Return the configuration as it trains in this process, on one device, by steps of the whole graph."""
    train = replace(config.train, schedule="constant", init_from="", checkpoint_steps=0, steps_per_epoch=0)
    sampling = replace(config.sampling, mode="full")
    return replace(config, sampling=sampling, train=train, mesh=Mesh(), cache=Cache(), strategies={})


def differing(config: Config, candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return the candidates without those that equal an earlier one in all options."""
    found: list[tuple[Config, Candidate]] = []
    for one in candidates:
        chosen = applied(config, one.choices)
        if all(chosen != other for other, _ in found):
            found.append((chosen, one))
    return [one for _, one in found]
