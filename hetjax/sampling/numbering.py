"""Numbering of the nodes of a hop in the order in which they are first met, of all relations in one call of compiled code."""

from collections import deque
from collections.abc import Mapping, Sequence

import numpy as np
from numba import types

from hetjax.sampling.draw import AHEAD
from hetjax.system.compiled import compiled
from hetjax.system.pointers import address, array_at
from hetjax.system.prefetch import prefetch


class Numbering:
    """Numbering of the nodes of one graph, with scratch memory of an int32 per node for every thread that calls it at once.

    Args:
      nodes: number of nodes per node type.
    """

    def __init__(self, nodes: Mapping[str, int]):
        self.nodes = nodes
        self._free: deque[dict[str, np.ndarray]] = deque()  # of every node, its row among those met, or -1

    def number(self, given: Sequence[tuple[str, np.ndarray]]) -> dict[str, np.ndarray]:
        """Replace ids by rows, counted from 0 per node type.

        Args:
          given: node types, each with ids, int32 in C order, which are written to.

        Returns:
          Per node type the id of every row.
        """
        kinds = {t: number for number, t in enumerate(dict.fromkeys(t for t, _ in given))}
        table = np.array([(kinds[t], address(ids), len(ids)) for t, ids in given], np.int64).reshape(-1, 3)
        most = dict.fromkeys(kinds, 0)
        for t, ids in given:
            most[t] += len(ids)
        distinct_ids = {t: np.empty(min(count, self.nodes[t]), np.int32) for t, count in most.items()}
        try:
            scratch = self._free.pop()
        except IndexError:
            scratch = {}
        scratch |= {t: np.full(self.nodes[t], -1, np.int32) for t in distinct_ids if t not in scratch}
        places = np.array([(address(scratch[t]), address(ids)) for t, ids in distinct_ids.items()], np.int64).reshape(
            -1, 2
        )
        counts = np.zeros(len(kinds), np.int64)
        number_all(table, places, counts)
        self._free.append(scratch)
        return {t: ids[:count].copy() for (t, ids), count in zip(distinct_ids.items(), counts.tolist())}


@compiled
def number_all(table, places, counts):
    """Replace ids by rows, fill the ids of all rows, and how many there are of each node type; all scratch memory is -1 again then."""
    for given in range(len(table)):
        kind = table[given, 0]
        ids = array_at(table[given, 1], table[given, 2], types.int32)
        row, met = array_at(places[kind, 0], 1, types.int32), array_at(places[kind, 1], 1, types.int32)
        count = counts[kind]
        for i in range(len(ids)):
            if i + AHEAD < len(ids):
                prefetch(row, ids[i + AHEAD])
            node = ids[i]
            if row[node] < 0:
                row[node], met[count] = count, node
                count += 1
            ids[i] = row[node]
        counts[kind] = count
    for kind in range(len(counts)):
        row, met = array_at(places[kind, 0], 1, types.int32), array_at(places[kind, 1], 1, types.int32)
        for i in range(counts[kind]):
            row[met[i]] = -1
