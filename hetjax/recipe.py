"""Options that are not given, chosen by the graph before training (`hetjax.choices`): when that is done, by whom, and what a resumed run keeps."""

from collections.abc import Sequence, Set
from pathlib import Path
from typing import Any

from hetjax import yaml_file
from hetjax.choices import Choice, applied, choose
from hetjax.command_line import given_options
from hetjax.config import Config, flat
from hetjax.graph_statistics import of_no_neighbour
from hetjax.load import Ahead, read_ahead
from hetjax.logs import log
from hetjax.processes.group import ProcessGroup
from hetjax.sharding import registry
from hetjax.workdir import check_trusted

SECTIONS = ("model", "sampling", "train", "cache")
COMPATIBLE = {
    "model.name",
    "sampling.threads",
    *(f"train.{key}" for key in ("recipe", "seed", "metric", "baselines", "stacking", "test", "loggers")),
    *(f"train.{key}" for key in ("order_costs", "checkpoint_seconds", "checkpoint_steps")),
}
CHOSEN = {
    *(
        "data.normalize_features",
        "data.validation_fraction",
        "data.undirected",
        "data.label_inputs",
        "data.metapath_hops",
        "data.metapath_label_hops",
        "sampling.mode",
        "sampling.fanout",
        "train.metric",
        "train.on_divergence",
    ),
    "train.threshold",
    *("model.name", "model.one_hot", "model.hidden", "model.head", "model.bases", "model.share_self", "model.bias"),
    "model.feature_width",
    *("model.layers", "model.dropout", "model.input_dropout", "model.residual", "model.norm", "model.input_projection"),
    *("train.l2", "train.learning_rate", "train.feature_learning_rate", "train.warmup_steps"),
    *("train.epochs", "train.patience", "train.evaluate_every", "train.stacking"),
}


def resolve(
    config: Config, arguments: Sequence[str], workdir: Path, processes: ProcessGroup
) -> tuple[Config, Ahead | None]:
    """The configuration with what was not given chosen, if that is asked for; process 0 chooses, and says it.

    A run that is continued keeps what was chosen when it began.

    Args:
      config: of a command line.
      arguments: that command line.

    Returns:
      The configuration; and the graph, if it was read to choose.

    Raises:
      InputError: the graph cannot be read.
    """
    given = given_options(arguments)
    choices: list[Choice] | None = None
    ahead: Ahead | None = None
    if processes.first and wanted(config, given, _filed(arguments), _begun(workdir)):
        choices = before(workdir, given)
        if not choices:
            graph, ahead = read_ahead(config.data)
            choices = list(choose(config, graph, given, ahead))
            if words := of_no_neighbour(graph):
                log.warning(words)
        for choice in choices:
            if choice.why:
                log.info(f"{choice.key} {_words(choice.value)}: {choice.why}")
    choices = processes.broadcast_object("recipe", choices)
    if choices is None:
        return config, None
    chosen = [Choice(*choice) for choice in choices]
    resolved = applied(config, chosen)
    resolved.check_fanout()
    registry.check(resolved)
    return resolved, ahead


def asked(config: Config, arguments: Sequence[str], workdir: Path) -> bool:
    """Whether a command line leaves options to be chosen, or left them when the run of that folder began."""
    return wanted(config, given_options(arguments), _filed(arguments), _begun(workdir))


def wanted(config: Config, given: Set[str], filed: bool, begun: bool = False) -> bool:
    """Whether options are to be chosen: if `train.recipe` says so, or says nothing and no file or option of how to train is given.

    Args:
      begun: whether the run goes on: it may be for more epochs, with all else as it was.
    """
    if config.train.recipe != "auto":
        return config.train.recipe == "graph"
    return not filed and config.data.format != "synthetic" and not _of_training(config, given, begun)


def kept_back(config: Config, arguments: Sequence[str], workdir: Path) -> str:
    """What is said of the option that kept the others from being chosen; nothing where none did, or where a file gives options."""
    keys = _of_training(config, given_options(arguments), _begun(workdir))
    if config.train.recipe != "auto" or _filed(arguments) or not keys:
        return ""
    return f"no option was chosen by the graph, as {keys[0]} was given; --train.recipe graph chooses the others"


def _filed(arguments: Sequence[str]) -> bool:
    return any(a == "--config" or a.startswith("--config=") for a in arguments)


def _begun(workdir: Path) -> bool:
    return (workdir / "config.yaml").exists()


def _of_training(config: Config, given: Set[str], begun: bool) -> list[str]:
    """The options that say how to train, and so keep others from being chosen; of a generated graph none are chosen."""
    keys = {key for key in given if key.split(".")[0] in SECTIONS} - COMPATIBLE - ({"train.epochs"} if begun else set())
    return [] if config.data.format == "synthetic" else sorted(keys)


def before(workdir: Path, given: Set[str]) -> list[Choice] | None:
    """What was chosen when the run of a folder began; None if there is no run."""
    file = workdir / "config.yaml"
    if not _begun(workdir):
        return None
    model = str(flat(yaml_file.read(file)).get("model.name", ""))
    check_trusted(file, model, "model.name" in given, f"--model.name {model}")
    return [Choice(key, tuple(v) if isinstance(v, list) else v, "") for key, v in flat(yaml_file.read(file)).items()
            if key in CHOSEN and key not in given]  # fmt: skip


def _words(value: Any) -> str:
    return (
        str(value).lower()
        if isinstance(value, bool)
        else ",".join(map(str, value))
        if isinstance(value, tuple)
        else str(value)
    )
