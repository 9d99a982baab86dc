"""Files and folders by which the formats know their own, so that a wrong `data.format` is said in the first line."""

import os
from fnmatch import fnmatchcase
from pathlib import Path

from hetjax.datasets import edges, triples
from hetjax.graph import store
from hetjax.system.errors import InputError, reading

SIGNS = {
    "rdf": ("*.nt", "*.nt.gz"),
    "hgb": ("node.dat", "*.zip"),
    "npz": ("*.npz",),
    "edges": edges.FILES,
    "ogb": ("raw",),
    "mag240m": ("processed",),
    "igb": ("processed",),
    "triples": tuple(f"train{ending}" for ending in triples.ENDINGS),
    "store": (store.SCHEMA,),
}


def check(path: Path, asked: str) -> None:
    """Raise an InputError where a file or folder has nothing of the format that is asked for, and something of others."""
    with reading(path):
        names = sorted(os.listdir(path)) if path.is_dir() else [path.name]
    if {"config.yaml", "metrics.jsonl"} <= set(names):
        raise InputError(
            f"{path}: is the folder of a run, and not a graph; its config.yaml says what it was trained on"
        )
    found = {
        form: name for form, signs in SIGNS.items() for name in names if any(fnmatchcase(name, sign) for sign in signs)
    }
    if found and asked not in found:
        others = " or ".join(f"{form} ({name})" for form, name in found.items())
        raise InputError(f"{path}: data.format is {asked}, and it looks like {others}: give that as --data.format")
