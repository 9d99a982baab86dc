"""The strategy Relation-Aggregation-First: which relations each partition folds, and what opens them."""

from dataclasses import replace
from pathlib import Path

from hetjax import models
from hetjax.cache.placement import choose_placement
from hetjax.config import Data
from hetjax.errors import InputError
from hetjax.graph.hetgraph import HetGraph
from hetjax.graph.sizes import abstract_graph, check_digest, sizes
from hetjax.load import load_abstract, load_some
from hetjax.partition import MetaPartitioning, partition, read
from hetjax.sharding import mesh as meshes
from hetjax.sharding.raf import declared
from hetjax.sharding.raf.batches import RafBatches
from hetjax.sharding.raf.engine import RafEngine
from hetjax.sharding.raf.features import MeshFeatureStore
from hetjax.sharding.raf.site import Site, partition_models
from hetjax.sharding.single.strategy import read_in_place
from hetjax.sharding.strategy import Setup, Strategy

PLANNED = ("targets", "hops", "metapaths", "self_term", "exchange")  # what a plan must have as the run needs it


class Raf(declared.Raf, Strategy):
    """Partitions of the relations, each with replicas that share the seeds of a step."""

    def open(self, data: Data) -> HetGraph:
        return load_abstract(data)  # a process opens no more than its own partitions

    def partition(self, setup: Setup, saved: Path | None = None) -> MetaPartitioning:
        config, graph, layers = setup.config, setup.graph, setup.trainer.model.layers
        self_term, reads_target = any(layer.selves for layer in layers), any(layer.reads_target for layer in layers)
        roots = sum(relation.target == graph.schema.target for relation in graph.schema.relations) + self_term
        for name, count, most, what in (
            ("relation", config.mesh.relation, roots, "relations into the target type, its self term included"),
            ("data", config.mesh.data, setup.regime.batch_size, "seeds of a step (sampling.batch_size)"),
        ):
            if count > most == 1 and name == "relation":
                raise InputError(
                    f"mesh.relation is {count}, and one relation cannot be divided: use mesh.strategy vanilla with mesh.data {count}"
                )
            if count > most:
                raise InputError(f"mesh.{name} is {count}, and there are {most} {what}, to divide")
        planned = partition(
            graph,
            config.mesh.devices,
            hops=config.model.layers,
            self_term=self_term,
            exchange="every" if reads_target else "last",
            data=config.mesh.data,
            workload=setup.workload,
        )
        folder = self.options(config).plan
        return given_plan(folder, planned) if folder else planned

    def engine(self, setup: Setup, partitioning: MetaPartitioning) -> RafEngine:
        config, graph, trainer, plan = setup.config, setup.graph, setup.trainer, partitioning
        mesh = meshes.make(config.mesh.relation, config.mesh.data)
        graphs = {part: load_part(config.data, graph, plan, part, config.model.name) for part in meshes.rows_here(mesh)}
        site = Site(plan, mesh, graphs, setup.processes)
        together = [share.local_model.reads for share in partition_models(plan)]
        mine = set().union(*(together[part] for part in site.parts))
        placement = choose_placement(
            config.cache, graph, trainer.widths, trainer.learnable, graphs.values(), together, mine
        )
        features = MeshFeatureStore(site, trainer.learnable, placement, setup.tables)
        setup = setup._replace(
            graph=abstract_graph(sizes(graph), graph.labels, graph.splits)
        )  # the site has what is needed
        return RafEngine(setup, site, make_batches(setup, site, features), features)


def load_part(data: Data, graph: HetGraph, plan: MetaPartitioning, number: int, model: str | None = None) -> HetGraph:
    """One partition of a graph.

    Args:
      graph: of a `Setup`: of a store in shape alone.
      model: by whose name edges that are opened here are changed as it folds them; None: they are left as they are.

    Raises:
      InputError: as `hetjax.load.load`.
    """
    part = plan.parts[number]
    if data.format != "store":
        return plan.take(graph, part)
    opened = plan.local_sizes(part)
    part_graph = load_some(data, opened.edges, opened.features)
    return models.changed(model, part_graph) if model else part_graph


def make_batches(setup: Setup, site: Site, features: MeshFeatureStore) -> RafBatches:
    """The batches of a mesh; on the whole graph every row is on the devices, and is read in its place."""
    seed = setup.config.train.seed
    if setup.regime.whole:
        return RafBatches(site, frozenset(), frozenset(), setup.regime, seed, features)
    read_by_id, learnable = read_in_place(setup, features), frozenset(setup.trainer.learnable)
    return RafBatches(site, read_by_id, learnable, setup.regime, seed, features, setup.trainer.model.drops)


def given_plan(folder: str, planned: MetaPartitioning) -> MetaPartitioning:
    """The plan in a folder, in place of the one that was made.

    Raises:
      InputError: it is for another graph, mesh or model.
    """
    plan = read(folder)
    if not isinstance(plan, MetaPartitioning):
        raise InputError(f"raf.plan {folder}: made by method {plan.method}, and a division of the relations is needed")
    check_digest(planned.sizes, plan.sizes, f"raf.plan {folder}")
    for name, value, wanted in [
        ("mesh", plan.mesh, planned.mesh),
        *((name, getattr(plan.tree, name), getattr(planned.tree, name)) for name in PLANNED),
    ]:
        if value != wanted:
            raise InputError(f"raf.plan {folder}: {name} is {value} there != {wanted} of this run")
    return replace(plan, copied=False)  # the run's folder gets no stores
