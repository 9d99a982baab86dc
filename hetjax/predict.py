"""Predict with a model that was trained: `python -m hetjax.predict --workdir RUN --out FILE.parquet` (or `.csv`, or `.npy`).

The weights and learnable features are those of the run's checkpoint that did best on its validation nodes, or of its last
one where it had none; a run that was killed, or goes on, has them too. Every node of the target type is predicted from all
of its neighbours, on one device, whatever the run was trained on; of the run's own graph, or of another store of the same
node types, relations and features, tomorrow's say. Where features were learned, that has the same nodes.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from hetjax import runtime

if __name__ == "__main__":
    runtime.prepare()

import jax
import numpy as np

from hetjax import digests, durable, models
from hetjax.callables import call_as
from hetjax.carry import NewNodes, carried, check_one_hot
from hetjax.checkpoint import Checkpoints, Damaged
from hetjax.command_line import given_value, parse, run_command
from hetjax.config import SECTIONS, Config, Data
from hetjax.errors import InputError
from hetjax.evaluate import Evaluator
from hetjax.graph.hetgraph import HetGraph
from hetjax.load import load, made
from hetjax.predictions import SUFFIXES, Predictions, check_one
from hetjax.progress import check_progress
from hetjax.sharding import registry
from hetjax.sharding.strategy import setup
from hetjax.sharding.trainer import Trainer

PLAIN: dict[str, Any] = {"normalize_features": "none", "label_inputs": False}  # a graph of which nothing is made


@dataclass(frozen=True)
class Options:
    """Predictions: what is written, and of which graph."""

    probabilities: bool = False
    """write the probability of every class, float32"""
    logits: bool = False
    """write the logits of every class, float32"""
    embeddings: bool = False
    """write the embeddings of the last layer, float32"""
    graph: str = ""
    """another graph to predict, a store with the same node types, relations and features; unset: the graph of the run"""
    new_nodes: NewNodes = "refuse"
    """nodes of --graph that are new, of a type whose features were learned; refuse: an error; mean: they get the mean of their type"""
    overwrite: bool = False
    """replace the file --out if it exists"""


def main(arguments: Sequence[str]) -> None:
    """Predict as the command line says, and print where the predictions are."""
    paths = {
        "workdir": "the folder of the run",
        "out": "the .parquet or .csv to write, a row per node of the target type, by your own ids; or a .npy, one array",
    }
    description = "Predict with a model that was trained."
    instances, paths = parse({"": Options}, arguments, "python -m hetjax.predict", description, paths)
    options, out = instances[""], Path(paths["out"])
    if out.suffix not in SUFFIXES:
        raise InputError(
            f"{out}: is to end in {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}, which says what is written"
        )
    check_one(out, [name for name in ("logits", "probabilities", "embeddings") if getattr(options, name)])
    durable.check_replaceable(out, options.overwrite)
    done = _predict(Path(paths["workdir"]), options.graph, options.embeddings, options.new_nodes)
    durable.check_replaceable(out, options.overwrite)  # once more: predicting may have taken long
    what = done.predictions.write(out, options.logits, options.probabilities)
    order = f", in the order of the graph's nodes of type {done.predictions.target!r}" if out.suffix == ".npy" else ""
    print(f"{out}: {what}{order}, {done.chosen}")
    if options.graph and done.learned:
        print(f"features of {', '.join(done.learned)} are those that were learned in training, by the nodes' ids")
    for node_type, count in done.new.items():
        print(f"{count:,} new nodes of {node_type} have the mean of what was learned of their type")


def predict(
    workdir: str | os.PathLike,
    graph: HetGraph | str | os.PathLike = "",
    embeddings: bool = False,
    new_nodes: NewNodes = "refuse",
) -> Predictions:
    """Predict all nodes of the target type.

    Args:
      workdir: of a run.
      graph: another graph, or its store, of the same node types, relations and features. Learned features are found by the
        users' ids where both graphs have them, and else by number, and then there are as many nodes. None: the run's own.
      embeddings: also give the last layer's embeddings.
      new_nodes: what becomes of nodes that are new, of a type whose features were learned: `refuse`, or `mean` of the type's.

    Raises:
      InputError: the run has no checkpoint that is whole, its data are another graph now, or `graph` does not go with it.
    """
    other = graph if isinstance(graph, HetGraph) else os.fspath(graph)
    return _predict(Path(workdir), other, embeddings, new_nodes).predictions


class Done(NamedTuple):
    """Predictions, the types whose features were learned, which checkpoint it was, in words, and new nodes by type."""

    predictions: Predictions
    learned: Sequence[str]
    chosen: str
    new: Mapping[str, int]


def run_of(workdir: str | os.PathLike) -> tuple[Config, HetGraph]:
    """The configuration of a run, and its graph.

    Raises:
      InputError: the folder is of no run.
    """
    file = Path(workdir, "config.yaml")
    if not file.exists():
        raise InputError(f"{file}: no such file, and the folder of a run has one")
    config = config_of(file)
    return config, _graph(config, config.data)


def config_of(file: Path) -> Config:
    """The configuration of a run but for its mesh and what strategies own: predictions are made on one device."""
    arguments = ["--config", str(file)]
    try:
        own = registry.sections(given_value(arguments, "mesh.strategy"))
    except InputError:  # a strategy that cannot be imported here, which predicting does not need
        own = registry.sections(None)
    instances = parse(SECTIONS | own, arguments, "python -m hetjax.predict", "", {})[0]
    return Config(**{name: instances[name] for name in SECTIONS if name != "mesh"})


def _graph(config: Config, data: Data) -> HetGraph:
    return models.folded(config.model.name, load(data))


def _another(config: Config, given: HetGraph | str) -> HetGraph:
    """Another graph, with what training made of features, by the statistics of those that were trained on."""
    data = config.data
    if not isinstance(given, HetGraph):
        given = load(replace(data, format="store", path=os.path.abspath(given), **PLAIN))
    like = load(replace(data, **PLAIN)) if data.normalize_features == "auto" else None
    return models.folded(config.model.name, made(given, data, like))


def _predict(workdir: Path, other: HetGraph | str, embeddings: bool, new_nodes: NewNodes) -> Done:
    config, trained = run_of(workdir)
    given = setup(config, trained)
    trainer, graph = given.trainer, given.graph
    name = "graph" if isinstance(other, HetGraph) else other
    if name:
        others = setup(config, _another(config, other))
        graph = others.graph
        _same_shape(name, graph, trained, others.trainer, trainer)
    state, chosen = _state(workdir, trainer, config.train.seed, digests.of_graph(config.data, trained))
    learned = {t: np.asarray(table.rows) for t, table in state.tables.items()}
    new: dict[str, int] = {}
    if name:
        learned, new = carried(learned, trained, graph, new_nodes, name)
        check_one_hot(trainer.widths.keys() - learned.keys() - graph.features.keys(), trained, graph, name)
    features = {t: learned[t] if t in learned else graph.features[t] for t in trainer.widths}
    evaluator = Evaluator(trainer.model, graph, config.sampling.evaluation_edges)
    found = _outputs(evaluator, state.params, features, embeddings)
    names = replace(graph.names, classes=trained.names.classes)  # which the model was trained on
    predictions = Predictions(graph.schema.target, found[0], names, graph.multilabel, found[1])
    return Done(predictions, sorted(learned), chosen, new)


def _outputs(evaluator: Evaluator, params: Any, features: Mapping[str, np.ndarray], embeddings: bool):
    """Logits of all nodes, and embeddings or None.

    Each split is computed as the trainer computes it on one device: other shapes would be other programs, and other last bits.
    """
    graph, x = evaluator.graph, evaluator.below(params, features)
    left = np.ones(len(graph.labels), bool)
    groups = [graph.splits[name] for name in ("validation", "test")]
    for ids in groups:
        left[ids] = False
    found = []
    for classify in (True, *[False] * embeddings):
        parts = [(ids, evaluator.last(params, x, ids, classify)) for ids in (*groups, np.flatnonzero(left)) if len(ids)]
        whole = np.empty((len(left), parts[0][1].shape[1] if parts else evaluator.model.classes), np.float32)
        for ids, part in parts:
            whole[ids] = part
        found.append(whole)
    return found[0], found[1] if embeddings else None


def _same_shape(file: str, graph: HetGraph, trained: HetGraph, its: Trainer, trainer: Trainer) -> None:
    """Raise an InputError where what was learned on one graph does not go with another."""
    of_training = "of the graph that was trained on"
    if odd := set(graph.schema.relations) ^ set(trained.schema.relations):
        first = min(odd, key=str)
        only = "it alone" if first in graph.schema.relations else "only the graph that was trained on"
        raise InputError(f"{file}: {only} has relation {first}")
    for what in "target", "classes":
        found, expected = getattr(graph.schema, what), getattr(trained.schema, what)
        if found != expected:
            raise InputError(f"{file}: {what} {found!r} != {expected!r} {of_training}")
    for name, width in trainer.widths.items():
        if (name in its.learnable) != (name in trainer.learnable):
            has, learned = ("no features", "") if name in its.learnable else ("features", "not ")
            raise InputError(f"{file}: type {name!r} has {has}, and in training they were {learned}given")
        if its.widths[name] != width:
            raise InputError(f"{file}: features of type {name!r} are {its.widths[name]} wide != {width} {of_training}")


def _state(workdir: Path, trainer: Trainer, seed: int, graph: str) -> tuple[Any, str]:
    """What the run's best checkpoint holds, as host arrays, and which that is."""
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
    if progress["graph"] != graph:
        raise InputError(f"{workdir}: was trained on another graph: {progress['graph']} != {graph}")
    best = progress["best"]
    words = f"as after epoch {best['epoch']}, the best in validation" if best else "as of the last checkpoint"
    return chosen.state(jax.eval_shape(trainer.init, np.int32(seed))), words


if __name__ == "__main__":
    run_command(main)
else:
    call_as(__name__, "hetjax.predict", "predict")  # `hetjax.predict(workdir)`
