"""Decoupled models: all matrices first, node by node, and then as many rounds of folding (NeutronTP, section 4.1.2).

`H = L dense layers of X` (equation 8), then L times `H' = fold(H)` (equation 9): what remains of a model's layer when its matrices
are taken out. A fold then treats every column alone.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import flax.linen as nn
import jax

from hetjax.graph.schema import Relation
from hetjax.models.dropout import NodeMasks
from hetjax.models.layer import Finish, Layer
from hetjax.models.linear import Dense, fold_product
from hetjax.models.segment import neighbour_mean
from hetjax.sampling.blocks import Adjacency


@dataclass(frozen=True)
class DenseOptions:
    """The dense layers of a decoupled model.

    Attributes:
      widths: of what each makes; the last one's is folded.
      activation, norm, dropout, residual, bias: as in `Finish`.
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
        """Of one node type."""
        last = len(self.widths) - 1
        about = self.activation, self.norm, self.dropout, self.residual, self.bias
        return [DenseLayer(width, (*about, self.logits and i == last)) for i, width in enumerate(self.widths)]


class DenseLayer(nn.Module):
    """A matrix, and what `Finish` does with the product.

    Attributes:
      features: width of the product.
      finish: the options of `Finish`.
    """

    features: int
    finish: tuple[Any, ...]

    @nn.compact
    def __call__(self, x: jax.Array, masks: NodeMasks | None) -> jax.Array:
        product = Dense(self.features, use_bias=False, kernel_init=nn.initializers.glorot_uniform())(x)
        return Finish(*self.finish)(product, x, masks)


class Propagation(Layer):
    """A round of folding without any matrix: the mean of a node's terms, its own embedding and that of every relation into its type.

    Where a layer of the model adds up its terms, this takes their mean: the eigenvalues of what is folded are then at most 1,
    as section 4.1.3 asks for. A type that nothing is folded into is zero after the first round.

    Attributes:
      scored: the relations of the first round.
      last: whether this is the last round.
      logits: whether that makes logits.
    """

    scored: tuple[Relation, ...] = ()
    last: bool = False
    logits: bool = False
    linear_fold: ClassVar[Any] = staticmethod(neighbour_mean)

    @property
    def reads_target(self) -> bool:
        return False

    def relation(
        self,
        relation: Relation,
        adjacency: Adjacency,
        sources: jax.Array,
        targets: jax.Array | None,
        masks: NodeMasks | None,
    ) -> Any:
        return fold_product(adjacency, type(self).linear_fold, sources)

    def aggregate_self(self, node_type: str, targets: jax.Array) -> jax.Array:
        return targets

    def finish(self, node_type: str, partial: Any, targets: Any, masks: NodeMasks | None) -> jax.Array:
        return self.total(partial, targets) / self.terms(node_type)

    def terms(self, node_type: str) -> int:
        """How many are averaged."""
        return max(1, (node_type in self.selves) + sum(relation.target == node_type for relation in self.relations))

    def enter(self, node_type: str, rows: jax.Array) -> jax.Array:
        """What the first round reads of the dense layers' embeddings, `[rows, width]`."""
        return rows

    def width(self, node_type: str) -> int:
        """Of what a round reads of a type, `features` being that of the dense layers' embeddings."""
        return self.features

    @classmethod
    def made(cls, classes: int, **options: Any) -> int:
        """Width of the embeddings of which a round makes so many logits."""
        return classes
