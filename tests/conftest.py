"""A strict environment for every test, and what several of them share."""

import os
from pathlib import Path

from tests.support import quick  # isort: split

import jax
import pytest

from hetjax.graph import store
from hetjax.graph.hetgraph import HetGraph
from hetjax.kernels import segment
from hetjax.kernels.native import platforms
from tests.support.graphs import random_graph
from tests.support.hybrid import kept  # noqa: F401 (a fixture)
from tests.support.links import ends  # noqa: F401 (a fixture)


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
    monkeypatch.setattr(platforms, "ffi_version", lambda: None)
    monkeypatch.setattr(segment, "_sum_by_rows", getattr(segment, f"_sum_{request.param}"))
    jax.clear_caches()
    yield
    jax.clear_caches()
