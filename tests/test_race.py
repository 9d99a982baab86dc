"""The race of candidates for options that are not given: what it chooses, that it always chooses the same, and how much it may work."""

import json
import logging
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import yaml

from hetjax.datasets.load import Ahead, made
from hetjax.graph import store
from hetjax.graph.hetgraph import build
from hetjax.graph.schema import Relation, Schema
from hetjax.options.config import Config, Data, Mesh, Model, Train
from hetjax.recipe import choices, recipe, search
from hetjax.recipe.candidate import Candidate, Entrant, Score, alone
from hetjax.recipe.holdouts import hold_outs
from hetjax.recipe.probes import Probe, Probes, error_of, probes
from hetjax.recipe.race import budget, first_steps, race
from hetjax.sharding import registry
from hetjax.system.logs import log
from hetjax.train import main
from tests.support.communities import communities, shop
from tests.support.equivalence import homogeneous

DATA = Data(format="store", path="x")
SHORT = Train(search_share=0.1)


def dense(width: int = 60, nodes: int = 240):
    """Edges that join unlike nodes, and rows of many ones, which tell the class only if their columns are centred."""
    rng = np.random.default_rng(0)
    labels = np.arange(nodes) % 3
    sources = rng.integers(0, nodes, 600)
    targets = (sources // 3 * 3 + (labels[sources] + 1) % 3) % nodes
    often = 0.6 + 0.12 * rng.standard_normal((3, width))
    features = (rng.uniform(size=(nodes, width)) < often[labels]).astype(np.float32)
    order = rng.permutation(nodes)
    splits = dict(zip(("train", "validation", "test"), np.split(order, [90, 150])))
    relation = Relation("node", "to", "node")
    schema = Schema({"node": nodes}, (relation,), "node", 3)
    return build(schema, {relation: (sources, targets)}, {"node": features}, labels, splits)


def found(graph, given=frozenset(), data=DATA, **sections) -> dict:
    config = Config(data=data, **{"train": SHORT} | sections)
    return {c.key: c.value for c in search.search(config, graph, set(given), Ahead(DATA, None))}


class Fake:
    """An entrant whose result is known."""

    def __init__(self, candidate: Candidate, values: dict[str, float], work: int = 1):
        self.candidate, self.work, self.steps, self.values, self.open = candidate, work, 0, values, True
        self.done: list[int] = []

    def train(self, steps):
        assert self.open
        self.steps = steps
        self.done.append(steps)

    def close(self):
        self.open = False

    @property
    def score(self):
        return Score(self.values[self.candidate.name], 0.0)

    def beats(self, other):
        return self.score.metric > other.score.metric + 0.01

    def words(self):
        return f"{self.candidate.name} {self.score.metric}"


def raced(values: dict[str, float], most: int, depths=()):
    entrants: list[Fake] = []

    def enter(candidate):
        entrants.append(Fake(candidate, values))
        return entrants[-1]

    tried = [Candidate(name, ()) for name in values if name not in depths]
    other = [Candidate(name, ()) for name in depths]
    return race(tried, [1] * len(tried), most, enter, lambda _: other, "nodes"), entrants


def test_the_best_wins_and_what_the_rules_choose_stays_unless_it_is_worse_by_an_error():
    result, entrants = raced({"rules": 0.5, "a": 0.7, "b": 0.6, "c": 0.4, "d": 0.3}, 10**4)
    assert result.winner.name == "a" and not any(one.open for one in entrants)
    assert [one.done for one in entrants] == [[40, 80], [40, 80], [40, 80], [40], [40]]
    assert raced({"rules": 0.5, "a": 0.505, "b": 0.2}, 10**4)[0].winner.name == "rules"
    assert result.lines[0].startswith("after 40 steps each, by nodes: rules 0.5; a 0.7; b 0.6; c 0.4; d 0.3; the first")
    assert result.lines[-1].endswith("taken: a")


@pytest.mark.parametrize("most", [0, 20, 35, 100, 170, 400, 1000, 10**5])
def test_the_work_of_a_race_is_within_its_bound(most):
    """And what it leaves out is said."""
    values = {name: n / 10 for n, name in enumerate(("rules", "a", "b", "c", "d", "e", "f"))}
    result, entrants = raced(values | {"deep": 0.9, "deeper": 0.95}, most, ("deep", "deeper"))
    assert (result is None) == (most < 35)
    if result:
        assert result.work == sum(one.steps for one in entrants) <= most
        left_out = [line for line in result.lines if line.startswith("not tried")]
        assert bool(left_out) == (len([one for one in entrants if one.steps]) < len(values) + 2)


def test_steps_of_the_first_round_are_those_that_all_rounds_have_work_for():
    assert first_steps([1] * 8, 19 * 12) == 12  # 8, then 4 and the first, then 2 and the first twice as long
    assert first_steps([1, 1], 50) == 25 and first_steps([1, 1], 10**9) == 40
    assert budget(0.3, 1000, 1) == 300 and budget(0.3, 1000, 5) == 1500 and budget(0.5, 10**12, 5) == 10**9


def test_divisions_are_of_labelled_nodes_and_never_of_test_nodes():
    graph = dense()
    for whole, divisions in ((False, 5), (True, 1)):
        held = hold_outs(graph, 0, whole)
        assert not np.isin(held.pool, graph.splits["test"]).any() and len(held.each) == divisions
        for one in held.each:
            assert not np.isin(one.train, one.held).any() and len(one.train) + len(one.held) == 150
    validation = np.sort(graph.splits["validation"])
    np.testing.assert_array_equal(held.pool[held.each[0].held], validation)
    without = replace(graph, splits=graph.splits | {"validation": validation[:0]})
    assert hold_outs(without, 0).words.endswith("of the 90 training nodes") and hold_outs(without, 0, True) is None
    few = replace(without, splits=without.splits | {"train": graph.splits["train"][:10]})
    assert hold_outs(few, 0) is None


def test_probes_tell_what_features_say():
    graph = dense()
    probed = probes(graph, hold_outs(graph, 0), ["auto", "columns", "none"])
    assert probed.by_scaling["columns"].own > 0.6
    ones = communities(True, "nothing")
    told = probes(ones, hold_outs(ones, 0), ["auto", "none"])
    assert list(told.by_scaling) == ["auto"]  # rows of one 1 are what they are, divided by their sums
    assert Probes({"auto": Probe(0.9, 0.5), "none": Probe(0.7, 0.8)}, 0.05).own_tell_more
    assert Probes({"auto": Probe(0.7, 0.6), "none": Probe(0.71, 0.2), "columns": Probe(0.1, 0.1)}, 0.05).scalings(
        2
    ) == ["none", "auto"]
    assert error_of(0.5, 100) == 0.05 and error_of(1.0, 100) > 0


def test_an_entrant_trains_on_its_division_as_a_run_does():
    graph, config = dense(), Config(data=DATA)
    entrant = Entrant(Candidate("x", ()), config, graph, hold_outs(graph, 0, True))
    engine = registry.make_engine(alone(config), graph)
    state = engine.init(0)
    (drawn,) = engine.batches.epoch(0)
    for _ in range(2):
        state, _ = engine.step(state, drawn.batch)
    entrant.train(2)
    losses = engine.step(state, drawn.batch)[1], entrant.engine.step(entrant.states[0], entrant.batches[0])[1]
    np.testing.assert_allclose(*losses, rtol=1e-4)


@pytest.fixture(scope="module")
def chosen():
    """What is chosen of a graph of dense rows and unlike neighbours; nobody changes it."""
    return found(dense())


def test_a_node_that_is_unlike_its_neighbours_is_kept_apart_and_without_a_share_rules_choose(chosen):
    assert chosen["model.name"] == "sage"
    rules = found(dense(), train=Train(search_share=0.0))
    assert rules == {c.key: c.value for c in choices.choose(Config(data=DATA), dense(), set())}


@pytest.mark.parametrize("mesh", [{"relation": 2}, {"feature": 2, "strategy": "tensor"}])
def test_the_race_chooses_the_same_on_every_mesh(chosen, mesh):
    """And again, as after a kill, whatever the labels of test nodes."""
    graph = dense()
    labels = graph.labels.copy()
    labels[graph.splits["test"]] = 0
    assert found(replace(graph, labels=labels), mesh=Mesh(**mesh)) == chosen


def test_what_is_given_is_kept_by_every_candidate(chosen):
    given = {"model.name": "gat", "data.normalize_features": "none", "model.layers": 2}
    model = Model(name="gat", layers=2)
    few = found(dense(), set(given), model=model, data=replace(DATA, normalize_features="none"))
    assert given.keys().isdisjoint(few)
    decided = found(dense(), {"train.epochs"}, train=Train(epochs=2))  # of which a share is no step
    rules = choices.choose(Config(data=DATA, train=Train(epochs=2)), dense(), {"train.epochs"})
    assert decided == {c.key: c.value for c in rules}


def test_a_run_keeps_what_the_race_chose_and_says_it(tmp_path, monkeypatch, caplog):
    store.save(dense(), tmp_path / "graph")
    command = [f"--data.path={tmp_path / 'graph'}", "--data.format=store", f"--workdir={tmp_path / 'run'}"]
    caplog.set_level(logging.INFO, log.name)
    main([*command, "--train.search_share=0.3"])
    config = yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())
    assert config["train"]["search_share"] == 0.3
    assert sum("steps each, by" in line for line in caplog.messages) >= 1
    assert any("taken: " in line for line in caplog.messages)
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    (tmp_path / "run" / "summary.json").unlink()
    monkeypatch.setattr(recipe, "search", lambda *_: pytest.fail("raced again"))
    main([*command, "--train.search_share=0"])  # on which the rest of a run does not depend
    again = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert again["test_accuracy"] == summary["test_accuracy"]


def test_columns_are_scaled_whatever_they_hold():
    graph = dense()
    features = made(graph, replace(DATA, normalize_features="columns")).features["node"]
    np.testing.assert_allclose(features.mean(axis=0), 0, atol=1e-5)
    np.testing.assert_allclose(features.std(axis=0), 1, rtol=1e-4)


@pytest.mark.parametrize(("best", "epochs", "said"), [(99, 100, True), (80, 100, False), (3, 3, False)])
def test_a_limit_that_ends_a_run_that_still_becomes_better_is_said(best, epochs, said):
    from hetjax.tasks.shown import OF_BEFORE
    from hetjax.train import still_rising

    progress = SimpleNamespace(best={"epoch": best, "micro_f1": 0.5})
    task = SimpleNamespace(metric="micro_f1", metrics=OF_BEFORE)
    run = SimpleNamespace(config=Config(train=Train(epochs=epochs)), progress=progress, task=task)
    assert bool(still_rising(run)) == said
    progress.best["micro_f1"] = 1.0
    assert not still_rising(run)


def test_a_large_graph_is_trained_by_what_the_rules_choose(monkeypatch, caplog):
    monkeypatch.setattr(search, "WHOLE_EDGES", 10)
    monkeypatch.setattr(search, "_raced", lambda *_: pytest.fail("raced"))
    for graph in (homogeneous(), shop()):
        assert found(graph)["train.stacking"]
