"""Several columns of labels, as users give them: by `TYPE.NAME` or `RELATION.NAME`, with splits of their own or those of the first."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from hetjax.casts.splits import SPELLINGS, as_splits
from hetjax.datasets.splits import Split, divide
from hetjax.graph.columns import LABEL_NAME, SPLITS, Column, column_type
from hetjax.graph.names import Ids
from hetjax.graph.relation_names import find_relation
from hetjax.graph.schema import Relation
from hetjax.system.errors import InputError, nearest, short
from hetjax.system.logs import log

SHARES = (0.6, 0.2, 0.2)


class Given(NamedTuple):
    """The columns of labels that a user gives.

    Attributes:
      target: the node type of the graph's own column.
      name: the name of that column, without its type.
      labels: what it holds; None of a graph to predict without labels.
      others: what the other columns of nodes hold, by `TYPE.NAME`.
      pairs: the relations and what their columns hold, by `RELATION.NAME`.
    """

    target: str
    name: str
    labels: Any
    others: Mapping[str, Any]
    pairs: Mapping[str, tuple[Relation, Any]]

    @property
    def own(self) -> str:
        """The name of the graph's own column."""
        return f"{self.target}.{self.name}"

    @property
    def own_given(self) -> bool:
        """Return whether the graph's own column is one that the user gives; not where relations alone have labels."""
        return self.labels is not None or not self.pairs

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all columns that are given, the graph's own first."""
        return *((self.own,) if self.own_given else ()), *self.others, *self.pairs


def given_columns(
    labels: Mapping[Any, Any] | None, target: str | None, types: Collection[str], relations: Collection[Relation]
) -> Given:
    """Return the columns of labels; the graph's own is the first of a node type, or that of the `target`.

    Where relations alone have labels, the graph's own column is one of the type that the first leads to, and nothing of it is known.

    Args:
      labels: by node type, by `TYPE.NAME`, by relation or by `RELATION.NAME`.
      target: a node type, or `TYPE.NAME`; without labels the graph is one to predict.
      types, relations: those that are known.

    Raises:
      InputError: there are none; or none of the target.
    """
    columns, pairs = {}, {}
    for key, values in (labels or ({target: None} if target else {})).items():
        name, relation = full_name(key, types, relations)
        if name in columns or name in pairs:
            raise InputError(f"labels of {' and '.join(map(str, labels or ()))}: two of them are one column")
        if relation is None:
            columns[name] = values
        else:
            pairs[name] = relation, values
    if pairs and not columns:
        named_type = target or next(iter(pairs.values()))[0].target
        columns = {full_name(named_type, types, ())[0]: None}
    named = [name for name in columns if target is None or target in (name, column_type(name))]
    if not named:
        given = " and ".join(labels or ()) or "none"
        words = "there should be labels of a node type: {type: labels}; of a graph to predict, target=... names it"
        raise InputError(f"labels of {given}, and {words}")
    own = named[0]
    others = {name: values for name, values in columns.items() if name != own}
    return Given(column_type(own), own.removeprefix(f"{column_type(own)}."), columns[own], others, pairs)


def full_name(key: Any, types: Collection[str], relations: Collection[Relation]) -> tuple[str, Relation | None]:
    """Return the full name of a column, and its relation if it is one's."""
    if isinstance(key, tuple):
        key = "--".join(map(str, key)) if key not in relations else Relation(*key).key
    if key in types:
        return f"{key}.{LABEL_NAME}", None
    text, _, label = key.rpartition(".")
    if text in types:
        return key, None
    for named, end in ((key, LABEL_NAME), (text, label)):
        if relation := find_relation(named, relations, f"labels of {short(repr(key), 80)}"):
            return f"{relation.key}.{end}", relation
    return f"{key}.{LABEL_NAME}", None


def splits_by_column(splits: Any, given: Given) -> dict[str, Any]:
    """Return splits by the name of a column; those that are given of none are the first's.

    Raises:
      InputError: splits of no column.
    """
    first, *_ = given.names
    words = {*SPLITS, *SPELLINGS}
    if not isinstance(splits, Mapping) or not splits or any(key in words for key in splits):
        return {first: splits}
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
    types = {column_type(full) for full in (given.own, *given.others)}
    full, _ = full_name(name, types, [relation for relation, _ in given.pairs.values()])
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
                "labels %r: no splits; %.0f %% of the labelled %s train, %.0f %% validate, %.0f %% test",
                name,
                100 * SHARES[0],
                "nodes" if column.relation is None else "pairs",
                *(100 * share for share in SHARES[1:]),
            )
    return replace(column, splits=splits)


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
