"""Time DGL's sampler, or a layer-wise loop over the whole graph with it, alone; in an environment that has DGL, and no hetjax.

The arguments, the graph file and the line that is printed are those of `alone.py`. Sampling is `NeighborSampler`; evaluation is
the loop of DGL's examples: for every layer, batches of nodes of all types with all of their neighbours, by
`MultiLayerFullNeighborSampler(1)`, through `HeteroGraphConv` of `GraphConv` or `GATConv`, the results kept for the next layer.
"""

import argparse
import json
import time

import dgl
import dgl.nn as dglnn
import numpy as np
import torch
import torch.nn.functional as functional


def read(file: str):
    """Return `(nodes, edges, features, target)` of a graph file."""
    with np.load(file, allow_pickle=False) as arrays:
        found = {tuple(key.split("|")): arrays[key] for key in arrays.files}
    nodes = {key[1]: int(count) for key, count in found.items() if key[0] == "nodes"}
    edges = {key[1:]: torch.from_numpy(ends.astype(np.int64)) for key, ends in found.items() if key[0] == "edges"}
    features = {key[1]: torch.from_numpy(matrix) for key, matrix in found.items() if key[0] == "features"}
    (target,) = (key[1] for key in found if key[0] == "labels")
    return nodes, edges, features, target, torch.from_numpy(found["train", target].astype(np.int64))


def sampling(graph, target: str, train, batch: int, fanout: list[int], rounds: int) -> dict:
    """Return the edges per second of every batch."""
    sampler, order = dgl.dataloading.NeighborSampler(fanout[::-1]), train[torch.randperm(len(train))]
    rates, times = [], []
    for step in range(rounds + 2):
        seeds, started = order[step * batch : (step + 1) * batch], time.perf_counter()
        _, _, blocks = sampler.sample(graph, {target: seeds})
        seconds = time.perf_counter() - started
        edges = sum(block.num_edges(relation) for block in blocks for relation in block.canonical_etypes)
        rates.append(edges / seconds)
        times.append(seconds)
    return {"per_second": float(np.median(rates[2:])), "ms": 1000 * float(np.median(times[2:])), "edges": edges}


def evaluation(graph, model: str, target: str, features, classes: int, hidden: int, batch: int, rounds: int) -> dict:
    """Return the nodes per second of every pass."""
    heads, relations = 4, graph.canonical_etypes

    def layer(widths):
        if model == "rgat":
            convolution = {
                r[1]: dglnn.GATConv((widths[r[0]], widths[r[2]]), hidden // heads, heads, allow_zero_in_degree=True)
                for r in relations
            }
        else:
            convolution = {
                r[1]: dglnn.GraphConv(widths[r[0]], hidden, norm="right", allow_zero_in_degree=True) for r in relations
            }
        return dglnn.HeteroGraphConv(convolution, "sum")

    layers = [layer({t: x.shape[1] for t, x in features.items()}), layer({t: hidden for t in features})]
    head, sampler = torch.nn.Linear(hidden, classes), dgl.dataloading.MultiLayerFullNeighborSampler(1)
    times, nodes = [], sum(graph.num_nodes(t) for t in graph.ntypes)
    for _ in range(rounds):
        started, x = time.perf_counter(), features
        with torch.no_grad():
            for depth, convolution in enumerate(layers):
                wanted = {t: graph.nodes(t) for t in ([target] if depth else graph.ntypes)}
                made = {t: torch.empty(graph.num_nodes(t), hidden) for t in wanted}
                for inputs, outputs, (block,) in dgl.dataloading.DataLoader(graph, wanted, sampler, batch_size=batch):
                    h = convolution(block, {t: x[t][ids] for t, ids in inputs.items()})
                    for t, rows in h.items():
                        if t in made and t in outputs:
                            made[t][outputs[t]] = functional.relu(rows.flatten(1))
                x = made
            head(x[target])
        times.append(time.perf_counter() - started)
    return {"per_second": nodes / float(np.median(times)), "ms": 1000 * float(np.median(times)), "nodes": nodes}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graph", help="an .npz file")
    parser.add_argument("what", choices=["sampling", "evaluation"])
    parser.add_argument("--model", choices=["rgcn", "rgat"], default="rgcn")
    parser.add_argument("--batch", type=int, default=1024, help="seeds, when sampling")
    parser.add_argument("--evaluation-batch", type=int, default=20_000, help="nodes, when evaluating")
    parser.add_argument("--fanout", default="25,20", help="per relation, the seeds' own hop first")
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=10, help="batches, or passes over the graph")
    options = parser.parse_args()
    nodes, edges, features, target, train = read(options.graph)
    graph = dgl.heterograph({r: tuple(ends) for r, ends in edges.items()}, num_nodes_dict=nodes).formats(["csc"])
    if options.what == "sampling":
        fanout = [int(number) for number in options.fanout.split(",")]
        found = sampling(graph, target, train, options.batch, fanout, options.rounds)
    else:
        features = features | {t: torch.randn(count, 64) for t, count in nodes.items() if t not in features}
        sizes = options.hidden, options.evaluation_batch
        found = evaluation(graph, options.model, target, features, 349, *sizes, options.rounds)
    about = {
        "system": f"DGL {dgl.__version__}, torch {torch.__version__}",
        "what": options.what,
        "model": options.model,
    }
    print(json.dumps(about | found))


if __name__ == "__main__":
    main()
