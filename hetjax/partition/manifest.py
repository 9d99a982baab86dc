"""The manifest on disk: versioned JSON, `manifest.json`, and for an edge-cut an array per node type beside it.

A manifest is read back whole: from what was decided (the graph, the metatree, who owns which sub-metatree) everything
else in it is computed anew and compared, so a file that was changed by hand, cut or mixed up is refused with the place.
"""

import csv
import json
import os
from pathlib import Path

from hetjax.graph import store, versioned
from hetjax.graph.hetgraph import HetGraph
from hetjax.graph.sizes import check_digest, difference, from_json, sizes
from hetjax.partition import reports
from hetjax.partition.checks import require
from hetjax.partition.edge_cut import EdgeCut
from hetjax.partition.meta_partitioning import MetaPartitioning
from hetjax.partition.partitioning import FORMAT, VERSION, Partitioning, Report
from hetjax.partition.stream_cut import StreamCut
from hetjax.system.durable import new_folder
from hetjax.system.errors import InputError, reading

FILE = "manifest.json"
KINDS: tuple[type[Partitioning], ...] = (MetaPartitioning, EdgeCut, StreamCut)


def save(partitioning: Partitioning, folder: str | os.PathLike, graph: HetGraph | None = None) -> Report:
    """Write the new folder: `manifest.json` and what belongs to it, `report.json`, `report.csv` and `plan.png`.

    Args:
      partitioning: a meta-partitioning that is `copied` gives every partition a store of its own, `part_0` and so on.
      folder: must not exist; it appears whole or not at all.
      graph: what was partitioned; not needed for a meta-partitioning of which nothing is copied.

    Raises:
      InputError: the folder exists or cannot be written, or another graph than was partitioned.
    """
    from hetjax.partition import pictures  # which takes matplotlib's time to start

    report = reports.report(partitioning, graph)
    with new_folder(folder) as partial:
        partitioning.write(partial, graph)
        (partial / FILE).write_text(json.dumps(partitioning.json(), indent=1), encoding="utf-8")
        content = report.summary | {"parts": report.rows}
        (partial / "report.json").write_text(json.dumps(content, indent=1), encoding="utf-8")
        with open(partial / "report.csv", "w", newline="", encoding="utf-8") as stream:
            writer = csv.DictWriter(stream, list(report.rows[0]))
            writer.writeheader()
            writer.writerows(report.rows)
        pictures.draw(partitioning, report, Path(partial) / "plan.png")
    return report


def read(folder: str | os.PathLike, *more_kinds: type[Partitioning]) -> Partitioning:
    """Read a manifest back, and check all of it.

    Args:
      more_kinds: kinds of partitioning that may be there beside those of `KINDS`.

    Raises:
      InputError: a missing or damaged file, another version, or values that contradict each other.
    """
    file = Path(folder) / FILE
    manifest = versioned.read(file, FORMAT, VERSION, "a manifest", "`python -m hetjax.partition` makes one")
    try:
        with reading("manifest"):
            found = from_json(manifest["graph"], "graph")
            if manifest["graph_digest"] != found.digest:
                raise InputError(
                    f"graph_digest {manifest['graph_digest']} != {found.digest} of the graph that stands there"
                )
            require(isinstance(manifest["store"], str | None), "store", manifest["store"], "a path or null")
            kinds = {method: kind for kind in (*KINDS, *more_kinds) for method in kind.methods}
            require(manifest["method"] in kinds, "method", manifest["method"], " or ".join(kinds))
            plan = kinds[manifest["method"]].from_json(manifest, found, file.parent)
            wrong = difference(manifest, plan.json(), "manifest")
    except InputError as error:
        raise InputError(f"{file}: {error}") from None
    if wrong:
        raise InputError(f"{file}: {wrong}")
    return plan


def read_cut(folder: str | os.PathLike, graph: HetGraph, parts: int, method: str) -> EdgeCut:
    """Read the partitioning of the nodes of the graph of a run that is resumed.

    Raises:
      InputError: as `read`; or it is of another graph, or made otherwise.
    """
    cut = read(folder)
    if not isinstance(cut, EdgeCut) or (cut.parts, cut.method) != (parts, method):
        raise InputError(f"{folder}: {cut.method} there != {method} in {parts} parts; move it away")
    check_digest(sizes(graph), cut.sizes, str(folder))
    return cut


def open_part(
    folder: str | os.PathLike, number: int, graph_store: str | os.PathLike | None = None
) -> tuple[MetaPartitioning, HetGraph]:
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
    if not isinstance(plan, MetaPartitioning):
        raise InputError(
            f"{Path(folder) / FILE}: made by method {plan.method}, and has no partitions that are files of their own"
        )
    if not 0 <= number < len(plan.parts):
        raise InputError(f"{Path(folder) / FILE}: no partition {number} among {len(plan.parts)}")
    local = plan.local_sizes(plan.parts[number])
    path = graph_store or (Path(folder) / f"part_{number}" if plan.copied else plan.store)
    if path is None:
        raise InputError(f"{Path(folder) / FILE}: names no store; say where the graph's is")
    check_digest(plan.sizes, store.describe(path), str(path))
    return plan, store.open(path, local.edges, local.features)
