"""Negatives of links: their distribution, the exact filter, and that a draw depends on its counter alone."""

import numpy as np
import pytest
from scipy.stats import chisquare

from hetjax.system.errors import InputError
from hetjax.tasks.links import negatives
from hetjax.tasks.links.known import both_sides, is_known, known
from hetjax.tasks.links.negatives import by_degree, by_type, draw, everyone, hardest, in_batch, joint, keys_of, pools

KEY = keys_of(0, 1, 2, "tails")
LEAST = 1e-4  # probability of a fair draw that looks less fair; the counter is fixed, so a test passes always or never


def links(seed=0, entities=30, relations=3, count=200):
    rng = np.random.default_rng(seed)
    return rng.integers(0, entities, count), rng.integers(0, relations, count), rng.integers(0, entities, count)


def test_known_links_are_found():
    h, r, t = links()
    tails, heads = both_sides(h, r, t, (30, 30))
    there = set(zip(h, r, t))
    for head in range(30):
        for relation in range(4):  # no link is of the last one
            rows = tails.rows(np.array([head]), np.array([relation]))
            given = rows.others[rows.start[0] : rows.stop[0]].tolist()
            assert given == sorted({c for a, b, c in there if (a, b) == (head, relation)})
            found = is_known(heads.rows(np.array([head]), np.array([relation])), np.arange(30))[0]
            assert set(np.flatnonzero(found)) == {a for a, b, c in there if (c, b) == (head, relation)}
    assert len(tails.others) == len(there)


def test_no_link_may_be_known():
    nothing = np.zeros(0, np.int64)
    rows = known(nothing, nothing, nothing, 5).rows(np.array([1, 2]), np.array([0, 0]))
    assert not is_known(rows, np.arange(5)).any()
    with pytest.raises(InputError, match="known links: end 5, and there are 5"):
        known(np.array([5]), np.array([0]), np.array([0]), 5)


def test_a_uniform_draw_is_uniform():
    drawn = draw(KEY, np.arange(300), 100, everyone(40))
    assert drawn.shape == (300, 100) and drawn.dtype == np.int32
    assert chisquare(np.bincount(drawn.ravel(), minlength=40)).pvalue > LEAST
    assert chisquare(np.bincount(drawn[:, 7] * 40 + drawn[:, 8], minlength=1600)).pvalue > LEAST


@pytest.mark.parametrize("power", [0.0, 0.75, 1.0])
def test_a_draw_by_degree(power):
    degrees = np.array([0, 1, 2, 0, 7, 100, 1, 0])
    drawn = np.bincount(draw(KEY, np.arange(300), 100, by_degree(degrees, power)).ravel(), minlength=8)
    weights = np.where(degrees > 0, degrees.astype(float) ** power, 0)
    assert not drawn[degrees == 0].any()
    some = degrees > 0
    assert chisquare(drawn[some], 30000 * weights[some] / weights.sum()).pvalue > LEAST


@pytest.mark.parametrize("weighted", [False, True])
def test_a_filtered_draw_has_the_distribution_over_what_is_left(weighted):
    h, r, t = links(count=400)
    weights = np.random.default_rng(1).integers(0, 5, 30) if weighted else np.ones(30)
    candidates = pools(np.array([0, 30]), np.arange(30), weights)
    rows = both_sides(h, r, t, (30, 30))[0].rows(h, r)
    drawn = draw(KEY, np.arange(400), 500, candidates, filter_by=rows)
    assert not is_known(rows, drawn).any()
    own = np.where(is_known(rows, np.arange(30)), 0, weights[None])
    expected = (500 * own / own.sum(axis=1, keepdims=True)).sum(axis=0)
    some = expected > 0
    assert chisquare(np.bincount(drawn.ravel(), minlength=30)[some], expected[some]).pvalue > LEAST
    for i in range(20):  # every allowed candidate is reached
        assert set(drawn[i]) == set(np.flatnonzero(own[i]))


def test_one_candidate_that_is_left_is_drawn_and_none_is_an_error():
    h, r, t = np.zeros(9, int), np.zeros(9, int), np.array([0, 1, 2, 3, 4, 6, 7, 8, 9])
    rows = known(h, r, t, 10).rows(np.array([3, 0]), np.array([0, 0]))
    drawn = draw(KEY, np.array([10, 11]), 50, everyone(10), filter_by=rows)
    assert (drawn[1] == 5).all() and len(set(drawn[0])) > 5
    with pytest.raises(InputError, match="negatives of example 11: none of its 5 candidates is left beside 9 known"):
        draw(KEY, np.array([10, 11]), 1, everyone(5), filter_by=rows)
    with pytest.raises(InputError, match="example 4: none of its 0 candidates"):
        draw(KEY, np.array([4]), 1, by_type(np.array([0, 0]), 2), np.array([1]))


def test_a_draw_depends_on_its_counter_alone():
    h, r, t = links()
    rows = known(h, r, t, 30).rows(h, r)
    whole = draw(KEY, np.arange(200), 6, everyone(30), filter_by=rows)
    some = np.random.default_rng(0).permutation(200)[:50]
    part = draw(KEY, some, 6, everyone(30), filter_by=rows._replace(start=rows.start[some], stop=rows.stop[some]))
    np.testing.assert_array_equal(part, whole[some])
    np.testing.assert_array_equal(draw(KEY, some, 3, everyone(30)), draw(KEY, some, 6, everyone(30))[:, :3])
    keys = [
        keys_of(*other) for other in [(1, 1, 2, "tails"), (0, 2, 2, "tails"), (0, 1, 3, "tails"), (0, 1, 2, "heads")]
    ]
    for other in keys:
        assert (draw(other, some, 6, everyone(30)) != draw(KEY, some, 6, everyone(30))).mean() > 0.8


def test_pools_by_type():
    types = np.array([1, 0, 2, 1, 0, 1])
    pool = np.array([1, 0, 2, 1])
    drawn = draw(KEY, np.arange(4), 60, by_type(types, 3), pool)
    assert [set(row) for row in drawn] == [{0, 3, 5}, {1, 4}, {2}, {0, 3, 5}]
    rows = known(np.array([0, 0]), np.array([0, 0]), np.array([3, 4]), 1).rows(np.zeros(4, int), np.zeros(4, int))
    drawn = draw(KEY, np.arange(4), 60, by_type(types, 3), pool, rows)
    assert [set(row) for row in drawn] == [{0, 5}, {1}, {2}, {0, 5}]


def test_lists_that_are_no_pools():
    with pytest.raises(InputError, match="candidates: entry 2: 4 after 5, and lists are rising"):
        pools(np.array([0, 1, 3]), np.array([7, 5, 4]))
    with pytest.raises(InputError, match="candidates: weight nan of entry 1 is not"):
        pools(np.array([0, 2]), np.array([0, 1]), np.array([1, np.nan]))


def test_very_different_weights_stay_possible():
    candidates = pools(np.array([0, 3]), np.arange(3), np.array([1e-300, 1e300, 0.0]))
    assert np.diff(candidates.before)[0] >= 1 and np.diff(candidates.before)[2] == 0
    assert (draw(KEY, np.arange(9), 9, candidates) == 1).all()


def test_joint_negatives_are_one_list_with_a_mask():
    h, r, t = links()
    rows = known(h, r, t, 30).rows(h, r)
    shared, kept = joint(KEY, 20, everyone(30), rows, len(h))
    assert shared.shape == (20,) and kept.shape == (200, 20)
    there = set(zip(h, r, t))
    assert all(kept[i, j] == ((h[i], r[i], shared[j]) not in there) for i in range(200) for j in range(20))
    again, all_kept = joint(KEY, 20, everyone(30), None, 3)
    np.testing.assert_array_equal(shared, again)
    assert all_kept.all()


def test_negatives_in_the_batch():
    h, r, t = (column[:25] for column in links())
    there = set(zip(h, r, t))
    mask = in_batch(t, known(h, r, t, 30).rows(h, r))
    assert all(mask[i, j] == ((h[i], r[i], t[j]) not in there) for i in range(25) for j in range(25))
    np.testing.assert_array_equal(in_batch(t), t[:, None] != t)


def test_sides():
    examples = np.arange(200)
    assert not negatives.replaced_heads(KEY, examples, 5, "tail").any()
    assert negatives.replaced_heads(KEY, examples, 5, "head").all()
    both = negatives.replaced_heads(KEY, examples, 50, "both")
    assert chisquare(np.bincount(both.ravel())).pvalue > LEAST
    np.testing.assert_array_equal(negatives.replaced_heads(KEY, examples[::3], 50, "both"), both[::3])
    with pytest.raises(InputError, match="corrupt is 'tails', and should be tail, head or both"):
        negatives.replaced_heads(KEY, examples, 5, "tails")


def test_hard_negatives_are_the_highest():
    scores = np.array([[1, 5, 3, 5, 2], [4, 0, 4, 1, 4]], np.float32)
    places, kept = hardest(scores, 3)
    assert places.tolist() == [[1, 3, 2], [0, 2, 4]] and kept.all()
    allowed = np.array([[True, False, True, True, True], [False, False, False, True, False]])
    places, kept = hardest(scores, 3, allowed)
    assert places[0].tolist() == [3, 2, 4] and kept[0].all()
    assert places[1, 0] == 3 and kept[1].tolist() == [True, False, False]
    with pytest.raises(InputError, match="hard negatives: 6 of a pool of 5"):
        hardest(scores, 6)
