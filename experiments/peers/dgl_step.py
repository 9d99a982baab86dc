"""Time DGL's mini-batch training step: `NeighborSampler`, the layers of `whole_graph_dgl.py`, Adam, sparse Adam for learned rows.

`benchmarks/peers.py` calls it, in an environment that has DGL; `whole_graph.py` says what a graph's file holds. An epoch draws the
training nodes anew, in full batches. Prints one JSON line: the median milliseconds of a step and of its parts.
"""

import argparse
import itertools
import json
import statistics
import time
from collections.abc import Iterator
from typing import NamedTuple

import dgl
import torch
from torch import nn
from whole_graph import LEARNABLE, Graph, parser, read
from whole_graph_dgl import layer

WARM = 3  # steps that are not timed


class Drawn(NamedTuple):
    """The input of a training step: ids of the nodes that it reads by type, its seeds, a block per layer, and features
    that were read already."""

    inputs: dict[str, torch.Tensor]
    seeds: torch.Tensor
    blocks: list
    features: dict[str, torch.Tensor]


def arguments(description: str) -> argparse.Namespace:
    made = parser(description)
    made.add_argument("--batch", type=int, default=1024)
    made.add_argument("--fanout", default="25,20", help="per relation, the seeds' own hop first")
    options = made.parse_args()
    options.fanouts = [int(number) for number in options.fanout.split(",")][::-1]  # as DGL takes them
    return options


def heterograph(graph: Graph) -> dgl.DGLGraph:
    return dgl.heterograph({relation: tuple(ends) for relation, ends in graph.edges.items()}, graph.nodes)


def batches(train: torch.Tensor, size: int) -> Iterator[torch.Tensor]:
    """Yield full batches of the training nodes, epoch after epoch; all of them, if they are fewer."""
    size = min(size, len(train))
    for _ in itertools.count():
        yield from (part for part in train[torch.randperm(len(train))].split(size) if len(part) == size)


class Model(nn.Module):
    """A model of two layers and a linear head."""

    def __init__(self, graph: Graph, options: argparse.Namespace):
        super().__init__()
        about, inner = (options.hidden, options.heads), dict.fromkeys(graph.nodes, options.hidden)
        self.outer = layer(options.model, graph.widths, *about, list(graph.edges))
        self.inner = layer(options.model, inner, *about, graph.into_target)
        self.head, self.target = nn.Linear(options.hidden, graph.classes), graph.target

    def forward(self, blocks: list, x: dict) -> torch.Tensor:
        own = {t: rows[: blocks[0].num_dst_nodes(t)] for t, rows in x.items()}
        h = {t: torch.relu(rows.flatten(1)) for t, rows in self.outer(blocks[0], (x, own)).items()}
        own = {self.target: h[self.target][: blocks[1].num_dst_nodes(self.target)]}
        return self.head(torch.relu(self.inner(blocks[1], (h, own))[self.target].flatten(1)))


def report(graph: Graph, options: argparse.Namespace, system: str, drawn: Iterator[Drawn]) -> None:
    """Train on the sampled batches, and print the line."""
    lacks = {t: nodes for t, nodes in graph.nodes.items() if t not in graph.features}
    tables = nn.ModuleDict({t: nn.Embedding(nodes, LEARNABLE, sparse=True) for t, nodes in lacks.items()})
    model = Model(graph, options)
    optimizers = [torch.optim.Adam(model.parameters(), lr=0.01)]
    optimizers += [torch.optim.SparseAdam(list(tables.parameters()), lr=0.01)] if lacks else []
    rows, loss = [], torch.zeros(())
    for _ in range(options.steps + WARM):
        clock = [time.perf_counter()]
        inputs, seeds, blocks, given = next(drawn)
        clock.append(time.perf_counter())
        x = {
            t: tables[t](inputs[t]) if t in lacks else graph.features[t][inputs[t]] for t in graph.nodes.keys() - given
        }
        clock.append(time.perf_counter())
        loss = nn.functional.cross_entropy(model(blocks, x | given), graph.labels[seeds])
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss.backward()
        clock.append(time.perf_counter())
        for optimizer in optimizers:
            optimizer.step()
        clock.append(time.perf_counter())
        rows.append([1000 * (after - before) for before, after in itertools.pairwise(clock)])
    names, timed = ("sample", "features", "forward_backward", "update"), rows[WARM:]
    found = {
        "ms_per_step": round(statistics.median(map(sum, timed)), 1),
        "parts": {name: round(statistics.median(part), 1) for name, part in zip(names, zip(*timed))},
        "steps": len(timed),
        "system": system,
        "model": options.model,
        "edges": sum(block.num_edges(relation) for block in blocks for relation in block.canonical_etypes),
        "loss": float(loss.detach()),
    }
    print(json.dumps(found))


def main() -> None:
    options = arguments(__doc__)
    graph = read(options.graph)
    whole, sampler = heterograph(graph).formats(["csc"]), dgl.dataloading.NeighborSampler(options.fanouts)

    def drawn() -> Iterator[Drawn]:
        for seeds in batches(graph.train, options.batch):
            inputs, outputs, blocks = sampler.sample(whole, {graph.target: seeds})
            yield Drawn(inputs, outputs[graph.target], blocks, {})

    report(graph, options, f"dgl {dgl.__version__}", drawn())


if __name__ == "__main__":
    main()
