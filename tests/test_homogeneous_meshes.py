"""Models of homogeneous graphs on meshes: equal to one device, with the same loops and weights wherever edges are opened."""

import numpy as np
import pytest

from hetjax import models
from hetjax.graph import store
from hetjax.options.config import Data
from hetjax.sharding.raf.strategy import Raf, load_part
from hetjax.sharding.strategy import setup
from hetjax.system.errors import InputError
from tests.support.equivalence import GRAPHS, MODELS, compare, few, homogeneous, setting

VANILLA, RAF = (1, 2, "vanilla"), (2, 1)


@pytest.mark.parametrize(
    ("model", "graph", "mesh", "mode"),
    [
        ("GCN, residual", "homogeneous, weights", VANILLA, "full"),
        ("SAGE", "homogeneous, weights", VANILLA, "minibatch"),
        ("SAGE", "homogeneous", RAF, "full"),
        ("GIN, no head", "homogeneous, weights", RAF, "minibatch"),
        ("GCN", "few relations", RAF, "minibatch"),
        ("GAT, no head", "few relations", RAF, "full"),
        ("GATv2", "few relations", RAF, "minibatch"),
    ],
)
def test_equals_one_device(model, graph, mesh, mode):
    """By partitions of the nodes, in other ways than here, all of them are in tests/test_dependency.py."""
    errors = compare(GRAPHS[graph](), mesh, mode, MODELS[model], wide=True)
    assert errors.loss < 1e-12 and errors.gradient < 1e-12 and errors.state < 1e-9, errors


def test_one_relation_is_not_divided():
    config, graph = setting(homogeneous(), "full", RAF, MODELS["GCN"], {}), homogeneous()
    with pytest.raises(
        InputError, match="one relation is not divided: cut it .raf.cut., or use mesh.strategy vanilla with mesh.data 2"
    ):
        Raf().partition(setup(config, graph))


def test_partitions_of_a_store_have_the_loops_and_weights_of_the_whole_graph(tmp_path):
    """RAF sees a store in shape alone, and opens a partition's edges later."""
    graph = few("cites", "writes", "written_by", "of")
    store.save(graph, tmp_path / "graph")
    whole, data = models.changed("gcn", graph), Data(format="store", path=str(tmp_path / "graph"))
    given = setup(setting(graph, "minibatch", RAF, MODELS["GCN"], {}), Raf().open(data))
    plan, seen = Raf().partition(given), set()
    for part in plan.parts:
        for relation, edges in load_part(data, given.graph, plan, part.number, "gcn").relations.items():
            seen.add(relation)
            assert edges.loops == whole.relations[relation].loops
            for name, array in whole.relations[relation].arrays.items():
                np.testing.assert_array_equal(edges.arrays[name], array)
    assert seen == set(whole.relations)
