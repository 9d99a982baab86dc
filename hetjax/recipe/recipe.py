"""Options that are not given are chosen by the graph before training (`hetjax.recipe.choices`): by process 0, once; a resumed run keeps them."""

from collections.abc import Sequence, Set
from pathlib import Path
from typing import Any

from hetjax.datasets.load import Ahead, read_ahead
from hetjax.graph.statistics import of_no_neighbour
from hetjax.options import owners
from hetjax.options.command_line import config_of, given_options
from hetjax.options.config import Config, as_dict, flat
from hetjax.options.run_folder import check_trusted, config_file
from hetjax.processes.group import ProcessGroup
from hetjax.recipe.compatible import Choice, applied
from hetjax.recipe.search import search
from hetjax.recipe.trainable import check_trainable
from hetjax.sharding import mesh, registry
from hetjax.system.logs import log

INPUTS = ("normalize_features", "label_inputs", "metapath_hops", "metapath_label_hops", "metapath_one_hot")
CHOSEN = {
    *(
        "data.normalize_features",
        *(f"{reader}.validation_fraction" for reader in ("rdf", "hgb", "store", "npz", "edges", "ogb")),
        *("npz.undirected", "edges.undirected", "ogb.undirected"),
        "data.label_inputs",
        "data.metapath_hops",
        "data.metapath_label_hops",
        "sampling.mode",
        "sampling.fanout",
        "node_classification.metric",
        "train.on_divergence",
    ),
    "node_classification.threshold",
    *("node_regression.scale", "node_regression.loss", "node_regression.metric"),
    *("model.name", "rgcn.one_hot", "model.hidden", "model.head", "rgcn.bases", "rgcn.share_self", "model.bias"),
    "model.feature_width",
    *("model.layers", "model.dropout", "model.input_dropout", "model.residual", "model.norm", "model.input_projection"),
    *("train.l2", "train.learning_rate", "train.feature_learning_rate", "train.warmup_steps"),
    *("train.epochs", "train.patience", "train.evaluate_every", "train.stacking"),
}


def resolve(
    config: Config, arguments: Sequence[str], workdir: Path, processes: ProcessGroup
) -> tuple[Config, Ahead | None]:
    """Return the configuration with what was not given chosen by the graph, unless `train.recipe` says no.

    Process 0 chooses, and says what and why. A run that is continued keeps what was chosen when it began.

    Args:
      config: of a command line.
      arguments: that command line.

    Returns:
      The configuration; and the graph, if it was read to choose.

    Raises:
      InputError: the graph cannot be read, or options that are given do not go with it or with each other.
    """
    choices: list[Choice] | None = None
    ahead: Ahead | None = None
    given = given_options(arguments)
    if given >= {"sampling.fanout", "model.layers"}:
        config.check_fanout()
    if processes.first and config.by_graph:
        choices, ahead = _choices(config, given, workdir, processes)
    choices = processes.broadcast_object("recipe", choices)
    if choices is None:
        return config, None
    resolved = applied(config, [Choice(*choice) for choice in choices])
    resolved.check_fanout()
    registry.check(resolved)
    return resolved, ahead


def _choices(
    config: Config, given: Set[str], workdir: Path, processes: ProcessGroup
) -> tuple[list[Choice], Ahead | None]:
    """Return the choices, which are logged, and the graph if it was read for them."""
    ahead = None
    choices = before(workdir, given)
    if choices is None and given >= CHOSEN:
        return [], None
    if choices is None:
        choices = as_begun(config, given)
        graph, ahead = read_ahead(config.data, config.task.target)
        check_trainable(config, graph)
        kept = given | {choice.key for choice in choices}
        _provide_devices(config, processes)
        choices += search(applied(config, choices), graph, kept, ahead)
        if words := of_no_neighbour(graph):
            log.warning(words)
    for choice in choices:
        if choice.why:
            log.info(f"{choice.key} {_words(choice.value)}: {choice.why}")
    return choices, ahead


def _provide_devices(config: Config, processes: ProcessGroup) -> None:
    """Have the devices of the mesh before candidates start jax, which has no others afterwards."""
    axes = config.mesh.axes
    mesh.provide_cpu_devices(mesh.share_of(axes, processes.count), alone=config.mesh.devices == 1)


def as_begun(config: Config, given: Set[str]) -> list[Choice]:
    """Return the options of the model and its inputs that are those of the run of `train.init_from`, as its weights are for no others."""
    if not config.train.init_from:
        return []
    why = f"as in {config.train.init_from}, whose weights the run begins with"
    recorded, current = _recorded(config_file(Path(config.train.init_from)), given), flat(as_dict(config))
    taken = {key: value for key, value in recorded.items() if _of_model(key)}
    return [Choice(key, value, why if _plain(current[key]) != value else "") for key, value in taken.items()]


def _of_model(key: str) -> bool:
    """Return whether an option is one of the model, or of its inputs."""
    return key.split(".")[0] in {"model", *owners.sections(owners.MODEL)} or key in {f"data.{name}" for name in INPUTS}


def before(workdir: Path, given: Set[str]) -> list[Choice] | None:
    """Return what was chosen when the run of a folder began; None if there is no run."""
    file = workdir / "config.yaml"
    if not file.exists():
        return None
    recorded = _recorded(file, given)
    began = bool(recorded.get("train.init_from"))  # then it has all of the other run's model
    return [Choice(key, value, "") for key, value in recorded.items() if key in CHOSEN or (began and _of_model(key))]


def _recorded(file: Path, given: Set[str]) -> dict[str, Any]:
    """Return the options that a run's folder records and that are not given, checked; nothing that it names is imported."""
    config = config_of(file)
    recorded = flat(as_dict(config))
    named = {recorded[key] for key in ("model.name", "task.name") if key in given}
    check_trusted(file, config, named, "{}")
    return {key: _plain(value) for key, value in recorded.items() if key not in given}


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _words(value: Any) -> str:
    return (
        str(value).lower()
        if isinstance(value, bool)
        else ",".join(map(str, value))
        if isinstance(value, tuple)
        else str(value)
    )
