"""What an edge, a target and a row cost on the machine that trains: NeutronStar's `T_e`, `T_v` and `T_c`.

They are measured with the model's own layers (`probes`) where that is worth its time, and otherwise reckoned from what the
machine does in a second (`rates`). All is kept in the user's cache folder, for the computers that train and the code that ran.
"""

import platform
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
from jax.sharding import Mesh

from hetjax import __version__, compiled, measured
from hetjax.config import as_dict
from hetjax.graph.hetgraph import HetGraph
from hetjax.sharding.dependency import kept_link, probes, rates
from hetjax.sharding.dependency import link as links
from hetjax.sharding.dependency.probes import Kind, Kinds, Seconds
from hetjax.sharding.strategy import Setup

PROBE = {
    True: 0.5,
    False: 3.0,
}  # seconds that measuring a linear fold, or another, takes: most of it compiling, so known before by order alone
EACH = 0.015  # seconds more for every relation of every layer: the whole model is traced
EPOCHS, MOST = 100, 0.03  # of so many epochs: the share that measuring may take

Layers = list[dict[str, float]]


class Costs(NamedTuple):
    """Seconds.

    Attributes:
      vertex: per layer but the last, and type, `T_v d`: of a target of that layer, there and back.
      edge: per layer but the last, and relation by its key, `T_e d`.
      source: per layer but the last, and type, what reading one more row of the layer below takes, such as its product with a matrix.
      sent: `T_c`, of a row's number that is fetched, and its gradient given back.
      start: of fetching anything in a layer, however little, and giving it back.
      measured: whether all but the last two are measured with the model's own layers.
    """

    vertex: Layers
    edge: Layers
    source: Layers
    sent: float
    start: float
    measured: bool


def read_or_measure(setup: Setup, mesh: Mesh, message: int) -> Costs:
    """The same in all processes; together.

    The costs that were kept of a link between processes hold while it is much the same, so that a run that is resumed chooses
    as before: it is measured anew only where a short exchange takes another time than when it was kept. On accelerators, whose
    rows may go another way than messages, it is measured every time.

    Args:
      message: numbers that a device sends to another at once.
    """
    machine, kinds = _machine(setup, mesh), probes.kinds(setup)
    link = _link(setup, mesh, machine, 1 << (message.bit_length() - 1))
    reckoned: dict[Kind, Seconds] = {}
    if rates.known(mesh):
        rate = _kept(setup, "rates", machine, lambda: rates.measure(mesh))
        reckoned = {kind: rates.seconds(kind, *rate) for kind in probes.distinct(kinds)}
    wanted = _busiest(setup.graph, kinds[:-1]) if reckoned else probes.distinct(kinds[:-1])
    about = machine | _about(setup) | {"kinds": wanted}
    known = _read(setup, "layers", about)
    if known is None and (not reckoned or _worth(setup, mesh, kinds, wanted, reckoned)):
        known = _kept(setup, "layers", about, lambda: probes.measure(setup, mesh, wanted))
    if known is None:
        return Costs(*by_name(kinds, reckoned), *link, False)
    found = {kind: Seconds(*seconds) for kind, seconds in zip(wanted, known, strict=True)}
    return Costs(*by_name(kinds, _scaled(found, reckoned)), *link, True)


def _busiest(graph: HetGraph, kinds: Kinds) -> list[Kind]:
    """Of every layer the kind of relations that has most edges."""
    edges: list[Counter] = [Counter() for _ in kinds]
    for count, layer in zip(edges, kinds):
        for relation, kind in layer.items():
            count[kind] += graph.relations[relation].edges
    return [max(count, key=count.__getitem__) for count in edges if count]


def _worth(setup: Setup, mesh: Mesh, kinds: Kinds, wanted: Sequence[Kind], of: Mapping[Kind, Seconds]) -> bool:
    """Whether measuring takes no more of `EPOCHS` epochs, by what is reckoned, than it may."""
    graph, step = setup.graph, 0.0
    for layer in kinds:
        for relation, kind in layer.items():
            vertex, edge, source = of[kind]
            step += edge * graph.relations[relation].edges + vertex * graph.schema.nodes[relation.target]
            step += source * graph.schema.nodes[relation.source]
    takes = sum(PROBE[kind.linear] for kind in wanted) + EACH * sum(map(len, kinds))
    return takes <= MOST * EPOCHS * step / mesh.size


def _scaled(measured: Mapping[Kind, Seconds], reckoned: Mapping[Kind, Seconds]) -> dict[Kind, Seconds]:
    """With kinds that were not measured, which are as far from what is reckoned as the one of their layer that was."""
    found, of = dict(measured), {kind.depth: kind for kind in measured}
    for kind, seconds in reckoned.items():
        if kind not in found and kind.depth in of:
            pairs = zip(measured[of[kind.depth]], reckoned[of[kind.depth]])
            found[kind] = Seconds(*(each * one / other for each, (one, other) in zip(seconds, pairs)))
    return found


def by_name(kinds: Kinds, of: Mapping[Kind, Seconds]) -> tuple[Layers, Layers, Layers]:
    """Costs of every layer but the last by type and by relation."""
    vertices: Layers = []
    edges: Layers = []
    sources: Layers = []
    for layer in kinds[:-1]:
        vertex: dict[str, float] = {}
        source: dict[str, float] = {}
        for relation, kind in layer.items():
            vertex[relation.target] = max(vertex.get(relation.target, 0.0), of[kind].vertex)
            source[relation.source] = source.get(relation.source, 0.0) + of[kind].source
        vertices.append(vertex)
        edges.append({relation.key: of[kind].edge for relation, kind in layer.items()})
        sources.append(source)
    return vertices, edges, sources


def _link(setup: Setup, mesh: Mesh, machine: Mapping, message: int) -> tuple[float, float]:
    """`Costs.sent` and `Costs.start`."""
    if mesh.size == 1:
        return 0.0, 0.0
    processes, about = setup.processes, {**machine, "message": message}
    checked = processes.count > 1 and rates.known(mesh)
    known = _read(setup, "link", about)
    stays = known and (
        kept_link.holds(processes, known["link"][0], known["exchange"]) if checked else processes.count == 1
    )
    if not stays:
        now = processes.broadcast_object("costs of the link", links.measure(mesh, processes, message))
        if known is None or not all(map(kept_link.alike, known["link"], now)):
            known = {"link": now}
        if checked:
            known["exchange"] = kept_link.usual(processes, known["link"][0])
        _write(setup, "link", about, known)
    sent, start = known["link"]
    return sent, start


def _machine(setup: Setup, mesh: Mesh) -> dict[str, Any]:
    """What all costs depend on, but for what runs."""
    hosts = setup.processes.all_gather("hosts", platform.node())  # rows cross a network, or they do not
    device = {"device": mesh.devices.flat[0].device_kind, "processor": platform.machine()}
    versions = {"jax": jax.__version__, "hetjax": __version__, "costs": compiled.digest(__name__)}
    return {"hosts": hosts, "devices": mesh.size, **device, **versions}


def _about(setup: Setup) -> dict[str, Any]:
    """What runs: a model, and the code that it is made of."""
    model = setup.config.model
    names = {type(layer).__module__ for layer in setup.trainer.model.layers} | {model.name.partition(":")[0]}
    code = [compiled.digest(name) for name in sorted(names) if getattr(sys.modules.get(name), "__file__", None)]
    return {"model": as_dict(model), "code": code}


def _kept(setup: Setup, name: str, about: Mapping, make: Callable[[], Any]) -> Any:
    """What is kept, or what process 0 makes now, all processes together."""
    known = _read(setup, name, about)
    if known is None:
        known = _write(setup, name, about, setup.processes.broadcast_object(f"costs, {name}", make()))
    return known


def _read(setup: Setup, name: str, about: Mapping) -> Any:
    """Costs that process 0 has kept; None if there are none of this, or they are damaged."""
    found = measured.read(name, about) if setup.processes.first else None
    return setup.processes.broadcast_object(f"known costs, {name}", found)


def _write(setup: Setup, name: str, about: Mapping, costs: Any) -> Any:
    if setup.processes.first:
        measured.write(name, about, costs)
    return costs
