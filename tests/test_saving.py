"""When checkpoints are written: seldom where epochs are short, and nothing else is different."""

import json

import jax
import numpy as np
import pytest

import hetjax
from hetjax import saving
from hetjax.checkpoint import Checkpoints
from hetjax.restored import restore
from hetjax.sharding.single.engine import SingleEngine
from tests.conftest import random_graph

OPTIONS = {"mode": "full", "hidden": 4, "baselines": False}


@pytest.fixture
def written(monkeypatch) -> list[int]:
    """The steps of checkpoints, as they are written."""
    steps, plain = [], Checkpoints.save

    def save(self, step, state, progress):
        steps.append(step)
        plain(self, step, state, progress)

    monkeypatch.setattr(Checkpoints, "save", save)
    return steps


def records(folder) -> list[dict]:
    lines = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    return [{key: value for key, value in line.items() if key != "seconds"} for line in lines]


def assert_same(one, other):
    """Two runs, to the last bit."""
    assert records(one) == records(other)
    for left, right in zip(*(jax.tree.leaves(restore(folder).params) for folder in (one, other)), strict=True):
        np.testing.assert_array_equal(left, right)


def trained(folder, seconds, **options):
    return hetjax.train(random_graph(3), folder, checkpoint_seconds=seconds, **OPTIONS | options).summary


def test_of_short_epochs_the_first_the_best_and_the_last_are_written(tmp_path, written, monkeypatch):
    best = trained(tmp_path / "every", 0, epochs=12, learning_rate=0.1)["epoch"]
    assert written == list(range(1, 13)) and 1 < best < 12
    written.clear()
    trained(tmp_path / "seldom", 1000, epochs=12, learning_rate=0.1)
    assert written == [1, best, 12]
    assert_same(tmp_path / "every", tmp_path / "seldom")
    written.clear()
    monkeypatch.setattr(saving, "SMALL", 0)
    trained(tmp_path / "large", 1000, epochs=4)
    assert written == [1, 2, 3, 4]


def test_a_run_that_ends_by_patience_has_its_best_epoch(tmp_path, written):
    summary = trained(tmp_path / "run", 1000, epochs=100, learning_rate=0.1, patience=3)
    assert written == [1, summary["epoch"]] and summary["epoch"] > 1
    again = tmp_path / "again"
    trained(again, 0, epochs=100, learning_rate=0.1, patience=3)
    assert_same(tmp_path / "run", again)


@pytest.mark.parametrize("killed_at", [2, 5, 11])
def test_a_run_that_was_killed_ends_the_same(tmp_path, monkeypatch, killed_at):
    trained(tmp_path / "whole", 1000, epochs=12, learning_rate=0.1)
    plain = SingleEngine.step

    def step(self, state, batch, upcoming=None):
        if int(state.step) == killed_at:
            raise KeyboardInterrupt
        return plain(self, state, batch, upcoming)

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(SingleEngine, "step", step)
        trained(tmp_path / "killed", 1000, epochs=12, learning_rate=0.1)
    trained(tmp_path / "killed", 0, epochs=12, learning_rate=0.1)  # which may be another
    assert_same(tmp_path / "whole", tmp_path / "killed")
