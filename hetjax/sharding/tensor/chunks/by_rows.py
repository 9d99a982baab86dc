"""Computations that need no neighbours, block by block of rows: before the first layer's aggregations, after the last, and the update of tables."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from hetjax.kernels.tables import Table
from hetjax.partition.owned import Owned
from hetjax.sharding import mesh as meshes
from hetjax.sharding.spmd import to_host
from hetjax.sharding.strategy import Setup
from hetjax.sharding.tensor.chunks.batches import Seeds
from hetjax.sharding.tensor.chunks.host import Rows, divided, seen, zeros
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
      share: the largest share of a type's rows in a block; at least one row.
    """

    def __init__(self, setup: Setup, mesh: Mesh, owned: Owned, share: float):
        self.mesh, self.owned, self.trainer = mesh, owned, setup.trainer
        self.target, self.seed = setup.trainer.model.target, np.int32(setup.config.train.seed)
        self.blocks = RowBlocks(mesh, owned, meshes.positions_here(mesh), share)
        self.programs, self.updates = RowPrograms(setup.trainer, mesh), Updates(setup.trainer, mesh)

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

    def loss(self, state: TrainState, batch: Seeds, rows: Rows) -> tuple[Any, tuple[Any, Rows]]:
        """Return parts of the gradients of weights, each device's share of the loss, and the gradients of the last embeddings."""
        params, target = head(state.params), self.target
        sums = zeros(self.mesh, params)
        pull, share = [np.zeros_like(x) for x in rows], [np.zeros(1, rows[0].dtype) for _ in rows]
        leaves, form = jax.tree.flatten(batch.arrays, is_leaf=lambda node: isinstance(node, list))
        for (at, block), *of_task in zip(self.blocks.of(target, rows), *(self.blocks.of(target, of) for of in leaves)):
            arrays = jax.tree.unflatten(form, [leaf for _, leaf in of_task])
            sums, found = self.programs.loss(sums, params, block, arrays, batch.weight)
            for own, of_loss, (loss, gradient) in zip(pull, share, seen(self.mesh, found)):
                own[at] = gradient[: at.stop - at.start]
                of_loss += loss
        return sums, (divided(self.mesh, share), pull)

    def whole(self, rows: Rows) -> np.ndarray:
        """Return the rows of all nodes of the root type, in every process."""
        own: dict[int, list[np.ndarray]] = {}
        for at, block in self.blocks.of(self.target, rows):
            for place, some in enumerate(np.split(to_host(block), self.mesh.size)):
                own.setdefault(place, []).append(some[: at.stop - at.start])
        every = np.concatenate([np.concatenate(own[place]) for place in range(self.mesh.size)])
        return np.asarray(self.owned.whole(self.target, every))

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

    def loss_shapes(self, state: TrainState, width: int, arrays: Any, dtype: Any) -> tuple[Any, ...]:
        """Return shapes of the arguments of `RowPrograms.loss`; `arrays` are the task's, of any examples."""
        params, rows = head(state.params), self.mesh.size * self.blocks.size(self.target)
        of_task = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((rows, *leaf.shape[1:]), leaf.dtype), arrays)
        return params, jax.ShapeDtypeStruct((rows, width), dtype), of_task, jax.ShapeDtypeStruct((), np.float32)


def head(params: Any) -> Any:
    """Return the parameters of the computations after the last layer."""
    return part_of(params, lambda name: name == "head")


def entry(params: Any) -> Any:
    """Return the parameters of the computations before the first layer's aggregations."""
    return part_of(params, lambda name: name.startswith(("project_", "dense_")) or name == "layers_0")
