"""A task whose examples are pairs of nodes of two types, with nodes that they are held against: several roots, and several seeds an example."""

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from hetjax.graph.schema import Schema
from hetjax.kernels.linear import Dense
from hetjax.tasks.quality import Metric
from hetjax.tasks.task import Seeds, Task

PAIRS, AGAINST = 60, 2


class Ends(NamedTuple):
    """The arrays of examples: the positions of their nodes among the seeds, int32 `[n]` and `[n, AGAINST]`, values and weights."""

    source: Any
    target: Any
    against: Any
    values: Any
    weights: Any


class Product(nn.Module):
    """The products of the ends' embeddings, through a matrix, less those with the nodes that they are held against."""

    roots: tuple[str, str]

    @nn.compact
    def __call__(self, embeddings: Mapping[str, jax.Array], arrays: Ends) -> jax.Array:
        source, target = self.roots
        left = Dense(embeddings[target].shape[1], name="left")(embeddings[source][arrays.source])
        right, others = embeddings[target][arrays.target], embeddings[target][arrays.against]
        score = jnp.sum(left * right, 1) - jnp.einsum("nh,nkh->n", left, others) / AGAINST
        return score[:, None] + self.param("bias", nn.initializers.zeros, (1,))[None]


class Pairs(Task):
    """Numbers of random pairs: of a graph's target type and of its first other type that relations lead into, or itself."""

    outputs = 1
    metrics: ClassVar = {"loss": Metric("loss", "", higher=False)}
    headline = metric = compared_by = "loss"

    def __init__(self, graph: Any, config: Any):
        schema = graph.schema
        self.ends = schema.target, self.other(schema)
        self.roots = tuple(dict.fromkeys(self.ends))
        rng = np.random.default_rng(5)
        self.pairs = np.stack([rng.integers(0, schema.nodes[t], PAIRS) for t in self.ends], 1).astype(np.int32)
        self.against = rng.integers(0, schema.nodes[self.ends[1]], (PAIRS, AGAINST)).astype(np.int32)
        self.values = rng.standard_normal(PAIRS).astype(np.float32)
        self.splits = dict(zip(("train", "validation", "test"), np.split(np.arange(PAIRS, dtype=np.int32), (31, 45))))

    def other(self, schema: Schema) -> str:
        """Return the type of the second end."""
        others = (t for t in schema.nodes if t != schema.target and schema.nodes[t] > 3 and schema.into(t))
        return next(others, schema.target)

    def examples(self, split: str) -> np.ndarray:
        return self.splits[split]

    def node_values(self, examples: np.ndarray, values: Mapping[str, np.ndarray]) -> np.ndarray:
        return values[self.ends[0]][self.pairs[examples, 0]]

    def seeds(self, examples: np.ndarray) -> Seeds:
        sources, targets = self.pairs[examples].T
        parts = [(self.ends[0], sources), (self.ends[1], targets), (self.ends[1], self.against[examples].ravel())]
        nodes = {
            t: np.unique(np.concatenate([ids for of, ids in parts if of == t])).astype(np.int32) for t in self.roots
        }
        at = [np.searchsorted(nodes[t], ids).astype(np.int32) for t, ids in parts]
        weights = np.ones(len(examples), np.float32)
        return Seeds(nodes, Ends(at[0], at[1], at[2].reshape(-1, AGAINST), self.values[examples], weights))

    def head(self, linear: bool, normalised: bool = False) -> nn.Module:
        return Product(self.ends)

    def loss(self, outputs: jax.Array, arrays: Ends) -> jax.Array:
        return jnp.sum(jnp.where(arrays.weights > 0, jnp.square(outputs[:, 0] - arrays.values), 0))

    def weight(self, arrays: Ends) -> Any:
        return arrays.weights.sum()

    def quality(self, outputs: np.ndarray, examples: np.ndarray, chosen: Any = None) -> dict[str, Any]:
        if not len(examples):
            return {"loss": None}
        return {"loss": float(np.mean((outputs[:, 0] - self.values[examples]) ** 2))}

    def predictions(self, outputs: np.ndarray, names: Any, chosen: Any, **more: Any) -> Any:
        return None  # a page shows nothing of them


class Unread(Pairs):
    """The same, of the target type and of the first type that no relation leads into."""

    def other(self, schema: Schema) -> str:
        return next(t for t in schema.nodes if not schema.into(t) and schema.nodes[t])


class Within(Pairs):
    """The same, of two nodes of the target type."""

    def other(self, schema: Schema) -> str:
        return schema.target
