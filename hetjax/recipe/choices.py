"""Choice of the options that a graph needs, from its statistics.

Each choice is a rule of a few lines, which reads counts of nodes, edges and labels, and what kinds of numbers the features are. Two read
what baselines reach on the validation nodes. A choice depends on the graph and on what is given, and on nothing else, so it is the
same on every mesh, but for strategies that run mini-batches alone.
"""

from collections.abc import Iterator, Mapping, Set
from dataclasses import replace

import numpy as np

from hetjax import models
from hetjax.datasets.load import Ahead
from hetjax.graph import inputs, label_inputs
from hetjax.graph.hetgraph import HetGraph
from hetjax.graph.statistics import Statistics, statistics
from hetjax.metapaths.paths import bearable, expected_sizes
from hetjax.metapaths.star import of_metapaths
from hetjax.options import owners
from hetjax.options.config import Config, Mode
from hetjax.recipe import few_steps
from hetjax.recipe.baseline_scores import BaselineScores, baseline_scores
from hetjax.recipe.compatible import Choice, applied, compatible
from hetjax.sharding import registry
from hetjax.system.logs import counted
from hetjax.tasks import registry as tasks
from hetjax.tasks import stack_fit
from hetjax.tasks.folds import ENOUGH
from hetjax.tasks.ranking import AREAS
from hetjax.tasks.task import OF_CLASSES, OPTIONS

WHOLE_EDGES, WHOLE_VALUES = 3_000_000, 400_000_000  # of a graph that is trained on as a whole
ONE_HOT_NODES = 100_000
ONE_HOT_WEIGHTS = 14_000_000
FEW_SEEDS = 300  # labelled nodes, of which none are held out
HOPS = 2  # relations of a metapath
FEW_LABELS = 100  # a class
SKEWED = 0.3  # share of the smaller of two classes
WIDEST, NARROWEST, MOST_LEARNED = 64, 8, 2**30  # columns of learnable features, and numbers of them
DIVIDED = {"raf.plan", "raf.cut", "averaging.folder"}  # which name what a graph has, as it was read
ONE_KIND = ("npz", "edges", "ogb")  # formats whose edges may be read both ways
OF_BATCHES = {"sampling.fanout", "sampling.batch_size", "train.steps_per_epoch"}  # options of mini-batches alone
OTHERS = {
    True: ("gcn", "sage", "gat", "gin", "rgcn", "hgt"),
    False: ("rgcn", "rgat", "hgt", "sage", "gin", "gat"),
}  # by `plain`


def choose(
    config: Config,
    graph: HetGraph,
    given: Set[str],
    ahead: Ahead | None = None,
    few: bool | None = None,
    kinds: Mapping[str, str] | None = None,
) -> Iterator[Choice]:
    """Yield what a graph needs, without the options that were given or that the model does not have.

    Args:
      ahead: where what was computed to choose is left for who needs it later.
      few: whether a graph of one relation gets the recipe for few labels; None: as the number of labels says.
      kinds: of the features' numbers, as `inputs.kinds_of` gives them, if they are known.
    """
    read = tasks.find(config.task.name).options_for(graph, config)
    given = given | (OPTIONS - read)
    stats, paths = statistics(graph), list(_paths(config, graph, given))
    config = applied(config, paths)
    undirected = f"{config.data.format}.undirected"
    if stats.plain and config.data.format in ONE_KIND and undirected not in given:
        yield Choice(undirected, True, "an edge is read both ways, and once; false reads edges as they are written")
    if config.data.metapath_hops:  # each metapath is a relation
        edges, values = expected_sizes(graph, config.data.metapath_hops, config.data.metapath_label_hops)
        stats = replace(stats, plain=False, edges=edges, values=values)
    yield from paths
    of_task = [Choice(*choice) for choice in tasks.find(config.task.name).choices(graph, config, given)]
    metric = [choice for choice in of_task if choice.key == "node_classification.metric"]
    if not metric and "node_classification.metric" not in given:
        metric = list(_metric(stats, config, graph, given))
    kinds = inputs.kinds_of(graph) if kinds is None else kinds
    scores = None
    if not given >= {"data.label_inputs", "model.name"} and read >= OF_CLASSES:
        scores = baseline_scores(
            config,
            graph,
            metric[0].value if metric else owners.own(config.task, "node_classification").metric,
            ahead,
        )
    labels = [] if given & {"data.label_inputs", *DIVIDED} else list(_labels(stats, config, graph, scores))
    if config.data.label_inputs or any(choice.value for choice in labels):  # features of a type of its own
        stats = replace(stats, plain=False, bare=False)
    named = Choice("model.name", config.model.name, "")
    if "model.name" not in given:
        named = _model(stats, config, scores, given)
    name = named.value
    taken = models.takes(name)
    rules = [*of_task, *labels, *metric, named, *_all(stats, name, config, graph, kinds, given, few)]
    rules = [rule for rule in rules if rule.key not in given]
    rules = [rule for rule in rules if rule.key != "model.head" or not needs_head(graph, config)]
    rules = [rule for rule in rules if (key := _of_model(rule.key)) is None or key in taken | {"name"}]
    found = list(compatible(config, graph, few_steps.adapted(rules, config, given, stats.seeds)))
    yield from found
    yield from _fanout(applied(config, found), given)


def needs_head(graph: HetGraph, config: Config) -> bool:
    """Return whether the last layer cannot make the outputs, as those of pairs or of several targets."""
    return graph.relation is not None or config.task.name == owners.SEVERAL


def _fanout(config: Config, given: Set[str]) -> Iterator[Choice]:
    """Choose a number of neighbours for every layer, where steps are of mini-batches."""
    layers, fanout = config.model.layers, config.sampling.fanout
    if config.sampling.mode == "minibatch" and "sampling.fanout" not in given:
        wanted = (-1,) if config.data.metapath_hops else (fanout + fanout[-1:] * layers)[:layers]
        if wanted != fanout:
            yield Choice("sampling.fanout", wanted, counted(layers, "layer"))


def _all(
    stats: Statistics,
    name: str,
    config: Config,
    graph: HetGraph,
    kinds: Mapping[str, str],
    given: Set[str],
    few: bool | None,
) -> Iterator[Choice]:
    mode = _mode(stats, config, given)
    whole_graph = (config.sampling.mode if mode.key in given else mode.value) == "full"
    yield mode
    yield Choice("data.normalize_features", *inputs.needed(graph, kinds))
    if graph.multilabel and stats.validated:
        yield Choice(
            "node_classification.threshold", "validation", "several labels a node: F1 is seldom highest at 0.5"
        )
    if config.data.metapath_hops or name == "sehgnn":
        yield Choice("model.layers", 1, "metapaths have the hops")
    one_hot = (
        stats.bare and whole_graph and stats.nodes <= ONE_HOT_NODES and name == "rgcn" and not needs_head(graph, config)
    )
    if one_hot:
        yield from _one_hot(stats, config, given)
    elif stats.plain and (stats.labels < FEW_LABELS * stats.classes if few is None else few):
        yield from _few_labels(stats, name, whole_graph)
    else:
        yield from _features(stats, name, whole_graph, whole_graph or stats.seeds <= config.sampling.batch_size)
    if stats.featureless and not one_hot:
        yield from _learned(stats)
    if not whole_graph and "sampling.fanout" in given and not config.data.metapath_hops:
        layers = len(config.sampling.fanout)
        yield Choice("model.layers", layers, "sampling.fanout has a number for every layer")
    given_back = one_hot and _none_held_out(stats, config, given)
    by_class = owners.own(config.task, "node_classification").threshold == "classes"  # which a stack has not
    if len(graph.splits["validation"]) >= stack_fit.FEWEST and not given_back and not by_class:
        if stats.held_out:
            count = len(graph.splits["validation"])
            why = f"{count:,} training nodes are held out, as validation nodes that choose the epoch"
            share = owners.reader_options(config.data).validation_fraction
            yield Choice(f"{config.data.format}.validation_fraction", share, why)
        yield Choice(
            "train.stacking", True, "the model is weighed with baselines, and stays alone where that does not help"
        )
    yield Choice(
        "train.on_divergence",
        "back",
        "if the loss explodes, the run goes back to its best epoch and lowers the learning rate",
    )


def _model(stats: Statistics, config: Config, scores: BaselineScores | None, given: Set[str]) -> Choice:
    """Choose a model for a graph, where none is given: one that takes the options of models that are given."""
    name, why = config.model.name, f"{_several(stats)}, each with weights of its own"
    if config.data.metapath_hops:
        name, why = "sehgnn", "metapaths are its inputs"
    elif stats.plain and not stats.featured:
        why = "nodes without features"
    elif stats.plain and scores and scores.neighbours_say_nothing:
        reached = " and ".join(f"{100 * (score or 0):.1f} %" for score in (scores.neighbours, scores.larger))
        why = f"label propagation and the larger class have {reached} of the validation nodes: a node's own features are kept apart from its neighbours'"
        name = "sage"
    elif stats.plain:
        name, why = "gcn", "one relation, and features"
    options = model_options(given)
    if lacking := sorted(options - models.takes(name)):
        able = [other for other in OTHERS[stats.plain] if options <= models.takes(other)]
        if able and not config.data.metapath_hops:
            name, why = able[0], f"model.{lacking[0]} is given, which {name} does not have"
    return Choice("model.name", name, why)


def model_options(given: Set[str]) -> set[str]:
    """Return the last names of the options of the model among some."""
    return {key for full in given if (key := _of_model(full))}


def _of_model(full: str) -> str | None:
    """Return the last name of an option of the model; None of another option."""
    section, _, key = full.partition(".")
    return key if section == "model" or section in owners.sections(owners.MODEL) else None


def _several(stats: Statistics) -> str:
    """Name what there are several of, so that a model has weights for each."""
    if stats.relations > 1:
        return "several relations"
    return "several types" if stats.types > 1 else "labels as inputs, and features"


def _paths(config: Config, graph: HetGraph, given: Set[str]) -> Iterator[Choice]:
    """Choose metapaths, for the model whose inputs they are, of a graph whose relations are no metapaths yet."""
    asked = config.model.name == "sehgnn" and not config.data.metapath_hops and "data.metapath_hops" not in given
    asked = asked and not config.data.label_inputs  # which are of a graph without metapaths
    if asked and not of_metapaths(graph.schema):
        hops = HOPS if bearable(graph, HOPS) else 1
        why = f"sehgnn reads metapaths, here of at most {counted(hops, 'relation')}"
        why += f": with {HOPS} there would be too many, or too many edges of one" * (hops < HOPS)
        yield Choice("data.metapath_hops", hops, why)
        if "data.metapath_label_hops" not in given:
            yield Choice(
                "data.metapath_label_hops", hops, "labels of training nodes along metapaths, without a node's own label"
            )


def _metric(stats: Statistics, config: Config, graph: HetGraph, given: Set[str]) -> Iterator[Choice]:
    """Choose the metric for two classes one of which is rare, if the validation nodes have both and stay validation nodes."""
    skewed = graph.schema.classes == 2 and not graph.multilabel and stats.smallest < SKEWED
    both = len(np.unique(graph.labels[graph.splits["validation"]])) == 2
    if skewed and both and not (stats.bare and _none_held_out(stats, config, given)):
        share = f"{100 * stats.smallest:.0f} % of the training nodes"
        yield Choice("node_classification.metric", "roc_auc", f"two classes, the smaller with {share}")


def _labels(stats: Statistics, config: Config, graph: HetGraph, scores: BaselineScores | None) -> Iterator[Choice]:
    """Choose labels as inputs, where features say little and labels of neighbours much: a model without them learns less than label propagation has.

    A graph of one relation and with features that say something gets none: a model of few weights, which aggregates features of neighbours, learns as much.
    """
    if (
        config.model.name == "sehgnn"
        or config.data.metapath_hops
        or models.folded(config.model.name, graph) is not graph
    ):
        return  # labels are metapaths there; or relations to them would be none that the model aggregates over
    if scores is None:
        count = len(graph.splits["validation"]) + len(graph.splits["train"])
        few = f"{count} training and validation nodes are too few ({ENOUGH} may be enough)"
        why = f"{few} to tell whether labels of neighbours say more than features"
        yield Choice("data.label_inputs", False, why)
        return
    enough = stats.plain and stats.featured and not scores.features_say_nothing
    if enough or not scores.neighbours_say_more or label_inputs.obstacle(graph):
        return
    features, larger = (f"{100 * score:.1f} %" for score in (scores.features, scores.larger))
    other = f"logistic regression on their features {features}" if stats.featured else f"the larger class {larger}"
    yield Choice(
        "data.label_inputs",
        True,
        f"label propagation has {100 * (scores.neighbours or 0):.1f} % on the validation nodes, {other}; graphs to predict later need labels too, unless it is false",
    )


def _mode(stats: Statistics, config: Config, given: Set[str]) -> Choice:
    """Choose whole-graph steps where the graph is small, unless the strategy or an option is for mini-batches alone.

    Metapaths get mini-batches, which make more steps of the same work.
    """
    batches = sorted(key for key in given if key in OF_BATCHES or key.startswith("cache."))
    if batches and registry.runs(config, "minibatch"):
        return Choice("sampling.mode", "minibatch", f"{batches[0]} is given, which is for mini-batches")
    if config.data.metapath_hops and registry.runs(config, "minibatch"):
        return Choice(
            "sampling.mode",
            "minibatch",
            "a step reads the metapaths of its own nodes only",
        )
    whole_graph = stats.edges <= WHOLE_EDGES and stats.values <= WHOLE_VALUES
    modes: tuple[Mode, Mode] = ("full", "minibatch") if whole_graph else ("minibatch", "full")
    along = "about, along metapaths: " if config.data.metapath_hops else ""
    size = f"{along}{stats.edges:,} edges, {stats.values:,} numbers of features"
    why = f"{size}: {'' if whole_graph else 'not '}small enough for whole-graph steps"
    if not registry.runs(config, modes[0]) and registry.runs(config, modes[1]):
        return Choice("sampling.mode", modes[1], f"mesh.strategy {config.mesh.strategy} on this mesh asks for it")
    return Choice("sampling.mode", modes[0], why)


def _one_hot(stats: Statistics, config: Config, given: Set[str]) -> Iterator[Choice]:
    """Choose the options of the R-GCN paper (Schlichtkrull et al. 2018, section 5.1)."""
    why = "no type has features, and there are few nodes: one weight row per node, as in the R-GCN paper"
    yield Choice("rgcn.one_hot", True, why)
    yield Choice("model.hidden", 16, why)
    yield Choice("model.head", False, why)
    weights = stats.nodes * stats.relations * 16
    if weights > ONE_HOT_WEIGHTS:
        why = f"{weights:,} weights otherwise: bases, and an L2 penalty, as in the R-GCN paper"
        yield Choice("rgcn.bases", 30, why)
        yield Choice("rgcn.share_self", True, why)
        yield Choice("model.bias", False, why)
        yield Choice("train.l2", 5e-4, why)
    few = _none_held_out(stats, config, given)
    if few:
        yield Choice(
            f"{config.data.format}.validation_fraction",
            0.0,
            f"{stats.seeds} training nodes are too few to hold some out",
        )
    yield from _epochs(stats, few, 50 if few else 200, 50)


def _none_held_out(stats: Statistics, config: Config, given: Set[str]) -> bool:
    """Return whether training nodes are so few that none become validation nodes, where neither the files nor an option say which, and none asks for some."""
    options, task = config.train, owners.own(config.task, "node_classification")
    asked = options.patience or task.metric in AREAS or task.threshold == "validation"
    asked = asked or ("train.stacking" in given and options.stacking)
    few = stats.seeds < FEW_SEEDS and stats.held_out
    return few and not asked and f"{config.data.format}.validation_fraction" not in given


def _few_labels(stats: Statistics, name: str, whole_graph: bool) -> Iterator[Choice]:
    """Choose the options of the GCN paper (Kipf and Welling 2017, section 5.2), but the default width of 64.

    With the paper's 16 hidden units Cora and Citeseer are learned less well.
    """
    why = f"{stats.labels:,} labels for {stats.classes} classes are few: as in the GCN paper"
    taken = models.takes(name)
    if "heads" not in taken or "output_heads" in taken:  # others' logits would have to split into heads
        yield Choice("model.head", False, why)
    yield Choice("model.dropout", 0.5, why)
    wide = stats.values > WHOLE_VALUES / 4
    if not wide:
        yield Choice("model.input_dropout", 0.5, why)
    yield Choice("train.l2", 2.5e-4, why)
    every = 2 if wide else 1 if whole_graph else 5
    yield from _epochs(stats, False, 100 if wide else 200, 20 if wide else 100, every)


def _features(stats: Statistics, name: str, whole_graph: bool, one_step: bool) -> Iterator[Choice]:
    """Choose the options of graphs with features, by steps of the whole graph or of mini-batches, of which an epoch has one or more."""
    why, several = f"{stats.labels:,} labels", "several metapaths" if name == "sehgnn" else _several(stats)
    if stats.plain:
        if whole_graph:
            yield Choice("model.layers", 3, f"{why} and one relation: deep enough to learn from")
            yield Choice("model.residual", True, "with three layers, a layer that adds nothing does no harm")
        yield Choice("model.dropout", 0.2, f"{why} for {stats.classes} classes")
    else:
        yield Choice("model.dropout", 0.5, f"{several}, each with weights of its own")
    yield Choice("model.norm", "layer", "the output of each layer is scaled to mean 0 and standard deviation 1")
    yield Choice(
        "model.input_projection", True, "features of different widths are projected to the width of the layers first"
    )
    rate, why = (
        (0.01, "one relation") if stats.plain else (0.003, f"{several}: lower than 0.01, which is for one relation")
    )
    yield Choice("train.learning_rate", rate, why)
    yield Choice("train.warmup_steps", 10 if one_step else 100, "Adam's moments are least certain in the first steps")
    if not one_step:
        yield from _epochs(stats, False, 50, 5)
    else:
        yield from _epochs(
            stats, False, 300 if stats.plain else 150, 100 if stats.plain else 30, 5 if stats.plain else 1
        )


def _learned(stats: Statistics) -> Iterator[Choice]:
    """Choose the options of learnable features."""
    width = WIDEST
    while width > NARROWEST and stats.featureless * width > MOST_LEARNED:
        width //= 2
    size = f"{stats.featureless:,} nodes of types without features"
    yield Choice("model.feature_width", width, f"{size}: {stats.featureless * width:,} values to learn")
    yield Choice("train.feature_learning_rate", 0.001, "learnable features overfit sooner than weights")


def _epochs(stats: Statistics, none_held_out: bool, most: int, patience: int, every: int = 1) -> Iterator[Choice]:
    if none_held_out or not stats.validated:
        yield Choice("train.epochs", most, "there are no validation nodes to stop by")
        yield Choice("train.evaluate_every", max(1, most // 5), "there are no validation nodes")
        return
    yield Choice(
        "train.epochs",
        most,
        f"at most; the run ends after {patience} epochs without a better result on the validation nodes",
    )
    yield Choice(
        "train.patience", patience, f"early stopping: the run ends after {patience} epochs without a better result"
    )
    often = "validation takes as long as an epoch" if every > 1 else "each epoch may be the best"
    yield Choice("train.evaluate_every", every, often)
