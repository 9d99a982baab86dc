"""What a configuration asks for: the trainer, the plan of a mesh, what trains, and its batches."""

import os
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import optax

from hetjax import models, runtime
from hetjax.cache.allocate import Kind, places
from hetjax.cache.features import Features, Hosting
from hetjax.cache.hotness import hotness
from hetjax.cache.mapped import mapping, on_host
from hetjax.cache.penalty import kept
from hetjax.cache.tables import RowAdam, Shape
from hetjax.config import Config, Model, Train
from hetjax.errors import InputError
from hetjax.evaluate import Evaluator
from hetjax.graph.hetgraph import HetGraph
from hetjax.graph.sizes import check_digest, sizes
from hetjax.load import load_part
from hetjax.models import hgnn
from hetjax.models.layer import Layer
from hetjax.partition import EdgeCut, Plan, Workload, edge_cut, partition, read
from hetjax.processes.peers import Alone
from hetjax.sampling.loader import Batches, MiniBatches, WholeGraph, steps_per_epoch
from hetjax.sampling.sampler import ALL, Sampler
from hetjax.sharding import mesh as meshes
from hetjax.sharding.evaluate import MeshEvaluator
from hetjax.sharding.feed import MeshBatches, MeshWholeGraph
from hetjax.sharding.hosted import MeshFeatures
from hetjax.sharding.raf import Raf
from hetjax.sharding.single import OneDevice, Trainer
from hetjax.sharding.site import Site, shares
from hetjax.sharding.vanilla import Vanilla
from hetjax.sharding.vanilla_feed import VanillaBatches, VanillaWholeGraph

Engine = OneDevice | Raf | Vanilla
PLANNED = ("targets", "hops", "metapaths", "self_term", "exchange")  # what a plan must have as the run needs it


def make_trainer(graph: HetGraph, config: Config) -> Trainer:
    """Model and optimizers for a graph."""
    model, options, schema = config.model, config.train, graph.schema
    features = {name: matrix.shape[1] for name, matrix in graph.features.items()}
    network = hgnn.build(models.find(model.name), schema, features, **model_options(model))
    learned = {name: width for name, width in network.widths.items() if name not in features}
    scales = network.learnable_scales({name: schema.nodes[name] for name in learned})
    learnable = {name: Shape(schema.nodes[name], width, scales[name]) for name, width in learned.items()}
    rate, feature_rate = options.learning_rate, options.feature_learning_rate
    steps = make_steps(graph, config)
    adam = RowAdam(
        schedule(rate if feature_rate is None else feature_rate, options, steps), weight_decay=options.weight_decay
    )
    optimizer = optax.flatten(optax.adamw(schedule(rate, options, steps), weight_decay=options.weight_decay))
    return Trainer(
        network,
        optimizer,
        adam,
        network.widths,
        learnable,
        options.l2,
        options.label_smoothing,
        options.gradient_clip,
    )


def make_steps(graph: HetGraph, config: Config) -> int:
    """Steps of an epoch."""
    sampling = config.sampling
    if sampling.mode == "full":
        return 1
    return steps_per_epoch(len(graph.splits["train"]), sampling.batch_size, config.train.steps_per_epoch)


def schedule(rate: float, options: Train, steps: int) -> optax.ScalarOrSchedule:
    """The learning rate by training step, for epochs of `steps` steps."""
    if options.schedule == "cosine":
        return optax.cosine_decay_schedule(rate, options.epochs * steps)
    if options.schedule == "step":
        return optax.exponential_decay(rate, options.schedule_epochs * steps, options.schedule_factor, staircase=True)
    return rate


def relations_of(model: type[Layer] | hgnn.HGNN, graph: HetGraph) -> HetGraph:
    """The graph with the relations that a model folds."""
    chosen = model.relations if isinstance(model, hgnn.HGNN) else None
    return graph if chosen is None else graph.only(chosen)


def model_options(model: Model) -> dict[str, Any]:
    """The configuration's keys that the model has.

    Raises:
      InputError: a key is set that it does not have.
    """
    chosen = models.find(model.name)
    known = {"hidden", "layers", "feature_width", "feature_init", "head", "input_dropout", "input_projection"}
    known |= hgnn.takes(chosen) | ({"self_term"} if chosen.self_term else set())
    for key in fields(Model):
        value = getattr(model, key.name)
        if key.name not in known | {"name"} and value != key.default:
            raise InputError(f"model.{key.name} is {value}, and model {model.name} has no such option")
    return {key.name: getattr(model, key.name) for key in fields(Model) if key.name in known}


def make_plan(
    graph: HetGraph, config: Config, peers: Alone | None = None, kept: os.PathLike | None = None
) -> Plan | EdgeCut:
    """Which partition folds which relations, for a mesh; or, of vanilla execution, which owns which nodes.

    Args:
      peers: the processes, to which process 0 hands out an edge-cut.
      kept: where an edge-cut of this run may have been saved before.

    Raises:
      InputError: the mesh has more partitions, or more replicas, than can be used.
    """
    sampling, model, mesh = config.sampling, config.model, config.mesh
    if mesh.strategy == "vanilla":
        return make_cut(graph, config, peers or Alone(), kept)
    layers = make_trainer(graph, config).model.layers
    self_term, looks = any(layer.selves for layer in layers), any(layer.looks_at_target for layer in layers)
    seeds = len(graph.splits["train"])
    size, fanout = (seeds, (ALL,)) if sampling.mode == "full" else (min(sampling.batch_size, seeds), sampling.fanout)
    roots = sum(relation.target == graph.schema.target for relation in graph.schema.relations) + self_term
    for name, count, most, what in (
        ("relation", mesh.relation, roots, "relations into the target type, its self term included"),
        ("data", mesh.data, size, "seeds of a step (sampling.batch_size)"),
    ):
        if count > most:
            raise InputError(f"mesh.{name} is {count}, and there are {most} {what}, to divide")
    made = partition(
        graph,
        mesh.devices,
        hops=model.layers,
        self_term=self_term,
        exchange="every" if looks else "last",
        data=mesh.data,
        workload=Workload(size, tuple(fanout), model.hidden, model.feature_width),
    )
    return given_plan(mesh.plan, made) if mesh.plan else made


def make_cut(graph: HetGraph, config: Config, peers: Alone, kept: os.PathLike | None) -> EdgeCut:
    """Which partition owns which nodes: one choice for all processes, and for a run that is continued."""
    meshes.make(config.mesh.relation, config.mesh.data)  # says what is missing before METIS takes its minutes
    sampling, model, seeds = config.sampling, config.model, len(graph.splits["train"])
    size, fanout = (seeds, (ALL,)) if sampling.mode == "full" else (min(sampling.batch_size, seeds), sampling.fanout)
    workload = Workload(size, tuple(fanout), model.hidden, model.feature_width)
    about = {"hops": model.layers, "workload": workload, "own": make_trainer(graph, config).model.own}
    parts, method, cut = config.mesh.data, config.mesh.partitioning, None
    if peers.first and kept and os.path.exists(kept):
        cut = read(kept)
        check_digest(sizes(graph), cut.sizes, str(kept))
    elif peers.first:
        cut = edge_cut(graph, parts, method, **about)
    nodes = peers.hand_out("edge-cut", dict(cut.nodes) if cut else {})
    return EdgeCut(sizes(graph), nodes, parts, method, **about)


def given_plan(folder: str, made: Plan) -> Plan:
    """The plan in a folder, in place of the one that was made.

    Raises:
      InputError: it is for another graph, mesh or model.
    """
    plan = read(folder)
    if isinstance(plan, EdgeCut):
        raise InputError(f"mesh.plan {folder}: an edge-cut, and --mesh needs a division of the relations")
    check_digest(made.sizes, plan.sizes, f"mesh.plan {folder}")
    for name, value, wanted in [
        ("mesh", plan.mesh, made.mesh),
        *((name, getattr(plan.tree, name), getattr(made.tree, name)) for name in PLANNED),
    ]:
        if value != wanted:
            raise InputError(f"mesh.plan {folder}: {name} is {value} there != {wanted} of this run")
    return replace(plan, copied=False)  # the run's folder gets no stores


def make_site(graph: HetGraph, config: Config, plan: Plan | EdgeCut, peers: Alone | None = None) -> Site:
    """This process's place on the mesh that a plan is for.

    Args:
      graph: or its outline, of which partitions of the relations are then opened; an edge-cut needs all of it.
    """
    mesh = meshes.make(config.mesh.relation, config.mesh.data)
    if isinstance(plan, EdgeCut):
        return Site(plan, meshes.row(mesh, 0), {0: graph}, peers or Alone())
    graphs = {part: load_part(config.data, graph, plan, part) for part in meshes.rows_here(mesh)}
    return Site(plan, mesh, graphs, peers or Alone())


def make_engine(
    trainer: Trainer, graph: HetGraph, config: Config, site: Site | None = None, features: Hosting | None = None
) -> Engine:
    """What trains: one device, or the mesh of a site; features live on the devices if not as given."""
    whole = config.sampling.mode == "full"
    if site is None:
        features = features or Features(graph, trainer.widths, trainer.learnable)
        return OneDevice(trainer, features, config.train.seed, config.cache.prefetch)
    if isinstance(site.plan, EdgeCut):
        return Vanilla(trainer, site.graphs[0], site.plan, site.mesh, config.train.seed, whole)
    return Raf(trainer, site, config.train.seed, whole, features, config.cache.prefetch)


def make_features(
    graph: HetGraph, config: Config, trainer: Trainer, folder: Path | None, site: Site | None = None
) -> Hosting | None:
    """Where the features of every input type live, for one device or a mesh; None of vanilla execution, where on the devices.

    Args:
      graph: or its outline, where a site has what is read of it.
      folder: for tables on disk.

    Raises:
      InputError: a bound that the device exceeds, or a place for a type that has no features.
    """
    if site is not None and isinstance(site.plan, EdgeCut):
        return None
    cache, learnable = config.cache, trainer.learnable
    device = jax.local_devices()[0]
    most = device_bytes(device)
    if cache.bytes_per_device > most:
        raise InputError(
            f"cache.bytes_per_device is {cache.bytes_per_device:,}, and the device has {most:,} bytes ({device.device_kind})"
        )
    size = {
        t: learnable[t].nodes * learnable[t].row_bytes if t in learnable else graph.features[t].nbytes
        for t in trainer.widths
    }
    together = [share.program.reads for share in shares(site.plan)] if site else [size]
    chosen = places(size, learnable, cache.given, cache.bytes_per_device, cache.host_bytes, together)
    for name, place in cache.given.items():
        found = [one.features[name] for one in (site.graphs.values() if site else [graph]) if name in one.features]
        if place == "disk" and name not in learnable and any(mapping(matrix) is None for matrix in found):
            raise InputError(
                f"cache.places: the features of {name!r} are on disk only in a store; `python -m hetjax.convert` makes one"
            )
    mine = set().union(*(together[part] for part in site.parts)) if site else size.keys()
    on_host, memory = sum(size[t] for t in learnable.keys() & mine if chosen[t] == "host"), host_memory()
    if on_host > memory:
        raise InputError(
            f"learnable features on the host take {on_host:,} bytes, and it has {memory:,}; cache.host_bytes moves some to disk"
        )
    if site is not None:
        return MeshFeatures(site, learnable, chosen, folder)
    return Features(graph, trainer.widths, learnable, chosen, folder, device)


def fill_cache(features: Hosting, batches: Batches, config: Config, file: Path, quiet: bool = False) -> None:
    """Keep the hottest rows of features that live on the host on the devices, if there is a budget for that.

    The budget of a device is what types that live on it, and were not told to, leave of the bound.

    Args:
      file: where measured penalties are kept.
      quiet: show no progress.
    """
    cache, sampling, hosted = config.cache, config.sampling, features.hosted
    if cache.bytes_per_device < 1 or cache.policy == "none" or set(features.places.values()) == {"device"}:
        return
    counts = hotness(batches, {key: one.nodes for key, one in hosted.items()}, cache.presample_epochs, quiet)
    about = {"batch_size": sampling.batch_size, "fanout": list(sampling.fanout)}
    penalties = kept(file, about, {t: one for (t, n), one in hosted.items() if n == 0}, features.learnable)
    kinds = {key: Kind(counts[key], one.row_bytes, penalties[key[0]]) for key, one in hosted.items()}
    devices = {one.device for one in hosted.values()}
    budgets = {device: cache.bytes_per_device - features.resident(device, cache.given) for device in devices}
    features.fill(kinds, budgets, cache.policy)


def device_bytes(device: jax.Device) -> int:
    """The memory of a device; of a CPU the host's."""
    stats = device.memory_stats() or {}
    return stats.get("bytes_limit") or host_memory()


def host_memory() -> int:
    return runtime.memory()


def make_batches(
    graph: HetGraph,
    config: Config,
    trainer: Trainer,
    capacities: Mapping[str, int],
    site: Site | None = None,
    features: Hosting | None = None,
) -> Batches | WholeGraph:
    """The batches of every epoch, in the way that the configuration asks for; for one device, or the mesh of a site."""
    sampling, seed, limit = config.sampling, config.train.seed, config.train.steps_per_epoch
    about = sampling.fanout, sampling.batch_size, seed, limit, capacities
    learnable, own, named = frozenset(trainer.learnable), trainer.model.own, trainer.model.drops
    away = frozenset(name for name, place in features.places.items() if place != "device") if features else frozenset()
    flows = frozenset(graph.schema.nodes) if config.model.input_projection else learnable
    if site is not None and isinstance(site.plan, EdgeCut):
        place = site.graphs[0], site.plan, site.mesh, learnable
        if sampling.mode == "full":
            return VanillaWholeGraph(*place, config.model.layers, own, named)
        return VanillaBatches(*place, flows, *about, own, named)
    if sampling.mode == "full":
        return WholeGraph(graph, config.model.layers, own) if site is None else MeshWholeGraph(site)
    in_place = frozenset(name for name, matrix in graph.features.items() if matrix.dtype == np.float32) - away
    if config.model.input_projection or config.model.input_dropout:
        in_place = frozenset()  # what is changed before it is read is gathered first
    if site is None:
        send = features.send if features else jax.device_put
        return MiniBatches(Sampler(graph, in_place, flows, own, named), *about, send)
    return MeshBatches(site, in_place, learnable, *about, features, named)


def make_evaluator(
    engine: Engine, graph: HetGraph, config: Config, site: Site | None = None
) -> Callable[[Any, np.ndarray], np.ndarray | None]:
    """What gives the logits of target nodes from the engine's state; None but in process 0.

    Partitions of the relations evaluate together; else one device does, which needs the graph and the state whole.
    """
    trainer, edges = engine.trainer, config.sampling.evaluation_edges
    if isinstance(engine, Raf):
        return MeshEvaluator(trainer.model, site, edges).logits
    evaluator = Evaluator(trainer.model, graph, edges)
    static = engine.static if isinstance(engine, OneDevice) else {}  # of those that live on its device

    def logits(state: Any, ids: np.ndarray) -> np.ndarray | None:
        whole = engine.whole(state)
        if site is not None and not site.peers.first:
            return None
        learned = {name: on_host(table.rows) for name, table in whole.tables.items()}
        features = {name: static.get(name, graph.features[name]) for name in trainer.widths if name not in learned}
        return evaluator.logits(whole.params, features | learned, ids)

    return logits
