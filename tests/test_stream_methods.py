"""Methods of partitioning a stream: edge for edge as their papers' pseudo-code, in chunks of any size, and a method of one's own."""

import numpy as np
import pytest

from hetjax.partition.stream import Held, Options, level, partition_stream, registry, source
from hetjax.partition.stream.methods import hdrf, slim
from hetjax.partition.stream.partitioner import Partitioner
from hetjax.partition.stream.state import mark, no_replicas, put
from hetjax.system.errors import InputError
from tests.support import stream_transcriptions as plain
from tests.support.streams import EDGES, NODES, stream_of

PLAIN = {
    "dbh": lambda e, n, p: plain.dbh(e, n, p, seed=3),
    "greedy": plain.greedy,
    "hdrf": plain.hdrf,
    "hollocou": plain.hollocou,
    "2ps-l": lambda e, n, p: plain.two_phase(e, n, p, seed=3),
    "spring": plain.spring,
}


def divided(pairs, method, parts, **options):
    """The partition of every edge, and what came."""
    held, found = Held(pairs, NODES), []

    class Watched(registry.find(method)):
        def place(self, pairs, out):
            super().place(pairs, out)
            found.append(out.copy())

    made = partition_stream(held, Watched, Options(parts, **options))
    return np.concatenate(found).tolist(), made


@pytest.mark.parametrize("method", PLAIN)
def test_equals_the_pseudo_code(method, monkeypatch):
    moved = 0
    for seed in range(12):
        monkeypatch.setattr(source, "AT_ONCE", (1, 7, 64, 1000)[seed % 4])
        pairs, parts = stream_of(seed), (1, 2, 3, 5, 16, 33)[seed % 6]
        expected = PLAIN[method](pairs.tolist(), NODES, parts)
        found, made = divided(pairs, method, parts, seed=3)
        if isinstance(expected, tuple):
            expected, owners = expected
            assert made.owners.tolist() == owners
        assert found == expected
        assert made.method.loads.tolist() == np.bincount(expected, minlength=parts).tolist()
        moved += len(set(expected)) == parts
    assert moved >= 8  # all partitions are in use, so that there was something to compare


@pytest.mark.parametrize("method", ["hollocou", "spring", "2ps-l"])
@pytest.mark.parametrize("volume", [0.5, 1.0, 4.0])
def test_volumes_of_clusters(method, volume):
    for seed in range(4):
        pairs = stream_of(seed)
        transcription = {"2ps-l": plain.two_phase, "hollocou": plain.hollocou, "spring": plain.spring}[method]
        expected = transcription(pairs.tolist(), NODES, 3, volume=volume)
        assert divided(pairs, method, 3, volume=volume)[0] == (expected if method == "2ps-l" else expected[0])


def test_degrees_by_choice_and_many_partitions():
    pairs = stream_of(1, 600)
    assert divided(pairs, "dbh", 5, degrees="estimated")[0] == plain.dbh(pairs.tolist(), NODES, 5, estimated=True)
    assert divided(pairs, "hdrf", 5, degrees="counted")[0] == plain.hdrf(pairs.tolist(), NODES, 5, counted=True)
    assert divided(pairs, "hdrf", 5, weight=4.0)[0] == plain.hdrf(pairs.tolist(), NODES, 5, weight=4.0)
    with pytest.raises(InputError, match="^degrees is estimated, and method spring has them counted in any case$"):
        divided(pairs, "spring", 5, degrees="estimated")
    for method in ("greedy", "hdrf"):  # more partitions than a word has bits
        big = np.random.default_rng(0).integers(0, NODES * 10, (2000, 2))
        found = partition_stream(Held(big, NODES * 10), registry.find(method), Options(100))
        assert (
            found.method.loads.tolist()
            == np.bincount(PLAIN[method](big.tolist(), NODES * 10, 100), minlength=100).tolist()
        )


def test_full_partitions_of_2ps_l_fall_back():
    """One community that would fill one partition: the bound holds but for one edge."""
    rng = np.random.default_rng(0)
    pairs = rng.integers(0, 12, (400, 2)).astype(np.int32)
    found, made = divided(pairs, "2ps-l", 4, volume=100.0)
    assert found == plain.two_phase(pairs.tolist(), NODES, 4, volume=100.0)
    assert made.method.loads.max() <= 1.05 * 400 / 4 + 1


class Rounds(Partitioner):
    """A method of one's own: in turn."""

    name = "rounds"
    learns = ("edges",)

    def learn(self):
        self.seen = 0
        yield self.count
        self.before = self.seen

    def count(self, pairs):
        self.seen += len(pairs)

    def place(self, pairs, out):
        for edge, (u, v) in enumerate(pairs):
            out[edge] = self.seen % self.options.parts
            put(self.replicas, self.loads, u, v, out[edge])
            self.seen += 1


class Lost(Rounds):
    def place(self, pairs, out):
        out[:] = 77


def test_a_method_of_ones_own():
    pairs = stream_of(0)
    assert registry.find("tests.test_stream_methods:Rounds") is Rounds
    made = partition_stream(Held(pairs, NODES), Rounds, Options(4))
    assert made.method.loads.tolist() == [37, 37, 38, 38] and made.passes == 3 and made.method.before == EDGES
    with pytest.raises(InputError, match=r"^method rounds: edge \[\d+, \d+\] goes to 77, outside 0..3$"):
        partition_stream(Held(pairs, NODES), Lost, Options(4))
    with pytest.raises(InputError, match="should be a class that inherits"):
        registry.find("tests.test_stream_methods:stream_of")
    with pytest.raises(InputError, match="^method is 'nonsense', and must be dbh, greedy, "):
        registry.find("nonsense")


def test_owners_are_where_a_node_is():
    pairs = stream_of(2)
    found, made = divided(pairs, "hdrf", 5)
    places = {v: {p for (a, b), p in zip(pairs.tolist(), found) if v in (a, b)} for v in range(NODES)}
    assert all(made.owners[v] in places[v] for v in range(NODES) if places[v])
    assert any(len(place) > 1 for place in places.values()) and not all(places.values())
    again = divided(pairs, "hdrf", 5)[1]
    assert np.array_equal(made.owners, again.owners)


def test_slim_keeps_a_core_within_its_room():
    rng = np.random.default_rng(0)
    pairs = (400 * rng.random((20_000, 2)) ** 2).astype(np.int32)
    degrees = np.bincount(pairs.ravel(), minlength=400)
    for core in (0.5, 2, 8, 25, 100):
        made = partition_stream(Held(pairs, 400), registry.find("slim"), Options(4, core=core))
        kept, loops = made.method.about["core_edges"], int((pairs[:, 0] == pairs[:, 1]).sum())
        assert kept <= core * 400 and (core < 50 or kept == len(pairs) - loops) and kept > min(core * 100, 19_000)
        weights = 64 + np.rint(64 * degrees / degrees.mean())
        loads = np.bincount(made.owners, weights, 4)
        assert loads.max() <= 1.05 * loads.mean() + weights.max()


def test_slim_places_edges_by_who_trains_their_ends(monkeypatch):
    """Plainly: within a partition where both ends are trained, else by HDRF's score with counted degrees, in partitions with room."""
    for seed in range(4):
        monkeypatch.setattr(source, "AT_ONCE", (1, 7, 64, 1000)[seed])
        pairs = stream_of(seed, 300)
        found, made = divided(pairs, "slim", 4, seed=seed)
        owners, degrees, edges = made.owners.tolist(), plain.degrees_of(pairs.tolist()), len(pairs)
        having, load = {v: {owners[v]} for v in range(NODES)}, [0] * 4
        for (u, v), part in zip(pairs.tolist(), found):

            def score(p, u=u, v=v):
                theta = degrees[u] / (degrees[u] + degrees[v]), degrees[v] / (degrees[u] + degrees[v])
                g = sum(1 + (1 - t) for t, end in zip(theta, (u, v)) if p in having[end])
                return g + (max(load) - load[p]) / (1 + max(load) - min(load))

            room = [p for p in range(4) if load[p] < 1.05 * edges / 4]
            best = owners[u] if owners[u] == owners[v] else max(room, key=lambda p: (round(score(p), 12), -p))
            assert part == best or score(part) == pytest.approx(score(best), abs=1e-12)
            load[part] += 1
            having[u].add(part)
            having[v].add(part)


def blocks_of(seed: int, count: int = 8, size: int = 50) -> np.ndarray:
    """Communities of 50 nodes, nine edges in ten within one, ids shuffled."""
    rng = np.random.default_rng(seed)
    pairs = rng.integers(0, count * size, (4000, 2))
    near = rng.random(4000) < 0.9
    pairs[near, 1] = pairs[near, 0] // size * size + rng.integers(0, size, near.sum())
    return rng.permutation(count * size)[pairs].astype(np.int32)


def test_slim_finds_communities():
    cuts = {}
    for method in ("spring", "hdrf", "slim"):
        pairs = blocks_of(0)
        made = partition_stream(Held(pairs, 400), registry.find(method), Options(4, core=20))
        cuts[method] = np.mean(made.owners[pairs[:, 0]] != made.owners[pairs[:, 1]])
        again = partition_stream(Held(pairs, 400), registry.find(method), Options(4, core=20))
        assert np.array_equal(made.owners, again.owners)
    assert cuts["slim"] < 0.15 and cuts["slim"] < cuts["spring"] < cuts["hdrf"]


def level_of(pairs, nodes):
    """A level as sets say it."""
    between = {(u, v) for u, v in pairs if u != v} | {(v, u) for u, v in pairs if u != v}
    weights = {edge: sum(edge in ((u, v), (v, u)) for u, v in pairs) for edge in between}
    return weights


def test_few_looks_find_the_largest_score():
    """Of weights up to 1 the best partition is the one that a look at all finds, full ones and loads that are alike included."""
    rng, full = np.random.default_rng(0), 0
    for parts in (1, 3, 16, 64, 65, 130) * 60:
        replicas = no_replicas(2, parts)
        for node, part in zip(rng.integers(0, 2, parts // 2 + 1), rng.integers(0, parts, parts // 2 + 1)):
            mark(replicas, node, part)
        degrees, loads = rng.integers(1, 10 ** rng.integers(1, 9), 2), rng.integers(0, rng.choice([2, 5, 10**6]), parts)
        balance, bound = np.empty(parts), rng.choice([loads.max() / 2, loads.max() + 1])
        hdrf.weigh(loads, rng.choice([0.0, 0.3, 1.0]), bound, balance)
        v = rng.integers(0, 2)
        found = [hdrf.best_part(*degrees, 0, v, replicas, balance, light) for light in (True, False)]
        assert found[0] == found[1]
        full += found[0] < 0
    assert full


def test_contraction_of_weights_beyond_16_bits():
    pairs = np.repeat([[0, 2], [1, 2], [1, 3]], [50_000, 40_000, 7], axis=0).astype(np.int32)
    core = level.Level(*slim.as_level(pairs, 4), np.ones(1, np.int32), np.ones(4, np.int32))
    labels = np.array([0, 0, 1, 2], np.int32)
    coarse = level.contract(core, labels, 3)
    assert coarse.weights.dtype == np.int32 and sorted(coarse.weights.tolist()) == [7, 7, 90_000, 90_000]
    again = level.contract(coarse, np.array([0, 1, 1], np.int32), 2)
    assert again.weights.tolist() == [90_007, 90_007] and coarse.indptr.tolist() == [0, 2, 3, 4]


def test_contraction_keeps_weights():
    pairs = stream_of(3)
    indptr, neighbours = slim.as_level(pairs[pairs[:, 0] != pairs[:, 1]], NODES)
    core = level.Level(indptr, neighbours, np.ones(1, np.int32), np.arange(1, NODES + 1, dtype=np.int32))
    labels = np.random.default_rng(0).integers(0, 9, NODES).astype(np.int32)
    coarse = level.contract(core, labels, 9)
    found = {
        (c, int(d)): int(w)
        for c in range(9)
        for d, w in zip(*(a[coarse.indptr[c] : coarse.indptr[c + 1]] for a in (coarse.neighbours, coarse.weights)))
    }
    assert found == level_of([(int(labels[u]), int(labels[v])) for u, v in pairs.tolist()], 9)
    assert coarse.sizes.tolist() == [int((np.flatnonzero(labels == c) + 1).sum()) for c in range(9)]
    owners = np.random.default_rng(1).integers(0, 3, 9).astype(np.int32)
    assert level.cut(*coarse, owners) == level.cut(*core, owners[labels])


def test_replicas_get_fewer_as_gains_say():
    """Simple edges, so that every gain is exact: the sum of gains is what a count from scratch says."""
    pairs = np.unique(np.sort(stream_of(5)[:, :2], axis=1), axis=0)
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    indptr, neighbours = slim.as_level(pairs, NODES)
    core = level.Level(indptr, neighbours, np.ones(1, np.int32), np.ones(NODES, np.int32))
    owners = np.random.default_rng(0).integers(0, 4, NODES).astype(np.int32)

    def replicas(of):
        return len(
            {(of[u], v) for u, v in pairs.tolist()}
            | {(of[v], u) for u, v in pairs.tolist()}
            | set(zip(of, range(NODES)))
        )

    table = np.zeros((NODES, 4), np.int32)
    slim._tabulate(indptr, neighbours, owners, table)
    for v in range(NODES):
        for part in set(range(4)) - {owners[v]}:
            moved = owners.copy()
            moved[v] = part
            gain = slim._gain(v, owners[v], part, indptr, neighbours, owners, table)
            assert gain == replicas(owners.tolist()) - replicas(moved.tolist())
    before = replicas(owners.tolist())
    slim._fewer_replicas(core, owners, 4, 14.0)
    assert replicas(owners.tolist()) < before and np.bincount(owners).max() <= 14
