"""The protocol of strategies: a strategy chooses and divides, its engine trains.

A strategy is a folder of this package, or a class of a user's own (`registry`). The training loop knows this protocol
and nothing else: neither the division of a strategy, nor the form of a state on its devices.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from hetjax import models
from hetjax.cache import fill
from hetjax.cache.features import FeatureStore
from hetjax.checkpoints.checkpoint import Checkpoint
from hetjax.checkpoints.progress import Progress
from hetjax.datasets.load import Ahead, load
from hetjax.graph.hetgraph import HetGraph
from hetjax.graph.hidden import hidden
from hetjax.kernels.cost_model import CostModel, current
from hetjax.options import owners
from hetjax.options.config import Config
from hetjax.partition import Partitioning, Workload
from hetjax.processes.group import ProcessGroup
from hetjax.sampling.loader import Batches
from hetjax.sampling.regime import Regime, mini_batch_regime, whole_graph_regime
from hetjax.sharding.declaration import Declaration
from hetjax.sharding.evaluate import Evaluator, ReadOut, evaluated_nodes
from hetjax.sharding.traffic import Sent
from hetjax.sharding.trainer import Trainer, TrainState, make_trainer
from hetjax.system.arrays import Array
from hetjax.system.mapped import on_host
from hetjax.tasks import registry as tasks
from hetjax.tasks.task import Task


class Setup(NamedTuple):
    """The inputs that a run gives its strategy.

    Attributes:
      config: the configuration of the run.
      graph: the graph as the strategy's `open` gave it, its edges as the model aggregates them (`models.changed`).
      regime: the sizes of a step.
      trainer: the model and the optimizers.
      processes: the processes that train together.
      folder: the folder of the run, for tables on disk; None if it has none.
      costs: the measured constants by which the run chooses between equal computations.
    """

    config: Config
    graph: HetGraph
    regime: Regime
    trainer: Trainer
    processes: ProcessGroup
    folder: Path | None
    costs: CostModel

    @property
    def task(self) -> Task:
        """The task of the run."""
        return self.trainer.task

    @property
    def workload(self) -> Workload:
        """The step that the costs of a partitioning are expected of."""
        model = self.config.model
        return Workload(self.regime.batch_size, self.regime.fanouts, model.hidden, model.feature_width)

    @property
    def flowing(self) -> frozenset[str]:
        """The input types whose rows get a gradient."""
        return frozenset(self.graph.schema.nodes if self.trainer.model.transforms else self.trainer.learnable)

    @property
    def tables(self) -> Path | None:
        """The folder in which this process keeps tables on disk."""
        number = self.processes.number
        return self.folder and self.folder / (f"tables_{number}" if number else "tables")

    @property
    def whole_tables(self) -> Path | None:
        """The folder in which all processes write the whole tables of a checkpoint together."""
        return self.folder and self.folder / "tables" / "whole"


def regime_of(config: Config, seeds: int) -> Regime:
    """Return the regime of a graph with so many training examples."""
    sampling = config.sampling
    if sampling.mode == "full":
        return whole_graph_regime(seeds, config.model.layers)
    limit = config.train.steps_per_epoch
    return mini_batch_regime(seeds, sampling.batch_size, sampling.fanout, limit, sampling.threads)


def setup(
    config: Config,
    graph: HetGraph,
    processes: ProcessGroup | None = None,
    folder: Path | None = None,
    costs: CostModel | None = None,
) -> Setup:
    """Return the inputs that a run gives its strategy, from its configuration and its graph; without `costs` the usual ones of the platform.

    Raises:
      InputError: the model does not go with the graph, or has no such option.
    """
    config.check_fanout()
    graph = hidden(graph, config.task.hide_targets, owners.targets(config.task))
    graph = models.changed(config.model.name, graph)
    task = tasks.make(config, graph)
    regime = regime_of(config, len(task.examples("train")))
    costs = costs or current()
    trainer = make_trainer(graph, config, task, regime.steps, costs)
    return Setup(config, graph, regime, trainer, processes or ProcessGroup(), folder, costs)


class Engine(ABC):
    """The engine of a strategy, which trains. Only the engine knows its state: the loop passes it from call to call.

    Attributes:
      setup: the inputs that it was made from.
      batches: the batches of every epoch.
      features: the places of features, if some may live off the devices.
      same_losses: whether `step` gives all processes the same loss.
    """

    same_losses = True

    def __init__(self, setup: Setup, batches: Batches, features: FeatureStore | None = None):
        self.setup, self.batches, self.features = setup, batches, features
        self.trainer, self.seed = setup.trainer, np.int32(setup.config.train.seed)

    @cached_property
    def init_weights(self) -> Callable[[Array], TrainState]:
        """The `weights` of the trainer, always one object, so that jax traces it once."""
        return self.trainer.weights

    @abstractmethod
    def init(self, seed: int) -> Any:
        """Return the state before the first step."""

    @abstractmethod
    def shard(self, state: TrainState) -> Any:
        """Return a whole state, such as a checkpoint holds, as this engine trains it."""

    @abstractmethod
    def gather(self, state: Any) -> TrainState | None:
        """Return the whole state in process 0, the inverse of `shard`; the others may get None. The next step may change the result."""

    @abstractmethod
    def step(self, state: Any, batch: Any, upcoming: Any = None) -> tuple[Any, Array]:
        """Run one update; return the new state, and the loss before it. The state given is used up.

        Args:
          upcoming: the batch of the next step, if it is known.
        """

    @abstractmethod
    def traffic(self) -> list[Sent]:
        """Return the traffic that this process sent in a step, on average.

        Raises:
          ValueError: a compiled program has a collective in a form that is not known.
        """

    def restored(self, checkpoint: Checkpoint) -> Any:
        """Return the state of a checkpoint, as this engine trains it."""
        return self.shard(checkpoint.state(jax.eval_shape(self.trainer.init, self.seed)))

    def tell_progress(self, progress: Progress) -> None:  # noqa: B027 (where every process knows all of it)
        """Tell process 0 the losses and the progress of the processes' steps; do nothing where every process knows them.

        All processes call this together, before process 0 writes the progress or ends an epoch.
        """

    def outputs(self, state: Any, examples: np.ndarray) -> np.ndarray | None:
        """Return the head's outputs, float32 `[examples, outputs]`, in process 0; None in the others.

        Args:
          examples: the numbers of distinct examples.
        """
        task = self.setup.task
        nodes = {t: np.sort(ids) for t, ids in task.seeds(examples).nodes.items()}
        embeddings = self.embed(state, nodes)
        if embeddings is None:
            return None

        def rows(t: str, ids: np.ndarray) -> np.ndarray:
            return np.searchsorted(nodes[t], ids)

        return self.read_out.examples(self.params(state), task, examples, embeddings, rows)

    def embed(self, state: Any, nodes: Mapping[str, np.ndarray]) -> dict[str, np.ndarray] | None:
        """Return embeddings from full neighbourhoods, float32 `[nodes, width]` per root type, in process 0; None in the others.

        This method uses one device, which needs the whole state.

        Args:
          nodes: distinct ids per root type.
        """
        whole = self.gather(state)
        if whole is None or not self.setup.processes.first:
            return None
        learned = {name: on_host(table.rows) for name, table in whole.tables.items()}
        return self.evaluator.embed(whole.params, self.given_features() | learned, nodes)

    def params(self, state: Any) -> Any:
        """Return the model's weights, in process 0."""
        return state.params

    @cached_property
    def read_out(self) -> ReadOut:
        """The head, for embeddings on the host."""
        return ReadOut(self.trainer.model)

    @cached_property
    def evaluator(self) -> Evaluator:
        """The evaluator on one device."""
        graph, config = self.setup.graph, self.setup.config
        asked = evaluated_nodes(self.setup.task, config.train)
        return Evaluator(self.trainer.model, graph, config.sampling.evaluation_edges, asked=asked)

    def given_features(self) -> dict[str, Any]:
        """Return the static features that evaluation reads, `[nodes, width]` per node type, wherever they are."""
        return {t: self.setup.graph.features[t] for t in self.trainer.widths if t not in self.trainer.learnable}

    def fill_cache(self, file: Path) -> None:
        """Keep the hottest rows of features that live on the host on the devices, if there is a budget for that.

        Args:
          file: the file that keeps measured costs of missed rows.
        """
        if self.features:
            fill.fill(self.features, self.batches, self.setup.config, file, not self.setup.processes.first)

    def cache_report(self) -> list[dict]:
        """Return the rows kept, the hits, and the costs of misses, per type with features on the host."""
        return self.features.report() if self.features else []

    def details(self) -> dict[str, Any]:
        """Return the summary's entries about this strategy, plain values; the same in all processes."""
        return {}

    def close(self) -> None:
        """Delete the files on disk that only this engine uses."""
        if self.features:
            self.features.close()


class Strategy(Declaration):
    """A strategy, which divides the work of a run among devices."""

    def open(self, config: Config, ahead: Ahead | None = None) -> HetGraph:
        """Open the part of the graph that a process needs: all of it, unless the strategy divides the graph before it is opened.

        A strategy that opens less than all gives its engine an `embed` of its own.

        Args:
          ahead: the graph, where it was read already.
        """
        return load(config.data, ahead, config.task.target)

    def partition(self, setup: Setup, saved: Path | None = None) -> Partitioning | None:
        """Return the partitioning; None where nothing is divided. All processes call this together.

        Args:
          saved: the folder in which the partitioning of this run may lie already.

        Raises:
          InputError: the mesh cannot be used.
        """
        return None

    def partition_name(self, config: Config) -> str:
        """The name of the partitioning in the run's folder; a run that moves to another mesh keeps both."""
        return f"partition_{self.name}_{'x'.join(map(str, config.mesh.axes.values()))}"

    def engine(self, setup: Setup, partitioning: Any) -> Engine:
        """Make the engine, which trains.

        Args:
          partitioning: the partitioning that `partition` returned.

        Raises:
          InputError: features do not fit where they are to live.
        """
        raise NotImplementedError


def read_in_place(setup: Setup, features: FeatureStore) -> frozenset[str]:
    """Return the types whose static features the first layer reads by node id, and which are not gathered first."""
    model = setup.trainer.model
    if model.transforms or model.input_dropout:
        return frozenset()  # what is changed before it is read is gathered first
    static = (name for name, matrix in setup.graph.features.items() if matrix.dtype == np.float32)
    return frozenset(name for name in static if features.placement.get(name, "device") == "device")
