"""Orders are counted with what operations cost on the machine where a run begins."""

import functools
import importlib
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hetjax.checkpoints.progress import Progress, check_progress
from hetjax.graph.hetgraph import build
from hetjax.graph.schema import Relation, Schema
from hetjax.kernels import calibration, folded_attention_kernels, native
from hetjax.kernels import neighbour_sums as kernels
from hetjax.kernels.calibration import REFERENCE, scaled
from hetjax.kernels.cost_model import ACCELERATOR, CostModel, Costs, current, usual
from hetjax.kernels.grouping import FEWEST
from hetjax.kernels.native import operations
from hetjax.models import precompile
from hetjax.options import owners
from hetjax.options.config import Config, Train
from hetjax.processes.group import ProcessGroup
from hetjax.sharding.evaluate import Evaluator, evaluated_together
from hetjax.system.eager import eagerly
from hetjax.training.order_costs import count_orders, order_costs
from tests.support.models import evaluated, readout, trainer_of

SLOWER = REFERENCE | {"move": 2 * REFERENCE["move"]}


@pytest.fixture
def measured(tmp_path, monkeypatch):
    """How often a machine whose memory is half as fast was measured; its folder of costs is new."""
    times = []
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(calibration, "measure", lambda: times.append(1) or dict(SLOWER))
    return times


def test_a_machine_like_that_of_the_constants_counts_with_them():
    assert scaled(REFERENCE) == Costs()
    noisy = {name: number * (1.1 if number > 0.1 else 0.95) for name, number in REFERENCE.items()}
    assert scaled(noisy) == Costs()
    assert scaled({name: 3 * number for name, number in REFERENCE.items()}) == Costs()


def test_what_takes_longer_costs_more():
    assert scaled(SLOWER) == Costs()._replace(move=2 * Costs().move)
    assert scaled(REFERENCE | {"move": 1e9}).move == calibration.MOST * Costs().move


def test_every_operation_is_measured():
    found = calibration.measure()
    assert found.keys() == REFERENCE.keys() and min(found.values()) > 0


def test_what_is_measured_is_compiled_before(monkeypatch):
    called = []
    monkeypatch.setattr(operations, "_ask", lambda operation, floats: called.append(operation))
    monkeypatch.setattr(calibration, "ROUNDS", 0)
    jax.clear_caches()
    try:
        with pytest.raises(ValueError, match="empty"):
            calibration.measure()
    finally:
        jax.clear_caches()  # of programs whose operations nobody was asked for
    assert set(called) == set(precompile.MEASURED)


@pytest.mark.parametrize("cpus", [True, False])
def test_what_models_call_is_compiled_after(monkeypatch, cpus):
    """And of a model of attention what goes back along its edges."""
    expected, calls = [], []
    monkeypatch.setattr(native, "expect", lambda *operations: expected.append(set(operations)))
    monkeypatch.setattr(native, "expect_calls", calls.append)
    monkeypatch.setattr(precompile.runtime, "on_cpus", lambda: cpus)
    monkeypatch.setattr(jax, "default_backend", lambda: "cpu" if cpus else "gpu")
    precompile.before_measuring()
    precompile.after_measuring(attention=False)
    precompile.after_measuring(attention=True)
    if not cpus:
        assert not expected and not calls
        return
    measured, plain, of_attention = expected
    assert not measured & of_attention and of_attention - plain == {kernels.attend_back, kernels.to_sources}
    module, _, function = calls[0].rpartition(".")
    assert callable(getattr(importlib.import_module(module), function))


@pytest.mark.parametrize("model", ["rgcn", "rgat", "hgt"])
@pytest.mark.parametrize("authors", [20, 3000])
@pytest.mark.parametrize("relations", [1, 2, FEWEST])
@pytest.mark.parametrize("alone", [False, True])
def test_what_evaluation_folds_is_compiled_before(monkeypatch, model, authors, relations, alone):
    """Of many authors few of whom are read, which are folded first; of relations that share products or are folded together, which are not."""
    rng = np.random.default_rng(0)
    read = [Relation("author", f"writes{number}", "paper") for number in range(relations)]
    schema = Schema({"paper": 40, "author": authors}, (*read, Relation("paper", "of", "author")), "paper", 3)
    each = 60 if authors > 20 else 3000
    edges = {r: tuple(rng.integers(0, schema.nodes[t], each) for t in (r.source, r.target)) for r in schema.relations}
    features = {t: rng.standard_normal((count, 24), np.float32) for t, count in schema.nodes.items()}
    splits = dict(zip(("train", "validation", "test"), np.split(np.arange(40), (20, 30))))
    graph = build(schema, edges, features, rng.integers(0, 3, 40), splits)
    given = {"heads": 2, "attention_dropout": 0.5 if alone else 0.0} if model != "rgcn" else {}
    layers = {"layers": 2, "hidden": 8}
    trainer = trainer_of(graph, Config(model=owners.made_model(name=model, **layers, **given)), 1)
    params = eagerly(trainer.weights, np.int32(0)).params
    expected, called = [], set()
    jax.clear_caches()  # of what was traced, whose operations were asked for then
    monkeypatch.setattr(native, "expect", lambda *operations: expected.extend(operations))
    monkeypatch.setattr(operations, "_ask", lambda operation, floats: called.add(operation))
    nodes = np.concatenate(evaluated_together(readout(graph), 10_000))
    precompile.before_evaluating(trainer.model, graph, {"paper": len(nodes)})
    evaluator = Evaluator(trainer.model, graph, 10**6)

    def traced(*arguments, **given):
        shape = jax.eval_shape(functools.partial(evaluator._embed, **given), *arguments)
        return np.zeros(shape.shape, shape.dtype)

    monkeypatch.setattr(evaluator, "embedded", traced)
    evaluated(evaluator, params, {t: jnp.asarray(matrix) for t, matrix in graph.features.items()}, nodes)
    kernel = folded_attention_kernels.attend
    assert (kernel in expected) == (kernel in called)
    assert model == "rgcn" or relations != 1 or authors == 20 or expected


def test_a_machine_is_measured_once(measured, tmp_path):
    assert [order_costs(ProcessGroup()) for _ in range(2)] == 2 * [scaled(SLOWER)]
    assert len(measured) == 1
    (file,) = (tmp_path / "hetjax" / "costs").iterdir()
    file.write_text('{"about": {}, "costs": {"move": -1}}')
    order_costs(ProcessGroup())
    assert len(measured) == 2


def test_who_measures_at_the_same_time_takes_what_is_kept_first(measured, monkeypatch):
    def measure_late():
        order_costs(ProcessGroup())  # another process, which is done first
        return dict(REFERENCE)

    first = calibration.measure
    monkeypatch.setattr(
        calibration, "measure", lambda: monkeypatch.setattr(calibration, "measure", first) or measure_late()
    )
    assert order_costs(ProcessGroup()) == scaled(SLOWER)


def test_a_folder_that_cannot_be_written(measured, tmp_path):
    (tmp_path / "hetjax").write_text("no folder")
    assert order_costs(ProcessGroup()) == scaled(SLOWER)


def test_a_run_goes_on_with_what_it_began_with(measured):
    begun = Progress()
    assert count_orders(Config(), begun, None, ProcessGroup()) == CostModel(scaled(SLOWER)) and len(measured) == 1
    saved = json.loads(json.dumps(begun.__dict__))
    check_progress(saved | {"metrics_bytes": 0})
    goes_on = count_orders(Config(train=Train(order_costs="usual")), Progress(**saved), None, ProcessGroup())
    assert goes_on == CostModel(scaled(SLOWER))
    older = Progress(**saved | {"costs": saved["costs"][:-1]})  # of before `far` was counted
    check_progress(vars(older) | {"metrics_bytes": 0})
    assert count_orders(Config(), older, None, ProcessGroup()).orders == scaled(SLOWER)._replace(far=0)
    with pytest.raises(ValueError, match="costs are 1 numbers"):
        check_progress(saved | {"costs": [1.0]})


@pytest.mark.parametrize("asked", ["measured", "usual"])
def test_an_accelerator_is_not_measured_and_has_costs_of_its_own(monkeypatch, measured, asked):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    begun = Progress()
    found = count_orders(Config(train=Train(order_costs=asked)), begun, None, ProcessGroup())
    assert found == CostModel(ACCELERATOR) and begun.costs == list(ACCELERATOR) and not measured
    check_progress(vars(begun) | {"metrics_bytes": 0})
    assert usual() == current() == found
    assert count_orders(Config(), Progress(), "written before costs were kept", ProcessGroup()) == CostModel()


def test_usual_costs_are_not_measured(measured):
    found = count_orders(Config(train=Train(order_costs="usual")), Progress(), None, ProcessGroup())
    assert found == CostModel() and not measured
