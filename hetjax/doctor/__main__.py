"""Look at this machine: `python -m hetjax.doctor`; or at a graph: `--graph STORE`, or what `--data.` options name.

The exit status is 1 if something is wrong, and 0 if not.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hetjax.doctor import system
from hetjax.doctor.finding import Finding
from hetjax.graph.hetgraph import HetGraph
from hetjax.options import owners
from hetjax.options.command_line import parse, run_command
from hetjax.options.config import Data, Processes, SharedData
from hetjax.system import durable
from hetjax.system.errors import InputError

DESCRIPTION = """Look at this machine and what is installed, or at a graph, and say what is wrong, each with what to do. The exit
status is 1 if something is wrong, and 0 if not."""


MOST_LAYERS = 64  # as `model.layers` may have


@dataclass(frozen=True)
class Options(Processes):
    """Doctor: what is looked at; and processes, which then try whether they meet."""

    graph: str = ""
    """a store to look at; another format with --data.format and --data.path"""
    target: str = ""
    """the column of labels that is looked at, as task.target of a run; unset: the graph's own"""
    layers: int = 2
    """of the model that the graph is for"""
    picture: str = ""
    """where a picture of the graph's node types and relations is written, a .png, in place of one that is there; unset: nowhere"""


def main(arguments: Sequence[str]) -> None:
    """Look, print what is found, and end with status 1 where something is wrong."""
    sections = {"": Options, "data": SharedData} | owners.sections(owners.READER)
    instances, _ = parse(sections, arguments, "python -m hetjax.doctor", DESCRIPTION, {})
    options, data = instances.pop(""), owners.data_of(instances)
    if not 1 <= options.layers <= MOST_LAYERS:
        raise InputError(f"layers is {options.layers}, and must be in 1..{MOST_LAYERS}")
    if options.graph and data.path:
        raise InputError(f"graph is {options.graph}, and data.path {data.path}: give one of them")
    if options.graph:
        data = replace(data, format="store", path=str(Path(options.graph).absolute()))
    if options.picture and not options.picture.endswith(".png"):
        raise InputError(f"picture is {options.picture}, and is to end in .png")
    if options.picture:
        durable.check_replaceable(Path(options.picture), True)
    wrong = False
    for finding in of_graph(data, options) if data != owners.made_data() else of_machine(options):
        print(finding, flush=True)
        wrong |= isinstance(finding, Finding) and finding.kind == "wrong"
    if wrong:
        sys.exit(1)


def of_machine(options: Options) -> Iterator[Finding]:
    """Yield findings about versions, processes, devices and memory."""
    yield from system.versions()
    yield from system.processes(options)  # before jax has its devices
    yield from system.devices()
    yield from system.memory()


def of_graph(data: Data, options: Options) -> Iterator[Finding | str]:
    """Yield findings about the schema, and what is wrong or odd."""
    from hetjax.datasets.load import load, outline
    from hetjax.doctor.graph import broken, odd
    from hetjax.doctor.leakage import leakage

    try:
        graph = load(replace(data, check=False), target=options.target)
    except InputError as error:
        yield Finding("wrong", str(error), "mend what it names, and look again")
        return
    yield f"{data.path or owners.reader_options(data).schema}: {outline(graph)}"
    yield from graph.lines()
    found = [*_checksums(data), *broken(graph)]
    yield from found
    if any(finding.kind == "wrong" for finding in found):
        return  # what follows reads by these numbers
    yield Finding("fine", "every edge has its nodes, every feature is a number, labels and splits are right")
    yield from odd(graph, options.layers)
    leaks = list(leakage(graph))
    yield from leaks
    if not leaks:
        yield Finding("fine", "no relation and no column of features was found that tells the label")
    if options.picture:
        yield draw(graph, Path(options.picture))


def _checksums(data: Data) -> Iterator[Finding]:
    from hetjax.graph import checksums
    from hetjax.options.config import data_path

    if data.format != "store":
        return
    try:
        verified = checksums.verify(data_path(data.path))
    except InputError as error:
        yield Finding("wrong", str(error), "copy the store again, or make it anew")
    else:
        yield (
            Finding("fine", "every array is as it was written")
            if verified
            else Finding("note", "the store has no checksums: an older hetjax wrote it")
        )


def draw(graph: HetGraph, file: Path) -> str:
    """Write the picture of the metagraph, and say so."""
    from hetjax.partition.picture import colour, draw_metagraph

    colours = {relation: colour(number) for number, relation in enumerate(graph.schema.relations)}
    draw_metagraph(graph.schema, colours, file)
    return f"  drawn: {file}"


if __name__ == "__main__":
    run_command(main)
