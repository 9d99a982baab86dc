"""What an edge, a target and a row cost on the machine that trains: NeutronStar's `T_e`, `T_v` and `T_c`.

They are measured on small random blocks, on all devices of the mesh at once, with the model's own layers, forward and backward.
An edge's cost is what more edges into the same targets take, a target's what more targets with the same edges take, a
row's what larger buckets of an all-to-all there and back take. They are kept in the user's cache folder.
"""

import contextlib
import functools
import hashlib
import json
import math
import platform
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

from hetjax import durable
from hetjax.config import as_dict
from hetjax.errors import InputError
from hetjax.graph.schema import Relation
from hetjax.runtime import caches
from hetjax.sampling.blocks import Block
from hetjax.sampling.sampler import group
from hetjax.sharding.mesh import DATA, from_shards, positions_here, shard_map
from hetjax.sharding.spmd import replicate
from hetjax.sharding.strategy import Setup
from hetjax.sharding.traffic import Program

TARGETS, DEGREE, ROWS, ROUNDS = 4096, 8, 8192, 5


class Costs(NamedTuple):
    """Seconds.

    Attributes:
      vertex: per layer but the last, and type, `T_v d`: of a target of that layer, there and back.
      edge: per layer but the last, and relation by its key, `T_e d`.
      sent: `T_c`, of a row's number that is fetched, and its gradient given back.
    """

    vertex: list[dict[str, float]]
    edge: list[dict[str, float]]
    sent: float


def read_or_measure(setup: Setup, mesh: Mesh) -> Costs:
    """What process 0 measures, or measured before on this machine for such a model."""
    about, processes = _about(setup, mesh), setup.processes
    file = Path(caches(), "hetjax", "costs", f"{hashlib.sha256(json.dumps(about).encode()).hexdigest()[:16]}.json")
    known = processes.broadcast_object("known costs", _read(file, about) if processes.first else None)
    if known is None:
        known = processes.broadcast_object("costs", measure(setup, mesh)._asdict())
        if processes.first:
            with contextlib.suppress(InputError, OSError):  # a folder that is only read
                file.parent.mkdir(parents=True, exist_ok=True)
                durable.write(file, json.dumps({"about": about, "costs": known}, indent=1) + "\n")
    return Costs(**known)


def _read(file: Path, about: dict) -> dict | None:
    """Costs that were kept; None if there are none of this, or they are damaged."""
    with contextlib.suppress(Exception):
        saved = json.loads(file.read_text())
        numbers = jax.tree.leaves(saved["costs"])
        if saved["about"] == about and all(0 <= number < math.inf for number in numbers):
            return saved["costs"]
    return None


def _about(setup: Setup, mesh: Mesh) -> dict:
    """What costs depend on."""
    device = mesh.devices.flat[0].device_kind
    machine = {"machine": platform.node(), "processor": platform.machine(), "device": device, "jax": jax.__version__}
    shape = {"devices": mesh.size, "processes": setup.processes.count, "widths": dict(setup.trainer.widths)}
    relations = [relation.key for relation in setup.graph.relations]
    return json.loads(json.dumps(machine | shape | {"model": as_dict(setup.config.model), "relations": relations}))


def measure(setup: Setup, mesh: Mesh) -> Costs:
    """Measure; all processes together. Relations whose ends have the same widths are measured once."""
    model, params = setup.trainer.model, jax.jit(setup.trainer.weights)(np.int32(0)).params
    vertex: list[dict[str, float]] = []
    edge: list[dict[str, float]] = []
    for depth, layer in enumerate(model.layers[:-1]):
        measured: dict[tuple[int, int], tuple[float, float]] = {}
        vertex.append({})
        edge.append({})
        for relation in layer.relations:
            widths = {t: (layer.widths if depth else setup.trainer.widths).get(t, 0) for t in relation[::2]}
            ends = widths[relation.source], widths[relation.target]
            if ends not in measured:
                measured[ends] = _layer(mesh, functools.partial(_embed, model, depth), params, relation, widths)
            vertex[-1].setdefault(relation.target, 0.0)
            vertex[-1][relation.target] = max(vertex[-1][relation.target], measured[ends][0])
            edge[-1][relation.key] = measured[ends][1]
    return Costs(vertex, edge, _sent(mesh, setup.config.model.hidden))


def _embed(model: Any, depth: int, params: Any, block: Block, x: Mapping[str, jax.Array]) -> Any:
    """The gradients of a number that depends on all that one layer makes."""

    def number(params: Any, x: Mapping[str, jax.Array]) -> jax.Array:
        made: Any = model.apply(params, depth, block, x, method="embed")
        return sum((jnp.sum(jnp.square(rows)) for rows in made.values()), jnp.zeros(()))

    return jax.grad(number, (0, 1))(params, x)


def _layer(
    mesh: Mesh, work: Callable, params: Any, relation: Relation, widths: Mapping[str, int]
) -> tuple[float, float]:
    """Seconds of a target and of an edge."""
    chance = np.random.default_rng(0)
    program = Program("costs", shard_map(work, mesh, P(), P()), mesh)

    def seconds(targets: int, edges: int) -> float:
        indptr = np.linspace(0, edges, targets + 1).astype(np.int32)
        edge_list = group(indptr, chance.integers(0, TARGETS, edges, np.int32), 2 * TARGETS)
        block = Block({relation.key: edge_list}, {relation.target: np.arange(targets, dtype=np.int32)})
        x = {t: chance.standard_normal((2 * TARGETS, width), np.float32) for t, width in widths.items()}
        return _time(program, *replicate(mesh, (params, block, x)))

    base, more_targets = seconds(TARGETS, TARGETS * DEGREE), seconds(2 * TARGETS, TARGETS * DEGREE)
    more_edges = seconds(TARGETS, 3 * TARGETS * DEGREE)
    return max(0.0, more_targets - base) / TARGETS, max(0.0, more_edges - base) / (2 * TARGETS * DEGREE)


def _sent(mesh: Mesh, width: int) -> float:
    """Seconds of a number of a row that is fetched, and of its gradient."""
    parts = mesh.size
    if parts == 1:
        return 0.0

    def there_and_back(rows: jax.Array) -> jax.Array:
        return jax.lax.all_to_all(jax.lax.all_to_all(rows, DATA, 0, 0, tiled=True) * 2, DATA, 0, 0, tiled=True)

    program = Program("costs", shard_map(there_and_back, mesh, P(DATA), P(DATA)), mesh)

    def seconds(rows: int) -> float:
        sent = np.zeros((parts, rows, width), np.float32)
        return _time(program, from_shards(mesh, [sent for _ in positions_here(mesh)]))

    each = ROWS // parts
    return max(0.0, seconds(3 * each) - seconds(each)) / (2 * each * (parts - 1) * width)


def _time(program: Program, *arguments: Any) -> float:
    """Seconds of a call, the least of some."""
    rounds = []
    for _ in range(ROUNDS + 1):
        started = time.perf_counter()
        jax.block_until_ready(program(*arguments))
        rounds.append(time.perf_counter() - started)
    return min(rounds[1:])
