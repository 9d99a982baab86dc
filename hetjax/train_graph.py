"""Training in Python: `run = hetjax.train(graph, model="rgcn", epochs=20)`."""

import json
import os
import re
import shutil
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import fields
from pathlib import Path
from typing import Any

from hetjax import models
from hetjax.graph import store
from hetjax.graph.hetgraph import HetGraph
from hetjax.inference.trained import Trained
from hetjax.options import owners, renamed
from hetjax.options.command_line import parse
from hetjax.options.config import SECTIONS, Config
from hetjax.options.names import python_name
from hetjax.options.run_folder import check_folder
from hetjax.processes.group import ProcessGroup
from hetjax.recipe import recipe
from hetjax.sharding import registry
from hetjax.system.errors import InputError
from hetjax.train import train
from hetjax.training import loggers
from hetjax.training.run_options import check_strategy

GRAPH = "graph"  # the store in a run's folder


def train_graph(
    graph: HetGraph | str | os.PathLike, workdir: str | os.PathLike | None = None, **options: Any
) -> Trained:
    """Train a model on a graph, or go on where this run was left.

    Args:
      graph: a graph in memory, as `hetjax.from_arrays` and its like give it, which is written into the run's folder, so that the
        commands know it too; or the path of a store.
      workdir: the folder of the run, as `python -m hetjax.train` writes it; None: a folder that is deleted with the object.
      options: those of the command line, by their last names (`model="hgt"`, `epochs=20`, `hidden=128`, `mode="full"`), or
        in full, `**{"train.seed": 1}`. `class_weights` may be a dictionary by class.

    Raises:
      InputError: an unknown option, a value that it does not take, or a folder with another run or graph.
      FloatingPointError: the loss is not finite any more.
    """
    given = _arguments(options)
    _config([*given, "--data.format=store"])  # before anything is written
    path = Path(tempfile.mkdtemp(prefix="hetjax-") if workdir is None else workdir)
    check_folder(path)
    run = Trained(path)
    if workdir is None:
        weakref.finalize(run, shutil.rmtree, path, ignore_errors=True)
    with _taken_back(path):
        where = _stored(graph, path) if isinstance(graph, HetGraph) else Path(graph)
        given = [*given, "--data.format=store", f"--data.path={where.absolute()}"]
        config, ahead = recipe.resolve(_config(given), given, path, ProcessGroup())
        run.trust = frozenset({config.model.name, *owners.task_names(config.task)})
        train(config, path, ProcessGroup(), ahead)
    return run


@contextmanager
def _taken_back(path: Path) -> Iterator[None]:
    """Delete the graph that was written for a run which is refused before it begins, and the folder if it was made for it."""
    before, graph_before = path.exists(), (path / GRAPH).exists()
    try:
        yield
    except InputError:
        if not graph_before and not (path / "config.yaml").exists():
            shutil.rmtree(path / GRAPH, ignore_errors=True)
            if not before:
                with suppress(OSError):
                    path.rmdir()
        raise


def _stored(graph: HetGraph, path: Path) -> Path:
    """Write the graph as a store in the run's folder; one that is there already is the same, or an InputError."""
    where = path / GRAPH
    if not where.exists():
        path.mkdir(parents=True, exist_ok=True)
        store.save(graph, where)
    elif store.contents(where) != store.checksums_of(graph):
        raise InputError(f"{where}: another graph was trained there; give another workdir")
    return where


def _config(arguments: list[str]) -> Config:
    strategy = next((value for a in arguments if (value := a.removeprefix("--mesh.strategy=")) != a), None)
    config = registry.config_of(parse(SECTIONS | registry.sections(strategy), arguments, "hetjax.train", "", {})[0])
    check_strategy(config, arguments)
    models.check_name(config.model.name)
    loggers.check(config.train.loggers)
    return config


def _arguments(options: dict[str, Any]) -> list[str]:
    """Return options as the command line has them."""
    general = {name: section for name, section in SECTIONS.items() if name != "data"}
    readers = owners.sections(owners.READER).keys() - {"store"}
    own = {name: section for name, section in registry.sections(None).items() if name not in readers}
    groups = [[f"{n}.{key.name}" for n, section in of.items() for key in fields(section)] for of in (general, own)]
    full = [*groups[0], *groups[1]]
    short: dict[str, list[str]] = {"model": ["model.name"], "task": ["task.name"]}
    for group in groups:  # the options of one member come after those that every run has
        taken = set(short)
        for name in (name for name in group if name.split(".")[1] not in taken and name != "task.name"):
            short.setdefault(name.split(".")[1], []).append(name)
    chosen = {
        options.get(
            kind.chooser.split(".")[0] if kind is not owners.STRATEGY else "strategy", options.get(kind.chooser)
        )
        or kind.default
        for kind in owners.KINDS
    }
    arguments = []
    for name, value in options.items():
        matches = [name] if name in full or name in renamed.old_names() else short.get(name, [])
        if len(matches) > 1:
            matches = [one for one in matches if one.split(".")[0] in chosen] or matches
        if len(matches) != 1:
            raise python_name(name, short, full)
        arguments.append(f"--{matches[0]}={_written(value)}")
    return arguments


def _written(value: Any) -> str:
    if isinstance(value, dict):  # of `class_weights`
        return json.dumps([f"{name}={number}" for name, number in value.items()], ensure_ascii=False)
    if isinstance(value, list | tuple):
        return f"[{','.join(map(_item, value))}]"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _item(value: Any) -> str:
    """Return an item of a list; a text that YAML would take apart is in quotes."""
    plain = not isinstance(value, str) or re.fullmatch(r"[\w=./:+-]*", value)
    return _written(value) if plain else json.dumps(value, ensure_ascii=False)
