"""The guard: a run whose loss explodes goes back and on with a lower rate, to the last bit as one that was killed meanwhile."""

import json
from dataclasses import replace

import jax
import numpy as np
import pytest

import hetjax
from hetjax.inference.restored import restore
from hetjax.options.config import Config, Train
from hetjax.results.results import lines
from hetjax.sharding.single.engine import SingleEngine
from hetjax.system.logs import shown
from hetjax.training import guard
from tests.support.equivalence import few
from tests.support.graphs import random_graph

FEW = few("cites", "writes")  # whose programs compile soon
OPTIONS = {"recipe": "none", "mode": "full", "hidden": 4, "baselines": False, "on_divergence": "back"}


def large(factor: float = 1000):
    """Raw features of another size, as of a graph that nobody scaled."""
    graph = random_graph(3)
    features = {t: np.asarray(matrix, np.float32) * np.float32(factor) for t, matrix in graph.features.items()}
    return replace(graph, features=features)


def test_both_rates_are_lowered():
    config = Config(train=Train(learning_rate=2.0, feature_learning_rate=0.5))
    train = guard.lowered(config, 2).train
    np.testing.assert_allclose([train.learning_rate, train.feature_learning_rate], [0.02, 0.005])
    assert guard.lowered(config, 0) == config
    assert guard.lowered(Config(), 1).train.feature_learning_rate is None


def test_features_of_thousands_at_a_rate_of_ten_train_after_it_was_lowered(tmp_path, capsys):
    with shown():
        run = hetjax.train(large(), tmp_path / "run", learning_rate=10.0, epochs=8, **OPTIONS)
    said = "".join(capsys.readouterr())
    times = run.summary["learning_rate_lowered"]
    assert times >= 1 and "and on with train.learning_rate 1" in said
    lowered = f"train.learning_rate was lowered {times} time{'s' * (times > 1)}, to {10 * guard.FACTOR**times:.3g}: "
    assert lowered in "\n".join(lines(run.summary, tmp_path, False))
    assert said.count("--data.normalize_features auto brings them to the size of 1") == 1
    assert "nan" not in said.lower() and np.isfinite(run.summary["test_accuracy"])


def test_a_loss_that_rose_slowly_is_said(tmp_path):
    """Too slowly for the guard."""
    run = hetjax.train(FEW, tmp_path / "run", epochs=2, **OPTIONS)
    words = "rose from 2 to 21 at a train.learning_rate of 0.01: a run that begins with a lower one may do better"
    for largest, said in ((19.0, False), (21.0, True)):
        about = run.summary | {"train_loss": {"first": 2.0, "largest": largest}}
        assert (words in "\n".join(lines(about, tmp_path, False))) == said
    assert run.summary["train_loss"]["first"] == run.summary["train_loss"]["largest"] > 0


def test_a_first_step_that_is_too_long_takes_the_run_to_its_start(tmp_path, capsys):
    """And not to the first epoch, whose weights it ruined, though no other was validated."""
    options = OPTIONS | {"hidden": 16, "layers": 3}
    with shown():
        run = hetjax.train(random_graph(3), tmp_path / "run", learning_rate=1000.0, epochs=8, **options)
    said = "".join(capsys.readouterr())
    assert "goes back to its start, and on with" in said and run.summary["learning_rate_lowered"] == 4
    losses = [
        json.loads(line)["train_loss"] for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()[:-1]
    ]
    assert max(losses) < 10


def test_a_run_that_is_killed_after_it_went_back_ends_the_same(tmp_path, monkeypatch):
    graph = FEW
    spiked = _spikes_at_a_high_rate(monkeypatch)
    whole = hetjax.train(graph, tmp_path / "whole", learning_rate=0.1, epochs=6, **OPTIONS)
    assert whole.summary["learning_rate_lowered"] == 1 and len(spiked) == 1
    monkeypatch.setattr(guard, "go_back", _killed(guard.go_back))
    with pytest.raises(KeyboardInterrupt):
        hetjax.train(graph, tmp_path / "killed", learning_rate=0.1, epochs=6, **OPTIONS)
    monkeypatch.undo()
    spiked = _spikes_at_a_high_rate(monkeypatch)
    again = hetjax.train(graph, tmp_path / "killed", learning_rate=0.1, epochs=6, **OPTIONS)
    assert again.summary["learning_rate_lowered"] == 1
    for one, other in zip(_parameters(tmp_path / "whole"), _parameters(tmp_path / "killed"), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_loss_that_always_explodes_ends_in_one_line_or_at_the_best_epoch(tmp_path, monkeypatch, capsys):
    plain, after = SingleEngine.step, [0]

    def step(self, state, batch, upcoming=None):
        state, loss = plain(self, state, batch, upcoming)
        return state, np.float32(np.nan) if int(state.step) > after[0] else loss

    monkeypatch.setattr(SingleEngine, "step", step)
    with pytest.raises(FloatingPointError, match="the loss is nan at step 0 of epoch 1; a lower train.learning_rate"):
        hetjax.train(FEW, tmp_path / "never", epochs=4, **OPTIONS)
    after[0] = 2
    with shown():
        run = hetjax.train(FEW, tmp_path / "back", epochs=4, **OPTIONS)
    assert run.summary["epoch"] <= 2 and run.summary["learning_rate_lowered"] == guard.MOST
    assert "the best, and ends there" in "".join(capsys.readouterr())
    with pytest.raises(FloatingPointError, match="lower train.learning_rate"):
        hetjax.train(FEW, tmp_path / "stop", epochs=4, **OPTIONS | {"on_divergence": "stop"})


def _spikes_at_a_high_rate(monkeypatch) -> list[int]:
    """The loss of the fourth step is a thousand, unless the rate was lowered."""
    plain, spiked = SingleEngine.step, []

    def step(self, state, batch, upcoming=None):
        state, loss = plain(self, state, batch, upcoming)
        if int(state.step) == 4 and self.setup.config.train.learning_rate > 0.05:
            spiked.append(1)
            return state, np.float32(1000)
        return state, loss

    monkeypatch.setattr(SingleEngine, "step", step)
    return spiked


def _killed(go_back):
    def killed(run, error):
        go_back(run, error)
        raise KeyboardInterrupt

    return killed


def _parameters(folder) -> list[np.ndarray]:
    """That the run chose, in the order of their names."""
    return [np.asarray(leaf) for leaf in jax.tree.leaves(restore(folder).params)]
