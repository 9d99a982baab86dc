"""Folds of features that never change, computed before training: the same layer, with less to do at a step."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hetjax import models
from hetjax.kernels.cost_model import Costs
from hetjax.models import hgnn, known
from hetjax.models.known import Known, with_known
from hetjax.options import owners
from hetjax.options.config import Config, Sampling
from hetjax.sampling.whole import whole_graph
from hetjax.sharding.registry import make_engine
from tests.support.equivalence import few
from tests.support.graphs import random_graph
from tests.support.models import readout


@pytest.mark.parametrize("name", ["rgcn", "sage", "gcn", "gin"])
def test_a_layer_and_its_gradients_are_the_same(name, monkeypatch):
    """In double precision, wherever it pays or not."""
    monkeypatch.setattr(known, "_pays", lambda *_: True)
    graph = few("cites", "writes", "written_by", "of")
    (block,) = whole_graph(graph, [graph.schema.target], 1)
    with jax.enable_x64(True):
        x = {t: jnp.asarray(matrix, float) for t, matrix in graph.features.items()}
        widths = {t: matrix.shape[1] for t, matrix in x.items()}
        rng = np.random.default_rng(0)
        for t in graph.schema.nodes.keys() - widths.keys():
            x[t], widths[t] = jnp.asarray(rng.standard_normal((graph.schema.nodes[t], 5))), 5
        static = {t: x[t] for t in graph.features}
        built = hgnn.build(models.find(name), graph.schema, widths, readout(graph), 6, 1)
        layer = built.layers[0]
        params = layer.init(jax.random.key(0), block, x)
        params = jax.tree.map(lambda leaf: leaf.astype(float), params)
        ready = with_known(layer, block, static, Costs())
        stands = {key for key, edges in ready.adjacency.items() if isinstance(edges, Known)}
        assert stands == {r.key for r in layer.relations if r.source in static} != set()

        def total(params, block):
            made = layer.apply(params, block, x)
            return sum(jnp.sum(jnp.square(rows)) for rows in made.values())

        one, other = (jax.value_and_grad(total)(params, of) for of in (block, ready))
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-12), one, other)


@pytest.mark.parametrize(
    ("options", "expected"),
    [({}, True), ({"input_dropout": 0.5}, False), ({"input_projection": True}, False), ({"name": "rgat"}, False)],
)
def test_only_what_is_the_same_at_every_step_is_known(options, expected):
    graph = random_graph()
    config = Config(model=owners.made_model(**{"name": "rgcn", "hidden": 4} | options), sampling=Sampling(mode="full"))
    engine = make_engine(config, graph)
    (drawn,) = engine.batches.epoch(0)
    first, *others = drawn.batch.blocks
    assert any(isinstance(edges, Known) for edges in first.adjacency.values()) == expected
    assert not any(isinstance(edges, Known) for block in others for edges in block.adjacency.values())
