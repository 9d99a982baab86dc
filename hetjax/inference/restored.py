"""The model that a run learned, with a graph to use it on: the run's own, or another of the same node types, relations and features."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import jax
import numpy as np

from hetjax import models
from hetjax.checkpoints.checkpoint import Checkpoint, Checkpoints, Damaged
from hetjax.checkpoints.progress import check_progress
from hetjax.datasets.declared import store as store_options
from hetjax.datasets.load import as_read, load, made, makes
from hetjax.graph.carry import NewNodes, carried, check_one_hot
from hetjax.graph.columns import LABEL_NAME, column_type
from hetjax.graph.hetgraph import HetGraph
from hetjax.graph.label_inputs import without_labels
from hetjax.inference import one_target
from hetjax.kernels import orders
from hetjax.kernels.cost_model import CostModel
from hetjax.models.hgnn import Stack
from hetjax.options import renamed
from hetjax.options.command_line import config_of
from hetjax.options.config import Config, Data, as_dict, flat
from hetjax.options.run_folder import TRUST, Trust, check_trusted, config_file
from hetjax.processes import digests
from hetjax.sharding.strategy import setup
from hetjax.sharding.trainer import Trainer
from hetjax.system import backend
from hetjax.system.errors import InputError, short
from hetjax.system.logs import counted, log
from hetjax.system.mapped import mapped, on_host
from hetjax.tasks import known_labels, stacking
from hetjax.tasks.class_names import with_classes
from hetjax.tasks.several import inner
from hetjax.tasks.stacking import Applied
from hetjax.tasks.task import Task


class Restored(NamedTuple):
    """A model as a run left it, with a graph.

    Attributes:
      config: the configuration of the run, except for its mesh.
      task: the task, which says what is predicted.
      model, params: the model and its weights as they were trained; the model has the costs that the run counted orders with, because other costs could change the last bits.
      graph: the graph to use it on, its edges as the model aggregates them, and with the names of the classes that were trained on.
      features: `[nodes, width]` per input type, static or learned; of large ones a mapped file.
      learned: the types whose features were learned.
      chosen: a description of the checkpoint.
      new: the number of new nodes, for which nothing was learned, by type.
      read_by: the way in which outputs are read, as `Task.quality` takes it.
      stacked: the stack that weights its logits with those of baselines; None: they stay.
      splits: the nodes of each split as the graph was given, also where its labels are not read; None: those of `graph`.
      other: the task on `graph`, where that is not the graph that was trained on.
    """

    config: Config
    task: Task
    model: Stack
    params: Any
    graph: HetGraph
    features: Mapping[str, np.ndarray]
    learned: Sequence[str]
    chosen: str
    new: Mapping[str, int]
    read_by: Mapping[str, float] = {}
    stacked: Applied | None = None
    splits: Mapping[str, np.ndarray] | None = None
    other: Task | None = None

    @property
    def examples(self) -> Task:
        """The task that has the examples of `graph`."""
        return self.other or self.task

    def final(self, ids: np.ndarray, logits: np.ndarray) -> np.ndarray:
        """Return the final logits of nodes, from the model's logits."""
        return self.stacked(ids, logits) if self.stacked else logits


def run_of(workdir: str | os.PathLike, trust: Trust = False, how: str = TRUST) -> tuple[Config, HetGraph]:
    """Return the configuration of a run, and its graph.

    Args:
      trust, how: as of `hetjax.options.run_folder.check_trusted`.

    Raises:
      InputError: the folder is of no run, names a model or a task of a user's own that is not trusted, or its configuration is
        another one than its checkpoints were trained with.
    """
    file = config_file(Path(workdir))
    config = config_of(file)
    check_trusted(file, config, trust, how)
    _check_options(file, config)
    return config, _graph(config, config.data)


FREE_DATA = "data.path", "data.check"  # a graph may have been moved since


def _check_options(file: Path, config: Config) -> None:
    """Raise an InputError where `config.yaml` was edited since the run's checkpoints were written."""
    newest = next(Checkpoints(file.parent / "checkpoints").newest_first(), None)
    noted = newest.noted("options", dict) if newest else {}
    chosen = {"data.format": config.data.format, "model.name": config.model.name, "task.name": config.task.name}
    trained, edited = renamed.renamed(noted, chosen), flat(as_dict(config))
    for key in sorted(trained.keys() & edited.keys() - set(FREE_DATA)):
        if trained[key] != edited[key]:
            raise InputError(
                f"{file}: {key} is {short(repr(edited[key]))} != {short(repr(trained[key]))} of the training"
            )


def restore(
    workdir: str | os.PathLike,
    other: HetGraph | str = "",
    new_nodes: NewNodes = "neighbours",
    folder: Path | None = None,
    trust: Trust = False,
    target: str = "",
) -> Restored:
    """Return the model of a run's best checkpoint, or of its last one where no validation chose, and a graph.

    Args:
      workdir: the folder of the run, which may be training still.
      other: another graph, or its store; empty: the run's own.
      new_nodes: the features of new nodes of `other`, of a type whose features were learned.
      folder: the folder for learned features of `other`; None: memory.
      trust: as of `hetjax.options.run_folder.check_trusted`.
      target: of a run that learned several, the column of labels that is predicted; empty: the first.

    Raises:
      InputError: the run has no checkpoint that is whole, does not predict the target, its data are another graph now, or `other` does not go with it.
    """
    backend.local_devices()
    config, trained = run_of(workdir, trust)
    given = setup(config, trained)
    trainer, graph, task, alone = given.trainer, given.graph, given.task, config
    digest = digests.of_graph(config.data, trained)
    part = one_target.of_run(given.task, trained, target)
    if part:
        task, alone = part.task, part.config
        trained, graph = trained.with_target(part.target), graph.with_target(part.target)
    name = "graph" if isinstance(other, HetGraph) else other
    examples: Task | None = None
    seen, few, another = trained, "", None
    if name:
        another = _another(alone, other, trained)
        seen, few = another.graph, another.few
        if part:
            graph, its, examples = one_target.on_graph(given, part, seen)
        else:
            others = setup(config, seen)
            graph, its, examples = others.graph, others.trainer, others.task
        same_shape(name, graph, trained, its, trainer)
    state, chosen, progress = best_state(Path(workdir), trainer, config.train.seed, digest)
    learned = {t: on_host(table.rows) for t, table in state.tables.items()}
    new: dict[str, int] = {}
    if name:
        room = _in_memory if folder is None else partial(_in_file, folder)
        learned, new = carried(learned, trained, graph, new_nodes, name, room)
        check_one_hot(trainer.widths.keys() - learned.keys() - graph.features.keys(), trained, graph, name)
    features = {t: learned[t] if t in learned else graph.features[t] for t in trainer.widths}
    graph = replace(graph, names=replace(graph.names, classes=trained.names.classes))
    plain = _plain(config, another, seen) if (Path(workdir) / stacking.FILE).exists() else seen
    stacked = stacking.saved(Path(workdir), trained.schema.classes, plain)
    if stacked and few and stacking.WALKED in stacked.weights:
        stacked, chosen = None, f"{chosen}; not stacked, as {few}"
        log.warning(_alone(trainer.task, progress["best"] or {}))
    elif few and _reads_labels(config.data):
        chosen = f"{chosen}; no label is an input, as {few}"
    read_by = stacked.chosen if stacked else given.task.chosen(progress["best"] or {})
    read_by = inner(part.target, read_by) if part else read_by
    known = sorted(learned), chosen, new, read_by
    applied = Applied(stacked, plain) if stacked else None
    model, params = trainer.model.clone(costs=CostModel(orders.kept(progress.get("costs", ())))), state.params
    if part:
        model, params = one_target.model_of(model, params, part)
    splits = another.splits if another else trained.splits
    return Restored(config, task, model, params, graph, features, *known, applied, splits, examples)


def _in_memory(node_type: str, shape: tuple[int, int]) -> np.ndarray:
    return np.empty(shape, np.float32)


def _in_file(folder: Path, node_type: str, shape: tuple[int, int]) -> np.ndarray:
    return mapped(folder / f"features_{quote(node_type, safe='')}", shape, np.float32)


def _graph(config: Config, data: Data) -> HetGraph:
    return models.folded(config.model.name, load(data, target=config.task.target))


class _Another(NamedTuple):
    """A graph other than the one that was trained on.

    Attributes:
      graph: the graph as training would make it.
      read: the graph as it was read, with the classes of training, and without training nodes where no label is propagated.
      like: the graph that was trained on, as it was read; None where nothing is made of it.
      few: why no label is propagated; empty where labels are.
      splits: the splits as they were read.
    """

    graph: HetGraph
    read: HetGraph
    like: HetGraph | None
    few: str
    splits: Mapping[str, np.ndarray]


def _plain(config: Config, other: _Another | None, seen: HetGraph) -> HetGraph:
    """Return the graph that baselines read, of one that the model reads: as it was read, without metapaths, label inputs and normalised features."""
    if not config.data.metapath_hops and config.data.normalize_features != "auto":
        return without_labels(seen)
    return _graph(config, as_read(config.data)) if other is None else models.folded(config.model.name, other.read)


def _another(config: Config, given: HetGraph | str, trained: HetGraph) -> _Another:
    """Read another graph, and change it as training would.

    Features are changed as in training, by the statistics of those that were trained on, and classes are those of training.
    """
    data, name = config.data, "graph"
    if not isinstance(given, HetGraph):
        own = {**data.own, "store": store_options.Options(validation_fraction=0.0)}  # it is not trained on
        name, given = given, load(as_read(replace(data, format="store", path=os.path.abspath(given), own=own)))
    given = _with_column(name, given, without_labels(trained).target)
    given = with_classes(name, given, trained)
    few, splits = known_labels.too_few(given, trained), given.splits
    if few and _reads_labels(data):
        given = known_labels.forgotten(given)
    like = load(as_read(data), target=config.task.target) if makes(data) else None
    if like:
        for node_type in sorted(like.features.keys() | given.features.keys()):
            _check_features(name, node_type, *(_width(graph, node_type) for graph in (given, like)))
    return _Another(models.folded(config.model.name, made(given, data, like)), given, like, few, splits)


def _with_column(place: str, given: HetGraph, target: str) -> HetGraph:
    """Return another graph whose labels are those of the column that was trained on, where both have names.

    Raises:
      InputError: its labels are of another type, or another column.
    """
    if target in given.columns:
        return given.with_target(target)
    named = LABEL_NAME not in (given.label_name, target.rpartition(".")[2])
    if column_type(given.target) != column_type(target) or (named and given.target != target):
        raise InputError(f"{place}: its labels are {given.target!r}, and the run predicts {target!r}")
    return given


def _reads_labels(data: Data) -> bool:
    """Return whether training labels are inputs of the model."""
    return data.label_inputs or data.metapath_label_hops > 0


def same_shape(file: str, graph: HetGraph, trained: HetGraph, its: Trainer, trainer: Trainer) -> None:
    """Raise an InputError where the weights learned on one graph do not go with another.

    Args:
      file: the graph to name.
      graph, its: that graph, and a trainer for it.
      trained, trainer: the graph that was trained on, and its trainer.
    """
    of_training = "of the graph that was trained on"
    if odd := set(graph.schema.relations) ^ set(trained.schema.relations):
        first = min(odd, key=str)
        only = "it alone" if first in graph.schema.relations else "only the graph that was trained on"
        turned = any(first == relation.reverse for relation in graph.schema.relations)
        hint = "; it is the reverse of another, which `--add_reverse_edges` of hetjax.ingest adds" * turned
        raise InputError(f"{file}: {only} has relation {first}{hint}")
    for what in "target", "classes":
        found, expected = getattr(graph.schema, what), getattr(trained.schema, what)
        if found != expected:
            raise InputError(f"{file}: {what} {found!r} != {expected!r} {of_training}")
    for name in trainer.widths:
        _check_features(file, name, *(None if name in one.learnable else one.widths[name] for one in (its, trainer)))


def _width(graph: HetGraph, node_type: str) -> int | None:
    return graph.features[node_type].shape[1] if node_type in graph.features else None


def _check_features(file: str, node_type: str, width: int | None, trained: int | None) -> None:
    """Raise an InputError where features of a type are of another width than in training; None: it has none."""
    if width == trained:
        return
    if width is None or trained is None:
        has, given = ("no features", "") if width is None else ("features", "not ")
        raise InputError(f"{file}: type {node_type!r} has {has}, and in training they were {given}given")
    raise InputError(
        f"{file}: features of type {node_type!r} are {width} wide != {trained} of the graph that was trained on"
    )


def _alone(task: Task, best: Mapping[str, Any]) -> str:
    """Return the quality of the model without the stack on the validation nodes, in words."""
    metric = task.metrics[task.headline]
    return f"predictions are not stacked: the model alone has {metric.label} {metric.words(best.get(task.headline))} on the validation nodes"


def best_state(workdir: Path, trainer: Trainer, seed: int, graph: str) -> tuple[Any, str, dict]:
    """Return the content of the run's best checkpoint, as host arrays, tables mapped; its description in words; and how far the run is."""
    chosen, progress = best_checkpoint(workdir)
    if progress["graph"] != graph:
        raise InputError(f"{workdir}: was trained on another graph: {progress['graph']} != {graph}")
    best = progress["best"]
    words = f"as after epoch {best['epoch']}, the best in validation" if best else "as of the last checkpoint"
    if not (workdir / "summary.json").exists():
        words = f"{words}, of a run that is not finished: {counted(progress['epoch'], 'epoch')} so far"
    return chosen.state(jax.eval_shape(trainer.init, np.int32(seed))), words, progress


def best_checkpoint(workdir: Path) -> tuple[Checkpoint, dict]:
    """Return the run's best checkpoint, or its last one where no validation chose; and how far the run is."""
    checkpoints = Checkpoints(workdir / "checkpoints")
    newest = next(checkpoints.newest_first(), None)
    if newest is None:
        raise InputError(f"{checkpoints.folder}: no checkpoint yet")
    try:
        progress = newest.verify(check_progress)
        chosen = checkpoints.at(progress["best"]["step"]) if progress["best"] else newest
        chosen.verify()
    except Damaged as error:
        raise InputError(
            f"{error}; training on with this --workdir mends it, if the run is done with a larger --train.epochs"
        ) from None
    return chosen, progress
