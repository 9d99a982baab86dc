"""Make a store: `python -m hetjax.convert --data.format rdf --data.path aifb --out STORE`; or check one: `--check STORE`."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hetjax.datasets.load import load, outline
from hetjax.graph import checksums, store
from hetjax.graph.hetgraph import check
from hetjax.options import owners
from hetjax.options.command_line import parse, run_command
from hetjax.options.config import SharedData
from hetjax.system.durable import check_new
from hetjax.system.errors import InputError
from hetjax.system.logs import log


@dataclass(frozen=True)
class Options:
    """Store: write one, or check one."""

    out: str = ""
    """the folder to write, which must not exist"""
    check: str = ""
    """a store to read whole and check: its checksums and all its values; nothing is written"""


def main(arguments: Sequence[str]) -> None:
    """Read or generate a graph, and write it as a store; or read a store, and say whether it is right."""
    sections = {"": Options, "data": SharedData} | owners.sections(owners.READER)
    instances, _ = parse(
        sections, arguments, "python -m hetjax.convert", "Write a graph as a store, or check a store.", {}
    )
    options, data = instances.pop(""), owners.data_of(instances)
    if bool(options.out) == bool(options.check):
        raise InputError(
            "--out and --check are given, and should be one or the other" if options.out else "--out is required"
        )
    if options.check:
        if data != owners.made_data():
            raise InputError("--check reads the store alone: leave the options --data. out")
        _check(options.check)
        return
    check_new(options.out)
    graph = load(data)
    store.save(graph, options.out)
    log.info(f"{Path(options.out)}: {outline(graph)}")


def _check(path: str) -> None:
    relations, features = checksums.held(path)
    graph = store.open(path, relations, features)
    check(graph, path)
    for name in (graph.target, *graph.columns):
        column = graph.column(name)
        names, schema = replace(graph.names, classes=column.names), replace(graph.schema, classes=column.classes)
        names.check(schema, f"{path}: {name}" if graph.columns else path)
    verified = checksums.verify(path, relations, features)
    words = "all as they were written" if verified else "of which it has no checksums: an older hetjax wrote it"
    log.info(f"{path}: {outline(graph)}, {words}")


if __name__ == "__main__":
    run_command(main)
