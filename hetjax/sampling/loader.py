"""Batches: mini-batches, sampled before the step that uses them, or the whole graph."""

import itertools
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple, Protocol

import jax
import numpy as np

from hetjax.graph.hetgraph import HetGraph
from hetjax.sampling import draw
from hetjax.sampling.blocks import Capacities, pad
from hetjax.sampling.regime import Regime
from hetjax.system import runtime

AHEAD = 2  # batches that wait while one is used
MOST, SCRATCH = 8, 2**30  # threads that sample, unless told how many; bytes that all of them may keep to number nodes
TRIAL_BATCHES, SPREAD = 8, 3  # capacities start at the largest of some batches, and some standard deviations more
Needs = dict[str, tuple[list[int], int]]  # by a capacity's name what some samples need of it, and the most any can need


class Drawn(NamedTuple):
    """A batch, with the sizes of its arrays and the time that it took to sample.

    Attributes:
      batch: on the device, or devices.
      nodes: number of its examples.
      capacities: those when this batch was padded; a resumed run starts from them, because results depend on shapes
        in their last bits.
      seconds: time to sample, pad and send it, in the threads that did.
    """

    batch: Any
    nodes: int
    capacities: dict[str, int]
    seconds: float


class Examples(Protocol):
    """The part of a task that batches use (`hetjax.tasks.task.Task`)."""

    roots: tuple[str, ...]

    def examples(self, split: str) -> np.ndarray:
        """Return the numbers of the examples of a split."""

    def seeds(self, examples: np.ndarray) -> Any:
        """Return `nodes` and `arrays` of some examples."""

    def weight(self, arrays: Any) -> Any:
        """Return the sum of the weights of the examples that have these arrays."""

    def node_values(self, examples: np.ndarray, values: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return the value of a node of each example, of values per node type."""


def by_owner(task: Examples, examples: np.ndarray, owner: Mapping[str, np.ndarray], parts: int) -> list[np.ndarray]:
    """Return the examples of each of so many parts: those of which it owns the node that the task names, in their order.

    Args:
      owner: the part of every node, `[nodes]` per node type.
    """
    parts_of = task.node_values(examples, owner)
    return [examples[parts_of == part] for part in range(parts)]


class Batches:
    """Batches of examples, sampled before they are used; subclasses say how one is sampled and put on the devices.

    An epoch's order of the examples and every sampled neighbour are pure functions of (seed, epoch, step), so an epoch can be
    entered at any step, and threads may sample several batches at once. All else, what processes say to each other included, is done in one
    thread, batch by batch in their order. Of the whole graph there is one batch, which every epoch gives again.

    Args:
      graph: what is sampled.
      task: whose training examples these are.
      regime: what a step sees.
      seed: of the order and of the neighbours.
      use: what the capacities are for; those of any other use are left out.
    """

    def __init__(self, graph: HetGraph, task: Examples, regime: Regime, seed: int, use: str):
        self.graph, self.task, self.regime, self.seed, self.use = graph, task, regime, seed, use
        self.train = task.examples("train")
        self.capacities, self.prepared = Capacities(), False
        self.only: Drawn | None = None

    def prepare(self, capacities: Mapping[str, int] | None = None) -> None:
        """Take the capacities of a run that is resumed, or estimate them from a few batches; make the batch of a whole graph.

        The first epoch does so if nobody did before.
        """
        self.prepared = True
        self.capacities = Capacities(
            {name: size for name, size in (capacities or {}).items() if name.startswith(f"{self.use}/")}
        )
        if self.regime.whole:
            self._whole()
        elif not self.capacities.by_name:
            self._estimate()

    def sample(self, examples: np.ndarray, stream: tuple) -> Any:
        """Sample what a batch of examples depends on; `stream` is the purpose of the sampling. Several threads call it at once, in any order."""
        raise NotImplementedError

    def unite(self, sample: Any) -> Any:
        """Combine a sample with all processes' samples of that batch; they call it batch by batch, in their order."""
        return sample

    def measure(self, sample: Any) -> Iterator[tuple[str, int, int]]:
        """Return the needs of a sample, as `blocks.measure` does."""
        raise NotImplementedError

    def reads(self, sample: Any) -> Mapping[tuple[str, int], np.ndarray]:
        """Return the rows that a batch reads, or could read, of each cache, int32, of each distinct; by the caches' `features.Key`."""
        raise NotImplementedError

    def send(self, examples: np.ndarray, sample: Any) -> Any:
        """Pad a sample to the capacities, which suffice, and put it on the devices."""
        raise NotImplementedError

    def arrays(self, examples: np.ndarray, size: int) -> Any:
        """Return the task's arrays of some examples, with rows of zeros up to `size`."""
        return jax.tree.map(lambda leaf: pad(leaf, size, 0), self.task.seeds(examples).arrays)

    def weight(self, examples: np.ndarray) -> np.float32:
        """Return the sum of the weights of some examples, by which the sum of their losses is divided."""
        return np.float32(self.task.weight(self.task.seeds(examples).arrays))

    def nodes(self, examples: np.ndarray) -> dict[str, np.ndarray]:
        """Return the seeds of some examples: distinct ids, int32 per root type."""
        return {t: np.ascontiguousarray(ids, np.int32) for t, ids in self.task.seeds(examples).nodes.items()}

    def measure_seeds(self, shares: Sequence[Mapping[str, np.ndarray]], size: int) -> Iterator[tuple[str, int, int]]:
        """Yield the needs of the seeds of every share of a batch, of types of which one has more than `size`."""
        for t in self.task.roots:
            most = max(len(nodes[t]) for nodes in shares)
            if most > size:
                yield f"{self.use}/seeds/{t}", most, self.graph.schema.nodes[t]

    def seed_rooms(self, size: int) -> dict[str, int]:
        """Return the capacity of the seeds of a share of `size` examples, per root type: one for each example, or more if any share needed more."""
        nodes, has = self.graph.schema.nodes, self.capacities.by_name
        return {t: max(min(size, nodes[t]), has.get(f"{self.use}/seeds/{t}", 0)) for t in self.task.roots}

    def agree(self, needs: Needs) -> Needs:
        """Return the needs of all processes, given those of this one."""
        return needs

    def fit(self, needs: Needs) -> None:
        """Raise the capacities to the largest of each need."""
        for name, (sizes, most) in needs.items():
            self.capacities.fit(name, max(sizes), most)

    def steps(self) -> int:
        """Return the steps in an epoch."""
        return self.regime.steps

    @property
    def threads(self) -> int:
        """Return the number of threads that sample: half of the cores, as the step needs the others, and fewer where the graph has very many nodes."""
        each = 4 * max(1, sum(self.graph.schema.nodes.values()))
        return self.regime.threads or max(1, min(runtime.cores() // 2, MOST, SCRATCH // each))

    def epoch(self, epoch: int, first: int = 0) -> Iterator[Drawn]:
        """Yield the batches of an epoch from step `first` on, sampled in threads while the ones before are used."""
        if not self.prepared:
            self.prepare()
        if self.regime.whole:
            if not first:
                yield self._whole()
            return
        order, threads, steps = self._order(epoch), self.threads, range(first, self.steps())
        with ThreadPoolExecutor(1, "sender") as sender, ThreadPoolExecutor(threads, "sampler") as pool:
            samplers = pool if threads > 1 else sender
            submissions = (samplers.submit(self._timed, order, epoch, step) for step in steps)
            in_progress = deque(itertools.islice(submissions, threads))
            waiting: deque[Future[Drawn]] = deque()
            try:
                for _ in steps:
                    waiting.append(sender.submit(self._finish, in_progress.popleft()))
                    in_progress.extend(itertools.islice(submissions, 1))
                    if len(waiting) > AHEAD:
                        yield waiting.popleft().result()
                while waiting:
                    yield waiting.popleft().result()
            finally:  # what waits to be sent is, as other processes' is
                for sample in in_progress:
                    sample.cancel()

    def samples(self, epoch: int) -> Iterator[Any]:
        """Yield what the steps of an epoch depend on, without sending it."""
        order = self._order(epoch)
        return (self._sample(order, epoch, step)[1] for step in range(self.steps()))

    def _whole(self) -> Drawn:
        self.only = self.only or self._sent(*self._timed(self.train, 0, 0))._replace(capacities={}, seconds=0.0)
        return self.only

    def _order(self, epoch: int) -> np.ndarray:
        return draw.shuffle(draw.key(self.seed, epoch, "order"), self.train)

    def _sample(self, order: np.ndarray, epoch: int, step: int) -> tuple[np.ndarray, Any]:
        """Return the examples of a step and what they depend on, combined; to be called in the order of the steps."""
        examples, sample = self._own(order, epoch, step)
        return examples, self.unite(sample)

    def _own(self, order: np.ndarray, epoch: int, step: int) -> tuple[np.ndarray, Any]:
        size = self.regime.batch_size
        examples = order[step * size : (step + 1) * size]
        return examples, self.sample(examples, (self.seed, epoch, step))

    def _timed(self, order: np.ndarray, epoch: int, step: int) -> tuple[np.ndarray, Any, float]:
        """Return the examples of a step, what they depend on in this process, and the seconds that it took to sample."""
        started = time.perf_counter()
        examples, sample = self._own(order, epoch, step)
        return examples, sample, time.perf_counter() - started

    def _finish(self, drawn: "Future[tuple[np.ndarray, Any, float]]") -> Drawn:
        return self._sent(*drawn.result())

    def _sent(self, examples: np.ndarray, sample: Any, seconds: float) -> Drawn:
        """Return the batch of a sample, on the devices."""
        started = time.perf_counter()
        sample = self.unite(sample)
        needs = {name: need for name, need in self._needs([sample]).items() if max(need[0]) > self._has(name)}
        self.fit(self.agree(needs))
        batch = self.send(examples, sample)
        seconds += time.perf_counter() - started
        return Drawn(batch, len(examples), dict(self.capacities.by_name), seconds)

    def _has(self, name: str) -> int:
        return self.capacities.by_name.get(name, -1)

    def _needs(self, samples: Iterable) -> Needs:
        needs: Needs = {}
        for sample in samples:
            for name, size, most in self.measure(sample):
                needs.setdefault(name, ([], int(most)))[0].append(int(size))
        return needs

    def _estimate(self) -> None:
        """Raise the capacities to what a few whole batches need, and what others are likely to."""
        whole_batches = max(1, min(len(self.train) // self.regime.batch_size, self.steps()))
        trials = [divmod(trial, whole_batches) for trial in range(TRIAL_BATCHES)]
        orders = [self._order(epoch) for epoch in range(trials[-1][0] + 1)]
        needs = self.agree(self._needs(self._sample(orders[epoch], epoch, step)[1] for epoch, step in trials))
        likely = {name: int(max(sizes) + SPREAD * np.std(sorted(sizes))) for name, (sizes, _) in needs.items()}
        self.fit({name: ([min(size, needs[name][1])], needs[name][1]) for name, size in likely.items()})
