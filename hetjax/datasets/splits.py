"""Division of labelled nodes into splits, where a data set does not, or not whole, or not as one wants them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from hetjax.graph.columns import SPLITS, UNLABELLED
from hetjax.graph.hetgraph import HetGraph
from hetjax.system.errors import InputError

Shipped = Mapping[str, tuple[str, np.ndarray]]  # by the name of a split: the place to name in an error, and the array


@dataclass(frozen=True)
class Split:
    """The rule by which labelled nodes train, validate and test.

    Attributes:
      kind: `public`: as the files say; `random`: by shares of the nodes; `shchur`: so many nodes of every class, the protocol
        of Shchur et al. 2018, section 3.
      seed: of what is drawn; the same seed gives the same nodes on any machine.
      shares: of `random`: for training, validation and test. What they leave is in no split.
      per_class: of `shchur`: for training and validation. All others test.
      number: of `public`: which of several splits.
      section: the section of options that errors name.
    """

    kind: str = "public"
    seed: int = 0
    shares: tuple[float, ...] = (0.6, 0.2, 0.2)
    per_class: tuple[int, ...] = (20, 30)
    number: int = 0
    section: str = "npz"


def hold_out(train: np.ndarray, fraction: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Take a random `fraction` of `train` as validation.

    Returns:
      `(train, validation)`, disjoint, their union the `train` given; the same for the same seed.
    """
    order = np.random.default_rng(seed).permutation(len(train))
    size = round(fraction * len(train))
    return np.sort(train[order[size:]]), np.sort(train[order[:size]])


def held_out(graph: HetGraph, fraction: float, seed: int) -> HetGraph:
    """Return a graph that has no validation nodes with a share of its training nodes held out as such; any other as it is.

    Of nodes with one class each, every class gives about the same share, and keeps a training node.

    Args:
      fraction: the share; 0: none are held out.
      seed: decides which; the same seed gives the same nodes on any machine.
    """
    train = graph.splits["train"]
    if len(graph.splits["validation"]) or not round(fraction * len(train)):
        return graph
    if graph.multilabel or graph.numeric:
        kept, validation = hold_out(train, fraction, seed)
    else:
        kept, validation = _of_classes(train, graph.labels[train], fraction, seed)
    return replace(
        graph, splits={**graph.splits, "train": kept, "validation": validation}, held_out=len(validation) > 0
    )


def _of_classes(train: np.ndarray, labels: np.ndarray, fraction: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return training nodes that stay and those that are held out, as `held_out` chooses them where nodes have one class each."""
    order = np.random.default_rng(seed).permutation(len(train))
    order = order[np.argsort(labels[order], kind="stable")]
    first = np.concatenate([[True], np.diff(labels[order]) != 0])  # of its class
    rest = order[~first]
    size = min(round(fraction * len(train)), len(rest))
    steps = np.arange(len(rest) + 1) * size // max(1, len(rest))
    taken = rest[np.diff(steps) > 0]  # evenly along the classes
    return np.delete(train, taken), np.sort(train[taken])


def divide(labels: np.ndarray, split: Split, shipped: Shipped, where: str) -> dict[str, np.ndarray]:
    """Return the ids of each split, in their order where they are sampled as shares.

    Args:
      labels: as in `HetGraph`.
      split: how.
      shipped: what the files hold; read for `public` alone.
      where: the file or folder to name in an error.

    Raises:
      InputError: the files hold no such split; or a class has too few nodes.
    """
    if split.kind == "public":
        return _public(shipped, len(labels), split, where)
    first = labels if labels.ndim == 1 else labels[:, 0]
    numeric = labels.dtype.kind == "f"  # of which -1 is one as any other
    labelled = np.flatnonzero(
        ~np.isnan(labels.reshape(len(labels), -1)).all(axis=1) if numeric else first != UNLABELLED
    )
    keys = np.random.Philox(split.seed).random_raw(len(labelled))
    if split.kind == "random":
        ends = [round(len(labelled) * min(1.0, sum(split.shares[: k + 1]))) for k in range(len(SPLITS))]
        among = [np.zeros(len(labelled), bool), *(_smallest(keys, end) for end in ends)]
        return {name: labelled[now & ~before] for name, before, now in zip(SPLITS, among, among[1:])}
    return _per_class(labels, labelled[np.argsort(keys, kind="stable")], split, where)


def _smallest(keys: np.ndarray, count: int) -> np.ndarray:
    """Return a mask of the smallest `count` keys, and of equal ones the first: bool `[keys]`."""
    if count >= len(keys):
        return np.ones(len(keys), bool)
    end = np.partition(keys, count)[count]
    chosen = keys < end
    chosen[np.flatnonzero(keys == end)[: count - np.count_nonzero(chosen)]] = True
    return chosen


def _per_class(labels: np.ndarray, mixed: np.ndarray, split: Split, where: str) -> dict[str, np.ndarray]:
    wanted = split.per_class
    if labels.ndim == 2:
        raise InputError(
            f"{where}: {split.section}.split shchur draws nodes of every class, and here a node may have several"
        )
    grouped = mixed[np.argsort(labels[mixed], kind="stable")]
    sizes = np.bincount(labels[grouped])
    few = np.flatnonzero((sizes > 0) & (sizes < sum(wanted)))
    if len(few):
        words = " + ".join(map(str, wanted))
        raise InputError(
            f"{where}: class {few[0]} has {sizes[few[0]]} labelled nodes < {words} of {split.section}.split_per_class"
        )
    place = np.arange(len(grouped)) - np.repeat(np.cumsum(sizes) - sizes, sizes)  # among the nodes of its class
    which = np.searchsorted(np.cumsum(wanted), place, side="right")
    return {name: grouped[which == number] for number, name in enumerate(SPLITS)}


def _public(shipped: Shipped, nodes: int, split: Split, where: str) -> dict[str, np.ndarray]:
    number, option = split.number, f"{split.section}.split"
    if "train" not in shipped:
        raise InputError(f"{where}: holds no split, which --{option} public takes; give --{option} random or shchur")
    found = {name: _splits_of(array, nodes, place) for name, (place, array) in shipped.items()}
    count = len(found["train"])
    for name, several in found.items():
        if len(several) != count:
            raise InputError(f"{shipped[name][0]}: {len(several)} splits != {count} of {shipped['train'][0]}")
    if number >= count:
        raise InputError(f"{where}: {option}_number {number}, and there are {count} splits, 0 the first")
    ids = {
        name: np.flatnonzero(chosen) if (chosen := several[number]).dtype == bool else chosen
        for name, several in found.items()
    }
    if not len(ids["train"]):
        raise InputError(f"{shipped['train'][0]}: 0 training nodes of {nodes}, and there should be 1 or more")
    return ids


def _splits_of(array: np.ndarray, nodes: int, place: str) -> np.ndarray:
    """Return `[splits, ids]`, or `[splits, nodes]` of bool."""
    if array.dtype.kind in "iu" and array.ndim == 1:
        return array[None]
    if array.dtype == bool and array.ndim in (1, 2) and nodes in array.shape:
        masks = np.atleast_2d(array)
        return masks if masks.shape[1] == nodes else masks.T
    raise InputError(
        f"{place}: {array.dtype} {array.shape}, and should be ids, or bool ({nodes},) or (splits, {nodes})"
    )
