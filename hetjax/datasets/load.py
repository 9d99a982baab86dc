"""Opening of a graph, as the `data` section of a configuration says."""

import os
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from hetjax.datasets import edges, hgb, npy_tree, npz, rdf, signs, synthetic, triples
from hetjax.datasets.declared.arrays import Arrays
from hetjax.datasets.declared.held_out import HeldOut
from hetjax.datasets.homogeneous import Options
from hetjax.datasets.splits import Split, held_out
from hetjax.graph import checksums, inputs, label_inputs, store
from hetjax.graph.hetgraph import HetGraph, check, check_labels
from hetjax.graph.schema import Relation
from hetjax.graph.sizes import abstract_graph
from hetjax.metapaths import along_metapaths
from hetjax.options import owners
from hetjax.options.config import DATA_FOLDER, Data, data_path
from hetjax.system.errors import InputError, reading
from hetjax.system.logs import counted


class Ahead:
    """Knowledge of a graph before it is opened, from a look at its statistics.

    Attributes:
      graph: as it was read, to be taken once; after that it is not kept here. None of a store, which is opened again.
      plain: as it was read, with the features of the target type alone, for baselines; None of a store.
      baselines: as `hetjax.tasks.baselines.baselines` gives them, if they were looked at.
    """

    def __init__(self, data: Data, graph: HetGraph | None):
        self.data = as_read(data)
        self.graph = graph
        self.plain: HetGraph | None = None
        self.baselines: Mapping[str, Any] | None = None

    def take(self, data: Data) -> HetGraph | None:
        """Return the graph, if it is that of the same files, read alike."""
        taken, alike = self.graph, self.data == as_read(data)
        self.graph = None
        if not alike:
            self.plain, self.baselines = None, None
        return taken if alike else None


def load(data: Data, ahead: Ahead | None = None, target: str = "") -> HetGraph:
    """Read or generate the graph, unless it was read before.

    Args:
      target: the column of labels that is the graph's, as `task.target`.

    Raises:
      InputError: as the readers do; a type whose features are to be left out has none; or there is no such column.
    """
    graph = ahead.take(data) if ahead else None
    return made(_chosen(_read(data) if graph is None else graph, data, target), data)


def read_ahead(data: Data, target: str = "") -> tuple[HetGraph, Ahead]:
    """Return the graph as it is read, without what is made of its features, and what `load` takes instead of reading it again.

    Args:
      target: as of `load`.

    Raises:
      InputError: as `load`.
    """
    graph = _read(as_read(data))
    chosen, ahead = _chosen(graph, data, target), Ahead(data, None if data.format == "store" else graph)
    if ahead.graph:
        features = {name: matrix for name, matrix in chosen.features.items() if name == chosen.schema.target}
        ahead.plain = replace(chosen, features=features)
    return chosen, ahead


def without_metapaths(data: Data) -> Data:
    """Return the same options without metapaths."""
    return replace(data, metapath_hops=0, metapath_label_hops=0, metapath_one_hot=False)


def as_read(data: Data) -> Data:
    """Return the options of the same files, of which nothing is made after they were read."""
    kept = data.normalize_features if data.normalize_features == "row" else "none"
    return replace(without_metapaths(data), normalize_features=kept, label_inputs=False)


def makes(data: Data) -> bool:
    """Tell whether a graph is changed after it was read."""
    return data != as_read(data)


def made(
    graph: HetGraph,
    data: Data,
    like: HetGraph | None = None,
    features: Collection[str] | None = None,
) -> HetGraph:
    """Return the graph with what is made of it after it was read, as `data` says.

    Args:
      like: the graph that was trained on, if this is another: its statistics and its ways of propagation are used.
      features: of metapaths, the node types whose features are computed; the others have them in shape alone. None: all.
    """
    if data.normalize_features == "auto":
        graph = inputs.normalised(graph, like)
    elif data.normalize_features == "columns":
        graph = inputs.normalised(graph, like, columns=True)
    if data.metapath_hops:
        return along_metapaths(graph, data.metapath_hops, data.metapath_label_hops, features, data.metapath_one_hot)
    return label_inputs.with_labels(graph, like) if data.label_inputs else graph


def _chosen(graph: HetGraph, data: Data, target: str) -> HetGraph:
    """Return the graph with the labels that are asked for, without the features that are to be left out, and with validation nodes."""
    graph = validated(graph.with_target(target), data)
    for name in data.without_features:
        if name not in graph.features:
            raise InputError(
                f"data.without_features: type {name!r} is not among {sorted(graph.features)}, which have some"
            )
    features = {name: matrix for name, matrix in graph.features.items() if name not in data.without_features}
    return replace(graph, features=features) if data.without_features else graph


def validated(graph: HetGraph, data: Data) -> HetGraph:
    """Return the graph with training nodes held out for validation, as the options of its reader say, where it has no validation nodes."""
    options = owners.reader_options(data)
    drawn = isinstance(options, Arrays) and options.split != "public"  # where the shares are the user's
    if not isinstance(options, HeldOut) or drawn:
        return graph
    if data.format in ("rdf", "hgb"):  # which hold out as they read
        return replace(graph, held_out=options.validation_fraction > 0)
    return held_out(graph, options.validation_fraction, options.split_seed)


def load_abstract(data: Data, ahead: Ahead | None = None, target: str = "") -> HetGraph:
    """Return the graph as `load` gives it. Of a store labels and splits alone are opened; the rest is there in shape alone.

    Raises:
      InputError: as `load`.
    """
    if data.format != "store":
        return load(data, ahead, target)
    if ahead:
        ahead.take(data)
    path = _path(data)
    opened = store.open(path, (), ())
    if makes(data):
        return made(_chosen(_read(data), data, target), data, features=())
    graph = abstract_graph(store.describe(path), opened.labels, opened.splits)
    graph = replace(graph, names=opened.names, label_name=opened.label_name, columns=opened.columns)
    check_labels(graph, str(path))
    return _chosen(graph, data, target)


def load_some(data: Data, relations: Collection[Relation], features: Collection[str], target: str = "") -> HetGraph:
    """Return some relations of a store and the features of some types. No file of others is opened, unless `data` makes something of what was read.

    Raises:
      InputError: as `load`.
    """
    path = _path(data)
    if makes(data):
        graph = made(_chosen(_read(data), data, target), data, features=features)
        kept = {name: matrix for name, matrix in graph.features.items() if name in features}
        return replace(graph.only(list(relations)), features=kept)
    graph = store.open(path, relations, features)
    if data.check:
        check(graph, str(path))
        checksums.verify(path, relations, features)
    return graph.with_target(target)


def _read(data: Data) -> HetGraph:
    options = owners.reader_options(data)
    if data.format == "synthetic":
        return synthetic.generate(options.schema, options.scale, options.classes or None, options.seed)
    path = _path(data)
    signs.check(path, data.format)
    if data.format == "store":
        graph = store.open(path)
        (check if data.check else check_labels)(graph, str(path))
        if data.check:
            checksums.verify(path)
        return graph
    with reading(path):
        if data.format == "hgb":
            return hgb.read(path, options.validation_fraction, options.split_seed)
        if data.format == "ogb":
            from hetjax.datasets import ogb  # takes a while, as pyarrow does

            return ogb.read(path, _homogeneous(data, options), options.reverse)
        if data.format == "mag240m":
            return npy_tree.mag240m(path, options.reverse)
        if data.format == "igb":
            return npy_tree.igb(path, options.labels, options.reverse)
        if data.format == "triples":
            return triples.read(path, options)
        if data.format in ("npz", "edges"):
            return (npz if data.format == "npz" else edges).read(path, _homogeneous(data, options))
        return rdf.read(path, **vars(options))


def _homogeneous(data: Data, options: Arrays) -> Options:
    split = Split(
        options.split,
        options.split_seed,
        options.split_shares,
        options.split_per_class,
        options.split_number,
        options.section,
    )
    return Options(options.undirected, options.edge_weights, data.normalize_features, split)


def source(data: Data) -> Path | None:
    """Return the file or folder that a graph is read from; None of one that is generated.

    Raises:
      InputError: it is not there.
    """
    return None if data.format == "synthetic" else _path(data)


def _path(data: Data) -> Path:
    if not data.path:
        raise InputError(f"data.path is empty, and data.format {data.format} reads a file or folder")
    path = data_path(data.path)
    if not os.path.exists(path):
        hint, relative = "", not os.path.isabs(data.path)
        if relative and DATA_FOLDER not in os.environ:
            hint = f"; {DATA_FOLDER}, the folder that a relative data.path lies in, is not set"
        elif relative and os.path.exists(data.path):
            hint = f"; a relative data.path lies in {DATA_FOLDER}: write {os.path.abspath(data.path)} for the one that is here"
        where = "data.path: " if relative else ""  # of an absolute one another option may have been given
        raise InputError(f"{where}{path}: no such file or folder{hint}")
    return path


def outline(graph: HetGraph) -> str:
    """Return the sizes of a graph, in words."""
    schema = graph.schema
    counts = {"node type": len(schema.nodes), "relation": len(schema.relations)}
    counts |= {"node": sum(schema.nodes.values()), "edge": graph.edges}
    return f"{', '.join(counted(count, word) for word, count in counts.items())}, {graph.nbytes / 2**20:,.0f} MiB"
