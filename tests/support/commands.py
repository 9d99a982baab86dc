"""Command lines as tests run them, in this process or in one of its own."""

import contextlib
import io
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from unittest import mock

import jax
import pytest

from hetjax.options.command_line import run_command
from tests.support.reader_files import TEST, TRAINING, TRIPLES

ROOT = Path(__file__).parents[2]
SMALL = [
    "--train.recipe",
    "none",
    "--model.hidden",
    "8",
    "--model.feature_width",
    "8",
    "--train.epochs",
    "3",
    "--sampling.fanout",
    "[3,2]",
    "--sampling.batch_size",
    "8",
]
QUICK = {"JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}


def call(module: str, *arguments, **environment):
    """Run a module's command line; returns the finished process with its output as text. Its programs compile in half the time."""
    given = {key: value for key, value in os.environ.items() if key != "HETJAX_DATA"}
    given |= QUICK | environment
    return subprocess.run(
        [sys.executable, "-m", module, *map(str, arguments)],
        capture_output=True,
        text=True,
        env=given,
        cwd=ROOT,
        timeout=250,
    )


def here(module: str, *arguments, **environment) -> subprocess.CompletedProcess:
    """As `call`, in this process: without the seconds that a start takes, and with the programs that it compiled before."""
    main, status, out, err = import_module(module).main, 0, io.StringIO(), io.StringIO()
    before = jax.config.read("jax_disable_most_optimizations")
    with contextlib.ExitStack() as process:  # which holds what a process holds until it ends

        def held(*about):
            return process.enter_context(open(*about))

        for context in (
            mock.patch.dict(os.environ),
            *(mock.patch(f"hetjax.{name}.open", held, create=True) for name in ("training.workdir", "tasks.metrics")),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            process.enter_context(context)
        process.callback(jax.config.update, "jax_disable_most_optimizations", before)
        jax.config.update("jax_disable_most_optimizations", True)
        os.environ.pop("HETJAX_DATA", None)
        os.environ.update(environment)
        try:
            run_command(main, list(map(str, arguments)))
        except SystemExit as stopped:
            status = stopped.code
    return subprocess.CompletedProcess(arguments, status, out.getvalue(), err.getvalue())


def refused(capfd, module: str, *arguments) -> subprocess.CompletedProcess:
    """As `here`, for what ends before anything is trained, with what libraries write to the terminal by themselves."""
    main = import_module(module).main
    capfd.readouterr()
    with mock.patch.dict(os.environ), pytest.raises(SystemExit) as stopped:
        os.environ.pop("HETJAX_DATA", None)
        run_command(main, list(map(str, arguments)))
    return subprocess.CompletedProcess(arguments, stopped.value.code, *capfd.readouterr())


def train(workdir, *arguments, **environment):
    return here("hetjax.train", "--workdir", workdir, *arguments, **environment)


def train_anew(workdir, *arguments, **environment):
    """In a process of its own, as a user trains."""
    return call("hetjax.train", "--workdir", workdir, *arguments, **environment)


def rdf_data(folder: Path, **changes) -> Path:
    """The small RDF folder with changed files."""
    folder.mkdir()
    for name, text in ({"g.nt": TRIPLES, "trainingSet.tsv": TRAINING, "testSet.tsv": TEST} | changes).items():
        (folder / name).write_text(text, newline="")
    return folder


def source(format: str, path) -> list:
    return ["--data.format", format, "--data.path", path]
