"""The preparation of a run from its options: the graph, the engine, and where the run resumes."""

import os
import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

from hetjax import models
from hetjax.checkpoints import progress
from hetjax.checkpoints.checkpoint import Checkpoint, Checkpoints
from hetjax.checkpoints.progress import Progress
from hetjax.datasets.load import Ahead, as_read, load
from hetjax.graph import inputs
from hetjax.graph.hetgraph import HetGraph
from hetjax.graph.hidden import describe, hidden
from hetjax.graph.sizes import abstract_graph, in_shape_alone, sizes
from hetjax.graph.statistics import of_no_node
from hetjax.inference.warm import Warm, warm_start
from hetjax.models import precompile
from hetjax.options import owners
from hetjax.options.config import Config, Mesh, as_dict, data_path, flat
from hetjax.partition import Partitioning, read, save
from hetjax.processes import digests
from hetjax.processes.group import ProcessGroup
from hetjax.recipe.trainable import check_trainable
from hetjax.sharding import registry
from hetjax.sharding.evaluate import evaluated_together
from hetjax.sharding.strategy import Engine, Strategy, setup
from hetjax.system import backend, runtime
from hetjax.system.errors import InputError
from hetjax.system.logs import counted, log
from hetjax.tasks import baselines
from hetjax.tasks.task import Task
from hetjax.training import guard, meters
from hetjax.training.loggers import Loggers
from hetjax.training.order_costs import count_orders
from hetjax.training.records import Records, check_records
from hetjax.training.run import Run
from hetjax.training.workdir import Workdir

OTHER_GRAPH = "{}: the graph of this run was another; give another --workdir"


def prepare(
    config: Config,
    strategy: Strategy,
    workdir: Workdir,
    processes: ProcessGroup,
    lowered: int = 0,
    ahead: Ahead | None = None,
) -> Run:
    """Open the graph, divide it, make the engine, and find where the run resumes.

    Args:
      lowered: the number of times that the guard has lowered the learning rates, if a checkpoint does not have a higher one.
      ahead: the graph, where it was read already.
    """
    programs, started = meters.ProgramCounter(), time.perf_counter()
    backend.local_devices()  # what cannot be had is said before a large graph is read
    graph = open_graph(config, strategy, ahead)
    if processes.first and (words := of_no_node(graph)):
        log.warning(words)
    digest = digests.of_graph(config.data, graph)
    digests.require("graph", digest, processes)
    checkpoints = Checkpoints(workdir.file("checkpoints"))
    checkpoint, done = progress.newest(checkpoints, processes, log.warning)
    done.lowered = max(lowered, done.lowered)
    costs = count_orders(config, done, checkpoint, processes)
    if processes.count == 1:
        precompile.after_measuring("heads" in models.takes(config.model.name))
    run_setup = setup(guard.lowered(config, done.lowered), graph, processes, workdir.path, costs)
    if processes.first:
        describe(graph, hidden(graph, config.task.hide_targets, owners.targets(config.task)))
    folder = workdir.file(strategy.partition_name(config))
    partitioning = strategy.partition(run_setup, folder)
    if partitioning is not None:
        digests.require("plan", partitioning.digest, processes)
    engine = strategy.engine(run_setup, partitioning)
    if processes.count == 1:
        compile_ahead(engine, graph, run_setup.regime.whole)
    if checkpoint and done.graph != digest:
        raise InputError(OTHER_GRAPH.format(workdir.path))
    if checkpoint:
        progress.check_step(done, checkpoint, engine.batches.steps())
    done.graph = digest
    shaping = {"data", "model", "task", *config.data.own, *config.model.own, *config.task.own}
    done.options = {key: value for key, value in flat(as_dict(config)).items() if key.split(".")[0] in shaping}
    engine.batches.prepare(done.capacities)
    jax.eval_shape(engine.init_weights, engine.seed)  # what does not fit is said before anything is written
    warm = warm_start(config, engine.trainer) if config.train.init_from and not checkpoint else None
    records = None
    if processes.first:
        records = begin(config, workdir, processes, graph, checkpoints, checkpoint, done)
        if partitioning is not None:
            keep_partitioning(partitioning, folder, run_setup.graph)
    known = ahead.baselines if ahead else None
    plain = ahead.plain if ahead else None
    compared = baselines_of(config, engine.setup.task, plain, graph, processes) if known is None else known
    if ahead:
        ahead.plain = None  # which nobody needs any more
    graph = replace(
        abstract_graph(sizes(graph), graph.labels, graph.splits), names=graph.names
    )  # the engine has the rest
    del run_setup
    state = initial_state(engine, checkpoint, warm, processes)
    engine.fill_cache(penalties(config, workdir, processes))
    return Run(
        config=config,
        workdir=workdir,
        processes=processes,
        graph=graph,
        engine=engine,
        checkpoints=checkpoints,
        progress=done,
        state=state,
        programs=programs,
        records=records,
        started=started,
        resumed_seconds=done.seconds,
        rises=meters.Rises(done.recent),
        reported=done.epoch,
        baselines=compared,
    )


def compile_ahead(engine: Engine, graph: HetGraph, whole: bool) -> None:
    """Have the operations compiled that evaluation and products will call, while the run is prepared.

    Args:
      whole: whether a step is the whole graph.
    """
    task = engine.setup.task
    examples = np.unique(np.concatenate(evaluated_together(task, engine.setup.config.train.accuracy_nodes)))
    nodes = {t: len(ids) for t, ids in task.seeds(examples).nodes.items()}
    sparse = engine.trainer.model.sparse(0, engine.given_features())
    precompile.before_evaluating(engine.trainer.model, graph, nodes, sparse)
    precompile.before_multiplying(() if whole else sparse)


def open_graph(config: Config, strategy: Strategy, ahead: Ahead | None = None) -> HetGraph:
    """Open the part of the graph that this process needs.

    Raises:
      InputError: it cannot be read, or there is nothing to train on.
    """
    models.find(config.model.name)  # a wrong name is said before a large graph is read
    graph = models.folded(config.model.name, strategy.open(config, ahead))
    if config.data.label_inputs and not graph.schema.into(graph.schema.target):
        raise InputError(f"data.label_inputs is true, and {config.model.name} folds none of the relations to labels")
    check_trainable(config, graph)
    return graph


def baselines_of(
    config: Config, task: Task, plain: HetGraph | None, graph: HetGraph, processes: ProcessGroup
) -> baselines.Found:
    """Return the baselines that the model is compared or stacked with, in process 0, if either is asked for.

    They read features as the files have them, so the graph is read once more where features were normalised and `plain` is not kept.
    The store of a graph that is there in shape alone is opened. Where several processes have parts of it, that is done only if baselines are
    stacked: all processes wait for it.
    """
    options, outlined = config.train, any(map(in_shape_alone, graph.relations.values()))
    found: baselines.Found = {}
    if options.stacking or (options.baselines and options.test):  # what is shown is measured on the test nodes
        if processes.first and outlined and processes.count > 1 and not options.stacking:
            log.info("no baselines: they need the whole graph, and each process has a part of it")
        elif processes.first:
            again = outlined or config.data.metapath_hops or config.data.normalize_features == "auto"
            whole = plain or (load(as_read(config.data), target=config.task.target) if again else graph)
            found = task.baselines(models.folded(config.model.name, whole))
    if options.stacking:
        processes.barrier("baselines")
    return found


def begin(
    config: Config,
    workdir: Workdir,
    processes: ProcessGroup,
    graph: HetGraph,
    checkpoints: Checkpoints,
    checkpoint: Checkpoint | None,
    done: Progress,
) -> Records:
    """Write the files and print the lines with which process 0 starts a run; nothing was written before."""
    check_records(workdir.file("metrics.jsonl"), done.metrics_bytes)
    workdir.claim()
    workdir.clear_tables(processes.count)
    checkpoints.wait()
    schema, nodes = graph.schema, counted(sum(graph.schema.nodes.values()), "node")
    types, relations = counted(len(schema.nodes), "type"), counted(len(schema.relations), "relation")
    log.info(f"graph: {nodes} of {types}, {counted(graph.edges, 'edge')} of {relations}; compiling")
    log.info(f"labels of {graph.schema.target}: {graph.own_column.words()}")
    for target in owners.targets(config.task)[1:]:
        log.info(f"labels of {target}: {graph.column(target).words()}")
    if graph.held_out and not config.by_graph:  # else the recipe says it
        count, share = len(graph.splits["validation"]), owners.reader_options(config.data).validation_fraction
        key = f"{config.data.format}.validation_fraction"
        log.info(
            f"{key} {share}: {counted(count, 'training node')} held out, as validation nodes that choose the epoch"
        )
    if config.data.normalize_features == "none" and not done.lowered and (words := inputs.unscaled(graph)):
        log.info(words)
    devices, cores = len(jax.local_devices()), runtime.cores()
    if config.mesh.devices > 1 and jax.default_backend() == "cpu" and devices > cores:
        log.info(f"{devices} devices share {cores} core{'s' * (cores > 1)}: right for trying a mesh, not for speed")
    if config.mesh.strategy not in (Mesh.strategy, "single") and registry.find(config).name == "single":
        log.info(
            f"mesh.strategy is {config.mesh.strategy}, and there is one device: nothing is divided, and nothing is sent"
        )
    step = checkpoint.step if checkpoint else 0
    loggers = Loggers(config.train.loggers, workdir.path, flat(as_dict(config)), step)
    return Records(workdir.file("metrics.jsonl"), done.metrics_bytes, loggers)


def keep_partitioning(partitioning: Partitioning, folder: Path, graph: HetGraph) -> None:
    """Write a partitioning beside the run, with its report and picture, unless it is there; one of before gives way."""
    if folder.exists():
        if read(folder, type(partitioning)).digest == partitioning.digest:
            return
        shutil.rmtree(folder)
    save(partitioning, folder, graph)


def initial_state(engine: Engine, checkpoint: Checkpoint | None, warm: Warm | None, processes: ProcessGroup) -> Any:
    """Return the run's own newest checkpoint that is whole, or else the state that `train.init_from` gives, or a state from scratch."""
    if warm:
        return begun_warm(engine, warm, processes)
    if not checkpoint:
        return engine.init(int(engine.seed))
    if processes.first:
        log.info(f"continuing from {checkpoint.folder}")
    elif not checkpoint.folder.exists():
        raise InputError(f"{checkpoint.folder}: not there; all processes must see the same --workdir")
    return engine.restored(checkpoint)


def begun_warm(engine: Engine, warm: Warm, processes: ProcessGroup) -> Any:
    """Return a state from another run's weights, as the engine has it."""
    digests.require("weights", digests.of_arrays(jax.tree.leaves(warm.state.params)), processes)
    if processes.first:
        for words in warm.words(engine.setup.config):
            log.info(words)
    return engine.shard(warm.state)


def penalties(config: Config, workdir: Workdir, processes: ProcessGroup) -> Path:
    """Return the file that keeps the measured costs of missed rows: beside the store, if the graph comes from one that can be written."""
    data = config.data
    stored = data.format == "store" and os.access(data_path(data.path), os.W_OK)
    folder = data_path(data.path) if stored else workdir.path
    return folder / (f"penalties_{processes.number}.json" if processes.number else "penalties.json")
