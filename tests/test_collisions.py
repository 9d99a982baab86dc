"""Names that hetjax makes, of pieces, metapaths and label inputs, beside names of a graph's own that are the same."""

import numpy as np
import pytest

from hetjax.graph import label_inputs
from hetjax.graph.hetgraph import build
from hetjax.graph.schema import Relation, Schema
from hetjax.graph.sizes import sizes
from hetjax.metapaths.star import along_metapaths
from hetjax.partition.cuts import cut_sizes, pieces
from hetjax.system.errors import InputError

W = Relation("a", "w", "p")


def graph(*relations: Relation):
    nodes = dict.fromkeys([name for r in relations for name in (r.source, r.target)], 9) | {"p": 20}
    ends = {r: (np.arange(8) % nodes[r.source], np.arange(8)) for r in relations}
    features = {name: np.ones((count, 3), np.float32) for name, count in nodes.items() if name != "p"}
    labels = np.arange(20) % 2
    return build(Schema(nodes, relations, "p", 2), ends, features, labels, {"train": np.arange(10)})


@pytest.mark.parametrize("number", [0, 1])
def test_a_relation_called_as_a_piece_would_be_is_not_lost(number):
    given = graph(W, pieces(W, 2)[number])
    with pytest.raises(InputError, match="as one of them would be called"):
        cut_sizes(sizes(given), {W: 2})
    assert len(cut_sizes(sizes(given), {W: 3}).edges) == 4  # under other names both are there


def test_a_relation_called_itself_keeps_labels_from_being_inputs():
    given = graph(W, Relation("p", label_inputs.ITSELF, "p"))
    assert "itself" in label_inputs.obstacle(given)
    with pytest.raises(InputError, match="itself"):
        label_inputs.with_labels(given)
    assert not label_inputs.obstacle(graph(W))


def test_metapaths_of_one_name_are_refused():
    given = graph(W, Relation("b", "x", "a"), Relation("a<-b", "y", "p"))
    with pytest.raises(InputError, match="p<-a<-b"):
        along_metapaths(given, 2)
    assert along_metapaths(graph(W, Relation("b", "x", "a")), 2).schema.relations
