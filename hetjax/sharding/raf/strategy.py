"""The strategy Relation-Aggregation-First: the relations that each partition aggregates, and how they are opened."""

from dataclasses import replace
from functools import partial
from pathlib import Path

from hetjax import models
from hetjax.cache.placement import choose_placement
from hetjax.datasets.load import Ahead, load, load_abstract, load_some
from hetjax.graph.hetgraph import HetGraph
from hetjax.graph.hidden import hides
from hetjax.graph.schema import Relation
from hetjax.graph.sizes import abstract_graph, check_digest, in_shape_alone, sizes
from hetjax.options import owners
from hetjax.options.config import Config, Data
from hetjax.partition import MetaPartitioning, partition, read
from hetjax.partition.cuts import cut_graph, uncut
from hetjax.partition.report import topology_bytes
from hetjax.sharding import mesh as meshes
from hetjax.sharding.mesh import share_of
from hetjax.sharding.raf import declared
from hetjax.sharding.raf.batches import RafBatches
from hetjax.sharding.raf.engine import RafEngine
from hetjax.sharding.raf.features import MeshFeatureStore
from hetjax.sharding.raf.site import Site, partition_models
from hetjax.sharding.raf.sliced import SlicedRafEngine
from hetjax.sharding.raf.sliced_batches import SlicedRafBatches
from hetjax.sharding.slices import check_slices
from hetjax.sharding.strategy import Setup, Strategy, read_in_place
from hetjax.system.errors import InputError
from hetjax.system.logs import log

PLANNED = ("targets", "hops", "metapaths", "self_term", "exchange")  # what a plan must have as the run needs it


class Raf(declared.Raf, Strategy):
    """Training on partitions of the relations, each with replicas that share the seeds of a step."""

    def open(self, config: Config, ahead: Ahead | None = None) -> HetGraph:
        graph = load_abstract(config.data, ahead, config.task.target)  # a process opens no more than its own partitions
        hiding = hides(graph, config.task.hide_targets, owners.targets(config.task))
        return load(config.data, ahead, config.task.target) if hiding else graph

    def partition(self, setup: Setup, saved: Path | None = None) -> MetaPartitioning:
        config, graph, layers = setup.config, setup.graph, setup.trainer.model.layers
        self_term, reads_target = (
            any(layer.selves for layer in layers),
            any(layer.traits.reads_target for layer in layers),
        )
        if config.mesh.feature > 1:
            check_slices(setup)
            each = share_of(config.mesh.axes, setup.processes.count)
            replicas = config.mesh.data * config.mesh.feature
            if each % replicas:
                raise InputError(
                    f"mesh.data x mesh.feature are {replicas} devices of a partition, and must lie in one process, which provides {each}"
                )
        cuts = chosen_cuts(self.options(config), setup)
        types = setup.task.roots
        roots = sum(relation.target in types for relation in graph.schema.relations) + self_term * len(types)
        roots += sum(count - 1 for count in cuts.values())
        for name, count, most, what in (
            ("relation", config.mesh.relation, roots, "relations into the root types, their self terms included"),
            ("data", config.mesh.data, setup.regime.batch_size, "examples of a step (sampling.batch_size)"),
        ):
            if count > most == 1 and name == "relation":
                raise InputError(
                    f"mesh.relation is {count}, and one relation is not divided: cut it (raf.cut), or use mesh.strategy vanilla with mesh.data {count}"
                )
            if count > most:
                raise InputError(f"mesh.{name} is {count}, and there are {most} {what}, to divide")
        planned = partition(
            graph,
            config.mesh.devices,
            targets=types,
            hops=config.model.layers,
            self_term=self_term,
            exchange="every" if reads_target else "last",
            data=config.mesh.data * config.mesh.feature,
            workload=setup.workload,
            cuts=cuts,
        )
        folder = self.options(config).plan
        plan = given_plan(folder, planned) if folder else planned
        if setup.processes.first:
            for relation, counts in plan.opened.items():
                whole = [f"partition {part}" for part, count in enumerate(counts) if count == cuts[relation]]
                if whole:
                    log.warning(
                        f"relation {relation} is cut into {cuts[relation]} pieces, all of which are opened by {' and '.join(whole)}: deeper hops need it whole, so the cut saves no memory there"
                    )
        return plan

    def engine(self, setup: Setup, partitioning: MetaPartitioning) -> RafEngine:
        config, graph, trainer, plan = setup.config, setup.graph, setup.trainer, partitioning
        slices = config.mesh.feature
        mesh = meshes.make(config.mesh.relation, config.mesh.data, slices)
        opens = partial(load_part, model=config.model.name, target=config.task.target)
        graphs = {part: opens(config.data, graph, plan, part) for part in meshes.rows_here(mesh)}
        site = Site(plan, mesh, graphs, setup.processes, slices)
        together = [share.local_model.reads for share in partition_models(plan)]
        mine = set().union(*(together[part] for part in site.parts))
        placement = choose_placement(
            config.cache, graph, trainer.widths, trainer.learnable, graphs.values(), together, mine
        )
        features = MeshFeatureStore(site, trainer.learnable, placement, setup.tables)
        setup = setup._replace(
            graph=abstract_graph(sizes(graph), graph.labels, graph.splits)
        )  # the site has what is needed
        made: type[RafEngine] = SlicedRafEngine if slices > 1 else RafEngine
        return made(setup, site, make_batches(setup, site, features), features)


def load_part(
    data: Data, graph: HetGraph, plan: MetaPartitioning, number: int, model: str | None = None, target: str = ""
) -> HetGraph:
    """Load one partition of a graph.

    Args:
      graph: the graph of a `Setup`; that of a store is there in shape alone.
      model: the name of the model; edges that are opened here are changed as it aggregates them; None: they are left as they are.
      target: as of `hetjax.datasets.load.load`.

    Raises:
      InputError: as `hetjax.datasets.load.load`.
    """
    part = plan.parts[number]
    of_pairs = any(column.relation is not None for column in (graph.own_column, *graph.columns.values()))
    hidden = of_pairs and not any(map(in_shape_alone, graph.relations.values()))
    if data.format != "store" or hidden:  # of labelled pairs, whose edges were left out before
        return plan.take(graph, part)
    opened = plan.local_sizes(part)
    part_graph = load_some(data, uncut(opened.edges, plan.cuts), opened.features, target)
    changed = models.changed(model, part_graph) if model else part_graph
    return cut_graph(changed, plan.cuts, tuple(opened.edges))


def make_batches(setup: Setup, site: Site, features: MeshFeatureStore) -> RafBatches:
    """Return the batches of a mesh; on the whole graph every row is on the devices, and is read in its place."""
    seed = setup.config.train.seed
    if setup.regime.whole:
        return RafBatches(site, frozenset(), frozenset(), setup.task, setup.regime, seed, features)
    if site.slices > 1:
        return SlicedRafBatches(setup, site, features)
    read_by_id, learnable = read_in_place(setup, features), frozenset(setup.trainer.learnable)
    return RafBatches(site, read_by_id, learnable, setup.task, setup.regime, seed, features, setup.trainer.model.drops)


def chosen_cuts(options: declared.Options, setup: Setup) -> dict[Relation, int]:
    """Return the relations that are to be cut, by hand or because a host has no room for one, and into how many pieces.

    Raises:
      InputError: no such relation, a number of pieces that there are no partitions for, or a model whose relations cannot be cut.
    """
    schema, model, parts = setup.graph.schema, setup.trainer.model, setup.config.mesh.relation
    about = sizes(setup.graph)
    roots = [r for t in setup.task.roots for r in schema.into(t)]
    into = {r: topology_bytes(about, r, 0, about.edges[r]) for r in roots}
    cuts = {}
    if options.host_bytes > 0:
        cuts = {r: -(-size // options.host_bytes) for r, size in into.items() if size > options.host_bytes}
    by_hand: dict[Relation, int] = {}
    for given in options.cut:
        name, _, number = given.rpartition("=")
        found = [r for r in into if name in (str(r), r.name)]
        if len(found) != 1 or not number.isdecimal():
            known = ", ".join(map(str, into))
            raise InputError(
                f"raf.cut is {list(options.cut)}, and must be NAME=PIECES of relations into the root types: {known}"
            )
        if found[0] in by_hand:
            raise InputError(f"raf.cut is {list(options.cut)}, and names {found[0]} twice")
        by_hand[found[0]] = int(number)
    cuts |= by_hand
    for relation, count in cuts.items():
        if not 2 <= count <= parts:
            raise InputError(
                f"relation {relation} is to be cut into {count} pieces, and must be into 2..{parts}, the partitions of mesh.relation"
            )
    name, slices = setup.config.model.name, setup.config.mesh.feature
    if cuts and slices > 1:
        raise InputError(
            f"mesh.feature is {slices}, and {', '.join(map(str, cuts))} is to be cut: leave out one or the other"
        )
    if cuts and (any(not layer.traits.edge_monoid for layer in model.layers) or model.layers[0].traits.changed_edges):
        raise InputError(
            f"raf.cut: the relations of model {name} cannot be cut: its folds do not say how groups of edges combine"
        )
    return cuts


def given_plan(folder: str, planned: MetaPartitioning) -> MetaPartitioning:
    """Return the plan in a folder, in place of the one that was made.

    Raises:
      InputError: it is for another graph, mesh or model.
    """
    plan = read(folder)
    if not isinstance(plan, MetaPartitioning):
        raise InputError(f"raf.plan {folder}: made by method {plan.method}, and a division of the relations is needed")
    if plan.cuts != planned.cuts:
        there, here = ({str(r): n for r, n in cuts.items()} for cuts in (plan.cuts, planned.cuts))
        raise InputError(f"raf.plan {folder}: cuts {there} there != {here} of this run (raf.cut)")
    check_digest(planned.sizes, plan.sizes, f"raf.plan {folder}")
    for name, value, wanted in [
        ("mesh", plan.mesh, planned.mesh),
        *((name, getattr(plan.tree, name), getattr(planned.tree, name)) for name in PLANNED),
    ]:
        if value != wanted:
            raise InputError(f"raf.plan {folder}: {name} is {value} there != {wanted} of this run")
    return replace(plan, copied=False)  # the run's folder gets no stores
