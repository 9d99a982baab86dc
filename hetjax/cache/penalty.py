"""Miss penalties: the cost of a row that is not cached, measured on the machine that trains (Heta, section 6, figure 8)."""

import contextlib
import json
import math
import platform
import time
from collections.abc import Mapping
from pathlib import Path

import jax
import numpy as np

from hetjax.cache.host import HostMatrix, HostTable
from hetjax.system import durable, files
from hetjax.system.errors import InputError
from hetjax.system.mapped import mapping

ROWS, ROUNDS = 20_000, 7


def measure(hosted: Mapping[str, HostMatrix], learnable: Mapping[str, object]) -> dict[str, float]:
    """Measure the seconds per byte of a missed row, by node type.

    Of static features: read on the host and sent. Of learnable ones also returned and written, with both moments and the
    count. The median of some rounds, each of other rows; a byte counts once, whichever ways it goes.
    """
    return {name: _measure(matrix, name in learnable) for name, matrix in hosted.items()}


def _measure(matrix: HostMatrix, changes: bool) -> float:
    chance, seconds = np.random.default_rng(0), []
    count = min(ROWS, matrix.nodes)
    if not count:
        return 0.0
    for _ in range(ROUNDS):
        ids = chance.choice(matrix.nodes, count, replace=False).astype(np.int32)
        started = time.perf_counter()
        fetched = matrix.begin(ids)
        rows = jax.block_until_ready(matrix.end(fetched))
        if changes and isinstance(matrix, HostTable):
            matrix.store(fetched, rows)
        seconds.append(time.perf_counter() - started)
    return float(np.median(seconds[1:])) / (count * matrix.row_bytes)


def read_or_measure(
    file: Path, purpose: Mapping, hosted: Mapping[str, HostMatrix], learnable: Mapping[str, object]
) -> dict[str, float]:
    """Return miss penalties as `measure` does, or those of a file, if they were measured on this machine for the same purpose.

    Args:
      file: is written if it can be.
      purpose: what the penalties are for.
    """
    types = {
        name: [matrix.row_bytes, matrix.nodes, name in learnable, mapping(matrix.matrix) is not None]
        for name, matrix in hosted.items()
    }
    device = next(iter(hosted.values())).device.device_kind if hosted else ""
    machine = {"machine": platform.node(), "processor": platform.processor() or platform.machine(), "device": device}
    key = json.loads(json.dumps({**purpose, **machine, "jax": jax.__version__, "types": types}))
    with contextlib.suppress(Exception):  # there is none, or it is damaged
        saved = json.loads(files.read_text(file))
        penalties = {name: float(saved["seconds_per_byte"][name]) for name in hosted}
        if saved["about"] == key and all(0 <= penalty < math.inf for penalty in penalties.values()):
            return penalties
    penalties = measure(hosted, learnable)
    with contextlib.suppress(InputError):  # a store that is only read
        durable.write(file, json.dumps({"about": key, "seconds_per_byte": penalties}, indent=1) + "\n")
    return penalties
