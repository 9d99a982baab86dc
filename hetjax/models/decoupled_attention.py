"""Decoupled attention: the weights of all edges from the dense layers' embeddings, and then rounds of aggregation by them.

NeutronTP, section 4.1.1: `a_uv` of equation 9 depends on what the dense layers made and on nothing that was aggregated since. The logit of
an edge is a source's score plus a target's, so a node carries its scores from round to round. They stand beside the
columns of the head that they belong to: who has a head's columns can attend, and nothing of attention is shared.
"""

from dataclasses import replace
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from hetjax.graph.schema import Relation
from hetjax.kernels import partials
from hetjax.kernels.attention import attend
from hetjax.kernels.partials import Attention
from hetjax.models.decoupled import Propagation
from hetjax.models.dropout import NodeMasks
from hetjax.models.traits import Traits
from hetjax.sampling.blocks import Adjacency
from hetjax.system.errors import InputError

SLOPE = 0.2  # of the leaky ReLU below zero (section 2.1 of the GAT paper)


class Scores(nn.Module):
    """The scores of a type's nodes, per head one for every relation out of the type and one for every relation into it.

    Attributes:
      count: number of scores.
    """

    count: int

    @nn.compact
    def __call__(self, h: jax.Array) -> jax.Array:
        """Return `[rows, heads, count]` of embeddings `[rows, heads, width]`."""
        vectors = self.param(
            "vectors", nn.initializers.glorot_uniform(batch_axis=(0,)), (h.shape[1], h.shape[2], self.count)
        )
        return jnp.einsum("nhd,hdc->nhc", h, vectors)


class AttentionPropagation(Propagation):
    """A round of `a_uv = softmax over u of LeakyReLU(s_r . h_u + t_r . h_v)`: equations 1 to 5 of the GAT paper without `W`.

    As in `Propagation` the mean of a node's terms is taken. A row is, head by head, the head's columns and its scores.

    Attributes:
      heads: of the attention, which divide the columns.
      output_heads: where the last round makes logits: heads, each as wide as there are outputs, that are averaged.
    """

    heads: int = 4
    output_heads: int = 1
    traits = Traits(edge_monoid=partials.SOFTMAX, reads_weights=False)

    def with_options(self, traits: Traits) -> Traits:
        heads, carried = self.attending, {} if self.last else self.score_columns()
        return replace(traits, heads=heads, head_width=self.features // max(1, heads), carried=carried)

    def setup(self):
        super().setup()
        types = {end for relation in self.scored for end in (relation.source, relation.target)}
        self.scores = {t: Scores(len(self.places(t))) for t in sorted(types)}
        if self.features % self.attending:
            raise InputError(f"embeddings of width {self.features} do not split into {self.attending} heads")

    @property
    def attending(self) -> int:
        """The number of heads."""
        return self.output_heads if self.logits else self.heads

    def places(self, node_type: str) -> list[tuple[str, str]]:
        """Return the order of a head's scores: for each the end that it belongs to, source or target, and the relation's key."""
        sides = [("source", r.key) for r in self.scored if r.source == node_type]
        return sides + [("target", r.key) for r in self.scored if r.target == node_type]

    def enter(self, node_type: str, rows: jax.Array) -> jax.Array:
        heads = rows.reshape(len(rows), self.attending, self.features // self.attending)
        if node_type not in self.scores:
            return rows
        return jax.lax.collapse(jnp.concatenate([heads, self.scores[node_type](heads)], axis=2), 1)

    def score_columns(self) -> dict[str, int]:
        """Return the number of scores in a row of every type that has any."""
        types = {end for relation in self.scored for end in (relation.source, relation.target)}
        return {t: self.attending * len(self.places(t)) for t in types}

    @classmethod
    def made(cls, outputs: int, **options: Any) -> int:
        return outputs * int(options.get("output_heads", cls.output_heads))

    def relation(
        self,
        relation: Relation,
        adjacency: Adjacency,
        sources: jax.Array,
        targets: Any,
        masks: NodeMasks | None,
    ) -> Attention:
        keys, asked = (self._heads(t, x) for t, x in ((relation.source, sources), (relation.target, targets)))
        size = self.features // self.attending
        at = size + self.places(relation.source).index(("source", relation.key))
        offsets = asked[:, :, size + self.places(relation.target).index(("target", relation.key))]
        chosen = jnp.ones((1, keys.shape[1], 1), keys.dtype)
        return attend(adjacency, chosen, offsets, keys[:, :, at : at + 1], keys[:, :, :size], SLOPE).partial()

    def aggregate_self(self, node_type: str, targets: jax.Array) -> jax.Array:
        return jax.lax.collapse(self._heads(node_type, targets)[:, :, : self.features // self.attending], 1)

    def finish(self, node_type: str, total: jax.Array, targets: Any, masks: NodeMasks | None) -> jax.Array:
        if self.last:
            h = total / self.terms(node_type)
            shape = len(h), self.attending, self.features // self.attending
            h = jnp.mean(h.reshape(shape), axis=1) if self.logits else h
            return self.finished(node_type, h, targets, masks)
        own = self._heads(node_type, targets)
        size = self.features // self.attending
        width = own.shape[1] * size  # zeros of a type that nothing is aggregated into have all columns
        h = (total if total.shape[1] == width else total[:, :width]) / self.terms(node_type)
        return jax.lax.collapse(jnp.concatenate([h.reshape(*own.shape[:2], size), own[:, :, size:]], axis=2), 1)

    def _heads(self, node_type: str, rows: jax.Array) -> jax.Array:
        """Return rows as `[rows, heads, columns and scores]`, of as many heads as they have the columns of."""
        each = (self.features + self.score_columns().get(node_type, 0)) // self.attending
        return rows.reshape(len(rows), rows.shape[1] // each, each)  # none is inferred: a type may have no nodes
