"""When checkpoints are written: seldom where epochs are short, and nothing else is different."""

import json

import jax
import numpy as np
import pytest

import hetjax
from hetjax.checkpoints.checkpoint import Checkpoints
from hetjax.inference.restored import restore
from hetjax.sharding.single.engine import SingleEngine
from hetjax.training import saving
from tests.support.graphs import random_graph

OPTIONS = {"recipe": "none", "mode": "full", "hidden": 4, "baselines": False}


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
    """Two runs, to the last bit: weights and learned features of their best epochs."""
    assert records(one) == records(other)
    best = [restore(folder) for folder in (one, other)]
    for left, right in zip(*(jax.tree.leaves((own.params, own.features)) for own in best), strict=True):
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
    best = summary["epoch"]
    assert written == [1, best, best + 3] and best > 1
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


@pytest.mark.parametrize("places", [{}, {"bytes_per_device": 0}, {"bytes_per_device": 400, "host_bytes": 0}], ids=str)
def test_the_best_epoch_that_waits_is_a_copy_of_tables_wherever_they_live(tmp_path, written, places):
    """Training changes tables of the host in place. Those that lie in files are written at once, not copied into memory."""
    options = {"mode": "minibatch", "batch_size": 8, "fanout": (3, 2), "epochs": 12, "learning_rate": 0.1, **places}
    best = trained(tmp_path / "every", 0, **options)["epoch"]
    assert 1 < best < 12
    every = len(set(written))
    written.clear()
    trained(tmp_path / "seldom", 1000, **options)
    assert (len(written) == every) == ("host_bytes" in places)
    assert_same(tmp_path / "every", tmp_path / "seldom")


@pytest.mark.parametrize("after", range(3))
def test_a_run_that_was_killed_between_checkpoints_ends_the_same(tmp_path, monkeypatch, after):
    """Before any checkpoint that is written, be it of the best epoch or of now."""
    options = {"epochs": 12, "learning_rate": 0.1}
    trained(tmp_path / "whole", 1000, **options)
    plain, done = Checkpoints.save, []

    def save(self, *given):
        if len(done) == after:
            raise KeyboardInterrupt
        done.append(plain(self, *given))

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(Checkpoints, "save", save)
        trained(tmp_path / "killed", 1000, **options)
    assert len(done) == after
    trained(tmp_path / "killed", 0, **options)
    assert_same(tmp_path / "whole", tmp_path / "killed")
