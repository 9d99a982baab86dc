"""A strict environment for every test, and what several of them share."""

import os
from pathlib import Path

from tests import quick  # isort: split

import jax
import numpy as np
import pytest

from hetjax import native
from hetjax.graph import store
from hetjax.graph.hetgraph import HetGraph, build
from hetjax.graph.schema import Relation, Schema
from hetjax.models import segment


@pytest.fixture(autouse=True, scope="session")
def devices():
    """Four, whichever test comes first: a run that asks for more than there are would otherwise make them."""
    assert len(jax.devices()) == 4


@pytest.fixture(autouse=True)
def compilation(request):
    """The same mathematics in programs that compile sooner; with all that is fused as users have it where a test is `optimised`.

    So do the processes that tests start, but for one in which `hetjax.train` runs as users run it.
    """
    quick.compile_quickly(request.node.get_closest_marker("optimised") is None)


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real graphs. Where none is named the test is left out, and pytest says so; one that is named must be there."""
    folder = os.environ.get("HETJAX_DATA")
    if not folder:
        pytest.skip("left out: HETJAX_DATA, the folder of real graphs, is not set")
    assert Path(folder).is_dir(), f"HETJAX_DATA is {folder}, which is no folder"
    return Path(folder)


def random_graph(seed: int = 0, papers: int = 40, degree: int = 3) -> HetGraph:
    """A small graph with every oddity that is legal.

    Parallel edges, self loops, nodes without edges, two relations between the same types, an empty relation, a type that
    is only a source (`venue`), types with features of float32 and float16 and without, and a type without nodes.
    """
    rng = np.random.default_rng(seed)
    nodes = {"paper": papers, "author": 25, "venue": 6, "topic": 11, "ghost": 0}
    relations = (
        Relation("paper", "cites", "paper"),
        Relation("paper", "extends", "paper"),
        Relation("author", "writes", "paper"),
        Relation("paper", "written_by", "author"),
        Relation("venue", "publishes", "paper"),
        Relation("topic", "of", "paper"),
        Relation("paper", "about", "topic"),
        Relation("author", "knows", "author"),
        Relation("ghost", "haunts", "author"),
    )
    edges = {relation: (np.empty(0, int),) * 2 for relation in relations}
    for relation in relations[:-1]:
        count = degree * nodes[relation.target]
        if relation.name != "knows":
            ends = [rng.integers(0, max(1, nodes[name] - 2), count) for name in (relation.source, relation.target)]
            edges[relation] = tuple(np.concatenate([end, end[: count // 4]]) for end in ends)  # some edges twice
    loops = np.arange(5)
    edges[relations[0]] = tuple(np.concatenate([end, loops]) for end in edges[relations[0]])
    features = {
        "paper": rng.standard_normal((papers, 7), np.float32),
        "topic": rng.standard_normal((11, 5)).astype(np.float16),
    }
    labels = rng.integers(0, 3, papers)
    order = rng.permutation(papers)
    labels[order[-2:]] = -1
    third = papers // 3
    splits = {"train": order[:third], "validation": order[third : 2 * third], "test": order[2 * third : -2]}
    return build(Schema(nodes, relations, "paper", 3), edges, features, labels, splits)


@pytest.fixture
def graph() -> HetGraph:
    return random_graph()


@pytest.fixture(scope="session")
def stored(tmp_path_factory) -> Path:
    """The random graph as a store, which no test may change."""
    path = tmp_path_factory.mktemp("stored") / "store"
    store.save(random_graph(), path)
    return path


@pytest.fixture(params=["natively", "by_rows", "by_segments"])
def way(request, monkeypatch):
    """Sums and attention by kernels of our own, and by XLA's operations with sums in two ways."""
    if request.param == "natively":
        yield
        return
    monkeypatch.setattr(native, "usable", lambda: False)
    monkeypatch.setattr(segment, "_sum_by_rows", getattr(segment, f"_sum_{request.param}"))
    jax.clear_caches()
    yield
    jax.clear_caches()
