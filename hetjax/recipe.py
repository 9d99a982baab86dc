"""Which options a graph needs, from its statistics: chosen before training, for whoever gives none.

Each choice is a rule of a few lines, which reads counts of nodes, edges and labels, and what kinds of numbers the features are. Two read
what baselines reach on the validation nodes. A choice depends on the graph and on what is given, and on nothing else, so it is the
same on every mesh, but for strategies that run mini-batches alone.
"""

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hetjax import inputs, label_inputs, models, stacking, yaml_file
from hetjax.command_line import given_options
from hetjax.config import Config, flat
from hetjax.errors import InputError
from hetjax.graph.hetgraph import HetGraph
from hetjax.judged import Judged, judged
from hetjax.load import Ahead, read_ahead
from hetjax.logs import log
from hetjax.processes.group import ProcessGroup
from hetjax.sharding import registry

SECTIONS = ("model", "sampling", "train", "cache")
COMPATIBLE = {"model.name", *(f"train.{key}" for key in ("recipe", "seed", "metric", "baselines", "stacking"))}
WHOLE_EDGES, WHOLE_VALUES = 3_000_000, 400_000_000  # of a graph that is trained on as a whole
ONE_HOT_NODES = 100_000
ONE_HOT_WEIGHTS = 14_000_000
FEW_SEEDS = 300  # labelled nodes, of which none are held out
FEW_LABELS = 100  # a class
SKEWED = 0.3  # share of the smaller of two classes
DIVIDED = {"raf.plan", "raf.cut", "averaging.folder"}  # which name what a graph has, as it was read


REASONS = {
    "gcn": "one relation, and features",
    "sage": "one relation, whose edges say nothing of the labels, and features that do",
    "sehgnn": "metapaths are its inputs",
}
CHOSEN = {
    *(
        "data.normalize_features",
        "data.validation_fraction",
        "data.label_inputs",
        "sampling.mode",
        "sampling.fanout",
        "train.metric",
        "train.on_divergence",
    ),
    "train.threshold",
    *("model.name", "model.one_hot", "model.hidden", "model.head", "model.bases", "model.share_self", "model.bias"),
    *("model.layers", "model.dropout", "model.input_dropout", "model.residual", "model.norm", "model.input_projection"),
    *("train.l2", "train.learning_rate", "train.feature_learning_rate", "train.warmup_steps"),
    *("train.epochs", "train.patience", "train.evaluate_every", "train.stacking"),
}


class Choice(NamedTuple):
    """A key, its value, and why."""

    key: str
    value: Any
    why: str


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
    if not wanted(config, given, _filed(arguments)):
        return config, None
    choices: list[Choice] | None = None
    ahead: Ahead | None = None
    if processes.first:
        choices = before(workdir, given)
        if not choices:
            graph, ahead = read_ahead(config.data)
            choices = list(choose(config, graph, given, ahead))
        for choice in choices:
            if choice.why:
                log.info(f"{choice.key} {_words(choice.value)}: {choice.why}")
    chosen = [Choice(*choice) for choice in processes.broadcast_object("recipe", choices)]
    resolved = applied(config, chosen)
    resolved.check_fanout()
    registry.check(resolved)
    return resolved, ahead


def wanted(config: Config, given: Set[str], filed: bool) -> bool:
    """Whether options are to be chosen: if `train.recipe` says so, or says nothing and no file or option of how to train is given."""
    if config.train.recipe != "auto":
        return config.train.recipe == "graph"
    return not filed and config.data.format != "synthetic" and not _of_training(config, given)


def kept_back(config: Config, arguments: Sequence[str]) -> str:
    """What is said of the option that kept the others from being chosen; nothing where none did, or where a file gives options."""
    keys = _of_training(config, given_options(arguments))
    if config.train.recipe != "auto" or _filed(arguments) or not keys:
        return ""
    return f"no option was chosen by the graph, as {keys[0]} was given; --train.recipe graph chooses the others"


def _filed(arguments: Sequence[str]) -> bool:
    return any(a == "--config" or a.startswith("--config=") for a in arguments)


def _of_training(config: Config, given: Set[str]) -> list[str]:
    """The options that say how to train, and so keep others from being chosen; of a generated graph none are chosen."""
    keys = {key for key in given if key.split(".")[0] in SECTIONS} - COMPATIBLE
    return [] if config.data.format == "synthetic" else sorted(keys)


def before(workdir: Path, given: Set[str]) -> list[Choice] | None:
    """What was chosen when the run of a folder began; None if there is no run."""
    file = workdir / "config.yaml"
    if not file.exists():
        return None
    return [Choice(key, tuple(v) if isinstance(v, list) else v, "") for key, v in flat(yaml_file.read(file)).items()
            if key in CHOSEN and key not in given]  # fmt: skip


def applied(config: Config, choices: Sequence[Choice]) -> Config:
    """The configuration with some choices."""
    sections: dict[str, dict[str, Any]] = {}
    for key, value, _ in choices:
        section, name = key.split(".")
        sections.setdefault(section, {})[name] = value
    return replace(config, **{name: replace(getattr(config, name), **keys) for name, keys in sections.items()})


@dataclass(frozen=True)
class Statistics:
    """What choices are made by.

    Attributes:
      seeds: training nodes.
      classes: number of them.
      smallest: share of the training nodes of the class that has the fewest.
      plain: whether there is one node type and one relation.
      featured: whether the target type has features.
      bare: whether no type has features.
      validated: whether there are validation nodes.
      nodes, edges, relations: how many there are.
      values: numbers of all features, of all types that have some.
      width: of the target's features; 0 without any.
    """

    seeds: int
    classes: int
    smallest: float
    plain: bool
    featured: bool
    bare: bool
    validated: bool
    nodes: int
    edges: int
    relations: int
    values: int
    width: int


def statistics(graph: HetGraph) -> Statistics:
    """Of a graph; its edges and features are not read."""
    schema, train = graph.schema, graph.splits["train"]
    labels = graph.labels[train]
    counts = labels.sum(axis=0) if graph.multilabel else np.bincount(labels, minlength=schema.classes)
    target = graph.features.get(schema.target)
    return Statistics(
        len(train),
        schema.classes,
        float(counts[counts > 0].min(initial=len(train)) / max(1, len(train))),
        len(schema.nodes) == len(schema.relations) == 1,
        target is not None,
        not graph.features,
        bool(len(graph.splits["validation"])),
        sum(schema.nodes.values()),
        graph.edges,
        len(schema.relations),
        sum(matrix.size for matrix in graph.features.values()),
        0 if target is None else target.shape[1],
    )


def choose(config: Config, graph: HetGraph, given: Set[str], ahead: Ahead | None = None) -> Iterator[Choice]:
    """What a graph needs, but for what was given, and for what the model has no option for.

    Args:
      ahead: where what was computed to choose is left for who needs it later.
    """
    about = statistics(graph)
    metric = [] if "train.metric" in given else list(_metric(about, graph))
    says = judged(config, graph, given, metric[0].value if metric else config.train.metric, ahead)
    labels = [] if says is None or given & {"data.label_inputs", *DIVIDED} else list(_labels(about, graph, says))
    if labels:  # features of a type of its own
        about = replace(about, plain=False, bare=False)
    name = config.model.name
    if "model.name" not in given:
        name = _model(about, config, says)
    known, found = models.takes(name), {}
    for choice in [*labels, *metric, *_all(about, name, config, graph, given)]:
        section, key = choice.key.split(".")
        if choice.key not in given and (section != "model" or key == "name" or key in known):
            found[choice.key] = choice.value
            yield choice
    layers, fanout = found.get("model.layers", config.model.layers), config.sampling.fanout
    if found.get("sampling.mode", config.sampling.mode) == "minibatch" and "sampling.fanout" not in given:
        wanted = (fanout + fanout[-1:] * layers)[:layers]
        if wanted != fanout:
            yield Choice("sampling.fanout", wanted, f"{layers} layers")


def _all(about: Statistics, name: str, config: Config, graph: HetGraph, given: Set[str]) -> Iterator[Choice]:
    yield Choice("model.name", name, REASONS.get(name, "several relations, no features, or labels as inputs"))
    mode = _mode(about, config)
    whole = (config.sampling.mode if mode.key in given else mode.value) == "full"
    yield mode
    yield Choice("data.normalize_features", *inputs.needed(graph))
    if graph.multilabel and about.validated:
        yield Choice("train.threshold", "validation", "several labels a node: F1 is seldom highest at 0.5")
    if config.data.metapath_hops:
        yield Choice("model.layers", 1, "metapaths have the hops")
    if about.bare and whole and about.nodes <= ONE_HOT_NODES and name == "rgcn":
        yield from _one_hot(about, config)
    elif about.plain and about.seeds < FEW_LABELS * about.classes:
        yield from _few_labels(about)
    else:
        yield from _features(about, whole, whole or about.seeds <= config.sampling.batch_size)
    if len(graph.splits["validation"]) >= stacking.FEWEST:
        yield Choice("train.stacking", True, "what baselines know and the model does not is not to be lost")
    yield Choice("train.on_divergence", "back", "a loss that explodes takes the run back, and lowers the rate")


def _model(about: Statistics, config: Config, says: Judged | None) -> str:
    """A model for a graph, where none is given."""
    if config.data.metapath_hops:
        return "sehgnn"
    if not (about.plain and about.featured):
        return config.model.name
    return "sage" if says and says.features_alone_say_much else "gcn"


def _metric(about: Statistics, graph: HetGraph) -> Iterator[Choice]:
    if graph.schema.classes == 2 and not graph.multilabel and about.smallest < SKEWED:
        share = f"{100 * about.smallest:.0f} % of the training nodes"
        yield Choice("train.metric", "roc_auc", f"two classes, the smaller with {share}")


def _labels(about: Statistics, graph: HetGraph, says: Judged) -> Iterator[Choice]:
    """Labels as inputs, where features say little and labels of neighbours much: a model without them learns less than label propagation has.

    Of one relation and features that say something a model of few weights, which folds features of neighbours, learns as much.
    """
    enough = about.plain and about.featured and not says.features_say_nothing
    if enough or not says.neighbours_say_more or label_inputs.obstacle(graph):
        return
    features, larger = (f"{100 * score:.1f} %" for score in (says.features, says.larger))
    other = f"logistic regression on their features {features}" if about.featured else f"the larger class {larger}"
    yield Choice(
        "data.label_inputs",
        True,
        f"label propagation has {100 * (says.neighbours or 0):.1f} % on the validation nodes, {other}; graphs to predict later need labels too, unless it is false",
    )


def _mode(about: Statistics, config: Config) -> Choice:
    """Whole-graph steps where the graph is small, unless the strategy runs nothing but the other."""
    whole = about.edges <= WHOLE_EDGES and about.values <= WHOLE_VALUES
    modes = ("full", "minibatch") if whole else ("minibatch", "full")
    size = f"{about.edges:,} edges, {about.values:,} numbers of features"
    why = f"{size}: {'' if whole else 'not '}small enough for whole-graph steps"
    if not _runs(config, modes[0]) and _runs(config, modes[1]):
        return Choice("sampling.mode", modes[1], f"mesh.strategy {config.mesh.strategy} on this mesh asks for it")
    return Choice("sampling.mode", modes[0], why)


def _runs(config: Config, mode: str) -> bool:
    try:
        registry.check(applied(config, [Choice("sampling.mode", mode, "")]))
    except InputError:
        return False
    return True


def _one_hot(about: Statistics, config: Config) -> Iterator[Choice]:
    """As the R-GCN paper has it (Schlichtkrull et al. 2018, section 5.1)."""
    why = "no type has features, and there are few nodes: one weight row per node, as in the R-GCN paper"
    yield Choice("model.one_hot", True, why)
    yield Choice("model.hidden", 16, why)
    yield Choice("model.head", False, why)
    weights = about.nodes * about.relations * 16
    if weights > ONE_HOT_WEIGHTS:
        why = f"{weights:,} weights otherwise: bases, and an L2 penalty, as in the R-GCN paper"
        yield Choice("model.bases", 30, why)
        yield Choice("model.share_self", True, why)
        yield Choice("model.bias", False, why)
        yield Choice("train.l2", 5e-4, why)
    few = about.seeds < FEW_SEEDS and config.data.format in ("rdf", "hgb")
    if few:
        yield Choice("data.validation_fraction", 0.0, f"{about.seeds} training nodes are too few to hold some out")
    yield from _epochs(about, few, 50 if few else 200, 50)


def _few_labels(about: Statistics) -> Iterator[Choice]:
    """As the GCN paper has it (Kipf and Welling 2017, section 5.2)."""
    why = f"{about.seeds:,} labels for {about.classes} classes are few: as in the GCN paper"
    yield Choice("model.hidden", 16 if about.width < 4000 else 64, why)
    yield Choice("model.head", False, why)
    yield Choice("model.dropout", 0.5, why)
    wide = about.values > WHOLE_VALUES / 4
    if not wide:
        yield Choice("model.input_dropout", 0.5, why)
    yield Choice("train.l2", 2.5e-4, why)
    yield from _epochs(about, False, 100 if wide else 200, 20 if wide else 100, 2 if wide else 1)


def _features(about: Statistics, whole: bool, one_step: bool) -> Iterator[Choice]:
    """As these graphs need it, in steps of the whole graph or not, of which an epoch has one or more."""
    why = f"{about.seeds:,} labels"
    if about.plain:
        if whole:
            yield Choice("model.layers", 3, f"{why} and one relation: deep enough to learn from")
            yield Choice("model.residual", True, "3 layers")
        yield Choice("model.dropout", 0.2, f"{why} for {about.classes} classes")
    else:
        yield Choice("model.dropout", 0.5, "several relations, each with weights of its own")
    yield Choice("model.norm", "layer", "sums over relations and degrees of any size")
    yield Choice("model.input_projection", True, "features of different kinds and widths")
    yield Choice("train.feature_learning_rate", 0.001, "learnable features overfit sooner than weights")
    rate = 0.01 if about.plain else 0.003
    yield Choice("train.learning_rate", rate, "with layer normalisation")
    yield Choice("train.warmup_steps", 10 if one_step else 100, "the first steps are of Adam's least certain moments")
    if not one_step:
        yield from _epochs(about, False, 50, 5)
    else:
        yield from _epochs(
            about, False, 300 if about.plain else 150, 100 if about.plain else 30, 5 if about.plain else 1
        )


def _epochs(about: Statistics, none_held: bool, most: int, patience: int, every: int = 1) -> Iterator[Choice]:
    if none_held or not about.validated:
        yield Choice("train.epochs", most, "there are no validation nodes to stop by")
        yield Choice("train.evaluate_every", max(1, most // 5), "there are no validation nodes")
        return
    yield Choice(
        "train.epochs", most, f"at most; it ends after {patience} that bring nothing better on the validation nodes"
    )
    yield Choice("train.patience", patience, "")
    yield Choice("train.evaluate_every", every, "")


def _words(value: Any) -> str:
    return (
        str(value).lower()
        if isinstance(value, bool)
        else ",".join(map(str, value))
        if isinstance(value, tuple)
        else str(value)
    )
