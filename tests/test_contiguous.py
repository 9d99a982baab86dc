"""Chunk-based partitioning: against sums in plain Python, and how even it is on skewed graphs."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetjax.graph.csc import edges_of
from hetjax.partition import edge_cut
from hetjax.partition.contiguous import contiguous, cumulative, ranges
from hetjax.partition.reports import report
from hetjax.system.errors import InputError
from tests.support.edge_cuts import PARTS, one_type
from tests.support.graphs import random_graph


def weights_by_loops(graph, node_type):
    """Of every node, times the number of nodes."""
    degree = [0] * graph.schema.nodes[node_type]
    for relation, csc in graph.relations.items():
        for _, v in zip(*edges_of(csc)):
            if relation.target == node_type:
                degree[v] += 1
    return [(sum(degree) or 1) + len(degree) * d for d in degree]


def ranges_by_loops(weights, parts):
    """Node by node: a range ends where it is nearest to the mean of what is left."""
    starts = [0]
    for left in range(parts, 0, -1):
        start = starts[-1]
        off = {
            end: abs(sum(weights[start:end]) * left - sum(weights[start:])) for end in range(start, len(weights) + 1)
        }
        end = min(off, key=lambda end: (off[end], end))
        starts.append(max(min(start + 1, len(weights)), min(end, len(weights) - left + 1)))
    return starts


@pytest.mark.parametrize("parts", PARTS)
def test_equals_loops_over_nodes(parts):
    graph = random_graph(2, papers=70)
    found = contiguous(graph, parts)
    made = edge_cut(graph, parts, "contiguous", seed=5)
    for name, count in graph.schema.nodes.items():
        expected = ranges_by_loops(weights_by_loops(graph, name), parts)
        assert found[name].tolist() == expected
        owners = [part for part in range(parts) for _ in range(expected[part], expected[part + 1])]
        assert made.nodes[name].tolist() == owners and len(owners) == count


@given(st.lists(st.integers(1, 30), max_size=20), st.integers(1, 8))
def test_ranges_of_any_weights(weights, parts):
    starts = ranges(np.cumsum([0, *weights]), parts).tolist()
    assert starts == ranges_by_loops(weights, parts)
    sizes = np.diff(starts)
    assert starts[0] == 0 and starts[-1] == len(weights) and (sizes >= 0).all()
    assert len(weights) < parts or (sizes > 0).all()
    heaviest = max(sum(weights[a:b]) for a, b in pairwise(starts))
    bound = sum(weights) / parts + max(weights, default=0) * (2 + math.log(parts)) / 2
    assert heaviest <= max(bound, max(weights, default=0))


@pytest.mark.parametrize("parts", [2, 4, 8])
def test_nodes_and_edges_of_a_zipf_graph_are_balanced_together(parts):
    """The hubs come first, so that ranges of as many nodes would have nearly all edges in the first."""
    rng, count = np.random.default_rng(0), 2000
    ends = (count * rng.random((2, 20 * count)) ** 2.5).astype(int)
    made = edge_cut(one_type(*ends, count), parts, "contiguous")
    degree = np.bincount(ends[1], minlength=count)
    nodes = np.bincount(made.nodes["a"], minlength=parts)
    edges = np.bincount(made.nodes["a"], degree, minlength=parts)
    most = 20 * count * 2 / parts + degree.max() * 3
    assert nodes.max() <= 2 * count / parts + 1 and edges.max() <= most
    even = np.bincount(np.arange(count) * parts // count, degree, minlength=parts)
    assert edges.max() < even.max()


@pytest.mark.parametrize("hub", [0, 50, 99])
def test_the_hub_of_a_star_has_a_range_nearly_of_its_own(hub):
    others = np.delete(np.arange(100), hub)
    made = edge_cut(one_type(others, np.full(99, hub), 100), 4, "contiguous")
    sizes = np.bincount(made.nodes["a"], minlength=4)
    assert (sizes > 0).all() and sizes[made.nodes["a"][hub]] <= 26 and sizes.max() <= 51


def test_more_partitions_than_nodes_of_a_type():
    graph = random_graph()
    made = edge_cut(graph, 8, "contiguous")
    assert made.nodes["venue"].tolist() == list(range(6)) and len(made.nodes["ghost"]) == 0
    assert sum(row["nodes"] for row in report(made, graph).rows) == sum(graph.schema.nodes.values())
    with pytest.raises(InputError, match=r"^4 partitions of 3 nodes, outside 1\.\.3$"):
        edge_cut(one_type(*np.empty((2, 0), int), 3), 4, "contiguous")


def test_weights_that_int64_does_not_hold_are_floats(monkeypatch):
    graph = random_graph()
    whole = cumulative(graph, "paper")
    monkeypatch.setattr("hetjax.partition.contiguous.MOST", 1)
    assert whole.dtype == np.int64 and cumulative(graph, "paper").dtype == np.float64
    np.testing.assert_array_equal(cumulative(graph, "paper"), whole)
    np.testing.assert_array_equal(ranges(cumulative(graph, "paper"), 5), ranges(whole, 5))
