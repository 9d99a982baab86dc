"""Ranks and their metrics against a slow literal evaluator; recommendation; shards, merging and bounded memory."""

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, ndcg_score, roc_auc_score

from hetjax.system.errors import InputError
from hetjax.tasks.links import ranks, recommendation
from hetjax.tasks.links.known import Rows, both_sides, known
from hetjax.tasks.links.rank_metrics import Ranks, areas, ranks_of
from hetjax.tasks.links.ranks import TIES, Counts, count, products, rank


def slow_rank(scores, target, filtered, ties):
    """The rank of one target among the candidates that are not filtered, and how many others there are."""
    others = [c for c in range(len(scores)) if c != target and c not in filtered]
    higher = sum(bool(scores[c] > scores[target]) for c in others)
    equal = sum(bool(scores[c] == scores[target]) for c in others)
    return 1 + higher + {"average": equal / 2, "optimistic": 0, "pessimistic": equal}[ties], len(others)


def rows_of(lists):
    start = np.cumsum([0, *map(len, lists)])
    others = np.array([other for one in lists for other in sorted(one)], np.int32)
    return Rows(start[:-1].astype(np.int64), start[1:].astype(np.int64), others)


def case(seed):
    """Few distinct scores, so that there are ties; lists of known links, some with the target and some without."""
    rng = np.random.default_rng(seed)
    examples, candidates = rng.integers(1, 6), rng.integers(1, 20)
    scores = rng.integers(0, rng.integers(1, 8) + 1, (examples, candidates)).astype(np.float32)
    targets = rng.integers(0, candidates, examples)
    share = rng.random()
    return scores, targets, [set(np.flatnonzero(rng.random(candidates) < share).tolist()) for _ in range(examples)]


def test_ranks_equal_the_slow_evaluator_in_1000_cases():
    for seed in range(1000):
        scores, targets, lists = case(seed)
        for known_links in (lists, [set()] * len(targets)):
            counts = rank(lambda a, b: scores[a:b], targets, scores.shape[1], rows_of(known_links))
            for ties in TIES:
                slow = [slow_rank(row, target, one, ties) for row, target, one in zip(scores, targets, known_links)]
                np.testing.assert_array_equal(counts.doubled_ranks(ties) / 2, [one for one, _ in slow])
                np.testing.assert_array_equal(counts.others, [others for _, others in slow])


def test_shards_of_the_candidates_add_up():
    for seed in range(100):
        scores, targets, lists = case(seed)
        own, rows = scores[np.arange(len(targets)), targets], rows_of(lists)
        whole = count(scores, own, targets, rows)
        cut = seed % (scores.shape[1] + 1)
        parts = count(scores[:, :cut], own, targets, rows) + count(scores[:, cut:], own, targets, rows, cut)
        for a, b in zip(whole, parts):
            np.testing.assert_array_equal(a, b)


def test_scores_that_are_no_numbers_never_help():
    scores = np.array([[np.nan, 1, 2], [0, np.nan, 0]], np.float32)
    counts = rank(lambda a, b: scores[a:b], np.array([1, 1]), 3)
    assert (counts.doubled_ranks() / 2).tolist() == [3, 3]
    with pytest.raises(InputError, match="ties is 'mean', and should be average, optimistic, pessimistic"):
        counts.doubled_ranks("mean")


def test_both_directions_by_products_equal_the_slow_evaluator():
    rng = np.random.default_rng(0)
    entities, width = 150, 8
    table = rng.integers(-2, 3, (entities, width)).astype(np.float32)  # whole numbers: products are exact, and tie
    h, r, t = rng.integers(0, entities, 300), rng.integers(0, 4, 300), rng.integers(0, entities, 300)
    relations = rng.integers(-2, 3, (4, width)).astype(np.float32)
    found = Ranks()
    slow = []
    for ends, others, side in zip((h, t), (t, h), both_sides(h, r, t, (entities, entities))):
        queries = table[ends[:60]] * relations[r[:60]]
        counts = rank(products(queries, table), others[:60], entities, side.rows(ends[:60], r[:60]))
        found = found.merge(ranks_of(counts))
        for i in range(60):
            filtered = {o for e, q, o in zip(ends, r, others) if (e, q) == (ends[i], r[i])} - {others[i]}
            slow.append(slow_rank(table @ queries[i], others[i], filtered, "average"))
    numbers = np.array([one for one, _ in slow])
    metrics = found.finish()
    np.testing.assert_allclose(metrics["mrr"], (1 / numbers).mean())
    for k in (1, 3, 10):
        np.testing.assert_allclose(metrics[f"hits@{k}"], (numbers <= k).mean())
    np.testing.assert_allclose(metrics["mean_rank"], numbers.mean())
    expected = np.mean([(others + 2) / 2 for _, others in slow])  # of a random order
    np.testing.assert_allclose(metrics["amri"], 1 - (numbers.mean() - 1) / (expected - 1))


@pytest.mark.parametrize("entities", [40, 64, 1000, 5000])
def test_candidates_with_equal_embeddings_are_ties(entities):
    """Wherever they stand in a product, and in however small blocks examples are taken."""
    rng = np.random.default_rng(1)
    table = np.repeat(rng.standard_normal((1, 37)).astype(np.float32), entities, axis=0)
    queries = rng.standard_normal((70, 37)).astype(np.float32)
    counts = rank(products(queries, table), rng.integers(0, entities, 70), entities, memory=1)
    assert (counts.equal == entities - 1).all() and not counts.higher.any()


def test_memory_is_bounded():
    sizes = []

    def scores(start, stop):
        sizes.append((stop - start) * 1000 * 4)
        return np.zeros((stop - start, 1000), np.float32)

    rank(scores, np.zeros(5000, int), 1000, memory=10**6)
    assert sum(sizes) == 5000 * 1000 * 4 and max(sizes) <= 10**6 and len(sizes) < 30
    million = list(ranks.blocks(1000, 10**6))
    assert max(stop - start for start, stop in million) * 10**6 * 4 <= ranks.MEMORY and million[-1][1] == 1000
    made = products(np.zeros((5000, 2), np.float32), np.zeros((1000, 2), np.float32))
    start, stop = next(iter(ranks.blocks(5000, 1000, 10**6)))
    assert made(start, stop).base.nbytes <= 10**6 * 1.1


def test_merging_does_not_depend_on_the_order():
    rng = np.random.default_rng(2)
    counts = Counts(rng.integers(0, 50, 200), rng.integers(0, 3, 200), np.full(200, 60))
    whole = ranks_of(counts).finish()
    for parts in (3, 7):
        merged = Ranks()
        for part in np.array_split(rng.permutation(200), parts):
            merged = ranks_of(Counts(*(one[part] for one in counts))).merge(merged)
        assert merged.finish() == whole
    assert set(Ranks().finish().values()) == {None}
    assert ranks_of(Counts(*np.zeros((3, 2), np.int64))).finish()["amri"] is None  # no other candidate


def test_areas_equal_scikit_learn():
    rng = np.random.default_rng(3)
    positive, negative = rng.integers(2, 9, 40).astype(float), rng.integers(0, 7, (40, 3)).astype(float)
    scores, labels = np.concatenate([positive, negative.ravel()]), np.repeat([1, 0], [40, 120])
    found = areas(positive, negative)
    np.testing.assert_allclose(found["roc_auc"], roc_auc_score(labels, scores))
    np.testing.assert_allclose(found["average_precision"], average_precision_score(labels, scores))


def slow_recommendation(scores, train, test, k):
    """Metrics of one user from a sorted list."""
    ordered = sorted((c for c in range(len(scores)) if c not in train), key=lambda c: (-scores[c], c))[:k]
    hits = [c in test for c in ordered]
    ideal = sum(1 / np.log2(place + 2) for place in range(min(k, len(test))))
    return ordered, {
        "recall": sum(hits) / len(test),
        "precision": sum(hits) / k,
        "ndcg": sum(hit / np.log2(place + 2) for place, hit in enumerate(hits)) / ideal,
        "map": sum(sum(hits[: p + 1]) / (p + 1) for p, hit in enumerate(hits) if hit) / min(k, len(test)),
    }


def test_recommendation_equals_the_slow_evaluator():
    for seed in range(60):
        rng = np.random.default_rng(seed)
        users, items, k = rng.integers(1, 8), rng.integers(3, 30), int(rng.integers(1, 12))
        scores = rng.integers(0, 6, (users, items)).astype(np.float32)
        pairs = rng.random((users, items)) < 0.4
        held_out = pairs & (rng.random((users, items)) < 0.5)
        train, test = (
            known(*(lambda u, i: (u, 0 * u, i))(*np.nonzero(mask)), int(users))
            for mask in (pairs & ~held_out, held_out)
        )
        ids = np.arange(users)
        train, test = train.rows(ids, 0 * ids), test.rows(ids, 0 * ids)
        found = recommendation.recommend(lambda a, b: scores[a:b], ids, int(items), k, test, train, memory=1)
        slow, shown = [], set()
        for user in range(users):
            left, right = (set(np.flatnonzero(mask[user])) for mask in (pairs & ~held_out, held_out))
            if not right:
                continue
            ordered, metrics = slow_recommendation(scores[user], left, right, k)
            assert [c for c in found.best[user] if c >= 0] == ordered
            slow.append(metrics)
            shown |= set(ordered)
        metrics = found.finish()
        for name in ("recall", "precision", "ndcg", "map"):
            given = np.mean([one[name] for one in slow]) if slow else None
            assert metrics[f"{name}@{k}"] == (pytest.approx(given) if slow else None)
        assert metrics[f"coverage@{k}"] == (len(shown) / items if slow else None)


def test_gains_equal_scikit_learn_and_merging_changes_nothing():
    rng = np.random.default_rng(4)
    scores, test = rng.permutation(40 * 25).reshape(40, 25).astype(np.float64), rng.random((40, 25)) < 0.3
    test[:, 0] = True
    u, i = np.nonzero(test)
    rows = known(u, 0 * u, i, 40).rows(np.arange(40), np.zeros(40, int))
    whole = recommendation.recommend(lambda a, b: scores[a:b], np.arange(40), 25, 10, rows, None)
    np.testing.assert_allclose(whole.finish()["ndcg@10"], ndcg_score(test.astype(int), scores, k=10))
    assert whole.finish(5)["ndcg@5"] == pytest.approx(ndcg_score(test.astype(int), scores, k=5))
    halves = [rng.permutation(40)[:13]]
    halves.append(np.setdiff1d(np.arange(40), halves[0]))
    parts = [recommendation.Recommended(p, whole.best[p], whole.hits[p], whole.relevant[p], 25) for p in halves]
    assert parts[1].merge(parts[0]).finish() == whole.finish()
    with pytest.raises(InputError, match="metrics of the best 11, and 10 were kept"):
        whole.finish(11)
