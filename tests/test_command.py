"""The command `hetjax`."""

import os
import subprocess
import sys
import tomllib
from importlib.util import find_spec

import pytest

import hetjax
from hetjax import __main__ as command
from tests.support.commands import ROOT


def said(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-m", "hetjax", *arguments], capture_output=True, text=True, cwd=ROOT)


def test_version_and_help_need_no_jax():
    code = "import sys; from hetjax.__main__ import dispatch; dispatch(sys.argv[1:]); assert 'jax' not in sys.modules"
    for argument, expected in (("--version", f"hetjax {hetjax.__version__}\n"), ("--help", f"{command.usage()}\n")):
        done = subprocess.run([sys.executable, "-c", code, argument], capture_output=True, text=True, cwd=ROOT)
        assert (done.stdout, done.stderr, done.returncode) == (expected, "", 0)


NEEDS_NO_JAX = {
    "help of train": (["train", "--help"], 0, "--train.learning_rate"),
    "help of predict": (["predict", "--help"], 0, "--new_nodes"),
    "help of ingest": (["ingest", "--help"], 0, "--leave_out"),
    "help of convert": (["convert", "--help"], 0, "--data.format"),
    "help of partition": (["partition", "--help"], 0, "--method"),
    "help of sweep": (["sweep", "--help"], 0, "--seeds"),
    "help of doctor": (["doctor", "--help"], 0, "--graph"),
    "option of a search": (["sweep", "--config", "c.yaml", "--over", "train.epoch=1"], 2, "c.yaml: No such file"),
    "option": (["train", "--workdir", "x", "--train.epoch", "3"], 2, "the nearest known one is --train.epochs"),
    "option of a strategy": (
        ["train", "--workdir", "x", "--mesh.data=2", "--mesh.strategy=tensor", "--sampling.mode=full"],
        2,
        "mesh.data",
    ),
    "value": (["train", "--workdir", "x", "--train.epochs", "no"], 2, "should be a whole number"),
    "model": (["train", "--workdir", "x", "--model.name", "gcm"], 2, "model.name is 'gcm'"),
    "graph": (["train", "--workdir", "x", "--data.format", "store", "--data.path", "/none"], 2, "/none: no such file"),
    "run": (["predict", "--workdir", "/none", "--out", "/none.csv"], 2, "config.yaml: no such file"),
}


@pytest.mark.parametrize("name", NEEDS_NO_JAX)
def test_help_and_errors_need_no_jax(name, tmp_path):
    """In a Python that has none."""
    arguments, status, words = NEEDS_NO_JAX[name]
    (tmp_path / "jax.py").write_text("raise ImportError('there is no jax here')")
    given = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)]), "GLIBC_TUNABLES": ""}
    given.pop("HETJAX_DATA", None)
    done = subprocess.run(
        [sys.executable, "-m", "hetjax", *arguments], capture_output=True, text=True, cwd=tmp_path, env=given
    )
    assert done.returncode == status and words in done.stdout + done.stderr, done.stderr
    if status:
        assert done.stderr.startswith("hetjax: error: ") and done.stderr.count("\n") == 1 and not done.stdout


def test_a_command_is_its_module(monkeypatch):
    started = []
    monkeypatch.setattr(os, "execv", lambda *about: started.append(about))
    for name in command.COMMANDS:
        command.dispatch([name, "--help", "x"])
        assert started.pop() == (sys.executable, [sys.executable, "-m", f"hetjax.{name}", "--help", "x"])
        assert find_spec(f"hetjax.{name}")


def test_a_command_runs_and_its_status_is_kept():
    done = said("convert", "--chek", "x")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "hetjax: error: unknown option --chek; the nearest known one is --check\n"


@pytest.mark.parametrize("name,hint", [("trian", "the nearest is train"), ("zzz", "there are train, predict")])
def test_an_unknown_command_is_one_line(name, hint):
    done = said(name)
    assert done.returncode == 2 and done.stderr.startswith(f"hetjax: error: no command '{name}'; {hint}")
    assert done.stderr.count("\n") == 1 and not done.stdout


def test_the_package_installs_it():
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts == {"hetjax": "hetjax.__main__:main"} and callable(command.main)
