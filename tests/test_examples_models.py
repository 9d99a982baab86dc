"""Models of one's own in `examples`: their folds by hand where that tells something, and on a mesh as on one device."""

import numpy as np
import pytest

from examples.han import joined
from tests.equivalence import compare, few
from tests.test_sehgnn import Metapath, product

MODELS = {
    "Simple-HGN": {"name": "examples.simple_hgn:SimpleHGN", "heads": 2, "input_projection": True, "layers": 1},
    "Simple-HGN, no head": {"name": "examples.simple_hgn:SimpleHGN", "input_projection": True, "head": False},
    "HAN": {"name": "examples.han:HAN", "heads": 2, "layers": 1, "dropout": 0.3},
}


@pytest.mark.parametrize("name", ["Simple-HGN", "HAN"])
def test_relations_on_two_partitions_equal_one_device(name):
    graph = few("writes", "written_by", "cites")
    graph = joined(graph, 2) if name == "HAN" else graph
    errors = compare(graph, (2, 1), "full", MODELS[name], steps=3, wide=True)
    assert errors.loss < 1e-9 and errors.gradient < 1e-9 and errors.state < 1e-7


def test_metapaths_join_the_nodes_that_they_reach():
    graph = few("writes", "written_by")
    made = joined(graph, 2)
    for relation, csc in made.relations.items():
        path = next(
            p
            for p in [Metapath("paper", (a, b)) for a in graph.relations for b in graph.relations]
            if p.name(graph.schema) == relation.name
        )
        reached = np.zeros((len(graph.labels),) * 2)
        reached[np.repeat(np.arange(len(reached)), np.diff(csc.indptr)), csc.indices] = 1
        np.testing.assert_array_equal(reached > 0, product(graph, path) > 0)
    assert made.relations
