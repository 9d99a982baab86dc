"""Predict with a model that was trained: `python -m hetjax.predict --workdir RUN --out FILE.parquet` (or `.csv`, or `.npy`).

The weights and learnable features are those of the run's checkpoint that did best on its validation nodes, or of its last
one where it had none; a run that was killed, or goes on, has them too. Every node of the target type is predicted from all
of its neighbours, whatever the run was trained on; of the run's own graph, or of another store of the same node types,
relations and features, tomorrow's say. Devices and processes share the nodes of each layer.
"""

import contextlib
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

from hetjax import runtime

if __name__ == "__main__":
    runtime.prepare()

import jax
import numpy as np

from hetjax import __version__, digests, durable
from hetjax.cache.mapped import portions
from hetjax.callables import call_as
from hetjax.carry import NewNodes
from hetjax.command_line import parse, run_command
from hetjax.config import MOST_PROCESSES, UNBOUNDED, Bytes, Processes
from hetjax.errors import InputError
from hetjax.evaluate import Evaluator, evaluated_together
from hetjax.graph.hetgraph import HetGraph
from hetjax.kept import Kept
from hetjax.models.hgnn import Stack
from hetjax.predictions import SUFFIXES, Predictions, check_one
from hetjax.processes.group import ProcessGroup
from hetjax.processes.launch import process_group
from hetjax.restored import Restored, restore, run_of
from hetjax.sharding.mesh import provide_cpu_devices

__all__ = ["Options", "main", "predict", "run_of"]


@dataclass(frozen=True)
class Options(Processes):
    """Predictions: what is written, and of which graph; and the processes that share the work."""

    probabilities: bool = False
    """write the probability of every class, float32"""
    logits: bool = False
    """write the logits of every class, float32"""
    embeddings: bool = False
    """write the embeddings of the last layer, float32"""
    graph: str = ""
    """another graph to predict, a store with the same node types, relations and features; unset: the graph of the run"""
    new_nodes: NewNodes = "neighbours"
    """nodes of --graph that are new, of a type whose features were learned; neighbours: they get the mean of their neighbours; mean: the mean of their type; refuse: an error"""
    memory: Bytes = UNBOUNDED
    """bytes of host memory for what is computed of all nodes; if it is more, it lives in files beside --out until the end; -1: no bound"""
    devices: int = 0
    """devices of each process that share its nodes; 0: every accelerator, or one CPU device"""
    overwrite: bool = False
    """replace the file --out if it exists"""

    def __post_init__(self):
        super().__post_init__()
        object.__setattr__(self, "memory", int(Bytes(self.memory)))
        for name, least, most in (("memory", -1, 2**63), ("devices", 0, MOST_PROCESSES)):
            value = getattr(self, name)
            if not least <= value <= most:
                raise InputError(f"{name} is {value}, and must be in {least}..{most}")


def main(arguments: Sequence[str]) -> None:
    """Predict as the command line says, and print where the predictions are."""
    paths = {
        "workdir": "the folder of the run",
        "out": "the .parquet or .csv to write, a row per node of the target type, by your own ids; or a .npy, one array",
    }
    description = "Predict with a model that was trained."
    instances, paths = parse({"": Options}, arguments, "python -m hetjax.predict", description, paths)
    options, out = instances[""], Path(paths["out"])
    if out.suffix not in SUFFIXES:
        raise InputError(
            f"{out}: is to end in {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}, which says what is written"
        )
    check_one(out, [name for name in ("logits", "probabilities", "embeddings") if getattr(options, name)])
    alike = {name: value for name, value in asdict(options).items() if name not in vars(Processes())}
    alike |= {"workdir": paths["workdir"], "out": str(out), "hetjax": __version__, "jax": jax.__version__}
    with process_group(options, alike | {"code": digests.of_code()}) as group:
        if group.first:
            durable.check_replaceable(out, options.overwrite)
        if options.devices > 1:
            provide_cpu_devices(options.devices)
        with scratch(out, options, group) as folder:
            write(Path(paths["workdir"]), out, options, folder, group)


def write(workdir: Path, out: Path, options: Options, folder: Path | None, group: ProcessGroup) -> None:
    """Predict, and write and print what the options ask for, in process 0."""
    restored = restore(workdir, options.graph, options.new_nodes, folder and folder / f"{group.number}")
    digests.require("weights", digests.of_arrays(jax.tree.leaves(restored.params)), group)
    room = Room(folder, options.memory, group, devices_of(options.devices))
    found = computed(restored, options.embeddings, room)
    if found is None:
        return
    durable.check_replaceable(out, options.overwrite)  # once more: predicting may have taken long
    what = found.write(out, options.logits, options.probabilities)
    order = f", in the order of the graph's nodes of type {found.target!r}" if out.suffix == ".npy" else ""
    print(f"{out}: {what}{order}, {restored.chosen}")
    if options.graph and restored.learned:
        print(f"features of {', '.join(restored.learned)} are those that were learned in training, by the nodes' ids")
    for words in new_in_words(restored.new, options.new_nodes):
        print(words)


def new_in_words(new: Mapping[str, int], how: NewNodes) -> Iterator[str]:
    """A line per type with new nodes: what they got."""
    given = {"neighbours": "the mean of their neighbours", "mean": "the mean of what was learned of their type"}
    for node_type, count in new.items():
        yield f"{count:,} new node{'s' * (count > 1)} of {node_type}: features are {given[how]}"


def predict(
    workdir: str | os.PathLike,
    graph: HetGraph | str | os.PathLike = "",
    embeddings: bool = False,
    new_nodes: NewNodes = "neighbours",
) -> Predictions:
    """Predict all nodes of the target type.

    Args:
      workdir: of a run.
      graph: another graph, or its store, of the same node types, relations and features. Learned features are found by the
        users' ids where both graphs have them, and else by number, and then there are as many nodes. Empty: the run's own.
      embeddings: also give the last layer's embeddings.
      new_nodes: what becomes of nodes that are new, of a type whose features were learned: they get the mean of their
        `neighbours` (`hetjax.carry.of_neighbours`), or the `mean` of their type, or are an error: `refuse`.

    Raises:
      InputError: the run has no checkpoint that is whole, its data are another graph now, or `graph` does not go with it.
    """
    restored = restore(workdir, graph if isinstance(graph, HetGraph) else os.fspath(graph), new_nodes)
    found = computed(restored, embeddings)
    assert found is not None  # in process 0
    return found


class Room(NamedTuple):
    """Where predictions are computed.

    Attributes:
      folder: for files; None: there are none.
      memory: bytes for what is computed of all nodes, beyond which it lives in files; -1: no bound.
      processes: that share the nodes, in files that all see.
      devices: of this process; None: the one that jax takes.
    """

    folder: Path | None = None
    memory: int = UNBOUNDED
    processes: ProcessGroup = ProcessGroup()
    devices: Sequence[jax.Device] | None = None


@contextlib.contextmanager
def scratch(out: Path, options: Options, group: ProcessGroup) -> Iterator[Path | None]:
    """A folder beside `out` that is deleted at the end, where there may be files."""
    if options.memory < 0 and group.count == 1:
        yield None
        return
    folder = out.with_name(f".{out.name}.computed")
    try:
        if group.first:
            with durable.writing(folder):
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir()
        group.barrier("folder")
        yield folder
        group.barrier("folder")
    finally:
        if group.first:
            shutil.rmtree(folder, ignore_errors=True)


def devices_of(count: int) -> Sequence[jax.Device] | None:
    """So many devices of this process; 0: its accelerators, if it has several.

    Raises:
      InputError: it has fewer.
    """
    local = jax.local_devices()
    if count > len(local):
        raise InputError(f"devices is {count}, and there are {len(local)}")
    if not count:
        count = 1 if local[0].platform == "cpu" else len(local)
    return local[:count] if count > 1 else None


def computed(restored: Restored, embeddings: bool, room: Room | None = None) -> Predictions | None:
    """The predictions, in process 0; None in the others.

    Each split is computed as the trainer computes it on one device: other shapes would be other programs, and other last bits.
    """
    room = room or Room()
    model, graph = restored.model, restored.graph
    nodes, last = len(graph.labels), model.layers[-1]
    widths = [model.classes, *[last.makes(graph.schema.target)] * embeddings]
    needed = held_bytes(model, graph) + 2 * 4 * nodes * sum(widths)
    files = room.folder is not None and (room.processes.count > 1 or 0 <= room.memory < needed)
    kept = Kept(room.folder if files else None, room.processes)
    evaluator = Evaluator(model, graph, restored.config.sampling.evaluation_edges, kept, room.devices)
    x = evaluator.below(restored.params, restored.features)
    found, groups = [], groups_of(graph, restored.config.train.accuracy_nodes)
    for classify, width in zip((True, False), widths):
        parts = [(ids, evaluator.last(restored.params, x, ids, classify)) for ids in groups]
        if room.processes.first:
            found.append(kept.matrix((nodes, width)))
            for ids, part in parts:
                _scatter(found[-1], ids, part)
    if not room.processes.first:
        return None
    return Predictions(graph.schema.target, found[0], graph.names, graph.multilabel, found[1] if embeddings else None)


def groups_of(graph: HetGraph, accuracy_nodes: int) -> list[np.ndarray]:
    """All nodes of the target type, in the groups that they are computed in, none of them empty."""
    left = np.ones(len(graph.labels), bool)
    splits = [np.concatenate(evaluated_together(graph, accuracy_nodes)), graph.splits["test"]]
    for ids in splits:
        left[ids] = False
    return [ids for ids in (*splits, np.flatnonzero(left)) if len(ids)]


def held_bytes(model: Stack, graph: HetGraph) -> int:
    """The most bytes of the embeddings of all nodes that are kept at a time: those of a layer, and of the one above."""
    needed = graph.schema.layer_types(len(model.layers), model.reads_own)
    sizes = [
        sum(4 * graph.schema.nodes[t] * layer.makes(t) for t in types)
        for layer, types in zip(model.layers, needed[1:-1])
    ]
    return max((below + above for below, above in zip([0, *sizes], [*sizes, 0])), default=0)


def _scatter(matrix: np.ndarray, ids: np.ndarray, rows: np.ndarray) -> None:
    """Write rows to their places, of mapped files a few at a time."""
    for portion in portions(matrix, ids):
        matrix[ids[portion]] = rows[portion]


if __name__ == "__main__":
    run_command(main)
else:
    call_as(__name__, "hetjax.predict", "predict")  # `hetjax.predict(workdir)`
