"""Transforms of columns into features: fitted while a table is read once, applied while it is read again, and kept for later data.

Each is a class with the keys of its options. Those that were fitted are options too, so that what `fitted` gives is a transform
of the same values for other data. Missing numbers are an error, unless `fill` says what to take: a number or `mean`.
"""

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy.special import erfinv

from hetjax.casts.rows import Place, as_matrix
from hetjax.system.errors import InputError, short

MOST_CATEGORIES, LONGEST = 2**16, 2**12  # of a column, and bytes of the name of one
QUANTILES = 10_001  # of what is kept of ranks


class Transform:
    """A column as it is, as numbers; of lists, all of their numbers.

    Attributes:
      kind: what is read: `number` or `text`.
      width, numbers: columns that it becomes, once fitted, and of how many numbers a row.
      dtype: of those, unless `out_dtype` says another.
    """

    KEYS: ClassVar[set[str]] = {"truncate_dim", "fill"}
    kind: ClassVar[str] = "number"
    dtype: ClassVar[str] = "float32"
    width = 1
    numbers = 1

    def __init__(self, options: Mapping[str, Any], place: str):
        self.options, self.place = dict(options), place
        self.fill = self._number("fill") if options.get("fill", "mean") != "mean" else options.get("fill")
        self.sum, self.count, self.rows = 0.0, 0, 0
        most = options.get("truncate_dim")
        if most is not None and (type(most) is not int or most < 1):
            raise InputError(f"{place}.truncate_dim: {short(repr(most))}, and should be a whole number from 1")

    def _number(self, key: str) -> float | None:
        value = self.options.get(key)
        if value is not None and not is_finite(value):
            raise InputError(f"{self.place}.{key}: {short(repr(value))}, and should be a number")
        return None if value is None else float(value)

    def observe(self, column: pa.Array, where: Place) -> None:
        """Observe some rows."""
        values = as_matrix(column, where, self.fill is not None)
        self.width = self._width(values, where)
        self.rows += len(values)
        present = values[~np.isnan(values)]
        self.sum, self.count = self.sum + float(present.sum(dtype=np.float64)), self.count + present.size
        self.see(present if values.shape[1] == 1 else values)

    def _width(self, values: np.ndarray, where: Place) -> int:
        wide = values.shape[1]
        if self.rows and wide != self.numbers:
            raise InputError(f"{where()}: {wide} numbers a row != {self.numbers} before")
        self.numbers = wide
        if wide > 1 and type(self) is not Transform:
            raise InputError(f"{where()}: {wide} numbers a row, and transform {self.options['name']} is for one")
        most = self.options.get("truncate_dim")
        return wide if most is None else min(wide, most)

    def see(self, values: np.ndarray) -> None:
        """Keep what is needed of the values that are known."""

    def fit(self) -> None:
        """Finish the fit when all rows were seen."""

    def apply(self, column: pa.Array, where: Place) -> np.ndarray:
        """Return features `[rows, width]`."""
        values = as_matrix(column, where, self.fill is not None)
        if self.fill is not None:
            taken = self.sum / max(self.count, 1) if self.fill == "mean" else self.fill
            values = np.where(np.isnan(values), taken, values)
        return self.compute(values)

    def compute(self, values: np.ndarray) -> np.ndarray:
        return values[:, : self.width]

    def fitted(self) -> dict[str, Any]:
        """Return options that give the same for other data."""
        kept = {} if self.fill != "mean" else {"fill": self.sum / max(self.count, 1)}
        return self.options | kept


def is_finite(value: Any) -> bool:
    """Tell whether a value of a configuration is a finite number of at most 64 bits."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return abs(value) < 2**64 if isinstance(value, int) else math.isfinite(value)


class Standard(Transform):
    """`(x - mean) / standard deviation`; 0 for a column of one value."""

    KEYS: ClassVar[set[str]] = {"mean", "std", "fill"}

    def __init__(self, options: Mapping[str, Any], place: str):
        super().__init__(options, place)
        self.mean, self.std = self._number("mean"), self._number("std")
        if (self.std or 0) < 0:
            raise InputError(f"{place}.std: {self.std}, and should be 0 or more")
        self.seen, self.centre, self.squares = 0, 0.0, 0.0

    def see(self, values: np.ndarray) -> None:
        """Combine means and squares of chunks as Chan et al. (1983) do."""
        if not values.size:
            return
        mean, total = float(values.mean()), self.seen + values.size
        delta = mean - self.centre
        self.squares += float(((values - mean) ** 2).sum()) + delta**2 * self.seen * values.size / total
        self.centre, self.seen = self.centre + delta * values.size / total, total

    def fit(self) -> None:
        self.mean = self.centre if self.mean is None else self.mean
        self.std = math.sqrt(self.squares / max(self.seen, 1)) if self.std is None else self.std

    def compute(self, values: np.ndarray) -> np.ndarray:
        return (values - self.mean) / (self.std or 1.0)

    def fitted(self) -> dict[str, Any]:
        return super().fitted() | {"mean": self.mean, "std": self.std}


class MaxMin(Transform):
    """`(x - min) / (max - min)`, with values cut to `min_bound` and `max_bound`."""

    KEYS: ClassVar[set[str]] = {"max_bound", "min_bound", "max_val", "min_val", "fill"}

    def __init__(self, options: Mapping[str, Any], place: str):
        super().__init__(options, place)
        self.least, self.most = math.inf, -math.inf
        for least, most in (("min_val", "max_val"), ("min_bound", "max_bound")):
            low, high = self._number(least), self._number(most)
            if low is not None and high is not None and low > high:
                raise InputError(f"{place}: {least} {low} > {most} {high}")

    def see(self, values: np.ndarray) -> None:
        self.least = min(self.least, float(values.min(initial=math.inf)))
        self.most = max(self.most, float(values.max(initial=-math.inf)))

    def fit(self) -> None:
        if not self.count:
            self.least, self.most = 0.0, 1.0
        low, high = self._number("min_bound"), self._number("max_bound")
        self.least = self.least if low is None else max(self.least, low)
        self.most = self.most if high is None else min(self.most, high)
        given = self._number("min_val"), self._number("max_val")
        self.least, self.most = (value if one is None else one for one, value in zip(given, (self.least, self.most)))
        if self.least > self.most:
            raise InputError(f"{self.place}: values in {self.least}..{self.most}, and should have a range")

    def compute(self, values: np.ndarray) -> np.ndarray:
        scaled = (np.clip(values, self.least, self.most) - self.least) / ((self.most - self.least) or 1.0)
        return scaled

    def fitted(self) -> dict[str, Any]:
        return super().fitted() | {"min_val": self.least, "max_val": self.most}


class RankGauss(Transform):
    """The normal deviate of a value's rank, in `(-1 + epsilon, 1 - epsilon)` before the inverse error function.

    Equal values have one rank, the mean of theirs. What is kept for later data are the ranks of at most `QUANTILES` values, and
    others between them.
    """

    KEYS: ClassVar[set[str]] = {"epsilon", "uniquify", "values", "ranks", "fill"}

    def __init__(self, options: Mapping[str, Any], place: str):
        super().__init__(options, place)
        self.epsilon = self._number("epsilon") or 1e-6
        if not 0 < self.epsilon < 1:
            raise InputError(f"{place}.epsilon: {self.epsilon}, and should be between 0 and 1")
        if not isinstance(options.get("uniquify", False), bool):
            raise InputError(f"{place}.uniquify: {short(repr(options['uniquify']))}, and should be true or false")
        self.chunks: list[np.ndarray] = []
        given = [options.get(key, []) for key in ("values", "ranks")]
        if not all(isinstance(one, list) and all(map(is_finite, one)) for one in given):
            raise InputError(f"{place}: values and ranks should be numbers, in two lists")
        self.values, self.ranks = (np.array(one, np.float64) for one in given)
        if self.values.shape != self.ranks.shape or (np.diff(self.values) <= 0).any():
            raise InputError(
                f"{place}: {len(self.values)} values != {len(self.ranks)} ranks, or the values do not rise"
            )

    def see(self, values: np.ndarray) -> None:
        if not len(self.options.get("values", ())):
            self.chunks.append(np.unique(values) if self.options.get("uniquify") else values)

    def fit(self) -> None:
        if not self.chunks:
            return
        given = np.concatenate(self.chunks)
        self.chunks = []
        given = np.unique(given) if self.options.get("uniquify") else given
        self.values, counts = np.unique(given, return_counts=True)
        places = np.cumsum(counts) - (counts + 1) / 2
        self.ranks = 2 * places / max(len(given) - 1, 1) - 1 if len(given) > 1 else np.zeros(len(self.values))

    def compute(self, values: np.ndarray) -> np.ndarray:
        ranks = np.interp(values, self.values, self.ranks) if len(self.values) else np.zeros(values.shape)
        return erfinv(np.clip(ranks, -1 + self.epsilon, 1 - self.epsilon))

    def fitted(self) -> dict[str, Any]:
        kept = np.unique(np.linspace(0, len(self.values) - 1, min(len(self.values), QUANTILES)).round().astype(int))
        return super().fitted() | {"values": self.values[kept].tolist(), "ranks": self.ranks[kept].tolist()}


class Categorical(Transform):
    """One column of 0 and 1 per category; with a `separator`, of each that is named. What is not in the `mapping`, or missing, is none."""

    KEYS: ClassVar[set[str]] = {"mapping", "separator"}
    kind: ClassVar[str] = "text"
    dtype: ClassVar[str] = "uint8"

    def __init__(self, options: Mapping[str, Any], place: str):
        super().__init__(options, place)
        given, separator = options.get("mapping"), options.get("separator")
        if not isinstance(separator, str | None):
            raise InputError(f"{place}.separator: {short(repr(separator))}, and should be a text")
        self.given = given is not None
        self.seen: set[str] = set()
        self.mapping: dict[str, int] = {}
        if given is not None:
            if not isinstance(given, dict) or not all(
                isinstance(name, str) and type(n) is int and 0 <= n < MOST_CATEGORIES for name, n in given.items()
            ):
                raise InputError(f"{place}.mapping: should be {{text: number from 0 up to {MOST_CATEGORIES - 1}}}")
            self.mapping = dict(given)

    def _texts(self, column: pa.Array) -> tuple[np.ndarray, pa.Array]:
        """Return rows, and a text of each; several of a row, if they are separated."""
        if pa.types.is_nested(column.type) or pa.types.is_binary(column.type):
            raise InputError(f"{self.place}: {column.type}, and should be texts or numbers")
        column = column.cast(pa.large_string())
        rows = pa.array(np.arange(len(column)))
        if separator := self.options.get("separator"):
            lists = pc.split_pattern(column, separator)
            rows, column = rows.take(pc.list_parent_indices(lists)), pc.list_flatten(lists)
        present = column.is_valid()
        return rows.filter(present).to_numpy(zero_copy_only=False), column.filter(present)

    def observe(self, column: pa.Array, where: Place) -> None:
        self.rows += len(column)
        if not self.given:
            names = pc.unique(self._texts(column)[1])
            if (pc.max(pc.binary_length(names)).as_py() or 0) > LONGEST:
                raise InputError(f"{where()}: a category of over {LONGEST:,} bytes; is this a column of categories?")
            self.seen.update(names.to_pylist())
            if len(self.seen) > MOST_CATEGORIES:
                raise InputError(f"{where()}: over {MOST_CATEGORIES} categories; is this a column of categories?")

    def fit(self) -> None:
        if not self.given:
            self.mapping = {name: number for number, name in enumerate(sorted(self.seen))}
        self.width = max(self.mapping.values(), default=0) + 1

    def apply(self, column: pa.Array, where: Place) -> np.ndarray:
        features = np.zeros((len(column), self.width), np.uint8)
        rows, texts = self._texts(column)
        names = pa.array(list(self.mapping), pa.large_string())
        found = pc.index_in(texts, names).fill_null(-1).to_numpy(zero_copy_only=False)
        numbers = np.array(list(self.mapping.values()), np.int64)
        present = found >= 0
        features[rows[present], numbers[found[present]]] = 1
        return features

    def fitted(self) -> dict[str, Any]:
        return self.options | {"mapping": self.mapping}


class Bucket(Transform):
    """One column of 0 and 1 per bucket of a `range`; with `slide_window_size`, of each that the window around a value covers."""

    KEYS: ClassVar[set[str]] = {"range", "bucket_cnt", "slide_window_size", "fill"}
    dtype: ClassVar[str] = "uint8"

    def __init__(self, options: Mapping[str, Any], place: str):
        super().__init__(options, place)
        ends, count = options.get("range"), options.get("bucket_cnt")
        if not isinstance(ends, list) or len(ends) != 2 or not all(map(is_finite, ends)) or ends[0] >= ends[1]:
            raise InputError(f"{place}.range: {short(repr(ends))}, and should be [least, most]")
        if type(count) is not int or not 1 <= count <= MOST_CATEGORIES:
            raise InputError(f"{place}.bucket_cnt: {short(repr(count))}, and should be in 1..{MOST_CATEGORIES}")
        self.low, self.size, self.buckets = float(ends[0]), (ends[1] - ends[0]) / count, count
        self.window = self._number("slide_window_size") or 0.0
        if not 0 < self.size < math.inf or self.window < 0:
            what = f"buckets of {self.size}, and a window of {self.window}"
            raise InputError(f"{place}: {what}, and both should be finite, the one over 0, the other 0 or more")

    def fit(self) -> None:
        self.width = self.buckets

    def compute(self, values: np.ndarray) -> np.ndarray:
        first, last = (self._bucket(values + side * self.window / 2) for side in (-1, 1))
        numbers = np.arange(self.buckets)
        return ((numbers >= first) & (numbers <= last)).astype(np.uint8)

    def _bucket(self, values: np.ndarray) -> np.ndarray:
        return np.clip(np.floor((values - self.low) / self.size), 0, self.buckets - 1)


TRANSFORMS: dict[str | None, type[Transform]] = {
    None: Transform,
    "": Transform,
    "no-op": Transform,
    "standard": Standard,
    "max_min_norm": MaxMin,
    "rank_gauss": RankGauss,
    "to_categorical": Categorical,
    "bucket_numerical": Bucket,
}


def make(options: Mapping[str, Any], place: str) -> Transform:
    """Return the transform that a feature's options name."""
    return TRANSFORMS[options.get("name")](options, place)
