"""A task whose examples have a node of each of several ends, of one to three types, which the seed of the run chooses."""

import itertools
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from hetjax.kernels.linear import Dense
from hetjax.tasks.quality import Metric
from hetjax.tasks.task import Seeds, Task

EXAMPLES, MOST_ENDS, MOST_ROOTS = 16, 4, 3


class Nodes(NamedTuple):
    """The arrays of examples: the position of each end's node among the seeds, int32 `[n]`, values and weights."""

    ends: tuple[Any, ...]
    values: Any
    weights: Any


class Chain(nn.Module):
    """The sum of a number of every end, and of a product of every two that follow each other."""

    ends: tuple[str, ...]

    @nn.compact
    def __call__(self, embeddings: Mapping[str, jax.Array], arrays: Nodes) -> jax.Array:
        rows = [embeddings[t][at] for t, at in zip(self.ends, arrays.ends, strict=True)]
        score = sum(Dense(1, name=f"alone_{number}")(x) for number, x in enumerate(rows))
        for number, (left, right) in enumerate(itertools.pairwise(rows)):
            both = (Dense(4, name=f"{side}_{number}")(x) for side, x in (("left", left), ("right", right)))
            score += jnp.prod(jnp.stack(list(both)), 0).sum(1, keepdims=True)
        return score


class Several(Task):
    """Random values of random nodes; ends may be of types that no relation leads into, and of the same type."""

    outputs = 1
    metrics: ClassVar = {"loss": Metric("loss", "", higher=False)}
    headline = metric = compared_by = "loss"

    def __init__(self, graph: Any, config: Any):
        rng, nodes = np.random.default_rng((config.train.seed, 1)), graph.schema.nodes
        types = rng.permutation([t for t in nodes if nodes[t]])[:MOST_ROOTS]
        types = types[: rng.integers(1, len(types) + 1)]
        count = rng.integers(len(types), MOST_ENDS + 1)
        self.ends = tuple(map(str, rng.permutation([*types, *rng.choice(types, count - len(types))])))
        self.roots = tuple(dict.fromkeys(self.ends))
        self.placed = int(rng.integers(count))
        self.nodes = np.stack([rng.integers(0, nodes[t], EXAMPLES) for t in self.ends], 1).astype(np.int32)
        self.values = rng.standard_normal(EXAMPLES).astype(np.float32)
        numbers = np.arange(EXAMPLES, dtype=np.int32)
        self.splits = dict(zip(("train", "validation", "test"), np.split(numbers, (10, 13))))

    def examples(self, split: str) -> np.ndarray:
        return self.splits[split]

    def node_values(self, examples: np.ndarray, values: Mapping[str, np.ndarray]) -> np.ndarray:
        return values[self.ends[self.placed]][self.nodes[examples, self.placed]]

    def seeds(self, examples: np.ndarray) -> Seeds:
        ids = self.nodes[examples].T
        own = {t: [of for end, of in zip(self.ends, ids) if end == t] for t in self.roots}
        nodes = {t: np.unique(np.concatenate(of)).astype(np.int32) for t, of in own.items()}
        at = tuple(np.searchsorted(nodes[t], of).astype(np.int32) for t, of in zip(self.ends, ids))
        return Seeds(nodes, Nodes(at, self.values[examples], np.ones(len(examples), np.float32)))

    def head(self, linear: bool, normalised: bool = False) -> nn.Module:
        return Chain(self.ends)

    def loss(self, outputs: jax.Array, arrays: Nodes) -> jax.Array:
        return jnp.sum(jnp.where(arrays.weights > 0, jnp.square(outputs[:, 0] - arrays.values), 0))

    def weight(self, arrays: Nodes) -> Any:
        return arrays.weights.sum()

    def quality(self, outputs: np.ndarray, examples: np.ndarray, chosen: Any = None) -> dict[str, Any]:
        return {"loss": float(np.mean((outputs[:, 0] - self.values[examples]) ** 2)) if len(examples) else None}

    def predictions(self, outputs: np.ndarray, names: Any, chosen: Any, **more: Any) -> Any:
        raise NotImplementedError
