"""A store from tables: `python -m hetjax.ingest --config graph.json --out STORE`.

The configuration is that of GraphStorm's gconstruct, version gconstruct-v0.1, in JSON or YAML. Tables are read in pieces: memory
holds the ids of all nodes, the edges of one relation, and no table. The users' ids are kept; so are the fitted values of
transforms and the classes, in `graph.json` in the store, a configuration with which later data become a graph alike.
"""

import json
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from hetjax.datasets.load import outline
from hetjax.graph import store
from hetjax.graph.hetgraph import HetGraph, build
from hetjax.graph.names import Ids, Names
from hetjax.graph.schema import Schema
from hetjax.ingest import configuration, declared, labels, nodes, tables
from hetjax.ingest.declared import Configuration, NodeTable
from hetjax.ingest.edges import Edges, ForeignKey
from hetjax.ingest.nodes import Nodes
from hetjax.ingest.several import Errors
from hetjax.options.command_line import parse, run_command
from hetjax.system.durable import check_new, parents, reserved
from hetjax.system.errors import InputError
from hetjax.system.logs import log, timed


@dataclass(frozen=True)
class Options:
    """Ingest: how tables become a graph."""

    root: str = ""
    """the folder in which relative paths of files begin; unset: that of the configuration"""
    target: str = ""
    """the node type to predict, where several have labels, or none: such a graph can be predicted, and not trained on"""
    seed: int = 0
    """chooses the nodes of splits that are shares"""
    add_reverse_edges: bool = False
    """add the reverse of every relation that is not there already, rev_NAME"""
    skip_nonexist_edges: bool = False
    """leave out edges whose ends are no nodes, and say how many; false: they are an error"""
    leave_out: bool = False
    """leave out what is not supported, and say what it was; false: it is an error"""


def main(arguments: Sequence[str]) -> None:
    """Read tables, and write a store."""
    given = {
        "config": "the configuration, GraphStorm's gconstruct-v0.1, in JSON or YAML",
        "out": "the folder to write, which must not exist",
    }
    instances, given = parse({"": Options}, arguments, "python -m hetjax.ingest", "Make a store from tables.", given)
    options, out = instances[""], Path(given["out"])
    check_new(out)
    file = Path(given["config"])
    config = configuration.read(file, Path(options.root or file.parent), options.leave_out)
    for what in config.left_out:
        log.info(f"left out: {what}")
    for table in config.nodes:
        if table.label and any(table.label.column in feature.columns for feature in table.features):
            what = f"{file}: {table.place}: {table.label.column!r} is a feature too"
            log.warning(f"{what}: the model is told what it is to predict")
    with parents(out), reserved(out.with_name(f"{out.name}.columns")) as folder:
        graph, kept, skipped = ingest(config, options, folder, str(file))
        with timed("files"):
            store.save(graph, out, extra={labels.KEPT: json.dumps(kept, indent=1)})
    for relation, count in skipped.items():
        log.info(f"relation {relation}: {count:,} edges left out whose ends are no nodes")
    log.info(f"{out}: {outline(graph)}")
    log.info(f"labels of {graph.schema.target}: {graph.own_column.words()}")


def ingest(config: Configuration, options: Options, folder: Path, where: str) -> tuple[HetGraph, dict, dict]:
    """Return a graph from tables, its features in arrays in `folder`; the configuration with fitted values; and edges left out, by relation.

    Raises:
      InputError: for what is wrong, with file, row and column; errors of other tables are warnings before.
    """
    target, errors = _target(config, options, where), Errors()
    with tqdm(
        total=_size(config, options), unit="B", unit_scale=True, desc="ingest", leave=False, disable=None, delay=1
    ) as bar:
        read = _read_nodes(config, bar, errors)
        table = next((t for t in config.nodes if t.node_type == target and t.label), None)
        label = table.label if table else None
        features = _write_features(read, folder, bar, errors)
        if target in read:
            with errors.checked():
                encoded, names, classes = _labels(read[target], target, table, where)
        reverse = options.add_reverse_edges or config.add_reverse_edges
        edges = Edges(config.edges, _keys(config), read, reverse, options.skip_nonexist_edges, bar)
        with timed("ids"):
            finders = {name: one.finder for name, one in read.items()}
        if target in read:
            with errors.checked(), timed("splits"):
                drawn = labels.split(label, encoded, read[target].split, finders[target], options.seed)
        relations = {}
        for relation in edges.known():
            with errors.collected():
                relations[relation] = edges[relation]
        errors.check()
        schema = Schema({name: one.count for name, one in read.items()}, tuple(edges), target, len(classes))
        ids = Names({name: Ids(one.ids) for name, one in read.items() if one.ids is not None}, names)
        graph = build(schema, relations, features, encoded, drawn, where, ids)
    kept = _fitted_configuration(config, read, target, classes) | ({"add_reverse_edges": True} if reverse else {})
    return graph, kept, edges.skipped


def _read_nodes(config: Configuration, bar: tqdm, errors: Errors) -> dict[str, Nodes]:
    """Return the tables of every node type that has no error."""
    given: dict[str, list[NodeTable]] = {}
    for table in config.nodes:
        given.setdefault(table.node_type, []).append(table)
    read = {}
    for name, of in given.items():
        with errors.collected(), timed(f"nodes of {name}"):
            read[name] = nodes.read(name, of, bar)
    return read


def _labels(read: Nodes, target: str, table: NodeTable | None, where: str) -> tuple:
    """Return labels of the target type as `labels.encode` does; `table` has them, if there are some."""
    if table is None or table.label is None:
        log.info(f"{where}: no labels of {target!r}: a graph to predict, and not to train on")
        return labels.none(read.count)
    with timed(f"labels of {target}"):
        return labels.encode(read.label, table.label, table.format.explicit)


def _write_features(read: Mapping[str, Nodes], folder: Path, bar: tqdm, errors: Errors) -> dict[str, np.ndarray]:
    features = {}
    for number, (name, one) in enumerate(read.items()):
        if one.columns:
            with errors.collected(), timed(f"features of {name}"):
                features[name] = nodes.write_features(one, folder, number, bar)
    return features


def _keys(config: Configuration) -> list[ForeignKey]:
    """Return the relations that foreign keys make."""
    given = [(t, column, *to) for t in config.nodes for column, to in t.foreign_keys.items()]
    ways = {"to": (False,), "from": (True,), "both": (False, True)}
    return [ForeignKey(table, column, to, turned) for table, column, to, way in given for turned in ways[way]]


def _target(config: Configuration, options: Options, where: str) -> str:
    labelled = list(dict.fromkeys(table.node_type for table in config.nodes if table.label))
    types = labelled or list(dict.fromkeys(table.node_type for table in config.nodes))
    if options.target and options.target not in types:
        what = "has no labels; node types that have some" if labelled else "is no node type; there are"
        raise InputError(f"target {options.target!r} {what}: {', '.join(types) or 'none'}")
    if not options.target and len(labelled) != 1:
        raise InputError(
            f"{where}: node types with labels: {', '.join(labelled) or 'none'}, and there should be one; --target names "
            + ("it" if labelled else "one of a graph to predict, and not to train on")
        )
    target = options.target or labelled[0]
    several = [table for table in config.nodes if table.node_type == target and table.label]
    if len(several) > 1:
        raise InputError(f"{where}: {len(several)} tables of node type {target!r} have labels, and one may")
    return target


def _size(config: Configuration, options: Options) -> int:
    """Return the bytes that are read: a table of nodes twice if it has features, and once for each foreign key."""
    times = [(t.files, 1 + bool(t.features)) for t in config.nodes]
    times += [(t.files, 1) for t in config.edges] + [(key.table.files, 1) for key in _keys(config)]
    return sum(n * sum(file.stat().st_size for file in tables.paths(files)) for files, n in times)


def _fitted_configuration(
    config: Configuration, read: dict[str, Nodes], target: str, classes: list[str]
) -> dict[str, Any]:
    """Return the configuration without what was left out, and with what was fitted: transforms of one column each, and the classes."""
    content = {key: deepcopy(value) for key, value in config.content.items() if key in declared.TOP}
    for part, keys in (("nodes", declared.NODE), ("edges", declared.EDGE)):
        content[part] = [{key: value for key, value in entry.items() if key in keys} for entry in content[part]]
    content["edges"] = [entry for entry in content["edges"] if "source_id_col" in entry]
    for entry, table in zip(content["nodes"], config.nodes):
        if entry.get("labels") and not table.label:
            del entry["labels"]
        columns = [column for column in read[table.node_type].columns if column.table is table]
        if entry.get("features"):
            entry["features"] = [
                {"feature_col": c.name, "out_dtype": c.dtype, "transform": c.transform.fitted()} for c in columns
            ]
        if entry.get("labels") and table.label and table.node_type == target:
            entry["labels"] = [
                one | {"classes": classes}
                for one in entry["labels"]
                if one.get("label_col") in (table.label.column, [table.label.column])
            ]
    return content


if __name__ == "__main__":
    run_command(main)
