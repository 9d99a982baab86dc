"""Computations that need no neighbours, block by block of rows: before the first layer's aggregations, after the last, and the update of tables."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from hetjax.kernels.tables import Table
from hetjax.partition.owned import Owned
from hetjax.sampling.blocks import NO_NODE, pad
from hetjax.sharding import mesh as meshes
from hetjax.sharding.spmd import to_host
from hetjax.sharding.strategy import Setup
from hetjax.sharding.tensor.chunks.batches import ChunkedBatches, SeedBlock, Seeds
from hetjax.sharding.tensor.chunks.host import Rows, divided, seen, taken, zeros
from hetjax.sharding.tensor.chunks.programs import Drawn, RowPrograms, part_of
from hetjax.sharding.tensor.chunks.rows import RowBlocks
from hetjax.sharding.tensor.chunks.updates import Updates
from hetjax.sharding.traffic import Program
from hetjax.sharding.trainer import TrainState


class ByRows:
    """The row-wise computations of one run.

    Args:
      setup: the setup of the run.
      mesh: the mesh with the axis `feature`.
      owned: the owner of each node.
      batches: the training examples.
      share: the largest share of a type's rows in a block; at least one row.
    """

    def __init__(self, setup: Setup, mesh: Mesh, owned: Owned, batches: ChunkedBatches, share: float):
        self.mesh, self.owned, self.trainer = mesh, owned, setup.trainer
        self.seed = np.int32(setup.config.train.seed)
        self.blocks = RowBlocks(mesh, owned, meshes.positions_here(mesh), share)
        self.programs, self.updates = RowPrograms(setup.trainer, mesh), Updates(setup.trainer, mesh)
        self.batches, self.seeds = batches, dict[float, Seeds]()

    @property
    def all(self) -> list[Program]:
        return [*self.programs.all, *self.updates.all]

    def entered(self, state: TrainState, features: Mapping[str, Rows], training: bool) -> dict[str, Rows]:
        """Return the rows that the first layer's aggregations read, for every node."""
        params, drawn, out = entry(state.params), Drawn(self.seed, state.step), {}
        for t, rows in features.items():
            blocks: list[Rows] = []
            for (at, block), ids in zip(self.blocks.of(t, rows), self.blocks.ids(t)):
                found = seen(self.mesh, self.programs.enter(training, t, params, drawn, block, ids))
                blocks.append([x[: at.stop - at.start].copy() for x in found])
            out[t] = [np.concatenate(of) for of in zip(*blocks)]
        return out

    def entered_back(
        self, state: TrainState, features: Mapping[str, Rows], gradients: Mapping[str, Rows]
    ) -> tuple[Any, dict[str, Rows]]:
        """Return the gradients of `entered`: parts of those of weights, and those of learnable rows."""
        params, drawn, out = entry(state.params), Drawn(self.seed, state.step), {}
        sums = zeros(self.mesh, params)
        for t, rows in features.items():
            if t not in gradients:
                continue
            if t in self.trainer.learnable:
                out[t] = [np.zeros_like(x) for x in rows]
            about = self.blocks.of(t, rows), self.blocks.ids(t), self.blocks.of(t, gradients[t])
            for (at, block), ids, (_, pull) in zip(*about):
                sums, found = self.programs.enter_back(t, sums, params, drawn, block, ids, pull)
                for own, (x,) in zip(out[t], seen(self.mesh, found)) if found else ():
                    own[at] = x[: at.stop - at.start]
        return sums, out

    def loss(
        self, state: TrainState, weight: np.float32, x: Mapping[str, Rows]
    ) -> tuple[Any, tuple[Any, dict[str, Rows]]]:
        """Return parts of the gradients of weights, each device's share of the loss, and the gradients of the last embeddings.

        Args:
          weight: the weight of all training examples.
          x: the last embeddings of every node, per root type.
        """
        params, seeds = head(state.params), self.training_seeds()
        sums = zeros(self.mesh, params)
        pulls = {t: [np.zeros_like(own) for own in rows] for t, rows in x.items()}
        share = [np.zeros(1, rows.dtype) for rows in next(iter(x.values()))]
        for block in seeds.blocks:
            rows = {
                t: [taken(own, at, seeds.sizes[0][t]) for own, at in self._given(block, t, of)] for t, of in x.items()
            }
            sums, found = self.programs.loss[seeds.shared](sums, params, *self._on_devices(block, seeds, rows), weight)
            for number, (own, (loss, gradients)) in enumerate(zip(share, seen(self.mesh, found))):
                own += loss
                for t, gradient in gradients.items():
                    _, at = self._given(block, t, pulls[t])[number]
                    pulls[t][number][at] += gradient[: len(at)]
        return sums, (divided(self.mesh, share), pulls)

    def training_seeds(self) -> Seeds:
        """Return the training examples in blocks of today's share."""
        share = self.blocks.share
        if share not in self.seeds:
            self.seeds = {share: self.batches.seeds(share)}
        return self.seeds[share]

    def _given(self, block: SeedBlock, t: str, rows: Rows) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return the rows of each device that is here, and the positions of those that it gives."""
        return [(own, block.given[t][place]) for own, place in zip(rows, self.blocks.places, strict=True)]

    def _on_devices(self, block: SeedBlock, seeds: Seeds, rows: Mapping[str, Rows]) -> tuple[Any, Any, Any]:
        """Return the rows that devices give, the rows of their seeds among these, and the task's arrays."""
        of_devices = [
            (
                {t: of[number] for t, of in rows.items()},
                {t: np.asarray(pad(of[place], seeds.sizes[1][t], NO_NODE)) for t, of in block.rows.items()},
                block.arrays[place],
            )
            for number, place in enumerate(self.blocks.places)
        ]
        placed: tuple[Any, Any, Any] = divided(self.mesh, of_devices)
        return placed

    def whole(self, t: str, rows: Rows) -> np.ndarray:
        """Return the rows of all nodes of a root type, in every process."""
        own: dict[int, list[np.ndarray]] = {}
        for at, block in self.blocks.of(t, rows):
            for place, some in enumerate(np.split(to_host(block), self.mesh.size)):
                own.setdefault(place, []).append(some[: at.stop - at.start])
        every = np.concatenate([np.concatenate(own[place]) for place in range(self.mesh.size)])
        return np.asarray(self.owned.whole(t, every))

    def measured(self, tables: Mapping[str, Sequence[Table]], gradients: Mapping[str, Rows]) -> tuple[float, float]:
        """Return the sum of squares of the tables' gradients, with those of the penalty, and the penalty."""
        every = [
            self.updates.measure(rows, pulls)
            for t, of in gradients.items()
            for rows, pulls in self._both(t, [table.rows for table in tables[t]], of)
        ]
        squared, penalty = (sum((float(one[i]) for one in every), 0.0) for i in range(2))
        return squared, penalty

    def moved(self, t: str, held: Sequence[Table], gradients: Rows, step: Any, every: Any) -> list[Table]:
        """Return tables after an update of all rows; `every` is the sum of the squares of all gradients."""
        new = [Table(*(np.empty_like(leaf) for leaf in table)) for table in held]
        for (at, block), (_, pulls) in zip(self.blocks.of(t, held), self.blocks.of(t, gradients)):
            for table, found in zip(new, seen(self.mesh, self.updates.rows(block, pulls, step, every))):
                for leaf, rows in zip(table, found):
                    leaf[at] = rows[: at.stop - at.start]
        return new

    def _both(self, t: str, rows: Sequence[Any], gradients: Rows) -> Iterator[tuple[Any, Any]]:
        for (_, block), (_, pulls) in zip(self.blocks.of(t, rows), self.blocks.of(t, gradients)):
            yield block, pulls

    def loss_shapes(self, state: TrainState, widths: Mapping[str, int], dtype: Any) -> tuple[Any, ...]:
        """Return shapes of the arguments of `RowPrograms.loss` without the sums.

        Args:
          widths: of the last embeddings, per root type.
          dtype: of these.
        """
        seeds, parts = self.training_seeds(), self.mesh.size
        sizes, rooms = seeds.sizes
        rows = {t: jax.ShapeDtypeStruct((parts * size, widths[t]), dtype) for t, size in sizes.items()}
        at = {t: jax.ShapeDtypeStruct((parts * room,), np.int32) for t, room in rooms.items()}
        arrays = jax.tree.map(
            lambda leaf: jax.ShapeDtypeStruct((parts * len(leaf), *leaf.shape[1:]), leaf.dtype),
            seeds.blocks[0].arrays[0],
        )
        return head(state.params), rows, at, arrays, jax.ShapeDtypeStruct((), np.float32)


def head(params: Any) -> Any:
    """Return the parameters of the computations after the last layer."""
    return part_of(params, lambda name: name == "head")


def entry(params: Any) -> Any:
    """Return the parameters of the computations before the first layer's aggregations."""
    return part_of(params, lambda name: name.startswith(("project_", "dense_")) or name == "layers_0")
