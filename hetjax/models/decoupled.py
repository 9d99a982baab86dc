"""Decoupled models: all matrices first, node by node, and then as many rounds of aggregation (NeutronTP, section 4.1.2).

`H = L dense layers of X` (equation 8), then L times `H' = fold(H)` (equation 9): what remains of a model's layer when
its matrices are taken out. An aggregation then treats every column alone. The other parts of the last dense layer, its
bias, normalisation, activation and dropout, come after the rounds: the target's rows are whole again there, and the
aggregates are not yet cut off at zero.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import flax.linen as nn
import jax

from hetjax.graph.schema import Relation
from hetjax.kernels.linear import Dense, fold_product
from hetjax.kernels.segment import neighbour_mean
from hetjax.models.dropout import NodeMasks
from hetjax.models.layer import Finish, Layer
from hetjax.models.traits import Traits
from hetjax.sampling.blocks import Adjacency


@dataclass(frozen=True)
class DenseOptions:
    """The dense layers of a decoupled model.

    Attributes:
      widths: of the output of each; the last one's is aggregated.
      activation, norm, dropout, bias: as in `Finish`.
      residual: as in `Finish`, of all but the last.
      logits: whether the last makes logits, to which nothing but a bias is added.
    """

    widths: tuple[int, ...]
    activation: Callable
    norm: str = "none"
    dropout: float = 0.0
    residual: bool = False
    bias: bool = True
    logits: bool = False

    def layers(self, node_type: str) -> list["DenseLayer"]:
        """Return the dense layers of one node type."""
        *widths, folded = self.widths
        about = self.activation, self.norm, self.dropout, self.residual, self.bias, False
        return [*(DenseLayer(width, about) for width in widths), DenseLayer(folded)]

    @property
    def finish(self) -> tuple[Any, ...]:
        """Return the options of the `Finish` after the last round."""
        return self.activation, self.norm, self.dropout, False, self.bias, self.logits


class DenseLayer(nn.Module):
    """A matrix, and what `Finish` does with the product.

    Attributes:
      features: width of the product.
      finish: the options of `Finish`; none: the product is left as it is.
    """

    features: int
    finish: tuple[Any, ...] = ()

    @nn.compact
    def __call__(self, x: jax.Array, masks: NodeMasks | None) -> jax.Array:
        product = Dense(self.features, use_bias=False, kernel_init=nn.initializers.glorot_uniform())(x)
        return Finish(*self.finish)(product, x, masks) if self.finish else product


class Propagation(Layer):
    """A round of aggregation without any matrix: the mean of a node's terms, its own embedding and that of every relation into its type.

    Where a layer of the model adds up its terms, this takes their mean: the eigenvalues of the aggregation are then at most 1,
    as section 4.1.3 asks for. A type that nothing is aggregated into is zero after the first round.

    Attributes:
      scored: the relations of the first round.
      last: the options of the `Finish` after the last round; None in the others.
      logits: whether that makes logits.
    """

    scored: tuple[Relation, ...] = ()
    last: tuple[Any, ...] = ()
    logits: bool = False
    traits = Traits(reads_target=False, linear_fold=neighbour_mean)

    def setup(self):
        self.finishing = {t: Finish(*self.last) for t in self.targets} if self.last else {}

    @property
    def dropout(self) -> float:
        """Share of the target's entries that are dropped after the last round, in training."""
        return float(self.last[2]) if self.last else 0.0

    def relation(
        self,
        relation: Relation,
        adjacency: Adjacency,
        sources: jax.Array,
        targets: jax.Array | None,
        masks: NodeMasks | None,
    ) -> Any:
        linear_fold: Any = self.traits.linear_fold
        return fold_product(adjacency, linear_fold, sources)

    def aggregate_self(self, node_type: str, targets: jax.Array) -> jax.Array:
        return targets

    def finish(self, node_type: str, total: jax.Array, targets: Any, masks: NodeMasks | None) -> jax.Array:
        return self.finished(node_type, total / self.terms(node_type), targets, masks)

    def finished(self, node_type: str, h: jax.Array, targets: Any, masks: NodeMasks | None) -> jax.Array:
        """Return the result of a round from the aggregated rows `h`, `[T, features]`: `h` itself, unless the round is the last."""
        return self.finishing[node_type](h, targets, masks) if self.last else h

    def terms(self, node_type: str) -> int:
        """Return the number of terms that are averaged."""
        return max(1, (node_type in self.selves) + sum(relation.target == node_type for relation in self.relations))

    def enter(self, node_type: str, rows: jax.Array) -> jax.Array:
        """Return the input of the first round from the dense layers' embeddings, `[rows, width]`."""
        return rows

    @classmethod
    def made(cls, outputs: int, **options: Any) -> int:
        """Return the width of the embeddings of which a round makes so many logits."""
        return outputs
