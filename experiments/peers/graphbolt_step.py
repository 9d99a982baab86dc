"""Time the mini-batch training step of `dgl_step.py` with GraphBolt's pipeline in place of `NeighborSampler`: DGL 2.1.

`benchmarks/peers.py --graphbolt PYTHON` calls it; `PYTHON` is that of an environment of its own, of Python 3.11 or earlier:

    pip install "dgl==2.1.0" "torch==2.2.1" "torchdata==0.7.1" "numpy<2" pandas pydantic

Batches come from `ItemSampler`, `sample_neighbor` and `fetch_feature`, in the process that trains, as without workers in DGL's examples.
"""

import itertools
from collections.abc import Iterator

import dgl
import dgl.graphbolt as gb
import torch
from dgl_step import Drawn, arguments, heterograph, report
from whole_graph import Graph, read


def loader(graph: Graph, size: int, fanouts: list[int]) -> gb.DataLoader:
    """Return full batches of the training nodes in a new order, with the features that they read."""
    csc, relations = gb.from_dglgraph(heterograph(graph)), len(graph.edges)
    seeds = gb.ItemSetDict({graph.target: gb.ItemSet(graph.train, names="seed_nodes")})
    pipe = gb.ItemSampler(seeds, batch_size=min(size, len(graph.train)), shuffle=True, drop_last=True)
    pipe = pipe.sample_neighbor(csc, [torch.full((relations,), fanout) for fanout in fanouts])
    store = gb.BasicFeatureStore({("node", t, "x"): gb.TorchBasedFeature(x) for t, x in graph.features.items()})
    return gb.DataLoader(pipe.fetch_feature(store, node_feature_keys={t: ["x"] for t in graph.features}), num_workers=0)


def drawn(graph: Graph, size: int, fanouts: list[int]) -> Iterator[Drawn]:
    """Yield batch after batch, epoch after epoch."""
    batches = loader(graph, size, fanouts)
    for _ in itertools.count():
        for batch in batches:
            given = {t: rows for (t, _), rows in batch.node_features.items()}
            inputs = {t: batch.input_nodes.get(t, torch.zeros(0, dtype=torch.int64)) for t in graph.nodes}
            yield Drawn(inputs, batch.seed_nodes[graph.target], batch.blocks, given)


def main() -> None:
    options = arguments(__doc__)
    graph = read(options.graph)
    report(graph, options, f"dgl {dgl.__version__} with GraphBolt", drawn(graph, options.batch, options.fanouts))


if __name__ == "__main__":
    main()
