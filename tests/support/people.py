"""A graph of people and cities with ids, and the options of a short run."""

import numpy as np

import hetjax
from hetjax.graph.hetgraph import HetGraph

OPTIONS = {
    "recipe": "none",
    "model": "rgcn",
    "epochs": 2,
    "mode": "full",
    "hidden": 8,
    "feature_width": 8,
    "fanout": (2, 2),
}


def people(seed: int = 0, ids: bool = True) -> HetGraph:
    rng = np.random.default_rng(seed)
    return hetjax.from_arrays(
        {
            ("person", "knows", "person"): rng.integers(0, 12, (2, 40)),
            ("city", "of", "person"): rng.integers(0, 3, (2, 9)),
        },
        {"person": rng.standard_normal((12, 4), np.float32), "city": np.eye(3, dtype=np.float32)},
        {"person": np.array(["red", "blue"])[np.arange(12) % 2]},
        ids={"person": [f"p{n}" for n in range(12)]} if ids else None,
        reverse=True,
    )


def wrote(authors: list[str], papers: list[str]) -> HetGraph:
    """Authors without features, named in this order, with a paper each."""
    edges = {("author", "wrote", "paper"): (authors, papers)}
    features = {"paper": np.eye(4, dtype=np.float32)}
    labels = {"author": ["early" if author < "c" else "late" for author in authors]}
    return hetjax.from_arrays(
        edges, features, labels, {"train": authors}, ids={"paper": list("wxyz"), "author": authors}, reverse=True
    )
