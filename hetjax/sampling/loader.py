"""Mini-batches, drawn ahead of the step that uses them."""

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import jax
import numpy as np

from hetjax.graph.hetgraph import HetGraph
from hetjax.sampling import draw
from hetjax.sampling.blocks import Batch, Plan, Sample, measure, pad, pad_sample
from hetjax.sampling.sampler import Sampler
from hetjax.sampling.whole import whole_graph

AHEAD = 2  # batches that wait while one is used
TRIAL_BATCHES, SPREAD = 8, 3  # capacities start at the largest of some batches, and some standard deviations more
Needs = dict[str, tuple[list[int], int]]  # by a capacity's name what some samples need of it, and the most any can need


class Drawn(NamedTuple):
    """A batch, with what its shapes were and how long it took to draw.

    Attributes:
      batch: on the device, or devices.
      nodes: number of its seeds.
      capacities: the plan's when this batch was padded; a resumed run starts from them, because results depend on shapes
        in their last bits.
      seconds: time to sample, pad and send it.
    """

    batch: Any
    nodes: int
    capacities: dict[str, int]
    seconds: float


def steps_per_epoch(nodes: int, batch_size: int, limit: int) -> int:
    """Batches that `nodes` training nodes make: at most `limit`, if that is not 0."""
    steps = -(-nodes // batch_size)
    return min(steps, limit) if limit else steps


class WholeGraph:
    """Batches that are the whole graph: one step an epoch."""

    def __init__(self, graph: HetGraph, layers: int, own: bool = True):
        train = graph.splits["train"]
        self.batch = jax.device_put(
            Batch(whole_graph(graph, layers, own), {}, train, graph.labels[train], np.ones(len(train), np.float32))
        )

    def steps(self) -> int:
        return 1

    def epoch(self, epoch: int, first: int = 0) -> Iterator[Drawn]:
        for _ in range(first, 1):
            yield Drawn(self.batch, len(self.batch.seeds), {}, 0.0)


class Batches:
    """Batches of seed nodes, drawn ahead; how one is sampled and where it is put is for those that inherit from this.

    An epoch's order of the seeds and every neighbour drawn are pure functions of (seed, epoch, step), so an epoch can be
    entered at any step.

    Args:
      graph: whose training nodes are the seeds.
      batch_size: seeds per batch; an epoch's last batch may have fewer.
      seed: of the order and of the neighbours.
      limit: most steps of an epoch, or 0 for all.
      capacities: of a run that is resumed.
      use: what the capacities are for; those of any other use are left out.
    """

    def __init__(
        self, graph: HetGraph, batch_size: int, seed: int, limit: int, capacities: Mapping[str, int] | None, use: str
    ):
        self.graph, self.seed, self.limit, self.use = graph, seed, limit, use
        self.train = graph.splits["train"]
        self.batch_size = min(batch_size, len(self.train))
        self.plan = Plan({name: size for name, size in (capacities or {}).items() if name.startswith(f"{use}/")})
        if not self.plan.capacities:
            self._estimate()

    def sample(self, seeds: np.ndarray, stream: tuple):
        """What a batch of seeds depends on; `stream` is what the draw is for."""
        raise NotImplementedError

    def measure(self, sample) -> Iterator[tuple[str, int, int]]:
        """As `blocks.measure`."""
        raise NotImplementedError

    def reads(self, sample) -> Mapping[tuple[str, int], np.ndarray]:
        """The rows that a batch reads of each cache, or could, int32, of each distinct; by the caches' `features.Key`."""
        raise NotImplementedError

    def place(self, seeds: np.ndarray, sample):
        """Pad a sample to the plan, which suffices, and put it on the devices."""
        raise NotImplementedError

    def agree(self, needs: Needs) -> Needs:
        """The needs of all processes from those of this one."""
        return needs

    def fit(self, needs: Needs) -> None:
        """Raise the plan to the largest of each need."""
        for name, (sizes, most) in needs.items():
            self.plan.fit(name, max(sizes), most)

    def steps(self) -> int:
        """Steps in an epoch."""
        return steps_per_epoch(len(self.train), self.batch_size, self.limit)

    def epoch(self, epoch: int, first: int = 0) -> Iterator[Drawn]:
        """The batches of an epoch from step `first` on, each drawn in a thread while the ones before are used."""
        order = self._order(epoch)
        with ThreadPoolExecutor(1, "sampler") as thread:
            waiting = deque()
            for step in range(first, self.steps()):
                waiting.append(thread.submit(self._draw, order, epoch, step))
                if len(waiting) > AHEAD:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()

    def samples(self, epoch: int) -> Iterator[Any]:
        """What the steps of an epoch depend on, and nothing is done with it."""
        order = self._order(epoch)
        return (self._sample(order, epoch, step)[1] for step in range(self.steps()))

    def _order(self, epoch: int) -> np.ndarray:
        return draw.shuffle(draw.key(self.seed, epoch, "order"), self.train)

    def _sample(self, order: np.ndarray, epoch: int, step: int):
        seeds = order[step * self.batch_size : (step + 1) * self.batch_size]
        return seeds, self.sample(seeds, (self.seed, epoch, step))

    def _draw(self, order: np.ndarray, epoch: int, step: int) -> Drawn:
        started = time.perf_counter()
        seeds, sample = self._sample(order, epoch, step)
        needs = {name: need for name, need in self._needs([sample]).items() if max(need[0]) > self._has(name)}
        self.fit(self.agree(needs))
        batch = self.place(seeds, sample)
        return Drawn(batch, len(seeds), dict(self.plan.capacities), time.perf_counter() - started)

    def _has(self, name: str) -> int:
        return self.plan.capacities.get(name, -1)

    def _needs(self, samples: Iterable) -> Needs:
        found: Needs = {}
        for sample in samples:
            for name, size, most in self.measure(sample):
                found.setdefault(name, ([], int(most)))[0].append(int(size))
        return found

    def _estimate(self) -> None:
        """Raise the plan to what a few whole batches need, and what others are likely to."""
        whole = max(1, min(len(self.train) // self.batch_size, self.steps()))
        trials = [divmod(trial, whole) for trial in range(TRIAL_BATCHES)]
        orders = [self._order(epoch) for epoch in range(trials[-1][0] + 1)]
        needs = self.agree(self._needs(self._sample(orders[epoch], epoch, step)[1] for epoch, step in trials))
        likely = {name: int(max(sizes) + SPREAD * np.std(sorted(sizes))) for name, (sizes, _) in needs.items()}
        self.fit({name: ([min(size, needs[name][1])], needs[name][1]) for name, size in likely.items()})


class MiniBatches(Batches):
    """Batches of seed nodes with sampled neighbourhoods, on one device.

    Args:
      sampler: draws from the graph.
      fanouts: neighbours per node and relation, the seeds' own hop first.
      batch_size, seed, limit, capacities: as in `Batches`.
      send: puts a batch of host arrays on the device.
    """

    def __init__(
        self,
        sampler: Sampler,
        fanouts: Sequence[int],
        batch_size: int,
        seed: int,
        limit: int = 0,
        capacities: Mapping[str, int] | None = None,
        send: Callable[[Batch], Batch] = jax.device_put,
    ):
        self.sampler, self.fanouts, self.send = sampler, tuple(fanouts), send
        super().__init__(sampler.graph, batch_size, seed, limit, capacities, "train")

    def sample(self, seeds: np.ndarray, stream: tuple) -> Sample:
        return self.sampler.sample({self.graph.schema.target: seeds}, self.fanouts, stream)

    def measure(self, sample: Sample) -> Iterator[tuple[str, int, int]]:
        return measure(self.use, sample, self.graph)

    def reads(self, sample: Sample) -> dict[tuple[str, int], np.ndarray]:
        return {(node_type, 0): ids for node_type, ids in sample.inputs.items()}

    def place(self, seeds: np.ndarray, sample: Sample) -> Batch:
        size = self.batch_size
        blocks, inputs = pad_sample(self.plan, self.use, sample, {self.graph.schema.target: size}, self.graph)
        weights = pad(np.ones(len(seeds), np.float32), size, 0)
        labels = pad(self.graph.labels[seeds], size, 0)
        return self.send(Batch(blocks, inputs, np.arange(size, dtype=np.int32), labels, weights))
