"""The search for options that are not given: rules choose first, and a race holds against each other what rules cannot know."""

from collections.abc import Sequence, Set
from functools import partial

from hetjax.datasets.load import Ahead
from hetjax.graph import inputs
from hetjax.graph.hetgraph import HetGraph
from hetjax.graph.statistics import statistics
from hetjax.metapaths.paths import expected_sizes
from hetjax.options.config import Config
from hetjax.recipe.candidate import Candidate, Entrant, work_of_step
from hetjax.recipe.candidates import SCALED, Problem, candidates, depths, scalings_of
from hetjax.recipe.choices import WHOLE_EDGES, WHOLE_VALUES, choose
from hetjax.recipe.compatible import Choice, applied
from hetjax.recipe.holdouts import hold_outs
from hetjax.recipe.probes import probes
from hetjax.recipe.race import budget, race
from hetjax.system.logs import log

# chosen before the race, as they change what is judged
FIRST = {"node_classification.metric", "npz.undirected", "edges.undirected", "ogb.undirected"}
SCALINGS = 2  # that are raced
RACED = "node_classification", "node_regression"  # tasks whose options are
DECIDED = {"data.normalize_features", "model.name", "model.layers", "data.label_inputs", "model.dropout"}


def search(config: Config, graph: HetGraph, given: Set[str], ahead: Ahead) -> list[Choice]:
    """Return the options that are not given: what the rules choose, or the winner of a race, each with a reason.

    The race is run in this process on one device, by steps of the whole graph; where that is too large, or the task is a user's own, the rules alone choose.

    Args:
      config: of the run.
      graph: as it was read.
      given: options that are given, or chosen already.
      ahead: where what was computed to choose is left for who needs it later.
    """
    kinds = inputs.kinds_of(graph)
    rules = list(choose(config, graph, given, ahead, kinds=kinds))
    stats = statistics(graph)
    if not config.train.search_share or given >= DECIDED or config.task.name not in RACED:
        return rules
    if stats.edges > WHOLE_EDGES or stats.values > WHOLE_VALUES or config.train.init_from or config.data.metapath_hops:
        log.info("no race of candidates: a graph of this size, or with metapaths, is trained by what the rules choose")
        return rules
    won = _raced(Problem(config, graph, given, stats, kinds), rules)
    chosen = rules if won is None else won
    return chosen


def _raced(problem: Problem, rules: Sequence[Choice]) -> list[Choice] | None:
    """Return what the winner of a race chooses; None where there is no race."""
    first = [choice for choice in rules if choice.key in FIRST]
    config = applied(problem.config, first)
    problem = problem._replace(config=config, given=problem.given | {choice.key for choice in first})
    graph = problem.graph
    scalings, smooth = scalings_of(graph, problem.kinds), True
    held = hold_outs(graph, config.train.seed)
    if problem.stats.plain and held and (probed := probes(graph, held, scalings)):
        log.info(f"{probed.words(SCALED)}, of {held.words}")
        scalings, smooth = probed.scalings(SCALINGS), not probed.own_tell_more
    tried = candidates(problem, rules, scalings, smooth)
    if any(_reads_labels(config, one) for one in tried):  # labels that judge are no inputs
        held = hold_outs(graph, config.train.seed, whole=True)
    if len(tried) < 2 or held is None:
        return None
    single = [_work(config, graph, one) for one in tried]
    run, divisions = applied(config, rules).train.epochs * single[0], len(held.each)
    most, works = budget(config.train.search_share, run, divisions), [work * divisions for work in single]
    enter = partial(Entrant, config=config, graph=graph, held=held)
    result = race(tried, works, most, enter, lambda winner: list(depths(problem, winner)), held.words)
    if result is None:
        return None
    for line in result.lines:
        log.info(line)
    why = f"the race took {result.winner.name}"
    others = [choice for choice in result.winner.choices if choice.key not in FIRST]
    return [*first, *(choice if choice.why else choice._replace(why=why) for choice in others)]


def _reads_labels(config: Config, candidate: Candidate) -> bool:
    data = applied(config, candidate.choices).data
    return data.label_inputs or data.metapath_label_hops > 0


def _work(config: Config, graph: HetGraph, candidate: Candidate) -> int:
    """Return the work that a step of a candidate is expected to be."""
    chosen = applied(config, candidate.choices)
    if chosen.data.metapath_hops:
        return sum(expected_sizes(graph, chosen.data.metapath_hops, chosen.data.metapath_label_hops))
    dense = sum(matrix.size for matrix in graph.features.values()) if chosen.data.normalize_features == "columns" else 0
    return work_of_step(graph, chosen.model.layers) + dense
