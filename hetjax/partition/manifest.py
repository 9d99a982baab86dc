"""The manifest on disk: versioned JSON, `manifest.json`, and for an edge-cut an array per node type beside it.

A manifest is read back whole: from what was decided (the graph, the metatree, who owns which sub-metatree) everything
else in it is computed anew and compared, so a file that was changed by hand, cut or mixed up is refused with the place.
"""

import json
import os
from pathlib import Path

from hetjax import durable
from hetjax.errors import InputError, reading
from hetjax.graph import store, versioned
from hetjax.graph.hetgraph import HetGraph
from hetjax.graph.schema import Relation
from hetjax.graph.sizes import Sizes, check_digest, difference, from_json, sizes
from hetjax.partition.checks import require
from hetjax.partition.cost import Workload
from hetjax.partition.metatree import Metatree, Root
from hetjax.partition.plan import EDGE_CUTS, FORMAT, PART, VERSION, EdgeCut, Plan

FILE = "manifest.json"


def write(plan: Plan | EdgeCut, folder: Path, graph: HetGraph | None = None) -> None:
    """Write the manifest, and what belongs to it, into an existing folder; `graph` is needed where parts are copied."""
    if isinstance(plan, EdgeCut):
        for number, array in enumerate(plan.nodes.values()):
            durable.write_array(folder / f"nodes_{number}.npy", array)
    elif plan.copied:
        check_digest(plan.sizes, sizes(graph), "the graph")
        for part in plan.parts:
            about = plan.local_sizes(part)
            store.save(graph, folder / f"part_{part.number}", about.edges, about.features)
    (folder / FILE).write_text(json.dumps(plan.json(), indent=1))


def read(folder: str | os.PathLike) -> Plan | EdgeCut:
    """Read a manifest back, and check all of it.

    Raises:
      InputError: a missing or damaged file, another version, or values that contradict each other.
    """
    file = Path(folder) / FILE
    given = versioned.read(file, FORMAT, VERSION, "a manifest", "`python -m hetjax.partition` makes one")
    try:
        with reading("manifest"):
            about = from_json(given["graph"], "graph")
            if given["graph_digest"] != about.digest:
                raise InputError(
                    f"graph_digest {given['graph_digest']} != {about.digest} of the graph that stands there"
                )
            require(isinstance(given["store"], str | None), "store", given["store"], "a path or null")
            plan = (_edge_cut if given["method"] in EDGE_CUTS else _plan)(given, about, file.parent)
            wrong = difference(given, plan.json(), "manifest")
    except InputError as error:
        raise InputError(f"{file}: {error}") from None
    if wrong:
        raise InputError(f"{file}: {wrong}")
    return plan


def open_part(
    folder: str | os.PathLike, number: int, graph_store: str | os.PathLike | None = None
) -> tuple[Plan, HetGraph]:
    """Open one partition of a meta-partitioning: its relations, the static features it reads, labels and splits.

    No other file is opened. Types whose features the partition does not read are there without features; whether a type
    is learnable stands in the plan (`plan.sizes.features`), not in the partition's graph.

    Args:
      folder: holds the manifest.
      number: of the partition.
      graph_store: where the graph's store is, if elsewhere than the manifest says, or nowhere there.

    Raises:
      InputError: as `read`; or no such partition, or a store of a graph of other sizes.
    """
    plan = read(folder)
    if isinstance(plan, EdgeCut):
        raise InputError(f"{Path(folder) / FILE}: an edge-cut, whose partitions are rows of every file, not files")
    if not 0 <= number < len(plan.parts):
        raise InputError(f"{Path(folder) / FILE}: no partition {number} among {len(plan.parts)}")
    about = plan.local_sizes(plan.parts[number])
    path = graph_store or (Path(folder) / f"part_{number}" if plan.copied else plan.store)
    if path is None:
        raise InputError(f"{Path(folder) / FILE}: names no store; say where the graph's is")
    check_digest(plan.sizes, store.describe(path), str(path))
    return plan, store.open(path, about.edges, about.features)


def _plan(given: dict, about: Sizes, folder: Path) -> Plan:
    require(isinstance(given["parts"], list), "parts", given["parts"], "a list")
    metapaths = given["metapaths"]
    if metapaths is not None:
        metapaths = tuple(tuple(Relation(*relation) for relation in path) for path in metapaths)
    for key, values in (
        ("exchange", ("last", "every")),
        ("self_term", (True, False)),
        ("method", ("exact", "lpt", "given")),
    ):
        require(given[key] in values, key, given[key], " or ".join(map(str, values)))
    targets = tuple(given["targets"])
    tree = Metatree(about.schema, targets, given["hops"], metapaths, given["self_term"], given["exchange"])
    owners = tuple(tuple(_root(root) for root in part["owns"]) for part in given["parts"])
    copied = bool(given["parts"]) and given["parts"][0]["store"] is not None
    return Plan(about, tree, owners, given["mesh"]["data"], given["method"], _workload(given), given["store"], copied)


def _edge_cut(given: dict, about: Sizes, folder: Path) -> EdgeCut:
    counts = about.schema.nodes
    nodes = {
        name: store.map_array(folder / f"nodes_{number}.npy", PART, (counts[name],), f"partitions of {name!r}")
        for number, name in enumerate(counts)
    }
    require(isinstance(given["own"], bool), "own", given["own"], "true or false")
    about_model = given["hops"], _workload(given), given["own"]
    return EdgeCut(about, nodes, given["parts"], given["method"], *about_model, given["store"])


def _root(given: str | list) -> Root:
    if isinstance(given, str):
        return Root(given, None)
    relation = Relation(*given)
    return Root(relation.target, relation)


def _workload(given: dict) -> Workload:
    return Workload(**given["workload"] | {"fanout": tuple(given["workload"]["fanout"])})
