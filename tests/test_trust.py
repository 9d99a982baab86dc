"""A run's folder runs no code: a module that its `config.yaml` names is imported only where the user names it, or trusts the folder."""

import os
import shutil
import subprocess
import sys

import pytest
import yaml

import hetjax
from hetjax.system.errors import InputError
from tests.support.commands import QUICK, ROOT

SMALL = [
    *(
        "--synthetic.scale",
        0.0003,
        "--synthetic.classes",
        3,
        "--model.hidden",
        4,
        "--model.feature_width",
        4,
        "--train.epochs",
        1,
    ),
    *("--sampling.batch_size", 64, "--train.recipe", "none"),
]


def call(command, *arguments, folder):
    """Run a command of hetjax in a folder, whose modules can be imported there."""
    return subprocess.run(
        [sys.executable, "-m", f"hetjax.{command}", *map(str, arguments)],
        cwd=folder,
        env=os.environ | QUICK | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trust")
    (folder / "mine.py").write_text("from hetjax.models.rgcn import MODEL\nMODEL = MODEL\nopen('ran', 'w').close()\n")
    done = call("train", *SMALL, "--model.name", "mine:MODEL", "--workdir", "run", folder=folder)
    assert done.returncode == 0, done.stderr
    (folder / "ran").unlink()
    return folder


def edited(folder, section, key, value):
    file = folder / "config.yaml"
    content = yaml.safe_load(file.read_text())
    content.setdefault(section, {})[key] = value
    file.write_text(yaml.safe_dump(content))


def test_a_model_that_a_folder_names_is_refused_unless_trusted(trained):
    done = call("predict", "--workdir", "run", "--out", "p.csv", folder=trained)
    assert done.returncode == 2 and "model.name is 'mine:MODEL'" in done.stderr and "--trust" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (trained / "ran").exists() and not (trained / "p.csv").exists()
    done = call("predict", "--workdir", "run", "--out", "p.csv", "--trust", folder=trained)
    assert done.returncode == 0 and (trained / "ran").exists(), done.stderr
    (trained / "ran").unlink()


def test_a_task_that_a_folder_names_is_refused_unless_trusted(trained):
    shutil.copytree(trained / "run", trained / "task")
    (trained / "task_of_own.py").write_text("open('ran', 'w').close()\n")
    edited(trained / "task", "model", "name", "rgcn")
    edited(trained / "task", "task", "name", "task_of_own:Task")
    for command in (("predict", "--out", "q.csv"), ("train", *SMALL, "--train.recipe", "graph")):
        done = call(*command, "--workdir", "task", folder=trained)
        assert done.returncode == 2 and "task_of_own" in done.stderr, done.stderr
        assert not (trained / "ran").exists()


def test_resuming_and_warm_starts_import_what_the_command_names_alone(trained):
    for more in (["--workdir", "run"], ["--workdir", "other", "--init_from", "run"]):
        arguments = [a for a in SMALL if a not in ("--train.recipe", "none")]
        done = call("train", *arguments, *more, "--train.recipe", "graph", folder=trained)
        assert done.returncode == 2 and not (trained / "ran").exists(), done.stderr
    shutil.rmtree(trained / "other", ignore_errors=True)
    done = call("train", *SMALL, "--model.name", "mine:MODEL", "--workdir", "b", "--init_from", "run", folder=trained)
    assert done.returncode == 0, done.stderr
    (trained / "ran").unlink()


def test_python_imports_nothing_of_a_folder(trained, monkeypatch):
    monkeypatch.chdir(trained)
    monkeypatch.syspath_prepend(str(trained))
    for door in (hetjax.load, hetjax.predict, lambda folder: hetjax.Trained(folder).predict()):
        with pytest.raises(InputError, match="trust=True"):
            door("run")
    assert "mine" not in sys.modules and not (trained / "ran").exists()


@pytest.mark.parametrize("key,value", [("mesh.strategy", "evil:S"), ("train.loggers", ["evil:L"])])
def test_strategies_and_loggers_of_a_folder_are_never_imported(trained, key, value):
    (trained / "evil.py").write_text("open('ran', 'w').close()\n")
    copy = trained / f"copy_{key}"
    shutil.copytree(trained / "run", copy)
    edited(copy, *key.split("."), value)
    edited(copy, "evil", "x", 1)
    edited(copy, "model", "name", "rgcn")
    call("predict", "--workdir", copy.name, "--out", "q.csv", folder=trained)
    assert not (trained / "ran").exists()


def test_an_edited_configuration_is_named(trained):
    for key, value in (("hidden", 8), ("layers", 3), ("norm", "layer")):
        copy = trained / f"edited_{key}"
        shutil.copytree(trained / "run", copy)
        edited(copy, "model", key, value)
        done = call("predict", "--workdir", copy.name, "--out", "e.csv", "--trust", folder=trained)
        assert done.returncode == 2 and "config.yaml: " in done.stderr and key in done.stderr, done.stderr
        assert len(done.stderr.strip().splitlines()) == 1
