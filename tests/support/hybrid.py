"""A set-up of the hybrid dependency strategy, and the folder that its measured costs go to."""

import pytest

from hetjax.sharding import mesh as meshes
from hetjax.sharding.dependency import costs, link, probes
from hetjax.sharding.strategy import setup
from tests.support.equivalence import setting


def hybrid(graph, name="rgcn"):
    config = setting(graph, "full", (1, 2, "dependency"), {"name": name}, {"options": {"mode": "hybrid"}})
    given = setup(config, graph)
    return given, meshes.row(meshes.make(1, 2), 0)


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """Where costs are kept; blocks are small, and always worth their time."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    nothing_lasts = (costs, "PROBE", {True: 0.0, False: 0.0}), (costs, "EACH", 0.0), (costs, "LINK", 0.0)
    for module, name, value in ((probes, "TARGETS", 64), (link, "SMALL", 64), *nothing_lasts):
        monkeypatch.setattr(module, name, value)
    return tmp_path / "hetjax" / "costs"
