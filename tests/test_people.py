"""What people meet: names of options from other libraries, help, the messages of a program that uses hetjax, and the headline of a run."""

import inspect
import logging
import pydoc
import subprocess
import sys

import numpy as np
import pytest
import yaml

import hetjax
from hetjax.options import names as option_names
from hetjax.options import owners
from hetjax.options.command_line import parse
from hetjax.options.config import SECTIONS
from hetjax.recipe import recipe
from hetjax.results.results import lines
from hetjax.system.errors import InputError
from tests.support.graphs import random_graph
from tests.support.people import OPTIONS, people


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("lr", "here it is learning_rate"),
        ("early_stopping", "here it is patience"),
        ("num_layers", "here it is layers"),
        ("hidden_dim", "here it is hidden"),
        ("n_epochs", "here it is epochs"),
        ("batchsize", "here it is batch_size"),
        ("model_name", "here it is model"),
        ("device", "JAX_PLATFORMS=cpu"),
        ("optimizer", "it is Adam"),
        ("hiden", "the nearest is hidden"),
    ],
)
def test_names_of_other_libraries_are_answered_in_python(given, words, tmp_path):
    with pytest.raises(InputError, match=f"option '{given}': .*{words}"):
        hetjax.train("nowhere", tmp_path / "run", **{given: 1})
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("--lr", "unknown option --lr; here it is --train.learning_rate"),
        ("--train.lr", "unknown option --train.lr; here it is --train.learning_rate"),
        ("--early_stopping", "unknown option --early_stopping; here it is --train.patience"),
        ("--epochs", "unknown option --epochs; it is --train.epochs"),
        ("--num-layers", "unknown option --num-layers; here it is --model.layers"),
        ("--device", "unknown option --device; hetjax takes the accelerators"),
    ],
)
def test_names_of_other_libraries_are_answered_on_the_command_line(given, words):
    with pytest.raises(InputError, match=words):
        parse(SECTIONS, [f"{given}=1"], "x", "", {})


def test_names_of_other_libraries_are_answered_in_a_file(tmp_path):
    (tmp_path / "c.yaml").write_text("train: {lr: 1}\n")
    with pytest.raises(InputError, match=r"c.yaml: unknown key train.lr; here it is train.learning_rate"):
        parse(SECTIONS, ["--config", str(tmp_path / "c.yaml")], "x", "", {})


def test_every_other_name_is_of_an_option_that_there_is():
    sections = SECTIONS | owners.chooser_sections()
    full = {f"{section}.{key}" for section, keys in sections.items() for key in keys.__dataclass_fields__} | {"workdir"}
    assert set(option_names.EQUAL) <= full
    others = [name for names in option_names.EQUAL.values() for name in names]
    assert len(others) == len(set(others)) and not set(others) & {key.rpartition(".")[2] for key in full}


def test_help_shows_what_people_call():
    shown = pydoc.render_doc(hetjax.train, renderer=pydoc.plaintext)
    assert "Train a model on a graph" in shown and "hetjax.train(graph:" in shown and "train_epoch" not in shown
    assert list(inspect.signature(hetjax.train).parameters) == ["graph", "workdir", "options"]
    assert list(inspect.signature(hetjax.predict).parameters)[:2] == ["workdir", "graph"]
    code = "import sys, hetjax; names = dir(hetjax); assert 'jax' not in sys.modules; print(*names)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.split() == sorted(hetjax.__all__), done.stderr


def test_training_leaves_the_root_logger_alone(tmp_path):
    code = f"""
import logging, sys
import hetjax
from tests.support.people import OPTIONS, people
hetjax.train(people(), {str(tmp_path / "run")!r}, **OPTIONS)
assert not logging.root.handlers, logging.root.handlers
logging.basicConfig(format="mine %(message)s", stream=sys.stdout, level="INFO")
hetjax.train(people(), {str(tmp_path / "run")!r}, **OPTIONS)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    said = [line for line in done.stdout.splitlines() if "this run is done" in line]
    assert len(said) == 1 and said[0].startswith("mine ") and "this run is done" not in done.stderr


def test_the_headline_is_the_model_alone_and_its_stack_stands_beside_it(tmp_path, caplog):
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 2, 60)
    edges = {("a", "to", "a"): rng.integers(0, 60, (2, 120))}
    graph = hetjax.from_arrays(edges, {"a": (kind[:, None] + rng.random((60, 2))).astype(np.float32)}, {"a": kind})
    caplog.set_level(logging.INFO, "hetjax")
    run = hetjax.train(graph, tmp_path / "run", **OPTIONS | {"stacking": True})
    summary = run.summary
    headline = lines(summary, run.path, False)[0]
    assert headline.startswith(f"test accuracy {100 * summary['test_accuracy']:.2f} %") and headline in caplog.text
    stacked = summary["stacking"]
    answers = run.predict().answers[graph.splits["test"]] == graph.labels[graph.splits["test"]]
    has = stacked["test_accuracy"] if stacked["kept"] else summary["test_accuracy"]
    assert answers.mean() == pytest.approx(has)
    named = [line for line in lines(summary, run.path, False) if "stacked" in line]
    assert named[0].startswith(
        "stacked, as predictions are" if stacked["kept"] else "not stacked with baselines: in folds"
    )
    page = (run.path / "report.html").read_text()
    assert ("stacked with baselines" in page.split("<table")[0]) == ("stacked" in repr(run)) == stacked["kept"]
    plain = hetjax.train(people(), tmp_path / "plain", **OPTIONS)
    assert not plain.summary["stacking"] and "stacked" not in repr(plain)


def test_options_that_go_together_with_what_is_chosen_are_taken_in_python(tmp_path):
    """A number of layers, or a fanout, alone: the other is chosen, and neither is held against the default."""
    for number, options in enumerate(({"layers": 3}, {"fanout": [5]})):
        run = hetjax.train(random_graph(), tmp_path / str(number), epochs=1, hidden=4, feature_width=4, **options)
        config = yaml.safe_load((run.path / "config.yaml").read_text())
        assert config["model"]["layers"] == (3 if number == 0 else 1)


def test_a_malformed_configuration_in_a_folder_is_one_line(tmp_path):
    (tmp_path / "config.yaml").write_text("model:\n  hidden: abc\n")
    with pytest.raises(InputError, match=r"config.yaml: .*model.hidden is abc"):
        recipe.before(tmp_path, set())
