"""Short runs with stacking, and a graph with two labels."""

import json
from dataclasses import replace

import numpy as np

from hetjax.graph import store
from hetjax.train import main


def two_labels(graph):
    """The same graph, whose nodes may have a second label, which nothing tells."""
    second = np.random.default_rng(1).integers(0, 2, len(graph.labels))
    labels = np.stack([graph.labels == 0, graph.labels == 1, second], axis=1).astype(np.int8)
    return replace(graph, labels=labels)


def run(graph, folder, *options: str) -> dict:
    """Train for two epochs, and give the summary."""
    if not (folder.parent / "store").exists():
        store.save(graph, folder.parent / "store")
    fixed = (
        "--train.recipe=none",
        "--model.hidden=4",
        "--sampling.mode=full",
        "--train.epochs=2",
        "--train.stacking=true",
    )
    read = "--data.format=store", f"--data.path={folder.parent / 'store'}", f"--workdir={folder}"
    main([*read, *fixed, *options])
    return json.loads((folder / "summary.json").read_text())


METAPATHS = "--model.name=sehgnn", "--model.layers=1", "--data.metapath_hops=1"
