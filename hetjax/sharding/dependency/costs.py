"""The costs of an edge, a target and a row on the machine that trains: NeutronStar's `T_e`, `T_v` and `T_c`.

They are measured where that is worth its time, with the model's own layers (`probes`) and by all-to-alls (`link`). Otherwise they are computed
from the machine's rates (`rates`), and from messages between processes (`kept_link`). All are stored in the user's cache folder, for the
computers that train and the code that ran.
"""

import math
import platform
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
from jax.sharding import Mesh

from hetjax.graph.hetgraph import HetGraph
from hetjax.options.config import as_dict
from hetjax.sharding.dependency import kept_link, probes, rates
from hetjax.sharding.dependency import link as links
from hetjax.sharding.dependency.probes import Kind, Kinds, Seconds
from hetjax.sharding.strategy import Setup
from hetjax.system import compiled, measured, runtime
from hetjax.system.version import __version__

# Seconds that measuring takes, of which only the order of magnitude is known beforehand, as most of it is compiling: of a fold that is linear,
# or not, and of the link. They are of a machine that reads a number in `USUAL` seconds on one core; one that reads slower is taken to compile slower.
USUAL = 3e-10
PROBE, LINK = {True: 0.5, False: 3.0}, 0.5
EACH = 0.015  # seconds more for every relation of every layer: the whole model is traced
BETWEEN = 4  # times as long between processes, each of which waits for the slowest: 1 to 4 measured
EPOCHS, MOST = 100, 0.03  # of so many epochs: the share that measuring may take

Layers = list[dict[str, float]]


class Costs(NamedTuple):
    """The costs of dependencies, in seconds.

    Attributes:
      vertex: the cost of a target, forward and backward, `T_v d`, per layer except the last, and type.
      edge: the cost of an edge, forward and backward, `T_e d`, per layer except the last, and relation by its key.
      source: the cost of reading one more row of the layer below, such as its product with a matrix, per layer except the last, and type.
      sent: `T_c`, the cost of an element of a row that is fetched, and of sending its gradient back.
      start: the fixed cost of fetching rows in a layer, and of sending their gradients back.
      copy: the cost of copying an element of a row in memory; 0 on accelerators, where it is not known.
      measured: whether the first three are measured with the model's own layers.
    """

    vertex: Layers
    edge: Layers
    source: Layers
    sent: float
    start: float
    copy: float
    measured: bool


def read_or_measure(setup: Setup, mesh: Mesh, message: int) -> Costs:
    """Return the costs, the same in all processes; all processes call this together.

    The stored costs of a link between processes hold while the link is much the same, so that a run that is resumed chooses
    as before: the link is measured again only where a short exchange takes another time than when the costs were stored. On
    accelerators, whose rows may go another way than messages, it is measured every time.

    Args:
      message: the number of elements that a device sends to another at once.
    """
    machine, kinds = _machine(setup, mesh), probes.kinds(setup)
    rate, left, slower = None, math.inf, 1.0
    reckoned: dict[Kind, Seconds] = {}
    if rates.known(mesh):
        read, product = _kept(setup, "rates", machine, lambda: rates.measure() if setup.processes.first else None)
        slower = max(1.0, read / USUAL)
        devices = machine["sharing"] * mesh.size // setup.processes.count
        rate = rates.shared(read, product, devices, machine["cores"])
        reckoned = {kind: rates.seconds(kind, *rate) for kind in probes.distinct(kinds)}
        left = MOST * EPOCHS * _step(setup.graph, kinds, reckoned) / mesh.size
    if setup.processes.count > 1:
        slower *= BETWEEN
    takes = slower * LINK
    shared = 1 < setup.processes.count < mesh.size  # devices of a process share its link, which messages do not see
    worth = takes <= left or shared
    link = _link(setup, mesh, machine, 1 << (message.bit_length() - 1), None if worth else rate)
    left -= worth * takes
    wanted = _busiest(setup.graph, kinds[:-1]) if reckoned else probes.distinct(kinds[:-1])
    about = machine | _about(setup) | {"kinds": wanted}
    known = _read(setup, "layers", about)
    takes = slower * (sum(PROBE[kind.linear] for kind in wanted) + EACH * sum(map(len, kinds)))
    if known is None and takes <= left:
        known = _kept(setup, "layers", about, lambda: probes.measure(setup, mesh, wanted))
    copy = rate[0] if rate else 0.0
    if known is None:
        return Costs(*by_name(kinds[:-1], reckoned), *link, copy, False)
    found = {kind: Seconds(*seconds) for kind, seconds in zip(wanted, known, strict=True)}
    return Costs(*by_name(kinds[:-1], _scaled(found, reckoned)), *link, copy, True)


def _busiest(graph: HetGraph, kinds: Kinds) -> list[Kind]:
    """Return the kind of relations that has most edges, for every layer."""
    edges: list[Counter] = [Counter() for _ in kinds]
    for count, layer in zip(edges, kinds):
        for relation, kind in layer.items():
            count[kind] += graph.relations[relation].edges
    return [max(count, key=count.__getitem__) for count in edges if count]


def _step(graph: HetGraph, kinds: Kinds, of: Mapping[Kind, Seconds]) -> float:
    """Return the seconds of a step of the whole graph on one device.

    Args:
      of: the seconds of each kind of relations.
    """
    nodes, edges = graph.schema.nodes, {relation.key: csc.edges for relation, csc in graph.relations.items()}
    parts = zip(by_name(kinds, of), (nodes, edges, nodes))
    return sum(cost * counts[name] for layers, counts in parts for layer in layers for name, cost in layer.items())


def _scaled(measured: Mapping[Kind, Seconds], reckoned: Mapping[Kind, Seconds]) -> dict[Kind, Seconds]:
    """Return the costs of all kinds; those that were not measured are scaled like the measured kind of their layer."""
    found, of = dict(measured), {kind.depth: kind for kind in measured}
    for kind, seconds in reckoned.items():
        if kind not in found and kind.depth in of:
            pairs = zip(measured[of[kind.depth]], reckoned[of[kind.depth]])
            found[kind] = Seconds(*(each * one / other for each, (one, other) in zip(seconds, pairs)))
    return found


def by_name(kinds: Kinds, of: Mapping[Kind, Seconds]) -> tuple[Layers, Layers, Layers]:
    """Return `Costs.vertex`, `Costs.edge` and `Costs.source` of layers: per type the largest of the relations into it, and the sum of those out of it.

    Args:
      of: the seconds of each kind of relations.
    """
    vertices: Layers = []
    edges: Layers = []
    sources: Layers = []
    for layer in kinds:
        vertex: dict[str, float] = {}
        source: dict[str, float] = {}
        for relation, kind in layer.items():
            vertex[relation.target] = max(vertex.get(relation.target, 0.0), of[kind].vertex)
            source[relation.source] = source.get(relation.source, 0.0) + of[kind].source
        vertices.append(vertex)
        edges.append({relation.key: of[kind].edge for relation, kind in layer.items()})
        sources.append(source)
    return vertices, edges, sources


def _link(
    setup: Setup, mesh: Mesh, machine: Mapping, message: int, rate: Sequence[float] | None = None
) -> tuple[float, float]:
    """Measure `Costs.sent` and `Costs.start`.

    Args:
      rate: the rate of the machine, if measuring the link is not worth its time.
    """
    if mesh.size == 1:
        return 0.0, 0.0
    processes, about = setup.processes, {**machine, "message": message}
    checked = processes.count > 1 and rates.known(mesh)
    known = _read(setup, "link", about)
    stays = known and (
        kept_link.holds(processes, known["link"][0], known["exchange"]) if checked else processes.count == 1
    )
    if not stays and rate:
        return _messages(setup, machine) if checked else rates.link(rate[0], mesh.size)
    if not stays:
        now = processes.broadcast_object("costs of the link", links.measure(mesh, processes, message))
        if known is None or not all(map(kept_link.alike, known["link"], now)):
            known = {"link": now}
        if checked:
            known["exchange"] = kept_link.usual(processes, known["link"][0])
        _write(setup, "link", about, known)
    sent, start = known["link"]
    return sent, start


def _messages(setup: Setup, machine: Mapping) -> tuple[float, float]:
    """Return the costs of a link as `_link` does, by messages between processes; stored costs are used while they hold."""
    processes = setup.processes
    known = _read(setup, "messages", machine)
    if known is None or not kept_link.holds(processes, known["asked"], known["exchange"]):
        known = _write(setup, "messages", machine, kept_link.reckoned(processes))
    sent, start = known["link"]
    return sent, start


def _machine(setup: Setup, mesh: Mesh) -> dict[str, Any]:
    """Return the description of the machine on which all costs depend."""
    hosts = setup.processes.all_gather("hosts", platform.node())  # rows cross a network, or they do not
    cores = setup.processes.all_gather("cores", runtime.core_ids())
    processes = list(zip(hosts, cores))
    sharing = processes.count(processes[0])  # of the first, which stands for all
    device = {"device": mesh.devices.flat[0].device_kind, "processor": platform.machine()}
    versions = {"jax": jax.__version__, "hetjax": __version__, "costs": compiled.digest(__name__)}
    return {"hosts": hosts, "cores": len(cores[0]), "sharing": sharing, "devices": mesh.size, **device, **versions}


def _about(setup: Setup) -> dict[str, Any]:
    """Return the description of what runs: a model, and the code that it is made of."""
    model = setup.config.model
    names = {type(layer).__module__ for layer in setup.trainer.model.layers} | {model.name.partition(":")[0]}
    code = [compiled.digest(name) for name in sorted(names) if getattr(sys.modules.get(name), "__file__", None)]
    return {"model": as_dict(model), "code": code}


def _kept(setup: Setup, name: str, about: Mapping, make: Callable[[], Any]) -> Any:
    """Return the stored costs, or those that process 0 measures now; all processes call this together."""
    known = _read(setup, name, about)
    if known is None:
        known = _write(setup, name, about, setup.processes.broadcast_object(f"costs, {name}", make()))
    return known


def _read(setup: Setup, name: str, about: Mapping) -> Any:
    """Return the costs that process 0 has stored; None if there are none for this key, or they are damaged."""
    found = measured.read(name, about) if setup.processes.first else None
    return setup.processes.broadcast_object(f"known costs, {name}", found)


def _write(setup: Setup, name: str, about: Mapping, costs: Any) -> Any:
    if setup.processes.first:
        measured.write(name, about, costs)
    return costs
