"""The L2 penalty: which weights it is on, and that every strategy has it once."""

import numpy as np
import pytest

from hetjax.sharding.registry import make_engine
from tests.support.equivalence import MODELS, compare, few, flat, setting
from tests.support.graphs import random_graph

MORE = {"l2": 0.01, "l2_layers": "all", "gradient_clip": 0.05}


@pytest.mark.parametrize(("layers", "parts"), [("first", {"layers_0"}), ("all", {"layers_0", "layers_1", "head"})])
def test_the_penalty_is_on_the_weights_that_are_named(layers, parts):
    graph, losses = random_graph(), []
    for l2 in (0.0, 0.1):
        engine = make_engine(setting(graph, "full", (1, 1), {}, {"l2": l2, "l2_layers": layers}), graph)
        state = engine.init(0)
        weights = {name: np.array(leaf) for name, leaf in flat(state.params).items()}
        rows = [np.array(table.rows) for table in state.tables.values()]
        batch = next(iter(engine.batches.epoch(0))).batch
        losses.append(float(engine.step(state, batch)[1]))
    penalised = [leaf for name, leaf in weights.items() if name.split("/")[1] in parts] + rows
    assert {name.split("/")[1] for name in weights} == {"layers_0", "layers_1", "head"}
    np.testing.assert_allclose(losses[1] - losses[0], 0.1 * sum(np.sum(leaf**2) for leaf in penalised), rtol=1e-4)


@pytest.mark.parametrize(
    ("mesh", "mode", "model"),
    [
        ((2, 1), "minibatch", "R-GCN, residual"),
        ((2, 2), "full", "R-GCN, bases"),
        ((1, 2, "vanilla"), "minibatch", "R-GCN, residual"),
        ((1, 2, "examples.replicated:Replicated"), "full", "R-GCN, bases"),
    ],
)
def test_a_penalty_on_all_weights_is_that_of_one_device(mesh, mode, model):
    """Of weights that several partitions share, of a projection and of the head."""
    errors = compare(few("cites", "writes", "written_by", "of"), mesh, mode, MODELS[model], wide=True, **MORE)
    assert errors.loss < 1e-12 and errors.gradient < 1e-12 and errors.state < 1e-7
