"""All weights of a model as one vector, where it has hundreds of them.

XLA compiles the update of a weight for every weight, and a program takes and gives them one by one: of a graph with ninety relations
that takes longer than all else of a step. As one vector they are updated in one operation, and those of relations that are aggregated
together (`models.together`) lie side by side in it.
"""

import functools
import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from hetjax.kernels.joined import parted
from hetjax.kernels.together import Together
from hetjax.models.layer import Layer
from hetjax.sampling.blocks import Block
from hetjax.system.arrays import Array


@dataclass(frozen=True, eq=False)
class Packing:
    """The places of weights in the vector.

    Attributes:
      tree: of the weights.
      shapes: of the tree's leaves.
      stacks: per layer, of every group how many weights each of its relations has.
      pieces: of the vector, which leaves lie there: first those of the stacks, one after the other, then a leaf each.
      place: where in the vector every number of the raveled tree lies.
    """

    tree: Any
    shapes: tuple[tuple[int, ...], ...]
    stacks: tuple[tuple[int, ...], ...]
    pieces: tuple[tuple[int, ...], ...]
    place: np.ndarray

    def pack(self, numbers: np.ndarray) -> np.ndarray:
        """Return the vector, from the raveled tree, or from as many values that belong to it."""
        vector = np.empty_like(numbers)
        vector[self.place] = numbers
        return vector

    def unpack(self, vector: np.ndarray) -> np.ndarray:
        """Return the inverse of `pack`."""
        return vector[self.place]

    def tree_of(self, numbers: np.ndarray) -> Any:
        """Return the tree, from its values."""
        parts = np.split(numbers, np.cumsum([math.prod(shape) for shape in self.shapes])[:-1])
        return jax.tree.unflatten(self.tree, [part.reshape(shape) for part, shape in zip(parts, self.shapes)])


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Packed:
    """Weights as a vector.

    Attributes:
      vector: `[numbers]`.
      packing: where they lie.
    """

    vector: jax.Array
    packing: Packing = field(metadata={"static": True})


def packing(params: Any, layers: Sequence[Layer], blocks: Sequence[Block]) -> Packing | None:
    """Return the packing of a tree of weights for these blocks; None if no relations are aggregated together in them."""
    if not any(block.together for block in blocks):
        return None
    leaves, tree = jax.tree_util.tree_flatten_with_path(params)
    found = {tuple(key.key for key in path): number for number, (path, _) in enumerate(leaves)}
    stacks: list[tuple[int, ...]] = []
    pieces: list[tuple[int, ...]] = []
    for depth, (layer, block) in enumerate(zip(layers, blocks)):
        own = [_stacks(layer, depth, group) for group in block.together]
        stacks.append(tuple(len(paths) for paths in own))
        pieces += [tuple(found[path] for path in alike) for paths in own for alike in paths]
    in_stacks = {number for piece in pieces for number in piece}
    pieces += [(number,) for number in range(len(leaves)) if number not in in_stacks]
    sizes, order = np.array([leaf.size for _, leaf in leaves]), np.concatenate(pieces)
    starts = np.zeros(len(leaves), np.int64)
    starts[order] = np.cumsum(sizes[order]) - sizes[order]
    place = np.concatenate([np.arange(start, start + size) for start, size in zip(starts, sizes)])
    return Packing(tree, tuple(leaf.shape for _, leaf in leaves), tuple(stacks), tuple(pieces), place)


def _stacks(layer: Layer, depth: int, group: Together) -> list[list[tuple[str, ...]]]:
    """Return paths in the tree of weights: per kind of weight that each relation of a group has one of, in the order of the relations."""
    grouped = layer.traits.grouped
    assert grouped
    named = zip(*(grouped.weights(layer, relation) for relation in group.relations))
    return [[("params", f"layers_{depth}", *path) for path in alike] for alike in named]


def stacked(params: Any, layer: Layer, depth: int, block: Block) -> Block:
    """Return the block, whose groups have their relations' weights stacked: by the host, as a program would take weights one by one.

    Args:
      params: a tree of weights, which is not packed.
      layer, depth: that reads the block.
    """
    own = [_stacks(layer, depth, group) for group in block.together]
    leaves = [
        [[functools.reduce(operator.getitem, path, params) for path in alike] for alike in paths] for paths in own
    ]
    return _with_weights(block, [tuple(map(np.stack, alike)) for alike in jax.device_get(leaves)])


def _with_weights(block: Block, weights: Sequence[tuple[Array, ...]]) -> Block:
    """Return the block with the stacked weights of the relations of each of its groups."""
    groups = zip(block.together, weights)
    return block._replace(together=tuple(replace(group, weights=own) for group, own in groups))


def opened(params: Any, blocks: Sequence[Block]) -> tuple[Any, Sequence[Block]]:
    """Return a tree of weights, and the blocks, whose groups have the stacked weights of their relations; weights that
    are not packed are returned unchanged.

    Stacked leaves of the tree hold no values: nobody reads them.
    """
    if not isinstance(params, Packed):
        return params, blocks
    packed = params.packing
    sizes = [len(piece) * math.prod(packed.shapes[piece[0]]) for piece in packed.pieces]
    parts = iter(list(zip(packed.pieces, parted(params.vector, sizes))))

    def stack() -> jax.Array:
        piece, part = next(parts)
        return part.reshape(len(piece), *packed.shapes[piece[0]])

    made = []
    for block, counts in zip(blocks, packed.stacks):
        made.append(_with_weights(block, [tuple(stack() for _ in range(count)) for count in counts]))
    leaves: list[Any] = [jnp.zeros(0)] * len(packed.shapes)
    for (number,), part in parts:
        leaves[number] = part.reshape(packed.shapes[number])
    return jax.tree.unflatten(packed.tree, leaves), tuple(made)
