"""Batches for partitions of the relations whose replicas divide the columns of the features."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from hetjax.cache.features import Key
from hetjax.sampling.blocks import rows_of
from hetjax.sampling.sampler import Role
from hetjax.sharding.mesh import from_shards
from hetjax.sharding.push_pull.first import first_layer
from hetjax.sharding.push_pull.sample import GroupSample, Nodes, draw_group, measure_group, pad_group
from hetjax.sharding.raf.batches import RafBatches, Samples
from hetjax.sharding.raf.features import MeshFeatureStore
from hetjax.sharding.raf.sample import Local, Roles
from hetjax.sharding.raf.site import Site
from hetjax.sharding.strategy import Setup


class SlicedRafBatches(RafBatches):
    """Batches as of `RafBatches`, for groups of replicas in every partition that sample together what lies below the cut.

    Args:
      setup: the setup of the run.
      site: this process's place, with all replicas of its partitions.
      features: the places of features.
    """

    def __init__(self, setup: Setup, site: Site, features: MeshFeatureStore):
        trainer, seed = setup.trainer, setup.config.train.seed
        learnable, named = frozenset(trainer.learnable), trainer.model.drops
        self.cut = first_layer(trainer, site.slices).cut
        super().__init__(site, frozenset(), learnable, setup.task, setup.regime, seed, features, named)
        self.use = f"{self.use}x{site.slices}"

    def sample(self, examples: np.ndarray, stream: tuple) -> Samples:
        seeds = self._seeds(examples)
        groups: dict[int, Any] = {part: self._groups(part, seeds, stream) for part in self.site.parts}
        return Samples(groups, {})

    def unite(self, sample: Samples) -> Samples:
        return sample  # no learnable type lives on the host

    def reads(self, sample: Samples) -> dict[Key, np.ndarray]:
        return {}

    def _groups(self, part: int, seeds: Sequence[Nodes], stream: tuple) -> list[GroupSample]:
        share, slices = self.models[part], self.site.slices

        def roles(depth: int, of: Nodes, nodes: Nodes) -> Sequence[Role]:
            layer = share.local_model.layers[depth]
            seeds = Role(of, layer.seeds.relations, share.reads_seeds(depth), share.lacks)
            return seeds, Role(nodes, layer.inner.relations)

        none: list[Nodes] = [{}] * slices
        drawn = self.regime.fanouts, stream
        groups = (seeds[start : start + slices] for start in range(0, len(seeds), slices))
        return [draw_group(self.samplers[part], roles, of, none, self.cut, *drawn) for of in groups]

    def measure(self, sample: Samples) -> Iterator[tuple[str, int, int]]:
        every: Any = [seeds for groups in sample.parts.values() for group in groups for seeds in group.seeds]
        yield from self.measure_seeds(every, self._size())
        for part, groups in sample.parts.items():
            for group in groups:
                yield from measure_group(self._use(part), group, self.cut, self.samplers[part].graph)  # type: ignore[arg-type]

    def _rows(self, part: int, node_type: str) -> str:
        use = self._use(part)
        return rows_of(f"{use}/together", 0, node_type) if self.cut else f"{use}/united/{node_type}"

    def _local(self, part: int, groups: Sequence[Any], hosted: Any) -> Local:
        graph, use, replicas = self.samplers[part].graph, self._use(part), []
        for group in groups:
            found = pad_group(self.capacities, use, group, self.seed_rooms(self._size()), {}, graph)
            for above in found.above:
                blocks = tuple(Roles(*roles) for roles in (*found.below, *above))
                replicas.append(Local(blocks, found.inputs, picks=found.picks))
        return from_shards(self.site.row(part), replicas)
