"""Generated graphs of kinds that no rule was made for: the kinds differ in the sources of information on the labels.

A `Kind` says what edges and features know of the classes. `made` draws a graph of it: the nodes to classify are of type `node`, the nodes of other types
have classes too, which nobody is told.
"""

from typing import NamedTuple

import numpy as np

import hetjax
from hetjax.graph.hetgraph import HetGraph

SHARES = (0.537, 0.263, 0.2)  # of the nodes that have each class
WORDS, COUNTED = 300, 1000  # columns


class Other(NamedTuple):
    """A type besides the target, with edges from the target.

    Attributes:
      features: as of `Kind`.
      follows: as of `Kind`.
      degree: edges a target node.
    """

    features: str = "none"
    follows: float = 0.75
    degree: int = 2


class Kind(NamedTuple):
    """A kind of graph.

    Attributes:
      follows: share of the edges between nodes of the target whose other end is sought among the nodes of the same class; 0: edges say nothing.
      features: of the target, as `features_of` has them.
      others: types besides the target; without any, edges join nodes of the target.
      cites: whether edges join nodes of the target where there are other types too.
      turned: added to the class in which other ends are sought: 1 for edges between unlike nodes.
      shares: of the nodes that have each class.
      per_class: training nodes of each; 0: `training` nodes whatever their class.
      training, validation, nodes: numbers of nodes.
      wrong: share of the nodes whose label is any.
      several: whether a node may have two labels.
      mode: of the steps; empty: as is chosen.
    """

    follows: float = 0.75
    features: str = "none"
    others: tuple[Other, ...] = ()
    cites: bool = False
    turned: int = 0
    shares: tuple[float, ...] = SHARES
    per_class: int = 60
    training: int = 180
    validation: int = 500
    nodes: int = 3000
    wrong: float = 0.0
    several: bool = False
    mode: str = ""


SALES = (Other(), Other())
PRICES = (Other("noise"), Other("noise"))
PAPERS = (Other("counts", 0.8, 3), Other("none", 0.6, 1), Other("none", 0.2, 20))  # authors, subjects, terms
EVEN = (0.05,) * 20
KINDS = {
    "citations": Kind(),
    "citations, numbers that say nothing": Kind(features="noise"),
    "citations that say nothing, words": Kind(0.0, "words"),
    "citations, words": Kind(features="words"),
    "sales": Kind(others=SALES),
    "sales, products with prices": Kind(others=PRICES),
    "sales, customers with ages too": Kind(features="noise", others=PRICES),
    "sales that say nothing, customers with words": Kind(features="words", others=(Other(follows=0.0),) * 2),
    "citations in mini-batches": Kind(mode="minibatch"),
    "sales in mini-batches": Kind(others=PRICES, mode="minibatch"),
    "unlike nodes cite, few words": Kind(features="few words", turned=1),
    "unlike nodes cite": Kind(turned=1),
    "papers, counted words": Kind(0.7, "counts", PAPERS, cites=True),
    "one class of 20, few words": Kind(features="few words", shares=(0.95, 0.05), per_class=0, training=400),
    "20 classes, few words": Kind(features="few words", shares=EVEN, per_class=10),
    "20 classes, sales": Kind(features="few words", others=SALES, shares=EVEN, per_class=10),
    "two labels a node, words": Kind(features="words", others=SALES, several=True, training=400, per_class=0),
    "100 nodes with numbers": Kind(features="numbers", nodes=100, per_class=10, validation=20),
    "table of 400 rows": Kind(0.0, "numbers", (Other(follows=0.2),), nodes=400, per_class=40, validation=80),
    "a third of the labels are wrong": Kind(features="few words", others=SALES, wrong=0.33),
    "5 labels a class, few words": Kind(features="few words", per_class=5),
    "one type of three says nothing": Kind(features="few words", others=(Other("words"), Other("noise", 0.0, 10))),
    "only neighbours' words tell": Kind(features="noise", others=(Other("words", 0.75, 5), Other("noise", 0.0, 5))),
    "rings, edges that say nothing": Kind(0.0, "rings"),
}


def partners(rng: np.random.Generator, kind: tuple, one: np.ndarray, two: np.ndarray) -> np.ndarray:
    """Return edges `[2, len(one) * degree]` from nodes of classes `one` to some of classes `two`; `kind` is `(follows,
    turned, classes, degree)`."""
    follows, turned, count, degree = kind
    sources = np.repeat(np.arange(len(one)), degree)
    targets = rng.integers(0, len(two), len(sources))
    for number in range(count):
        alike = np.flatnonzero(two == (number + turned) % count)
        here = (one[sources] == number) & (rng.uniform(size=len(sources)) < follows)
        targets[here] = rng.choice(alike, here.sum()) if len(alike) else targets[here]
    return np.stack([sources, targets])


def features_of(rng: np.random.Generator, kind: str, classes: np.ndarray, count: int) -> np.ndarray | None:
    """Return features of some nodes, or None.

    Args:
      kind: `none`; `noise`, two columns of any size; `words`, columns of 0 and 1, of which each class has some that are more often its own; `few words`, which
        are so less often; `counts`, how often texts of any length have each word; `numbers`, columns of any size, of which half tell; `rings`, two
        columns, whose distance from the middle tells.
      classes: of the nodes.
      count: of classes.
    """
    if kind == "none":
        return None
    if kind == "noise":
        return rng.gamma(2.0, 100.0, (len(classes), 2)).astype(np.float32)
    if kind == "rings":
        angle = rng.uniform(0, 2 * np.pi, len(classes))
        far = 1 + classes + rng.normal(0, 0.25, len(classes))
        return np.stack([far * np.cos(angle), far * np.sin(angle)], axis=1).astype(np.float32)
    if kind == "numbers":
        tells = rng.normal(size=(count, 4))[classes] + rng.normal(0, 1.5, (len(classes), 4))
        both = np.concatenate([tells, rng.normal(size=(len(classes), 4))], axis=1)
        return (1000 * both + 5000).astype(np.float32)
    width = COUNTED if kind == "counts" else WORDS
    own = np.arange(width)[None] * count // width == classes[:, None]
    if kind == "counts":
        length = rng.lognormal(0.0, 0.7, (len(classes), 1))
        return rng.poisson(length * np.where(own, 0.08, 0.04)).astype(np.float32)
    often = 0.12 if kind == "words" else 0.06
    return (rng.uniform(size=own.shape) < np.where(own, often, 0.03)).astype(np.float32)


def made(kind: Kind, seed: int) -> HetGraph:
    """Return a graph of a kind."""
    rng, count = np.random.default_rng(seed), len(kind.shares)
    classes = rng.choice(count, kind.nodes, p=kind.shares)
    if kind.per_class:
        each = [rng.permutation(np.flatnonzero(classes == c))[: kind.per_class] for c in range(count)]
        train = np.concatenate(each)
    else:
        train = rng.permutation(kind.nodes)[: kind.training]
    rest = rng.permutation(np.setdiff1d(np.arange(kind.nodes), train))
    splits = {"train": np.sort(train), "validation": rest[: kind.validation], "test": rest[kind.validation :]}
    drawn, edges, counts = {"node": features_of(rng, kind.features, classes, count)}, {}, {"node": kind.nodes}
    for number, other in enumerate(kind.others):
        name = f"other_{number}"
        theirs = rng.choice(count, kind.nodes // 5, p=kind.shares)
        counts[name], drawn[name] = len(theirs), features_of(rng, other.features, theirs, count)
        how = other.follows, kind.turned, count, other.degree
        edges["node", f"has_{number}", name] = partners(rng, how, classes, theirs)
    if kind.cites or not kind.others:
        ends = partners(rng, (kind.follows, kind.turned, count, 2), classes, classes)
        edges["node", "cites", "node"] = ends if kind.others else np.concatenate([ends, ends[::-1]], axis=1)
    labels = np.where(rng.uniform(size=kind.nodes) < kind.wrong, rng.choice(count, kind.nodes, p=kind.shares), classes)
    if kind.several:
        second = rng.choice(count, kind.nodes, p=kind.shares)
        drawn["node"] = np.maximum(drawn["node"], features_of(rng, kind.features, second, count))
        labels = (np.arange(count)[None] == labels[:, None]) | (np.arange(count)[None] == second[:, None])
        labels = labels.astype(np.int8)
    features = {name: matrix for name, matrix in drawn.items() if matrix is not None}
    return hetjax.from_arrays(edges, features, {"node": labels}, splits, counts, reverse=bool(kind.others))
