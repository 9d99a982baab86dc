"""What is compiled before it is asked for is what is asked for then, and changes no result."""

import jax
import numpy as np
import pytest

from hetjax import beforehand, native
from hetjax.config import Config, Model
from hetjax.metrics import ProgramCounter
from hetjax.models import additive_kernels, kernels
from hetjax.sharding.registry import make_engine
from tests.equivalence import MODELS, setting


def trained(engine, ahead: bool, ids: np.ndarray) -> tuple:
    """The state after two steps with its logits, and how many programs were compiled after the beginning."""
    state, batches = engine.init(0), engine.batches
    batch = next(iter(batches.epoch(0))).batch
    if ahead:
        state = engine.compile(state, batch, ids)
    programs = ProgramCounter()
    for _ in range(2):
        state, _ = engine.step(state, batch)
    stepped = programs.count
    logits = engine.logits(state, ids)
    return engine.gather(state), logits, stepped, programs.count - stepped


@pytest.mark.parametrize("mode", ["full", "minibatch"])
@pytest.mark.parametrize("name", ["R-GCN", "R-GAT"])
def test_what_was_compiled_is_not_compiled_again(graph, name, mode):
    """But for small programs around them: the update of learned rows, and packing."""
    ids, found = graph.splits["test"], []
    for ahead in (False, True):
        jax.clear_caches()
        found.append(trained(make_engine(setting(graph, mode, (1, 1), MODELS[name], {}), graph), ahead, ids))
    (plain, logits, steps, evaluation), (state, others, steps_then, evaluation_then) = found
    jax.tree.map(np.testing.assert_array_equal, plain, state)
    np.testing.assert_array_equal(logits, others)
    assert steps_then < steps
    assert evaluation_then == 0 < evaluation


def test_a_postponed_kernel_is_noted_and_not_compiled(monkeypatch):
    compiled = []
    monkeypatch.setattr(native, "_register", lambda operation, floats: compiled.append((operation, floats)))
    with native.postponed() as asked:
        kernels.sums.compile()
        kernels.sums.compile("float64")
    assert asked == {(kernels.sums, "float32"), (kernels.sums, "float64")}
    assert not compiled
    kernels.sums.compile()
    assert compiled == [(kernels.sums, "float32")]


@pytest.mark.parametrize("model, attention", [("rgcn", None), ("hgt", kernels), ("gatv2", additive_kernels)])
def test_kernels_of_a_model(model, attention):
    found = beforehand.operations(model)
    assert kernels.sums in found
    for module in (kernels, additive_kernels):
        assert (module.attend_back in found) == (module is attention)


def test_kernels_are_compiled_in_a_thread_which_ends_with_what_is_done_inside(monkeypatch):
    compiled = []
    monkeypatch.setattr(native, "_register", lambda operation, floats: compiled.append(operation))
    with beforehand.kernels_compiled(Config(model=Model(name="rgcn"))):
        pass
    assert compiled == beforehand.operations("rgcn")[: len(compiled)]
    with pytest.raises(RuntimeError, match="what happens inside"), beforehand.kernels_compiled(Config()):
        raise RuntimeError("what happens inside")
