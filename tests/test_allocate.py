"""How node types share the device's memory, and where features live."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hetjax.cache.allocate import RowWorth, allocate, next_tenth, place_types
from hetjax.system.errors import InputError

KIND = st.builds(
    lambda counts, row_bytes, penalty: RowWorth(np.array(counts, np.int64), row_bytes, penalty),
    st.lists(st.integers(0, 50), max_size=30),
    st.integers(1, 40),
    st.floats(0.01, 10),
)
KINDS = st.lists(KIND, min_size=1, max_size=5).map(lambda kinds: {str(n): kind for n, kind in enumerate(kinds)})


def saved(kinds, kept) -> float:
    """Seconds that the presampled reads would not take."""
    return sum(k.counts[kept[n]].sum() * k.row_bytes * k.penalty for n, k in kinds.items())


@settings(max_examples=200, deadline=None)
@given(KINDS, st.integers(0, 3000), st.sampled_from(["hotness", "miss_penalty", "optimal"]))
def test_a_budget_is_kept_and_used(kinds, budget, policy):
    kept = allocate(kinds, budget, policy)
    used = sum(len(ids) * kinds[name].row_bytes for name, ids in kept.items())
    whole = sum(len(kind.counts) * kind.row_bytes for kind in kinds.values())
    assert used <= budget
    if whole <= budget:
        assert used == whole
    else:
        left = [kind.row_bytes for name, kind in kinds.items() if len(kept[name]) < len(kind.counts)]
        assert budget - used < min(left)
    for name, ids in kept.items():
        others = np.delete(kinds[name].counts, ids)
        assert len(set(ids)) == len(ids)
        assert not len(others) or not len(ids) or kinds[name].counts[ids].min() >= others.max()


@settings(max_examples=100, deadline=None)
@given(KINDS, st.integers(0, 40))
def test_optimal_is_the_bound_where_rows_are_of_one_size(kinds, rows):
    kinds = {name: kind._replace(row_bytes=8) for name, kind in kinds.items()}
    best = saved(kinds, allocate(kinds, 8 * rows, "optimal"))
    for policy in ("none", "hotness", "miss_penalty"):
        assert saved(kinds, allocate(kinds, 8 * rows, policy)) <= best * (1 + 1e-9)


def test_shares_are_in_proportion_to_reads_times_penalty():
    kinds = {"a": RowWorth(np.full(1000, 3), 8, 2.0), "b": RowWorth(np.full(1000, 1), 4, 1.0)}
    by_penalty, by_hotness = (allocate(kinds, 700, policy) for policy in ("miss_penalty", "hotness"))
    assert (8 * len(by_penalty["a"]), 4 * len(by_penalty["b"])) == (600, 100)
    assert (8 * len(by_hotness["a"]), 4 * len(by_hotness["b"])) == (528, 172)  # the byte that rounding left buys a row
    small = kinds | {"a": RowWorth(np.full(10, 300), 8, 2.0)}  # which cannot use its share
    kept = allocate(small, 700, "miss_penalty")
    assert (8 * len(kept["a"]), 4 * len(kept["b"])) == (80, 620)


def test_what_another_tenth_takes():
    kind = RowWorth(np.array([1, 5, 3, 1]), 100, 1.0)
    assert next_tenth(kind, 0) == 100
    assert next_tenth(kind, 2) == 100
    assert next_tenth(kind, 4) is None


def test_places():
    sizes, learned = {"a": 100, "b": 200, "c": 300}, {"b", "c"}
    assert place_types(sizes, learned, {}) == dict.fromkeys(sizes, "device")
    assert place_types(sizes, learned, {}, 600) == dict.fromkeys(sizes, "device")
    assert place_types(sizes, learned, {}, 599) == dict.fromkeys(sizes, "host")
    assert place_types(sizes, learned, {}, 0, 499) == {"a": "host", "b": "host", "c": "disk"}
    assert place_types(sizes, learned, {"c": "device"}, 0, 199) == {"a": "host", "b": "disk", "c": "device"}
    with pytest.raises(InputError, match="'d' is no type"):
        place_types(sizes, learned, {"d": "host"})
