"""Graphs in the shapes of the published ones, at any scale, with planted classes for a model to find.

Every node of every type belongs to one of as many communities as there are classes. Labels are the target type's
communities; features and edges point to them, both imperfectly. Degrees have heavy tails. Everything is drawn by
counters and is a function of the arguments alone, so the same arguments give the same graph on any machine (for the
features, with any NumPy that keeps its float32 normals as they are).
"""

from concurrent.futures import ThreadPoolExecutor
from difflib import get_close_matches
from typing import NamedTuple

import numpy as np
from tqdm import tqdm

from hetjax.datasets.schemas import SHAPES, Shape
from hetjax.graph import csc as csc_format
from hetjax.graph.columns import SPLITS
from hetjax.graph.csc import CSC
from hetjax.graph.hetgraph import HetGraph, check
from hetjax.graph.schema import Relation
from hetjax.sampling.draw import bits, key, uniform
from hetjax.system.compiled import compiled
from hetjax.system.errors import InputError
from hetjax.system.runtime import memory

TAIL, LABELLED_TAIL = 1.6, 1.15  # exponents of the ranks; the second where edges point to the target type
ID = 4  # bytes of a node id
CHUNK = 2**20  # feature values drawn at a time; another number would give another graph


def generate(
    shape: str,
    scale: float = 1.0,
    classes: int | None = None,
    seed: int = 0,
    homophily: float = 0.5,
    signal: float = 1.5,
) -> HetGraph:
    """Make a graph in the shape of a published one.

    For every edge between `S` sources and `T` targets, the target drawn is the node of rank `floor(T * u**1.15)` (where
    edges point to the type with the labels) or `floor(T * u**1.6)` (any other), `u` uniform in [0, 1). Its source has
    rank `floor(S * u**1.6)`, with probability `homophily` among the nodes of the target's community, otherwise among
    all. Communities are equal in size, give or take a node, and ranks tell nothing about them. In a type of fewer nodes
    than classes, each node serves several communities. A pair may be drawn twice, and a node as its own neighbour:
    seldom at full size, but often where a small `scale` leaves a community only a handful of nodes; give fewer `classes`
    there.

    Features are `signal * c + noise`. The noise is standard normal; `c` is the centroid of the node's community within
    its type, standard normal divided by the square root of the width, so of length about 1 whatever the width.

    Args:
      shape: a name in `schemas.SHAPES`.
      scale: multiplies the number of nodes of every type (of which there are at least 16), of edges, and of nodes in
        every split (at least 1).
      classes: number of classes; by default the data set's. Every target node has a label, in a split or not.
      seed: another seed, another graph.
      homophily: share of edges whose ends are of one community by intent; `1 / classes` of the others are by chance.
      signal: length of the centroids in standard deviations of the noise.

    Returns:
      The graph, checked; features in the data set's widths and dtypes. While it is made, the edge list of one relation
      at a time takes 8 bytes an edge more.

    Raises:
      InputError: an unknown shape, or a number outside its range.
    """
    if shape not in SHAPES:
        near = get_close_matches(str(shape).lower(), SHAPES, 1, cutoff=0)[0]
        raise InputError(f"no shape {shape!r} among {sorted(SHAPES)}; the nearest is {near!r}")
    form = SHAPES[shape]
    classes = form.classes if classes is None else classes
    _check_arguments(scale, classes, homophily, signal)
    _check_size(form, scale)
    schema = form.schema(scale, classes)
    members = {name: _members(count, name, seed) for name, count in schema.nodes.items()}
    relations = _relations(form, scale, members, classes, homophily, seed)
    features = {
        name: _features(members[name], classes, width, dtype, signal, key(seed, "features", name))
        for name, (width, dtype) in tqdm(form.features.items(), "features", leave=False, disable=None)
    }
    labels = _communities(members[form.target], classes)
    graph = HetGraph(schema, relations, features, labels, _splits(form, len(labels), seed))
    check(graph, f"synthetic {shape}")
    return graph


def _check_arguments(scale: float, classes: int, homophily: float, signal: float) -> None:
    if not 0 < scale < np.inf:
        raise InputError(f"scale {scale} is not a number above 0")
    if classes < 2:
        raise InputError(f"{classes} classes, and there should be at least 2")
    if not 0 <= homophily <= 1:
        raise InputError(f"homophily {homophily} is outside 0..1")
    if not 0 <= signal < np.inf:
        raise InputError(f"signal {signal} is not a number from 0 up")


def _check_size(form: Shape, scale: float) -> None:
    features = sum(
        form.nodes[name] * width * np.dtype(dtype).itemsize for name, (width, dtype) in form.features.items()
    )
    needed, most = scale * (features + ID * sum(form.relations().values())), memory()
    if needed > most:
        raise InputError(f"scale {scale} takes {needed:,.4g} bytes, and the host has {most:,}")


class _Members(NamedTuple):
    """The nodes of one type in order of rank, and the members of each community.

    Ranks are dealt out to the communities in rounds, one rank each, in an order that every round rotates at random. So
    a community's members are found by arithmetic, and its number does not tell how well connected they are.

    Attributes:
      ids: int32 `[nodes]`, the node of every rank.
      turns: the key of the rounds' rotations.
    """

    ids: np.ndarray
    turns: np.uint64


def _members(count: int, node_type: str, seed: int) -> _Members:
    ids = np.empty(count, np.int32)
    _permute(key(seed, "ranks", node_type), ids)
    return _Members(ids, key(seed, "turns", node_type))


def _relations(
    form: Shape, scale: float, members: dict[str, _Members], classes: int, homophily: float, seed: int
) -> dict[Relation, CSC]:
    counts, relations = form.relations(scale), {}
    for names in tqdm(form.edges, "relations", leave=False, disable=None):
        relation = Relation(*names)
        source_type, _, target_type = relation
        ends, drawn = np.empty((2, counts[relation]), np.int32), counts[relation]
        if source_type == target_type:
            drawn //= 2  # the other half is the same, turned round
        tail = LABELLED_TAIL if target_type == form.target else TAIL
        sources, targets = members[source_type], members[target_type]
        _draw_edges(key(seed, "edges", relation.key), sources, targets, tail, classes, homophily, ends[:, :drawn])
        ends[:, drawn:] = ends[::-1, : len(ends[0]) - drawn]
        sizes = len(sources.ids), len(targets.ids)
        relations[relation] = csc_format.from_edges(ends[0], ends[1], *sizes)
        if source_type != target_type:
            relations[relation.reverse] = csc_format.from_edges(ends[1], ends[0], *sizes[::-1])
    return relations


def _communities(members: _Members, classes: int) -> np.ndarray:
    """Return the community of every node; int32 `[nodes]`."""
    communities = np.empty(len(members.ids), np.int32)
    _fill_communities(members, classes, communities)
    return communities


def _features(members: _Members, classes: int, width: int, dtype: str, signal: float, purpose: np.uint64) -> np.ndarray:
    """Return features `[nodes, width]`, drawn in float32 some rows at a time, each chunk of rows by a generator of its own."""
    communities = _communities(members, classes)
    centroids = _generator(purpose, 0).standard_normal((classes, width), np.float32) * np.float32(signal / width**0.5)
    matrix = np.empty((len(communities), width), dtype)
    rows = max(1, CHUNK // width)

    def fill(number: int) -> None:
        chunk = slice(number * rows, (number + 1) * rows)
        values = _generator(purpose, number + 1).standard_normal(matrix[chunk].shape, np.float32)
        values += centroids[communities[chunk]]
        matrix[chunk] = values

    with ThreadPoolExecutor() as pool:
        list(pool.map(fill, range(-(-len(matrix) // rows))))
    return matrix


def _generator(purpose: np.uint64, number: int) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(key=np.array([purpose, number], np.uint64)))


def _splits(form: Shape, count: int, seed: int) -> dict[str, np.ndarray]:
    """Return disjoint random sets of target nodes, sized in the data set's proportions; none is empty."""
    order = np.empty(count, np.int32)
    _permute(key(seed, "splits"), order)
    splits, start, taken = {}, 0, 0
    for name in SPLITS:
        taken += form.splits[name]
        stop = max(start + 1, round(count * taken / form.nodes[form.target]))
        splits[name], start = np.sort(order[start:stop]), stop
    return splits


@compiled
def _permute(purpose, out):
    """Fill `out` with a random order of its positions (Fisher and Yates)."""
    for i in range(len(out)):
        out[i] = i
    for i in range(len(out) - 1, 0, -1):
        j = np.int64(uniform(purpose, i) * (i + 1))
        out[i], out[j] = out[j], out[i]


@compiled
def _turn(turns, number, classes):
    """Return the rotation of a round: in round `number`, the community `c` gets the place `(c - turn) % classes`."""
    return np.int64(bits(turns, number) % np.uint64(classes))


@compiled
def _fill_communities(members, classes, out):
    for rank in range(len(out)):
        out[members.ids[rank]] = (rank + _turn(members.turns, rank // classes, classes)) % classes


@compiled
def _zipf(u, count, tail):
    """Return a rank in `0..count - 1`, from a uniform `u`; the higher `tail`, the more often a low one."""
    return min(np.int64(count * u**tail), count - 1)


@compiled
def _community_at(members, rank, u, classes):
    """Return the community of a rank, or, where one node serves several, one of them."""
    count = len(members.ids)
    if count < classes:
        served = (classes - 1 - rank) // count + 1
        rank += count * np.int64(u * served)
    return (rank + _turn(members.turns, rank // classes, classes)) % classes


@compiled
def _zipf_within(members, community, u, tail, classes):
    """Return a rank among those of a community; where one node serves several communities, that node's."""
    count = len(members.ids)
    if count < classes:
        return (community - _turn(members.turns, 0, classes)) % classes % count
    rounds = count // classes
    last = (community - _turn(members.turns, rounds, classes)) % classes
    if rounds * classes + last < count:
        rounds += 1
    number = _zipf(u, rounds, tail)
    return number * classes + (community - _turn(members.turns, number, classes)) % classes


@compiled
def _draw_edges(purpose, sources, targets, tail, classes, homophily, out):
    """Fill `out`, int32 `[2, edges]`, with source and target ids; an edge's draws have their own four counters."""
    for edge in range(out.shape[1]):
        rank = _zipf(uniform(purpose, 4 * edge), len(targets.ids), tail)
        out[1, edge] = targets.ids[rank]
        u = uniform(purpose, 4 * edge + 1)
        if uniform(purpose, 4 * edge + 2) < homophily:
            community = _community_at(targets, rank, uniform(purpose, 4 * edge + 3), classes)
            rank = _zipf_within(sources, community, u, TAIL, classes)
        else:
            rank = _zipf(u, len(sources.ids), TAIL)
        out[0, edge] = sources.ids[rank]
