"""Neighbour means along a metapath, `A_1 A_2 ... A_k X`, where `A_i` is the mean over the neighbours of the i-th relation.

SeHGNN's equation 4 (Yang et al., AAAI 2023, "neighbour aggregation"). Products are taken from the right, so many columns at a time, or
from the left, so many rows at a time: an intermediate product has no more than `AT_ONCE` elements, and a few of that size are held at a time.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import scipy.sparse

from hetjax.graph.csc import CSC, index_dtype
from hetjax.graph.hetgraph import HetGraph
from hetjax.metapaths.paths import MOST_EDGES, Metapath
from hetjax.system.errors import InputError
from hetjax.system.mapped import unnamed

AT_ONCE = 2**24  # elements of an intermediate product
MOST_ONE_HOT = 2**28  # elements of the one-hot features of a metapath
FULL = 0.1  # the share of elements of a product that are not 0, above which it is made dense before a further product: a sparse one takes longer
IN_MEMORY = 2**28  # bytes of a result; a larger one lies in a file that is mapped into memory


def room(shape: tuple[int, int]) -> np.ndarray:
    """Return an array for a result, float32: in memory, or in a file without a name in the folder for such files (`TMPDIR`)."""
    if 4 * shape[0] * shape[1] <= IN_MEMORY:
        return np.empty(shape, np.float32)
    return unnamed(shape, np.float32)


def means(graph: HetGraph, path: Metapath, x: np.ndarray) -> np.ndarray:
    """Return the means of `x` along a metapath, float32 `[nodes of the target, width]`; zeros where nothing is reached.

    Args:
      x: `[nodes of the metapath's source, width]`, of any number type.
    """
    matrices, found = _matrices(graph, path), room((graph.schema.nodes[path.target], x.shape[1]))
    tallest = max([graph.schema.nodes[path.target], *(matrix.shape[1] for matrix in matrices)])
    for columns in _ranges(x.shape[1], tallest):
        part = np.asarray(x[:, columns], np.float32)
        for matrix in reversed(matrices):
            part = matrix @ part
        found[:, columns] = part
    return found


def means_of_others(graph: HetGraph, path: Metapath, y: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """Return the means of a metapath from the target type to itself, as `means` does, in which no node of `ids` gets anything of its own row of `y`.

    The walks that come back to where they began are left out of the product of matrices, so not even rounding tells of the row
    ("label propagation", section 4.1: the diagonal of the adjacency is removed).

    Args:
      y: `[nodes, columns]`, zeros of every node that is not in `ids`.
      ids: of nodes of the target type.
    """
    found, y = means(graph, path, y), y.astype(np.float32)
    for rows, product in _products(_matrices(graph, path), ids):
        if isinstance(product, np.ndarray):
            product[np.arange(len(rows)), rows] = 0
        else:
            product.data[product.indices == np.repeat(rows, np.diff(product.indptr))] = 0
        found[rows] = product @ y
    return found


def one_hot(graph: HetGraph, path: Metapath) -> np.ndarray:
    """Return the means of one-hot features, float32 `[nodes of the target, nodes of the metapath's source]`: each node's share.

    Raises:
      InputError: more than `MOST_ONE_HOT` elements.
    """
    nodes = graph.schema.nodes
    shape = nodes[path.target], nodes[path.source]
    if shape[0] * shape[1] > MOST_ONE_HOT:
        name = path.name(graph.schema)
        raise InputError(
            f"metapath {name} would have {shape[0]:,} x {shape[1]:,} one-hot features > {MOST_ONE_HOT:,}: set data.metapath_one_hot false"
        )
    found = room(shape)
    for rows, product in _products(_matrices(graph, path), np.arange(shape[0])):
        found[rows] = product if isinstance(product, np.ndarray) else product.toarray()
    return found


def composed(graph: HetGraph, path: Metapath) -> CSC:
    """Return one relation in place of a metapath's: an edge from every node that is reached, with its share in the mean as weight.

    Raises:
      InputError: it has more than `MOST_EDGES` edges.
    """
    matrices, nodes = _matrices(graph, path), graph.schema.nodes
    degrees, indices, weights, edges = [], [], [], 0
    for _, product in _products(matrices, np.arange(nodes[path.target])):
        product = scipy.sparse.csr_matrix(product)
        product.eliminate_zeros()
        edges += product.nnz
        if edges > MOST_EDGES:
            name = path.name(graph.schema)
            raise InputError(
                f"metapath {name} has over {MOST_EDGES:,} edges, and {path.source!r} has no features whose means could be taken"
            )
        product.sort_indices()
        degrees.append(np.diff(product.indptr))
        indices.append(product.indices.astype(index_dtype(nodes[path.source])))
        weights.append(product.data.astype(np.float32))
    indptr = np.concatenate([[0], np.cumsum(np.concatenate([np.zeros(0, np.int64), *degrees]))]).astype(np.int64)
    empty = np.zeros(0, index_dtype(nodes[path.source]))
    return CSC(indptr, np.concatenate([empty, *indices]), np.concatenate([np.zeros(0, np.float32), *weights]))


def _matrices(graph: HetGraph, path: Metapath) -> list[scipy.sparse.csr_matrix]:
    """Return the mean over neighbours of every relation, as matrices `[targets, sources]`; edges that have weights are weighed."""
    return [_mean(graph.relations[r], graph.schema.nodes[r.source]) for r in path.relations]


def _mean(csc: CSC, sources: int) -> scipy.sparse.csr_matrix:
    weights = np.ones(csc.edges, np.float32) if csc.weights is None else csc.weights
    shape = (len(csc.indptr) - 1, sources)
    matrix = scipy.sparse.csr_matrix((weights, csc.indices.astype(np.int32), csc.indptr), shape=shape)
    total = matrix.sum(axis=1).A1
    scale = np.divide(1, total, out=np.zeros_like(total), where=total != 0)
    return scipy.sparse.diags_array(scale, format="csr", dtype=np.float32) @ matrix


def _products(
    matrices: Sequence[scipy.sparse.csr_matrix], rows: np.ndarray
) -> Iterator[tuple[np.ndarray, scipy.sparse.csr_matrix | np.ndarray]]:
    """Yield some rows of the product of all matrices at a time, with their ids; as a sparse matrix, or as a dense one (`FULL`)."""
    for part in _ranges(len(rows), max(matrix.shape[1] for matrix in matrices)):
        product = matrices[0][rows[part]]
        for matrix in matrices[1:]:
            if scipy.sparse.issparse(product) and product.nnz > FULL * product.shape[0] * product.shape[1]:
                product = product.toarray()
            product = product @ matrix
        yield rows[part], product


def _ranges(count: int, height: int) -> Iterator[slice]:
    step = max(1, AT_ONCE // max(1, height))
    return (slice(start, min(count, start + step)) for start in range(0, count, step))
