"""Several columns of labels, as users give them: by `TYPE.NAME`, with splits of their own or those of the first."""

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import numpy as np

from hetjax.casts.splits import SPELLINGS, as_splits
from hetjax.datasets.splits import Split, divide
from hetjax.graph.columns import LABEL_NAME, SPLITS, Column, column_type
from hetjax.graph.names import Ids
from hetjax.system.errors import InputError, nearest, short
from hetjax.system.logs import log

SHARES = (0.6, 0.2, 0.2)


class Given(NamedTuple):
    """The columns of labels that a user gives.

    Attributes:
      target: the node type of the graph's own column.
      name: the name of that column, without its type.
      labels: what it holds; None of a graph to predict without labels.
      others: what the other columns hold, by `TYPE.NAME`.
    """

    target: str
    name: str
    labels: Any
    others: Mapping[str, Any]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all columns, the graph's own first."""
        return f"{self.target}.{self.name}", *self.others


def given_columns(labels: Mapping[str, Any] | None, target: str | None, types: Collection[str]) -> Given:
    """Return the columns of labels; the graph's own is the first, or that of the `target`.

    Args:
      labels: by node type, or by `TYPE.NAME`.
      target: a node type, or `TYPE.NAME`; without labels the graph is one to predict.
      types: the node types that are known.

    Raises:
      InputError: there are none; or none of the target.
    """

    def full(key: str) -> str:
        return key if key not in types and column_type(key) in types else f"{key}.{LABEL_NAME}"

    columns = {full(key): values for key, values in (labels or ({target: None} if target else {})).items()}
    if len(columns) < len(labels or ()):
        raise InputError(f"labels of {' and '.join(labels or ())}: two of them are one column")
    named = [name for name in columns if target is None or target in (name, column_type(name))]
    if not named:
        given = " and ".join(labels or ()) or "none"
        words = "there should be labels of a node type: {type: labels}; of a graph to predict, target=... names it"
        raise InputError(f"labels of {given}, and {words}")
    own = named[0]
    others = {name: values for name, values in columns.items() if name != own}
    return Given(column_type(own), own.removeprefix(f"{column_type(own)}."), columns[own], others)


def splits_by_column(splits: Any, given: Given) -> dict[str, Any]:
    """Return splits by the name of a column; those that are given of none are the first's.

    Raises:
      InputError: splits of no column.
    """
    own, *_ = given.names
    words = {*SPLITS, *SPELLINGS}
    if not isinstance(splits, Mapping) or not splits or any(key in words for key in splits):
        return {own: splits}
    return {_column(key, given, "splits"): of_column for key, of_column in splits.items()}


def numbers_by_column(numbers: bool | Collection[str], given: Given) -> frozenset[str]:
    """Return the names of the columns that are numbers to predict.

    Raises:
      InputError: a name of no column.
    """
    if not numbers or isinstance(numbers, bool | np.bool_):
        return frozenset(given.names if numbers else ())
    return frozenset(_column(name, given, "numbers") for name in ([numbers] if isinstance(numbers, str) else numbers))


def _column(name: Any, given: Given, what: str) -> str:
    """Return the full name of a column that splits or numbers are given of."""
    full = name if name in given.names else f"{name}.{LABEL_NAME}"
    if full not in given.names:
        raise InputError(f"{what} of {short(repr(name), 80)}, and no column of labels{nearest(str(name), given.names)}")
    return full


def divided(
    name: str, column: Column, given: Any, like: Mapping[str, np.ndarray] | None, ids: Ids | None, own: bool, seed: int
) -> Column:
    """Return a column with its splits.

    Args:
      name: of the column.
      column: its labels.
      given: its splits, as of `hetjax.from_arrays`; None: those of `like` as far as labels are known, or else shares.
      like: the splits of the graph's own column, if that is of the same type.
      ids, own: as of `hetjax.casts.splits.as_splits`.
      seed: of shares.
    """
    if isinstance(given, Mapping):
        splits = as_splits(given, len(column.labels), ids, own, numbered=True)
    elif given is None and like is not None:
        splits = {split: nodes[column.labelled(nodes)] for split, nodes in like.items()}
        if left := sum(map(len, like.values())) - sum(map(len, splits.values())):
            log.warning("labels %r: %d nodes of the splits have none, and are in no split of it", name, left)
    else:
        splits = divide(
            column.labels, Split("random", seed, as_shares(SHARES if given is None else given)), {}, "splits"
        )
        if given is None:
            log.warning(
                "labels %r: no splits; %.0f %% of the labelled nodes train, %.0f %% validate, %.0f %% test",
                name,
                *(100 * share for share in SHARES),
            )
    return Column(column.labels, splits, column.classes, column.names)


def as_shares(given: Any) -> tuple[float, ...]:
    """Return three shares of the labelled nodes: for training, validation and test.

    Raises:
      InputError: they are no such shares.
    """
    try:
        shares = (
            (given, (1 - given) / 2, (1 - given) / 2) if isinstance(given, int | float) else tuple(map(float, given))
        )
        right = len(shares) == 3 and min(shares) >= 0 and shares[0] > 0 and sum(shares) <= 1 + 1e-9
    except (TypeError, ValueError):
        right = False
    if not right:
        raise InputError(f"splits are {short(str(given))}, and should be shares of at most 1 together, or masks or ids")
    return shares
