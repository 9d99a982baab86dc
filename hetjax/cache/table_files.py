"""The tables of a checkpoint on disk: a `.npy` file an array, which may be larger than memory."""

from pathlib import Path
from urllib.parse import quote, unquote

import jax
import numpy as np

from hetjax.graph.store import load_array
from hetjax.system.mapped import on_host, release

FOLDER, ROWS = "tables", "rows"
OWN = "own"  # what a strategy keeps beside the state
AT_ONCE = 2**26  # bytes written at a time


def kept(name: str) -> bool:
    """Return whether an array of a state is written here: one of a table, or of what a strategy keeps beside the state."""
    return name.split("/", 1)[0] in (FOLDER, OWN)


def of(name: str) -> str:
    """Return the file in a checkpoint of an array that is called `tables/TYPE/LEAF` in the state, or `own/...`; types may have any name."""
    folder, rest = name.split("/", 1)
    return f"{folder}/{quote(rest, safe='')}.npy"


def learned(checkpoint: Path) -> dict[str, np.ndarray]:
    """Return the learnable features in a checkpoint, mapped, by node type."""
    named = {unquote(file.stem).rpartition("/"): file for file in (checkpoint / FOLDER).glob("*.npy")}
    return {node_type: load_array(file) for (node_type, _, leaf), file in named.items() if leaf == ROWS}


def write(file: Path, array: jax.Array | np.ndarray) -> None:
    """Write a `.npy` file a few rows at a time, so that an array mapped from disk is never in memory whole."""
    array = on_host(array)
    step = max(1, AT_ONCE // max(1, array.strides[0])) if len(array) else 1  # bytes from a row to the next
    with open(file, "wb") as stream:
        header = {"descr": np.dtype(array.dtype).str, "fortran_order": False, "shape": array.shape}
        np.lib.format.write_array_header_1_0(stream, header)
        for start in range(0, len(array), step):
            stream.write(np.ascontiguousarray(array[start : start + step]))  # type: ignore[arg-type]  # stubs know no buffers before Python 3.12
            release(array)
