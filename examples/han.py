"""HAN (Wang et al., Heterogeneous Graph Attention Network, WWW 2019) as a model of one's own, and the graph of metapaths that it needs.

    python examples/han.py --data.format hgb --data.path hgb_dblp --hops 2 --out stores/dblp_han
    python -m hetjax.train --data.format store --data.path stores/dblp_han --model.name examples.han:HAN --model.layers 1 --sampling.mode full --train.epochs 50 --workdir runs/han

Run it where `examples` can be imported. The first command joins nodes of the target type that a metapath joins. Published on HGB: DBLP 92.05, IMDB 64.63 % micro-F1. The
weights of metapaths are each node's own here; in the paper they are a mean over all nodes (equation 7), which a mini-batch does not know.
"""

from dataclasses import dataclass, replace
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from hetjax.datasets.load import load
from hetjax.graph import store
from hetjax.graph.hetgraph import HetGraph
from hetjax.graph.schema import Relation
from hetjax.kernels import partials
from hetjax.kernels.partials import Attention
from hetjax.metapaths import composed, metapaths
from hetjax.models.dropout import NodeMasks, dropped
from hetjax.models.layer import Layer
from hetjax.models.rgat import RelationAttention
from hetjax.models.traits import Traits
from hetjax.options.command_line import parse, run_command
from hetjax.options.config import Data
from hetjax.sampling.blocks import Adjacency

ATTENTION = 128  # width of the attention over metapaths, as in the paper


class HAN(Layer):
    """The layer `h_v' = sum over P of b_vP z_vP`, `z_vP` being graph attention along a metapath (equations 1 to 6), and
    `b_v = softmax over P of q . tanh(W z_vP + b)` (7 to 9).

    The partial aggregate is that of a softmax, whose edges are metapaths.

    Attributes:
      heads: of the attention along metapaths, concatenated.
      dropout, attention_dropout: shares of the embeddings' entries and of the attention weights that are dropped in training.
    """

    heads: int = 8
    dropout: float = 0.0
    attention_dropout: float = 0.0
    traits = Traits(monoid=partials.SOFTMAX, self_term=False, reads_weights=False)

    def setup(self):
        self.along = {
            r.key: RelationAttention(self.features, self.heads, self.attention_dropout, shared=True)
            for r in self.relations
        }
        self.hidden, self.score = nn.Dense(ATTENTION), nn.Dense(1, use_bias=False)

    def relation(
        self, relation: Relation, adjacency: Adjacency, sources: Any, targets: Any, masks: NodeMasks | None
    ) -> Attention:
        z = nn.elu(partials.attended(self.along[relation.key](adjacency, sources, targets, masks)))
        logit = self.score(jnp.tanh(self.hidden(z)))
        largest = jax.lax.stop_gradient(logit)
        factor = jnp.exp(logit - largest)
        return Attention(largest, factor, factor[..., None] * z[:, None])

    def finish(self, node_type: str, total: jax.Array, targets: jax.Array, masks: NodeMasks | None) -> jax.Array:
        return dropped(total, self.dropout, masks, self.path)


def joined(graph: HetGraph, hops: int) -> HetGraph:
    """Return the target type alone, and a relation for every metapath of at most `hops` relations from it to itself;
    edges have no weights."""
    target, schema = graph.schema.target, graph.schema
    paths = [path for path in metapaths(schema, hops, target) if path.relations]
    relations = {
        Relation(target, path.name(schema), target): composed(graph, path)._replace(weights=None) for path in paths
    }
    features = {t: matrix for t, matrix in graph.features.items() if t == target}
    names = replace(graph.names, nodes={t: ids for t, ids in graph.names.nodes.items() if t == target})
    new = replace(schema, nodes={target: schema.nodes[target]}, relations=tuple(relations))
    return replace(graph, schema=new, relations=relations, features=features, names=names)


@dataclass(frozen=True)
class Options:
    """Metapaths: which, and where they go."""

    hops: int = 2
    """most relations of a metapath"""
    out: str = ""
    """the folder to write, which must not exist"""


def main(arguments: list[str]) -> None:
    sections = {"": Options, "data": Data}
    instances, _ = parse(sections, arguments, "python examples/han.py", "Make a graph of metapaths for HAN.", {})
    options, data = instances[""], instances["data"]
    store.save(joined(load(data), options.hops), options.out)


if __name__ == "__main__":
    run_command(main)
