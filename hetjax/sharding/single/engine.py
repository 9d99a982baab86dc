"""The plain path on one device, which every other way of running equals: loss, gradients, parameters."""

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import jax
import jaxlib
import numpy as np

from hetjax.cache.ahead import Ahead
from hetjax.cache.features import Features
from hetjax.cache.host import HostTable
from hetjax.models.packed import Packed, Packing, packing
from hetjax.sampling.blocks import Batch
from hetjax.sharding.evaluate import evaluated_nodes
from hetjax.sharding.single.batches import SingleBatches
from hetjax.sharding.single.evaluate import Blocks, WholeEvaluator
from hetjax.sharding.strategy import Engine, Setup
from hetjax.sharding.traffic import Sent
from hetjax.sharding.trainer import TrainState
from hetjax.system import runtime
from hetjax.system.arrays import Array
from hetjax.system.eager import eagerly

TIMES_A_STEP = 2  # as many edges as a step of the whole graph may one program evaluate: it has no way back


class SingleEngine(Engine):
    """Training on one device, which is given the rows that a step reads, wherever they live.

    A step reads rows, trains on them, and updates them where they are. The program that trains sees nothing else of a table, so
    its results are the same to the last bit whatever the places, the cache and its budget. A state is a `TrainState`; of
    tables that live on the host it has a `HostTable`.

    Args:
      setup, batches: as in `Engine`.
      features: the places of the features of every input type.
      to_device: puts blocks of the whole graph on the device, for evaluation by one program; None: evaluation goes in chunks.
      packs: whether a state may have its weights in one vector, which nobody else adds to another's.
    """

    batches: SingleBatches
    features: Features

    def __init__(
        self,
        setup: Setup,
        batches: SingleBatches,
        features: Features,
        to_device: Callable[[Blocks], Blocks] | None = None,
        packs: bool = True,
    ):
        super().__init__(setup, batches, features)
        self.to_device = to_device
        trainer, self.static, self.packs = self.trainer, features.static, packs
        self.ahead = Ahead()
        self.packing: Packing | None = None
        about = features.device.platform, jaxlib.__version__
        self.options = runtime.whole_graph_options(*about) if setup.regime.whole else {}
        self.read = jax.jit(trainer.read)
        self.compiled = jax.jit(trainer.learn, donate_argnums=0, compiler_options=self.options)
        self.updated = jax.jit(  # `done` counts this step too, as the number before it was given away
            lambda held, rows, ids, done: trainer.update_rows(held, rows, ids, done - 1), donate_argnums=0
        )

    def init(self, seed: int) -> TrainState:
        self.ahead = Ahead()
        weights = eagerly(self.init_weights, np.int32(seed))
        state = jax.device_put(
            weights, self.features.device
        )  # as a step gives it back, or the second would compile anew
        return state._replace(tables=self.features.init(eagerly(self.trainer.table_key, np.int32(seed))))

    def shard(self, state: TrainState) -> TrainState:
        self.ahead = Ahead()
        placed = jax.device_put(state._replace(tables={}), self.features.device)
        return placed._replace(tables=self.features.load(state.tables))

    def gather(self, state: TrainState) -> TrainState:
        return unpacked(state)._replace(tables=self.features.whole(state.tables))

    def traffic(self) -> list[Sent]:
        return []

    def given_features(self) -> dict[str, np.ndarray | jax.Array]:
        return super().given_features() | self.static

    def embed(self, state: TrainState, nodes: Mapping[str, np.ndarray]) -> dict[str, np.ndarray] | None:
        if not any(map(len, nodes.values())) or self.whole is None or not self.whole.takes(nodes):
            return super().embed(state, nodes)
        learned = {t: table.rows for t, table in state.tables.items()}
        return self.whole.embed(unpacked(state).params, self.features.static | learned, nodes)

    def params(self, state: TrainState) -> Any:
        return unpacked(state).params

    @cached_property
    def whole(self) -> WholeEvaluator | None:
        """Evaluate by one program what reads at most `TIMES_A_STEP` times as many edges as a step of the whole graph, or as many as a chunk."""
        if self.to_device is None:
            return None
        config, sampler = self.setup.config, self.batches.sampler
        asked = evaluated_nodes(self.setup.task, config.train)
        most = max(TIMES_A_STEP * self.batches.edges, config.sampling.evaluation_edges)
        return WholeEvaluator(self.trainer.model, sampler, self.to_device, asked, most, self.options)

    def step(self, state: TrainState, batch: Batch, upcoming: Batch | None = None) -> tuple[TrainState, jax.Array]:
        state = self._packed(state, batch)
        away = {t: table for t, table in state.tables.items() if isinstance(table, HostTable)}
        here = {t: table for t, table in state.tables.items() if t not in away}
        ids = {t: batch.inputs[t] for t in here if t in batch.inputs}  # of the others every row is read
        fetched = {t: self.ahead.fetched(t, table, batch.inputs[t]) for t, table in away.items()}
        held = here | {t: away[t].end(rows) for t, rows in fetched.items()}
        for t, rows in fetched.items():
            away[t].change(rows, True)
        others = {t: nodes for t, nodes in batch.inputs.items() if t not in state.tables}
        learned = {t: held[t].rows for t in held if t not in ids} | self.read({t: held[t] for t in ids}, ids)
        state, batch = state._replace(tables={}), batch._replace(inputs=others)
        if upcoming is not None and self.setup.config.cache.prefetch:
            self.ahead.begin(away, upcoming.inputs)
        trained, loss, gradient = self.compiled(state, learned, self.static, batch, self.seed)
        held = self.updated(held, gradient, ids, trained.step)
        self.ahead.wait()
        for t, rows in fetched.items():
            away[t].store(rows, held[t])
            away[t].change(rows, False)
        return trained._replace(tables=held | away), loss

    def _packed(self, state: TrainState, batch: Batch) -> TrainState:
        """Return the state with all weights in one vector, if that pays."""
        if not self.packs or isinstance(state.params, Packed) or self.trainer.l2:  # the penalty is on some weights
            return state
        self.packing = self.packing or packing(state.params, self.trainer.model.layers, batch.blocks)
        return packed(state, self.packing) if self.packing else state


def packed(state: TrainState, how: Packing) -> TrainState:
    """Return a state whose weights, and what the optimizer keeps of them, are vectors; made by the host, because XLA would compile an operation that runs once."""
    leaves = jax.tree.leaves(state.params)
    numbers = np.concatenate([np.ravel(leaf) for leaf in leaves])

    def placed(numbers: Array) -> jax.Array:
        return jax.device_put(how.pack(np.asarray(numbers)), leaves[0].sharding)

    own = jax.tree.map(lambda leaf: placed(leaf) if leaf.shape == numbers.shape else leaf, state.optimizer)
    return state._replace(params=Packed(placed(numbers), how), optimizer=own)


def unpacked(state: TrainState) -> TrainState:
    """Return the state before `packed`; a state that was not packed is returned as it is."""
    if not isinstance(state.params, Packed):
        return state
    how, vector = state.params.packing, np.asarray(state.params.vector)
    own = jax.tree.map(
        lambda leaf: how.unpack(np.asarray(leaf)) if leaf.shape == vector.shape else leaf, state.optimizer
    )
    return state._replace(params=how.tree_of(how.unpack(vector)), optimizer=own)
