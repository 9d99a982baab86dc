"""Make a store: `python -m hetjax.convert --data.format rdf --data.path aifb --out STORE`."""

from collections.abc import Sequence
from pathlib import Path

from hetjax.command_line import parse, run_command
from hetjax.config import Data
from hetjax.errors import InputError
from hetjax.graph import store
from hetjax.load import load


def main(arguments: Sequence[str]) -> None:
    """Read or generate a graph, and write it as a store."""
    paths = {"out": "the folder to write, which must not exist"}
    made, paths = parse({"data": Data}, arguments, "python -m hetjax.convert", "Write a graph as a store.", paths)
    out = Path(paths["out"])
    if out.exists():
        raise InputError(f"{out}: exists already; a store is written to a new folder")
    graph = load(made["data"])
    store.save(graph, out)
    nodes = sum(graph.schema.nodes.values())
    print(
        f"{out}: {len(graph.schema.nodes)} node types, {len(graph.schema.relations)} relations, {nodes:,} nodes, {graph.edges:,} edges, {graph.nbytes / 2**20:,.0f} MiB"
    )


if __name__ == "__main__":
    run_command(main)
