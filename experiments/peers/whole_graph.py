"""The shared parts of the peers' epochs on the whole graph: arguments, the graph file, and the clock. It needs torch
and numpy alone, and runs on a GPU where torch finds one.

A graph is an `.npz` as `benchmarks/graph_file.py` says; its types and relations are numbered, as torch takes no name with a dot, and relations
may share one. Types without features have learnable ones, 64 wide. An epoch is one step:
forward, loss of the training nodes, backward, Adam.
"""

import argparse
import json
import resource
import statistics
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch

LEARNABLE = 64
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


class Graph(NamedTuple):
    """The counts of nodes per type, edges int64 `[2, E]` per relation, features per type that has them, and the type that is classified."""

    nodes: dict[str, int]
    edges: dict[tuple[str, str, str], torch.Tensor]
    features: dict[str, torch.Tensor]
    target: str
    labels: torch.Tensor
    train: torch.Tensor

    @property
    def classes(self) -> int:
        return int(self.labels.max()) + 1

    @property
    def widths(self) -> dict[str, int]:
        return {t: self.features[t].shape[1] if t in self.features else LEARNABLE for t in self.nodes}

    @property
    def into_target(self) -> list[tuple[str, str, str]]:
        """Return the relations that the last layer needs."""
        return [relation for relation in self.edges if relation[2] == self.target]

    def tables(self) -> torch.nn.ParameterDict:
        """Return learnable features, of types that have none."""
        lacks = {t: nodes for t, nodes in self.nodes.items() if t not in self.features}
        return torch.nn.ParameterDict(
            {t: torch.randn(n, LEARNABLE, device=DEVICE) / LEARNABLE**0.5 for t, n in lacks.items()}
        )


def parser(description: str) -> argparse.ArgumentParser:
    """Return a parser of the arguments of every script; all randomness comes from one seed."""
    torch.manual_seed(0)
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("graph")
    parser.add_argument("--model", choices=["gcn", "gat", "rgcn", "rgat", "hgt"], required=True)
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--steps", type=int, default=10, help="that are timed, after some that are not")
    return parser


def read(file: str) -> Graph:
    with np.load(file, allow_pickle=False) as arrays:
        found = {tuple(key.split("|")): torch.from_numpy(arrays[key]).to(DEVICE) for key in arrays.files}
    types = {key[1]: f"t{number}" for number, key in enumerate(key for key in found if key[0] == "nodes")}
    relations = [(key[1:], ends.long()) for key, ends in found.items() if key[0] == "edges"]
    (target,) = (key[1] for key in found if key[0] == "labels")
    return Graph(
        {own: int(found["nodes", name]) for name, own in types.items()},
        {(types[s], f"r{number}", types[t]): ends for number, ((s, _, t), ends) in enumerate(relations)},
        {types[key[1]]: rows for key, rows in found.items() if key[0] == "features"},
        types[target],
        found["labels", target].long(),
        found["train", target].long(),
    )


def report(system: str, graph: Graph, steps: int, parameters: list, logits: Callable[[], torch.Tensor]) -> None:
    """Train, and print one JSON line: the median milliseconds of an epoch, the last loss, and the most memory held: of a GPU its own."""
    optimizer, times, loss = torch.optim.Adam(parameters, lr=0.01), [], torch.zeros(())
    for _ in range(steps + 2):
        started = time.perf_counter()
        loss = torch.nn.functional.cross_entropy(logits()[graph.train], graph.labels[graph.train])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if DEVICE == "cuda":
            torch.cuda.synchronize()
        times.append(1000 * (time.perf_counter() - started))
    peak = (
        torch.cuda.max_memory_allocated()
        if DEVICE == "cuda"
        else 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    )
    ms = round(statistics.median(times[2:]), 1)
    print(
        json.dumps(
            {
                "ms_per_step": ms,
                "loss": float(loss.detach()),
                "system": f"{system}, {DEVICE}",
                "peak_mib": peak // 2**20,
            }
        )
    )
