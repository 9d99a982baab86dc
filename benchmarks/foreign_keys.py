"""A graph whose nodes are rows with foreign keys, from one whose edges are drawn at random.

`python benchmarks/foreign_keys.py GRAPH.npz KEYS.npz` writes a graph as `graph_file.py` does. A relation that has as many edges as sources gets one
edge from every source, to the targets that it had, and its reverse the same edges; what else there is stays.
The tables of Donor's shape are an example: a donation has one project and one donor.
"""

import argparse
from dataclasses import replace

import numpy as np
from graph_file import read, write

from hetjax.graph import csc
from hetjax.graph.hetgraph import HetGraph
from hetjax.options.command_line import run_command


def keyed(graph: HetGraph) -> HetGraph:
    """Return the graph with keys; in a random order, so that no key tells a row's number."""
    relations, nodes = dict(graph.relations), graph.schema.nodes
    for relation in graph.schema.relations:
        edges, sources, targets = graph.relations[relation], nodes[relation.source], nodes[relation.target]
        if edges.edges == sources and relation.reverse in relations:
            _, named = csc.edges_of(edges)
            rows = np.random.default_rng(0).permutation(sources)
            relations[relation] = csc.from_edges(rows, named, sources, targets)
            relations[relation.reverse] = csc.reverse(relations[relation], sources)
    return replace(graph, relations=relations)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graph", help="an .npz file")
    parser.add_argument("out", help="the .npz to write")
    options = parser.parse_args()
    graph = keyed(read(options.graph))
    write(graph, options.out)
    for relation, edges in graph.relations.items():
        print(f"{relation}: {edges.edges:,} edges, at most {np.diff(edges.indptr).max()} into a node")


if __name__ == "__main__":
    run_command(lambda arguments: main())
