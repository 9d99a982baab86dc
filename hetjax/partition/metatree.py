"""The metatree: all that a target's embedding is computed from, link by link (Heta, PVLDB 18(9) 2025, section 5).

The root is the target type. A vertex has a child per relation into its type, the relation's source type, and one for
its self term, the type itself; the tree ends after as many hops as the model has layers. A link of hop `h` is aggregated by
layer `layers - h`, so the last layer aggregates the links into the root. The sub-metatrees are what hangs from each of these
links.

Vertices of one hop and one type have the same children, so a set of sub-metatrees is, without repetition, a set of
relations per layer. That is what a partition runs, and what `local_model` returns; `tree` spells the tree out, for a
picture.

Deviations from the paper's released code: that has a sub-metatree per neighbouring type and drops parallel relations;
here there is one per relation, and one for the self term, so every link into the root has an owner.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple

from hetjax.graph.schema import Relation, Schema
from hetjax.partition.checks import require_whole
from hetjax.system.errors import InputError

if TYPE_CHECKING:
    import networkx

MOST_HOPS = 64
MOST_VERTICES = 100_000  # of a tree that is spelt out


class Root(NamedTuple):
    """A link into the metatree's root, which names a sub-metatree: a relation, or a target's self term (None)."""

    target: str
    relation: Relation | None

    @property
    def source(self) -> str:
        return self.target if self.relation is None else self.relation.source

    def __str__(self) -> str:
        return f"{self.target} itself" if self.relation is None else str(self.relation)


class Aggregation(NamedTuple):
    """The aggregations into some nodes: relations, and node types into themselves; both in the schema's order."""

    relations: tuple[Relation, ...] = ()
    selves: tuple[str, ...] = ()


class LayerAggregations(NamedTuple):
    """One layer of a partition's program.

    Attributes:
      seeds: aggregated into the seed nodes; every link of the model is so in exactly one partition.
      inner: aggregated into all other nodes, whose embeddings a partition computes whole, on its own.
    """

    seeds: Aggregation = Aggregation()
    inner: Aggregation = Aggregation()

    @property
    def relations(self) -> frozenset[Relation]:
        return frozenset(self.seeds.relations + self.inner.relations)

    @property
    def selves(self) -> frozenset[str]:
        return frozenset(self.seeds.selves + self.inner.selves)


class LocalModel(NamedTuple):
    """The computation of one partition.

    Attributes:
      layers: the first layer's first.
      types: per depth the node types whose inner nodes' embeddings are computed: entry `k` after layer `k - 1`, entry 0
        the input; the last is empty, for after the last layer there are only seeds.
      reads: the node types whose features are read, in the schema's order.
    """

    layers: tuple[LayerAggregations, ...]
    types: tuple[frozenset[str], ...]
    reads: tuple[str, ...]

    @property
    def relations(self) -> frozenset[Relation]:
        """All relations, at whatever layer."""
        return frozenset().union(*(layer.relations for layer in self.layers))


@dataclass(frozen=True)
class Metatree:
    """A metatree, given by what it is grown from.

    Attributes:
      schema: of the graph.
      targets: the node types that seeds have; of several, the root is a super root that joins them.
      hops: number of links from the root to a leaf, which is the number of layers.
      metapaths: each a chain of relations, the one into the target first; layer `layers - h` then aggregates the relations
        that stand at place `h` of any, and no other. None: all relations.
      self_term: whether the model aggregates nodes into themselves (R-GCN and R-GAT do, HGT does not).
      exchange: `last`: seeds' partial aggregates are combined after the last layer alone, so what the self term needs is computed
        by its owner, as for any relation. `every`: after every layer, as aggregations that look at the target need (R-GAT,
        HGT, skips); then seeds' embeddings are known to all, and nothing hangs from the self term.
    """

    schema: Schema
    targets: tuple[str, ...]
    hops: int = 2
    metapaths: tuple[tuple[Relation, ...], ...] | None = None
    self_term: bool = True
    exchange: Literal["last", "every"] = "last"

    def __post_init__(self):
        require_whole("hops", self.hops, MOST_HOPS)
        for number, target in enumerate(self.targets):
            if target not in self.schema.nodes or target in self.targets[:number]:
                raise InputError(
                    f"target {target!r} is given twice, or not among the types {sorted(self.schema.nodes)}"
                )
        for number, path in enumerate(self.metapaths or ()):
            _check_metapath(path, f"metapath {number}", self)
        if not self.roots:
            raise InputError(f"no relation leads into {', '.join(self.targets)}, so there is nothing to divide")
        if self.exchange == "every":
            self._check_seed_relations()

    @property
    def reads_own(self) -> bool:
        """Tell whether layers read their targets' own embeddings of the layer below."""
        return self.self_term or self.exchange == "every"

    @cached_property
    def allowed(self) -> tuple[tuple[Relation, ...], ...]:
        """The relations that the model may aggregate over, per layer."""
        if self.metapaths is None:
            return (self.schema.relations,) * self.hops
        at = [{path[hop] for path in self.metapaths if hop < len(path)} for hop in reversed(range(self.hops))]
        return tuple(tuple(r for r in self.schema.relations if r in relations) for relations in at)

    @cached_property
    def roots(self) -> tuple[Root, ...]:
        """The sub-metatrees: one per relation into a target, in the schema's order, then one per target's self term."""
        into = [Root(r.target, r) for r in self.allowed[-1] if r.target in self.targets]
        return tuple(into + [Root(target, None) for target in self.targets if self.self_term])

    def local_model(self, roots: Iterable[Root]) -> LocalModel:
        """Return what the owner of some sub-metatrees computes: their union, hop by hop, each relation once."""
        roots = set(roots)
        seed_links = Aggregation(
            tuple(r for r in self.schema.relations if Root(r.target, r) in roots),
            tuple(name for name in self.schema.nodes if Root(name, None) in roots),
        )
        alone = self.exchange == "every"  # what a self term reads is then known already
        types = [frozenset(), frozenset(root.source for root in roots if not (alone and root.relation is None))]
        layers = [LayerAggregations(seeds=seed_links)]
        for allowed in reversed(self.allowed[:-1]):
            inner = tuple(r for r in allowed if r.target in types[-1])
            selves = tuple(name for name in self.schema.nodes if name in types[-1] and self.self_term)
            seeds = (
                Aggregation(tuple(r for r in seed_links.relations if r in allowed), seed_links.selves)
                if alone
                else Aggregation()
            )
            layers.append(LayerAggregations(seeds, Aggregation(inner, selves)))
            sources = frozenset(r.source for r in inner)
            types.append(types[-1] | sources if self.reads_own else sources)
        needed = types[-1] | (frozenset(self.targets) if alone else frozenset())
        reads = tuple(name for name in self.schema.nodes if name in needed)
        return LocalModel(tuple(layers[::-1]), tuple(types[::-1]), reads)

    def tree(self, depth: int | None = None, most: int = MOST_VERTICES) -> "networkx.DiGraph":
        """Return the metatree to a depth (None: all of it), every vertex and link spelt out, edges from child to parent.

        Vertices are numbers, 0 the root, in breadth-first order, with attributes `type` (a super root: None), `hop`,
        `root` (the sub-metatree it lies in) and `relation` (of the link to its parent; None for a self term).

        Raises:
          InputError: more than `most` vertices.
        """
        import networkx  # takes a while

        tree: networkx.DiGraph[int] = networkx.DiGraph()
        tree.add_node(0, type=self.targets[0] if len(self.targets) == 1 else None, hop=0, root=None, relation=None)
        for root in self.roots:
            self._grow(tree, 0, root.source, 1, root, root.relation)
        layer = [vertex for vertex in tree if vertex]
        for hop in range(2, (depth or self.hops) + 1):
            parents, layer = layer, []
            for parent in parents:
                attributes = tree.nodes[parent]
                if self.exchange == "every" and attributes["root"].relation is None:
                    continue
                itself = (None,) if self.reads_own else ()
                for relation in (*(r for r in self.allowed[-hop] if r.target == attributes["type"]), *itself):
                    child = attributes["type"] if relation is None else relation.source
                    layer.append(self._grow(tree, parent, child, hop, attributes["root"], relation))
                if len(tree) > most:
                    raise InputError(f"the metatree has more than {most} vertices")
        return tree

    def _grow(self, tree, parent: int, node_type: str, hop: int, root: Root, relation: Relation | None) -> int:
        vertex = len(tree)
        tree.add_node(vertex, type=node_type, hop=hop, root=root, relation=relation)
        tree.add_edge(vertex, parent)
        return vertex

    def _check_seed_relations(self) -> None:
        for layer, relations in enumerate(self.allowed):
            for relation in relations:
                if relation.target in self.targets and Root(relation.target, relation) not in self.roots:
                    raise InputError(
                        f"relation {relation} stands in a metapath at hop {self.hops - layer} but at hop 1 of none, so with exchange every no partition aggregates it into the seeds"
                    )


def _check_metapath(path: Sequence[Relation], place: str, tree: Metatree) -> None:
    if not 1 <= len(path) <= tree.hops:
        raise InputError(f"{place} has {len(path)} relations, outside 1..{tree.hops}, the number of hops")
    for hop, relation in enumerate(path, 1):
        if relation not in tree.schema.relations:
            relations = ", ".join(map(str, tree.schema.relations))
            raise InputError(f"{place}: relation {hop} is {relation}, which is not one of the graph's: {relations}")
        before = tree.targets if hop == 1 else (path[hop - 2].source,)
        if relation.target not in before:
            raise InputError(f"{place}: relation {hop} is {relation}, and should lead into {' or '.join(before)}")
