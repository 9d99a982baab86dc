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
from hetjax.graph.columns import LABEL_NAME, Column, column_type
from hetjax.graph.hetgraph import HetGraph, build
from hetjax.graph.names import Ids, Names
from hetjax.graph.schema import Schema
from hetjax.ingest import configuration, declared, labels, nodes, tables
from hetjax.ingest.declared import Configuration, Label, NodeTable
from hetjax.ingest.edges import Edges, ForeignKey
from hetjax.ingest.finder import Finder
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
    """the node type or column (TYPE.NAME) of the graph's own labels; unset: the first; a type where none has labels: to be predicted, and not trained on"""
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
        for label in table.labels:
            if any(label.column in feature.columns for feature in table.features):
                what = f"{file}: {table.place}: {label.column!r} is a feature too"
                log.warning(f"{what}: the model is told what it is to predict")
    with parents(out), reserved(out.with_name(f"{out.name}.columns")) as folder:
        graph, kept, skipped = ingest(config, options, folder, str(file))
        with timed("files"):
            store.save(graph, out, extra={labels.KEPT: json.dumps(kept, indent=1)})
    for relation, count in skipped.items():
        log.info(f"relation {relation}: {count:,} edges left out whose ends are no nodes")
    log.info(f"{out}: {outline(graph)}")
    log.info(f"labels of {graph.schema.target}: {graph.own_column.words()}")
    for name, column in graph.columns.items():
        log.info(f"labels {name}: {column.words()}")


def ingest(config: Configuration, options: Options, folder: Path, where: str) -> tuple[HetGraph, dict, dict]:
    """Return a graph from tables, its features in arrays in `folder`; the configuration with fitted values; and edges left out, by relation.

    Raises:
      InputError: for what is wrong, with file, row and column; errors of other tables are warnings before.
    """
    own, errors = _own(config, options, where), Errors()
    target = column_type(own) or own
    classes: dict[str, list[str]] = {}  # by the place of a label
    with tqdm(
        total=_size(config, options), unit="B", unit_scale=True, desc="ingest", leave=False, disable=None, delay=1
    ) as bar:
        read = _read_nodes(config, bar, errors)
        features = _write_features(read, folder, bar, errors)
        reverse = options.add_reverse_edges or config.add_reverse_edges
        with timed("ids"):
            finders = {name: one.finder for name, one in read.items()}
        edges = Edges(config.edges, _keys(config), read, reverse, options.skip_nonexist_edges, bar)
        columns = _node_columns(config, read, finders, options.seed, classes, errors)
        relations = {}
        for relation in edges.known():
            with errors.collected():
                relations[relation] = edges[relation]
        columns |= _edge_columns(edges, finders, options.seed, classes, errors)
        errors.check()
        if own not in columns:
            log.info(f"{where}: no labels of {target!r}: a graph to predict, and not to train on")
        labelled = columns.pop(own, None) or Column(labels.none(read[target].count), {}, 1)
        schema = Schema({name: one.count for name, one in read.items()}, tuple(edges), target, labelled.classes)
        ids = Names({name: Ids(one.ids) for name, one in read.items() if one.ids is not None}, labelled.names)
        named = own.removeprefix(f"{target}.") if own != target else LABEL_NAME
        made = labelled.labels, labelled.splits, where, ids
        graph = build(schema, relations, features, *made, columns=columns, label_name=named)
    kept = _fitted_configuration(config, read, classes) | ({"add_reverse_edges": True} if reverse else {})
    return graph, kept, edges.skipped


def _node_columns(
    config: Configuration,
    read: Mapping[str, Nodes],
    finders: Mapping[str, Finder],
    seed: int,
    classes: dict[str, list[str]],
    errors: Errors,
) -> dict[str, Column]:
    """Return the columns of labels of nodes, by their names; what is kept of their classes is written into `classes`."""
    columns: dict[str, Column] = {}
    for table in config.nodes:
        for label in table.labels if table.node_type in read else ():
            with errors.checked(), timed(f"labels of {table.node_type}"):
                name = f"{table.node_type}.{label.name}"
                if name in columns:
                    raise InputError(f"{label.place}: another label is called {name!r} already")
                columns[name] = _node_column(
                    table, label, read[table.node_type], finders[table.node_type], seed, classes
                )
    return columns


def _node_column(
    table: NodeTable, label: Label, nodes: Nodes, finder: Finder, seed: int, classes: dict[str, list[str]]
) -> Column:
    values = nodes.labels.get((label.place, label.column), [])
    encoded, names, classes[label.place] = labels.encode(values, label, table.format.explicit)
    by = nodes.labels.get((label.place, label.by[0]), []) if label.by else []
    splits = labels.split(label, encoded, by, lambda file: labels.of_file(file, label, finder), seed)
    return Column(encoded, splits, len(classes[label.place]), names)


def _edge_columns(
    edges: Edges, finders: Mapping[str, Finder], seed: int, classes: dict[str, list[str]], errors: Errors
) -> dict[str, Column]:
    """Return the columns of labels of edges that were read, as `_node_columns` does."""
    columns: dict[str, Column] = {}
    for rows in edges.labelled.values():
        for label in rows.table.labels:
            with errors.collected(), timed(f"labels of {rows.table.relation}"):
                name, column, classes[label.place] = rows.column(label, finders, seed)
                if name in columns:
                    raise InputError(f"{label.place}: another label is called {name!r} already")
                columns[name] = column
    return columns


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


def _own(config: Configuration, options: Options, where: str) -> str:
    """Return the name of the graph's own column, `TYPE.NAME`; or the node type alone, of a graph to predict or with labels of edges alone."""
    named = [f"{table.node_type}.{label.name}" for table in config.nodes for label in table.labels]
    types = list(dict.fromkeys(table.node_type for table in config.nodes))
    chosen = [name for name in named if options.target in ("", name, column_type(name))]
    if chosen:
        if len(named) > 1:
            log.info(f"{where}: the graph's own labels are {chosen[0]}, of {', '.join(named)}; --target names others")
        return chosen[0]
    pairs = [table.relation.target for table in config.edges if table.labels]
    if not options.target and pairs and not named:
        return pairs[0]
    if not options.target:
        raise InputError(
            f"{where}: node types with labels: none, and there should be one; --target names one of a graph to predict, and not to train on"
        )
    if named or options.target not in types:
        what = "has no labels; columns that there are" if named else "is no node type; there are"
        raise InputError(f"target {options.target!r} {what}: {', '.join(named or types) or 'none'}")
    return options.target


def _size(config: Configuration, options: Options) -> int:
    """Return the bytes that are read: a table of nodes twice if it has features, and once for each foreign key."""
    times = [(t.files, 1 + bool(t.features)) for t in config.nodes]
    times += [(t.files, 1) for t in config.edges] + [(key.table.files, 1) for key in _keys(config)]
    return sum(n * sum(file.stat().st_size for file in tables.paths(files)) for files, n in times)


def _fitted_configuration(
    config: Configuration, read: dict[str, Nodes], classes: Mapping[str, list[str]]
) -> dict[str, Any]:
    """Return the configuration without what was left out, and with what was fitted: transforms of one column each, and classes by the place of a label."""
    content = {key: deepcopy(value) for key, value in config.content.items() if key in declared.TOP}
    for part, keys in (("nodes", declared.NODE), ("edges", declared.EDGE)):
        content[part] = [{key: value for key, value in entry.items() if key in keys} for entry in content[part]]
    content["edges"] = [entry for entry in content["edges"] if "source_id_col" in entry]
    given = [table.labels for table in config.nodes] + [table.labels for table in config.edges]
    for entry, of_table in zip([*content["nodes"], *content["edges"]], given):
        if entry.get("labels"):
            entry["labels"] = _fitted_labels(entry["labels"], of_table, classes)
    for entry, table in zip(content["nodes"], config.nodes):
        columns = [column for column in read[table.node_type].columns if column.table is table]
        if entry.get("features"):
            entry["features"] = [
                {"feature_col": c.name, "out_dtype": c.dtype, "transform": c.transform.fitted()} for c in columns
            ]
    return content


def _fitted_labels(
    given: Sequence[dict], labels: Sequence[Label], classes: Mapping[str, list[str]]
) -> list[dict[str, Any]]:
    """Return the entries of the labels that were read, with their classes."""
    by_column = {label.column: label for label in labels}
    fitted = []
    for entry in given:
        column = entry.get("label_col", "")
        label = by_column.get(column[0] if isinstance(column, list) else column)
        if label is not None and entry.get("task_type") == label.task:
            named = {"classes": classes[label.place]} if label.task == "classification" else {}
            fitted.append(entry | named)
    return fitted


if __name__ == "__main__":
    run_command(main)
