"""METIS in a process of its own: `python metis.py FOLDER PARTS OBJECTIVE SEED` divides the graph in a folder.

pymetis holds the interpreter's lock for as long as METIS takes, and the process of a run must not fall silent for so long:
its peers would take it for dead. Started as a file, it needs nothing of hetjax.
"""

import sys
from pathlib import Path

import numpy as np
import pymetis

INDPTR, NEIGHBOURS, FOUND = "indptr.npy", "neighbours.npy", "found.npy"


def main(folder: str, parts: str, objective: str, seed: str) -> None:
    indptr, neighbours = (np.load(Path(folder, name), mmap_mode="c") for name in (INDPTR, NEIGHBOURS))
    options = pymetis.Options(seed=int(seed), objtype=int(getattr(pymetis.ObjType, objective)))
    adjacency = pymetis.CSRAdjacency(np.asarray(indptr), np.asarray(neighbours))
    partitioning = pymetis.part_graph(int(parts), adjacency, options=options, recursive=False)
    np.save(Path(folder, FOUND), np.asarray(partitioning.vertex_part))


if __name__ == "__main__":
    main(*sys.argv[1:])
