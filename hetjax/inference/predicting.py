"""The computation of `hetjax.predict`: logits and embeddings of every node of the target type, layer by layer, by all that share the work."""

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from hetjax.graph.carry import NewNodes
from hetjax.graph.hetgraph import HetGraph
from hetjax.graph.label_rows import Pairs
from hetjax.inference.options import Options
from hetjax.inference.restored import Restored, restore
from hetjax.models.hgnn import Stack
from hetjax.models.traits import width_made
from hetjax.options.config import UNBOUNDED
from hetjax.options.run_folder import Trust
from hetjax.processes import digests
from hetjax.processes.group import ProcessGroup
from hetjax.processes.kept import Kept
from hetjax.sharding.evaluate import Evaluator, ReadOut
from hetjax.system import durable
from hetjax.system.errors import InputError
from hetjax.system.logs import log
from hetjax.system.mapped import portions
from hetjax.tasks.predictions import Predictions, split_numbers
from hetjax.tasks.stacking import weighed


def write(workdir: Path, out: Path, options: Options, folder: Path | None, group: ProcessGroup) -> None:
    """Predict, and write and print the results that the options ask for, in process 0."""
    room = folder and folder / f"{group.number}"
    restored = restore(workdir, options.graph, options.new_nodes, room, options.trust, options.target)
    digests.require("weights", digests.of_arrays(jax.tree.leaves(restored.params)), group)
    found = computed(restored, options.embeddings, Room(folder, options.memory, group, devices_of(options.devices)))
    if found is None:
        return
    durable.check_replaceable(out, options.overwrite)  # once more: predicting may have taken long
    what = found.write(out, options.logits, options.probabilities, options.quote_formulas)
    order = f", in the order of the graph's nodes of type {found.target!r}" if out.suffix == ".npy" else ""
    log.info(f"{out}: {what}{order}, {restored.chosen}")
    if restored.stacked:
        log.info(f"the logits are stacked, as at the end of training: {weighed(restored.stacked.stacked.weights)}")
    if options.graph and restored.learned:
        log.info(
            f"features of {', '.join(restored.learned)} are those that were learned in training, by the nodes' ids"
        )
    for words in new_in_words(restored.new, options.new_nodes):
        log.info(words)


def new_in_words(new: Mapping[str, int], how: NewNodes) -> Iterator[str]:
    """Return a line per type with new nodes, which names the features that they got."""
    given = {"neighbours": "the mean of their neighbours", "mean": "the mean of what was learned of their type"}
    for node_type, count in new.items():
        yield f"{count:,} new node{'s' * (count > 1)} of {node_type}: features are {given[how]}"


def predict(
    workdir: str | os.PathLike,
    graph: HetGraph | str | os.PathLike = "",
    embeddings: bool = False,
    new_nodes: NewNodes = "neighbours",
    trust: Trust = False,
    target: str = "",
) -> Predictions:
    """Predict all nodes of the target type.

    Args:
      workdir: the folder of a run.
      graph: another graph, or its store, of the same node types, relations and features. Learned features are found by the
        users' ids where both graphs have them, and else by number, and then there are as many nodes. Empty: the run's own.
      embeddings: also give the last layer's embeddings.
      new_nodes: the features of new nodes of a type whose features were learned: they get the mean of their
        `neighbours` (`hetjax.graph.carry.of_neighbours`), or the `mean` of their type, or are an error: `refuse`.
      trust: whether a model of a user's own, `MODULE:NAME`, that the folder names is imported, which runs its code; or the
        one such model that is.
      target: of a run that learned several, the column of labels that is predicted; empty: the first.

    Raises:
      InputError: the run has no checkpoint that is whole, its data are another graph now, or `graph` does not go with it.
    """
    other = graph if isinstance(graph, HetGraph) else os.fspath(graph)
    restored = restore(workdir, other, new_nodes, trust=trust, target=target)
    if other:
        log.info(f"the model is {restored.chosen}")
    found = computed(restored, embeddings)
    assert found is not None  # in process 0
    return found


class Room(NamedTuple):
    """The folder, memory and devices with which predictions are computed.

    Attributes:
      folder: the folder for files; None: there are none.
      memory: the bytes of embeddings and logits of all nodes, beyond which they live in files; -1: no bound.
      processes: the processes that share the nodes, in files that all see.
      devices: the devices of this process; None: the one that jax takes.
    """

    folder: Path | None = None
    memory: int = UNBOUNDED
    processes: ProcessGroup = ProcessGroup()
    devices: Sequence[jax.Device] | None = None


@contextlib.contextmanager
def scratch(out: Path, options: Options, group: ProcessGroup) -> Iterator[Path | None]:
    """Yield a folder beside `out` that is deleted at the end, where there may be files."""
    if options.memory < 0 and group.count == 1:
        yield None
        return
    with contextlib.ExitStack() as held:
        name = None
        if group.first:
            name = str(held.enter_context(durable.reserved(out.with_name(f"{out.name}.computed"))))
        yield Path(group.broadcast_object("folder", name))
        group.barrier("folder")


def devices_of(count: int) -> Sequence[jax.Device] | None:
    """Return so many devices of this process; 0: its accelerators, if it has several.

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
    """Return the predictions in process 0; None in the others."""
    model, graph, room = restored.model, restored.graph, room or Room()
    if embeddings and graph.relation is not None:
        raise InputError("embeddings are of nodes, and this run predicts pairs of nodes")
    rows, last = len(graph.labels), model.layers[-1]
    widths = {t: width_made(last, t) for t in model.roots}
    kept_values = model.outputs * rows + sum((1 + embeddings) * graph.schema.nodes[t] * of for t, of in widths.items())
    needed = held_bytes(model, graph) + 2 * 4 * kept_values
    files = room.folder is not None and (room.processes.count > 1 or 0 <= room.memory < needed)
    kept = Kept(room.folder if files else None, room.processes)
    evaluator = Evaluator(model, graph, restored.config.sampling.evaluation_edges, kept, room.devices)
    x = evaluator.below(restored.params, restored.features)
    everyone = {t: np.arange(graph.schema.nodes[t], dtype=np.int32) for t in model.roots}
    h = evaluator.last(restored.params, x, everyone)
    if not room.processes.first:
        return None
    read_out, examples = ReadOut(model), np.arange(rows, dtype=np.int32)
    outputs = kept.matrix((rows, model.outputs))
    for portion in portions(outputs, examples):
        found = read_out.examples(restored.params, restored.examples, examples[portion], h)
        outputs[portion] = restored.final(examples[portion], found)
    kept_rows = None
    if embeddings:
        (t,) = model.roots
        kept_rows = kept.matrix((rows, widths[t]))
        for portion in portions(kept_rows, examples):
            kept_rows[portion] = h[t][portion]
    splits = graph.splits if restored.splits is None else restored.splits
    more: dict[str, Any] = {"embeddings": kept_rows, "split": split_numbers(splits, rows)}
    if graph.relation is not None and graph.ends is not None:
        more["pairs"] = Pairs((graph.relation.source, graph.relation.target), graph.ends)
    return restored.task.predictions(outputs, graph.names, restored.read_by, **more)


def held_bytes(model: Stack, graph: HetGraph) -> int:
    """Return the most bytes of the embeddings of all nodes that are kept at a time: those of a layer, and of the one above."""
    needed = graph.schema.layer_types(model.roots, len(model.layers), model.reads_own)
    sizes = [
        sum(4 * graph.schema.nodes[t] * width_made(layer, t) for t in types)
        for layer, types in zip(model.layers, needed[1:-1])
    ]
    return max((below + above for below, above in zip([0, *sizes], [*sizes, 0])), default=0)
