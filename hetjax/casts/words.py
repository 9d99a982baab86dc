"""Words that stand for a missing value in columns of texts, as pandas reads them."""

from collections import Counter
from collections.abc import Collection

import pyarrow as pa
import pyarrow.compute as pc

from hetjax.system.logs import log

MISSING = frozenset(["", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "<NA>", "#N/A"])


class Missing:
    """Reader of words as missing values in the columns of a table, which remembers which words and how often.

    Args:
      words: that are read so.
    """

    def __init__(self, words: Collection[str] = MISSING):
        self.words, self.seen = pa.array(sorted(words), pa.large_string()), Counter[str]()

    def read(self, column: pa.Array) -> pa.Array:
        """Return a column of texts, large_string, in which these words are null."""
        column = column.cast(pa.large_string())
        found = pc.is_in(column, self.words)
        if not len(self.words) or not pc.any(found).as_py():
            return column
        for one in pc.value_counts(column.filter(found)).to_pylist():
            self.seen[one["values"]] += one["counts"]
        return pc.if_else(found, None, column)

    def say(self, place: str) -> None:
        """Report what was read so; what is empty goes without saying."""
        words = {word: count for word, count in self.seen.items() if word}
        if words:
            rows = sum(words.values())
            names = ", ".join(repr(word) for word in sorted(words))
            log.info(f"{place}: {rows:,} {'row says' if rows == 1 else 'rows say'} {names}, which is read as missing")
