"""A partition and its engine: the plain path, on its subgraph and on one device."""

from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

from hetjax.graph.hetgraph import HetGraph
from hetjax.kernels.sparse import SparseRows
from hetjax.partition.neighbourhood import Subgraph
from hetjax.sharding.averaging.examples import LocalTask
from hetjax.sharding.single.batches import SingleBatches
from hetjax.sharding.single.engine import SingleEngine
from hetjax.sharding.single.strategy import engine_on
from hetjax.sharding.strategy import Setup, regime_of
from hetjax.sharding.trainer import make_trainer


@dataclass
class Member:
    """One partition.

    Attributes:
      sub: its subgraph.
      engine: the engine that trains it.
      device: the device on which it is trained.
      static: its static features on the host, once they have left the device.
    """

    sub: Subgraph
    engine: SingleEngine
    device: jax.Device
    static: dict = field(default_factory=dict)

    @property
    def batches(self) -> SingleBatches:
        assert isinstance(self.engine.batches, SingleBatches)
        return self.engine.batches

    def enter(self) -> None:
        """Put the static features on the device."""
        features = self.engine.features
        features.static = self.engine.static = {t: jax.device_put(of, self.device) for t, of in self.static.items()}

    def leave(self) -> None:
        """Keep the static features on the host alone; arrays that the graph has unchanged are not copied."""
        given, there = self.sub.graph.features, self.engine.features.static
        self.static = self.static or {
            t: jax.device_get(of) if isinstance(of, SparseRows) else given[t] for t, of in there.items()
        }
        self.engine.features.static = self.engine.static = {}


def make_member(setup: Setup, sub: Subgraph, examples: np.ndarray, device: jax.Device) -> Member:
    """Make the engine of a partition, with the run's model and initial tables; schedules count its own steps.

    Args:
      examples: the numbers of its training examples.
    """
    graph: HetGraph = sub.graph
    task: Any = LocalTask(setup.task, examples, sub.nodes)
    regime = regime_of(setup.config, len(task.examples("train")))
    regime = regime._replace(threads=regime.threads or 1)  # as every device draws at once
    made = make_trainer(graph, setup.config, setup.task, regime.steps)
    shapes = {t: shape._replace(nodes=graph.schema.nodes[t]) for t, shape in setup.trainer.learnable.items()}
    trainer = setup.trainer._replace(task=task, optimizer=made.optimizer, adam=made.adam, learnable=shapes)
    own = setup._replace(graph=graph, regime=regime, trainer=trainer, folder=None)
    return Member(sub, engine_on(own, device, packs=False), device)  # parameters of members are averaged
