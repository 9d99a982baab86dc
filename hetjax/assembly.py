"""What a configuration asks for: the trainer, the plan of a mesh, what trains, and its batches."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np
import optax

from hetjax import models
from hetjax.cache.tables import RowAdam, Shape
from hetjax.config import Config, Model, Train
from hetjax.errors import InputError
from hetjax.graph.hetgraph import HetGraph
from hetjax.models import hgnn
from hetjax.models.layer import Layer
from hetjax.partition import EdgeCut, Plan, Workload, edge_cut, partition
from hetjax.sampling.loader import MiniBatches, WholeGraph, steps_per_epoch
from hetjax.sampling.sampler import ALL, Sampler
from hetjax.sharding import mesh as meshes
from hetjax.sharding.feed import MeshBatches, MeshWholeGraph
from hetjax.sharding.raf import Raf
from hetjax.sharding.single import OneDevice, Trainer
from hetjax.sharding.vanilla import Vanilla
from hetjax.sharding.vanilla_feed import VanillaBatches, VanillaWholeGraph


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
    always = {"hidden", "layers", "feature_width", "feature_init", "head", "input_dropout", "input_projection"}
    known = always | hgnn.takes(models.find(model.name))
    for key in fields(Model):
        value = getattr(model, key.name)
        if key.name not in known | {"name"} and value != key.default:
            raise InputError(f"model.{key.name} is {value}, and model {model.name} has no such option")
    return {key.name: getattr(model, key.name) for key in fields(Model) if key.name in known}


def make_plan(graph: HetGraph, config: Config) -> Plan | EdgeCut:
    """Which partition folds which relations, for a mesh; or, of vanilla execution, which owns which nodes.

    Raises:
      InputError: the mesh has more partitions, or more replicas, than can be used.
    """
    sampling, model, mesh = config.sampling, config.model, config.mesh
    if mesh.strategy == "vanilla":
        return make_cut(graph, config)
    layers = make_trainer(graph, config).model.layers
    self_term, looks = any(layer.selves for layer in layers), any(layer.looks_at_target for layer in layers)
    seeds = len(graph.splits["train"])
    size, fanout = (seeds, (ALL,)) if sampling.mode == "full" else (min(sampling.batch_size, seeds), sampling.fanout)
    roots = sum(relation.target == graph.schema.target for relation in graph.schema.relations) + self_term
    for name, count, most, what in (
        ("relation", mesh.relation, roots, "relations into the target type, its self term included"),
        ("data", mesh.data, size, "seeds of a step"),
    ):
        if count > most:
            raise InputError(f"mesh.{name} is {count}, and there are {most} {what}, to divide")
    return partition(
        graph,
        mesh.devices,
        hops=model.layers,
        self_term=self_term,
        # Seeds not folded into themselves are read all the same: Adam on the rows read would see the difference.
        exchange="every" if looks or not self_term else "last",
        data=mesh.data,
        workload=Workload(size, tuple(fanout), model.hidden, model.feature_width),
    )


def make_cut(graph: HetGraph, config: Config) -> EdgeCut:
    """Which partition owns which nodes."""
    sampling, model, seeds = config.sampling, config.model, len(graph.splits["train"])
    size, fanout = (seeds, (ALL,)) if sampling.mode == "full" else (min(sampling.batch_size, seeds), sampling.fanout)
    workload = Workload(size, tuple(fanout), model.hidden, model.feature_width)
    return edge_cut(graph, config.mesh.data, config.mesh.partitioning, hops=model.layers, workload=workload)


def make_engine(
    trainer: Trainer, graph: HetGraph, config: Config, plan: Plan | EdgeCut | None
) -> OneDevice | Raf | Vanilla:
    """What trains: one device, or with a plan the mesh that it is for."""
    if plan is None:
        return OneDevice(trainer, graph, config.train.seed)
    mesh, whole = meshes.make(config.mesh.relation, config.mesh.data), config.sampling.mode == "full"
    if isinstance(plan, EdgeCut):
        return Vanilla(trainer, graph, plan, meshes.row(mesh, 0), whole)
    return Raf(trainer, graph, plan, mesh, whole)


def make_batches(
    graph: HetGraph, config: Config, learnable: frozenset[str], capacities: Mapping[str, int], plan=None, mesh=None
):
    """The batches of every epoch, in the way that the configuration asks for; with a plan, for its mesh of devices."""
    sampling, seed, limit = config.sampling, config.train.seed, config.train.steps_per_epoch
    about = sampling.fanout, sampling.batch_size, seed, limit, capacities
    flows = frozenset(graph.schema.nodes) if config.model.input_projection else learnable
    if isinstance(plan, EdgeCut):
        if sampling.mode == "full":
            return VanillaWholeGraph(graph, plan, mesh, learnable, config.model.layers)
        return VanillaBatches(graph, plan, mesh, learnable, flows, *about)
    if sampling.mode == "full":
        return WholeGraph(graph, config.model.layers) if plan is None else MeshWholeGraph(graph, plan, mesh)
    in_place = frozenset(name for name, matrix in graph.features.items() if matrix.dtype == np.float32)
    if config.model.input_projection or config.model.input_dropout:
        in_place = frozenset()  # what is changed before it is read is gathered first
    if plan is None:
        return MiniBatches(Sampler(graph, in_place, flows), *about)
    return MeshBatches(graph, plan, mesh, in_place, learnable, *about)
