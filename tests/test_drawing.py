"""Pictures: names that would be formulas, and that none costs the results that it shows."""

import json
from pathlib import Path

import pytest

from hetjax.graph.sizes import from_json, sizes
from hetjax.partition import partition, save
from hetjax.results.pictures import draw_cache
from hetjax.system.drawing import NAME, picture, shown
from tests.support.graphs import random_graph

CACHED = {"place": "host", "hits": 3, "misses": 1, "kept": 2, "rows": 5, "sent_bytes": 9, "returned_bytes": 9}


@pytest.mark.parametrize("name", ["$\\frac$", "$", "\ud800", "n" * 10_000, "\u0378", "a\nb"])
def test_any_name_is_drawn(name, tmp_path, capsys):
    draw_cache([CACHED | {"node_type": name}], tmp_path / "cache.png", "a title")
    assert (tmp_path / "cache.png").read_bytes().startswith(b"\x89PNG") and not capsys.readouterr().err
    assert len(shown(name)) <= NAME + 3


@pytest.mark.parametrize("name", ["$\\frac$", "n" * 200])
def test_a_plan_with_any_name_is_drawn(name, tmp_path, capsys):
    about = sizes(random_graph()).json()
    text = json.dumps(about).replace('"author"', json.dumps(name))
    save(partition(from_json(json.loads(text), "here"), 2), tmp_path / "plan")
    assert (tmp_path / "plan" / "plan.png").read_bytes().startswith(b"\x89PNG") and not capsys.readouterr().err


def test_a_picture_that_fails_is_a_line(tmp_path, caplog):
    @picture
    def draw(file: Path) -> None:
        file.write_text("half")
        raise RuntimeError("no\nink")

    draw(tmp_path / "x.png")
    assert caplog.messages == ["no x.png: RuntimeError: no ink"] and not (tmp_path / "x.png").exists()
    (tmp_path / "folder.png").mkdir()
    draw_cache([CACHED | {"node_type": "a"}], tmp_path / "folder.png", "a title")
    said = caplog.messages[-1]
    assert said.startswith("no folder.png: ") and said.endswith("folder.png: Is a directory")
