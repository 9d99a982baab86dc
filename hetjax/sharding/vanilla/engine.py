"""Vanilla execution: data parallel over an edge-cut of the nodes, as DistDGL and most systems train.

A partition is a device of the mesh axis `data`. It folds all relations for the seeds that it owns, fetches the feature
rows of other partitions that this reads, and gives their gradients back to the owners, who apply row-wise Adam. Weights
are replicated; their gradients are summed. All partitions run one program, a step is one call of it, and what crosses
the mesh is: row numbers there, rows back, gradients of learnable rows there (all by all-to-all), and one sum of the
weights' gradients and the loss.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.flatten_util import ravel_pytree
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from hetjax.cache import tables
from hetjax.graph.hetgraph import HetGraph
from hetjax.partition.plan import EdgeCut
from hetjax.sampling.blocks import Batch
from hetjax.sharding.exchange import fetch, give_back
from hetjax.sharding.mesh import DATA, places_here, spread
from hetjax.sharding.single import Trainer, TrainState
from hetjax.sharding.traffic import Program, Sent, per_step, scope
from hetjax.sharding.vanilla_feed import VanillaBatch

STATE = TrainState(P(), P(), P(), P(DATA))  # of a state on the mesh
FEATURES, LEARNABLE, GRADIENTS = "remote_features", "remote_learnable_rows", "gradients"  # kinds of traffic


class Found(NamedTuple):
    """The gradients of a step.

    Attributes:
      weights: of the weights, alike everywhere.
      rows: per learnable type of the rows that any partition read, at their owners: `[m, width]` each.
      ids: int32 `[m]` at each owner, numbers of its own rows, each once, the rest out of range; without a type's, `rows`
        has all of the owner's rows.
    """

    weights: Any
    rows: Mapping[str, jax.Array]
    ids: Mapping[str, jax.Array]


class Vanilla:
    """Training on a mesh of one device per partition; a state is a `TrainState` whose tables lie with their owners.

    Args:
      trainer: what a step on one device needs.
      graph: of which a partition's device gets the features of its own nodes.
      cut: who owns which node.
      mesh: with the axis `data`.
      seed: of dropout.
      whole: whether batches are the whole graph: then every row is updated, as on one device.
    """

    def __init__(self, trainer: Trainer, graph: HetGraph, cut: EdgeCut, mesh: Mesh, seed: int, whole: bool = False):
        self.seed = np.int32(seed)
        self.trainer, self.mesh, self.owned, self.every_row = trainer, mesh, cut.owned, whole
        features = {t: graph.features[t] for t in trainer.widths if t in graph.features}
        self.static = self._divide(features)
        self.found = self._program(self._gradients, (P(), Found(P(), P(DATA), P(DATA))))
        self.updated = self._program(self._step, (STATE, P()), donate_argnums=0)

    def _program(self, function, made, **options) -> Program:
        given = (STATE, P(DATA), P(DATA), P())
        mapped = jax.shard_map(function, mesh=self.mesh, in_specs=given, out_specs=made, check_vma=False)
        return Program(GRADIENTS, mapped, self.mesh, **options)

    def _divide(self, matrices: Mapping[str, Any]) -> dict[str, Any]:
        """Of every type the rows of each partition, on its device; an entry is an array `[nodes, ...]` or a tree of such."""

        def own(part: int) -> dict[str, Any]:
            return {t: jax.tree.map(lambda leaf: self.owned.take(t, leaf, part), m) for t, m in matrices.items()}

        return spread(self.mesh, [own(part) for part in places_here(self.mesh)])

    def new(self, seed: int):
        """The state before the first step, as this trains it."""
        return self.place(jax.jit(self.trainer.init)(np.int32(seed)))

    def place(self, state: TrainState) -> TrainState:
        """A state on the mesh, from one on one device."""
        state = jax.tree.map(np.asarray, state)
        alike = replicate(self.mesh, state._replace(tables={}))
        return alike._replace(tables=self._divide(state.tables))

    def whole(self, state: TrainState) -> TrainState:
        """The inverse of `place`; every process gets it."""
        state = jax.tree.map(gather, state)
        whole = {t: jax.tree.map(lambda leaf: self.owned.whole(t, leaf), table) for t, table in state.tables.items()}
        return jax.device_put(state._replace(tables=whole), jax.local_devices()[0])

    def step(
        self, state: TrainState, batch: VanillaBatch, following: VanillaBatch | None = None
    ) -> tuple[TrainState, jax.Array]:
        """One update; the state given is used up."""
        made = self.updated(state, self.static, batch, self.seed)
        return jax.block_until_ready(made)  # collectives of two steps never wait for each other

    def traffic(self) -> list[Sent]:
        """What a step sent, over the steps of this process."""
        return per_step([self.updated], max(1, self.updated.calls.total()))

    def gradients(self, state: TrainState, batch: VanillaBatch) -> tuple[jax.Array, Found]:
        """The loss with its penalty, and its gradients."""
        return self.found(state, self.static, batch, self.seed)

    def _gradients(self, state: TrainState, static, batch: VanillaBatch, seed) -> tuple[jax.Array, Found]:
        """As `gradients`, on one of the devices."""
        with scope(FEATURES):
            features, _ = fetch(static, batch.wanted, DATA)
        with scope(LEARNABLE):
            learned, asked = fetch({t: table.rows for t, table in state.tables.items()}, batch.wanted, DATA)
        seeds = jnp.arange(len(batch.weights), dtype=jnp.int32)
        own, masks = Batch(batch.blocks, {}, seeds, batch.labels, batch.weights), self.trainer.masks(seed, state.step)

        def share(params, learned):
            return self.trainer.summed(params, learned, features, own, masks) / batch.count[0]

        loss, (weights, rows) = jax.value_and_grad(share, (0, 1))(state.params, learned)
        with scope(GRADIENTS):
            loss, weights = total((loss, weights))
        found = Found(weights, *self._return(state, rows, batch.wanted, asked))
        return self._penalise(state, loss, found) if self.trainer.l2 else (loss, found)

    def _return(self, state: TrainState, gradients, wanted, asked) -> tuple[dict[str, jax.Array], dict[str, jax.Array]]:
        """The gradients of a partition's own rows and their numbers, from those of the rows that it fetched."""
        rows, ids = {}, {}
        with scope(LEARNABLE):
            for t, gradient in gradients.items():
                ids[t], rows[t] = give_back(gradient, wanted[t], asked[t], self.owned.rows[t], DATA)
        if not self.every_row:
            return rows, ids
        return {t: jnp.zeros_like(state.tables[t].rows).at[ids[t]].add(rows[t], mode="drop") for t in rows}, {}

    def _penalise(self, state: TrainState, loss, found: Found) -> tuple[jax.Array, Found]:
        """Add the penalty: of weights everywhere alike, of every row that is read at its owner, once."""
        first, l2 = state.params["params"]["layers_0"], self.trainer.l2
        read = {t: tables.read(table.rows, found.ids.get(t)) for t, table in state.tables.items()}
        with scope(GRADIENTS):
            loss = loss + self.trainer.penalty(first) + jax.lax.psum(self.trainer.penalty(read), DATA)
        pulled = jax.tree.map(
            lambda gradient, leaf: gradient + 2 * l2 * leaf, found.weights["params"]["layers_0"], first
        )
        weights = found.weights | {"params": found.weights["params"] | {"layers_0": pulled}}
        return loss, Found(weights, {t: found.rows[t] + 2 * l2 * read[t] for t in read}, found.ids)

    def _step(self, state: TrainState, static, batch: VanillaBatch, seed) -> tuple[TrainState, jax.Array]:
        loss, found = self._gradients(state, static, batch, seed)
        weights, rows = found.weights, found.rows
        if self.trainer.clip:
            with scope(GRADIENTS):
                norm = jnp.sqrt(squares(weights) + jax.lax.psum(squares(rows), DATA))
            factor = jnp.where(norm < self.trainer.clip, 1, self.trainer.clip / norm)
            weights, rows = jax.tree.map(lambda leaf: leaf * factor, (weights, rows))
        return self.trainer.update(state, weights, rows, found.ids), loss


def total(tree: Any) -> Any:
    """The sum of a tree over all partitions, as one array on its way."""
    vector, unravel = ravel_pytree(tree)
    return unravel(jax.lax.psum(vector, DATA))


def squares(tree: Any) -> jax.Array:
    """The sum of the squares of all numbers."""
    return sum((jnp.sum(jnp.square(leaf)) for leaf in jax.tree.leaves(tree)), jnp.zeros(()))


def replicate(mesh: Mesh, tree: Any) -> Any:
    """A tree of arrays on every device of the mesh, from one that every process has; each device gets its own copy."""
    sharding = NamedSharding(mesh, P())
    devices = [mesh.devices[part] for part in places_here(mesh)]
    copies = [jax.device_put(jax.tree.map(np.array, tree), device) for device in devices]

    def one(*shards):
        return jax.make_array_from_single_device_arrays(shards[0].shape, sharding, list(shards))

    return jax.tree.map(one, *copies)


def gather(array: jax.Array) -> np.ndarray:
    """All of an array, in every process."""
    if array.is_fully_addressable or array.is_fully_replicated:
        return np.asarray(array)
    return multihost_utils.process_allgather(array, tiled=True)
