"""What rows that are fetched cost besides the network, and costs of a link that are reckoned where measuring takes too long."""

import math
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import jax
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

from hetjax.processes.group import ProcessGroup
from hetjax.sampling.blocks import NO_NODE
from hetjax.sharding import mesh as meshes
from hetjax.sharding.dependency import costs, kept_link, link, probes, rates
from hetjax.sharding.dependency.exchange import Mirrors, _back, _inverse, fetch
from hetjax.sharding.dependency.prices import COMES, LIES, priced, seconds
from hetjax.sharding.dependency.schedule import schedule
from hetjax.sharding.dependency.work import Work
from hetjax.sharding.mesh import DATA, shard_map
from tests.support.equivalence import few
from tests.support.graphs import random_graph
from tests.support.hybrid import hybrid
from tests.support.links import group

WIDTH = 256


def mirrored(here, come, chance):
    """Of one of two partitions, each of which sends the other some of its rows; in any order."""
    plan = schedule(np.array([[0, come], [come, 0]]), False)
    send = np.full(plan.total, NO_NODE)
    send[come:] = chance.permutation(here)[:come]
    places = np.concatenate([np.arange(here), here + np.arange(come, 2 * come)]).astype(np.int32)
    places = chance.permutation(places)
    return Mirrors(plan, send, _back(send, here), ((places,),), (_inverse(places, here + plan.total),))


def written(here, come):
    """Rows that the program of a fetch, there and back, writes but for its all-to-alls; from what XLA says of its bytes."""
    rows, brought = (np.zeros((n, WIDTH), np.float32) for n in (here, here + come))

    def there_and_back(mirrors, rows, gradient):
        read, back = jax.vjp(lambda rows: fetch("remote_embeddings", mirrors, rows)[0][0], rows)
        return read, back(gradient)[0]

    on_two = shard_map(there_and_back, meshes.row(meshes.make(1, 2), 0), (P(), P(), P()), (P(DATA), P(DATA)))
    program = jax.jit(on_two).lower(mirrored(here, come, np.random.default_rng(0)), rows, brought).compile()
    entry = program.as_text().partition("ENTRY")[2].splitlines()
    made = [line.split(" = ")[1] for line in entry if " fusion(" in line or " custom-call(" in line]
    shapes = [
        [int(n) for n in of.partition("[")[2].partition("]")[0].split(",")] for of in made if of.startswith("f32")
    ]
    around = 4 * come  # the lines of two all-to-alls, which are cut out before them: measured with these
    return sum(np.prod(shape) for shape in shapes) / WIDTH - around


def test_copies_are_those_of_the_program():
    base, more_here, more_come = written(4096, 2048), written(8192, 2048), written(4096, 4096)
    assert (more_here - base) / 4096 == LIES
    assert (more_come - base) / 2048 == COMES


def test_rows_that_are_fetched_cost_copies_of_what_comes_and_of_what_lies_here():
    """Of learnable rows and embeddings there and back, of static features half of it; where nobody fetches anything nothing."""
    given, _ = hybrid(few("cites", "writes"))
    types, relations = list(given.graph.schema.nodes), list(given.graph.relations)
    one, layers = np.array([1, 0]), len(given.trainer.model.layers)
    none = dict.fromkeys(types, 0 * one)

    def layer(fetched, of):
        rows = {t: fetched * one * (t in of) for t in types}
        return Work(rows, none, none, {}, {}, none, {t: np.array([100, 100]) for t in types})

    def fetching(copy, fetched, of=types):
        known = costs.Costs([{}] * (layers - 1), [{}] * (layers - 1), [{}] * (layers - 1), 0.0, 0.0, copy, True)
        work = [layer(0, of), layer(fetched, of)]
        return seconds(work, priced(given, known), types, relations)["fetch"]

    width = sum(given.trainer.model.layers[1].widths.get(t, 0) for t in types)
    np.testing.assert_allclose(fetching(2.0, 10), [2 * width * (10 * COMES + 100 * LIES), 2 * width * 100 * LIES])
    own = given.trainer.model.layers[1].widths[
        "paper"
    ]  # all types have it, so all that lies here is copied for one that comes
    np.testing.assert_allclose(fetching(2.0, 10, ["paper"])[0], 2 * (own * 10 * COMES + width * 100 * LIES))
    assert not fetching(2.0, 0).any() and not fetching(0.0, 10).any()
    prices = priced(given, costs.Costs([{}], [{}], [{}], 0.0, 0.0, 2.0, True))
    paper, width = types.index("paper"), given.graph.features["paper"].shape[1]
    assert prices.sent[0, paper] == 2 * COMES * width / 2


def test_a_link_of_short_epochs_is_reckoned(kept, monkeypatch):
    given, mesh = hybrid(few("cites", "writes"))
    monkeypatch.setattr(costs, "LINK", 60.0)
    monkeypatch.setattr(link, "measure", None)
    found = costs.read_or_measure(given, mesh, 64)
    assert (found.sent, found.start) == rates.link(found.copy, 2) and found.sent == 4 * found.copy
    assert not any(file.name.startswith("link") for file in kept.iterdir())
    assert costs.read_or_measure(given, mesh, 64) == found  # as rates are kept


def test_measuring_takes_its_share_once(kept, monkeypatch):
    """What the link took of 3 % of 100 epochs is not there for the layers. A machine that is half as fast takes twice as long."""
    given, mesh = hybrid(few("cites", "writes"))
    monkeypatch.setattr(costs, "_step", lambda *about: 1.0)  # 3 s, of which each of two devices does half
    cases = (0.7, 0.7, 1, True), (0.7, 0.9, 1, False), (1.6, 1.4, 1, True), (0.7, 0.7, 2, False), (0.3, 0.4, 2, True)
    for of_link, of_layers, slower, expected in cases:
        for file in kept.iterdir() if kept.exists() else ():
            file.unlink()
        monkeypatch.setattr(rates, "measure", lambda *about, slower=slower: (slower * costs.USUAL, 1e-11))
        monkeypatch.setattr(costs, "LINK", of_link)
        monkeypatch.setattr(costs, "PROBE", {True: of_layers, False: of_layers})
        found = costs.read_or_measure(given, mesh, 64)
        assert found.measured == expected
        assert any(file.name.startswith("link") for file in kept.iterdir()) == (slower * of_link <= 1.5)


class Several(ProcessGroup):
    """One process that says that there are two."""

    count = 2


def test_measuring_is_foreseen_to_take_longer_between_processes(kept, monkeypatch):
    given, mesh = hybrid(few("cites", "writes"))
    monkeypatch.setattr(costs, "_step", lambda *about: 1.0)
    monkeypatch.setattr(rates, "measure", lambda *about: (costs.USUAL, 1e-11))
    monkeypatch.setattr(costs, "PROBE", {True: 0.7, False: 0.7})
    reckoned = []
    monkeypatch.setattr(costs, "_link", lambda *about: reckoned.append(about[-1] is not None) or (0.0, 0.0))
    monkeypatch.setattr(probes, "measure", lambda setup, mesh, wanted: [probes.Seconds(1.0, 1.0, 1.0)] * len(wanted))
    both = given._replace(processes=Several()), given
    assert [costs.read_or_measure(of, mesh, 64).measured for of in both] == [False, True]
    monkeypatch.setattr(costs, "LINK", 0.7)
    reckoned.clear()
    for of in both:
        costs.read_or_measure(of, mesh, 64)
    assert reckoned == [True, False]


@pytest.mark.usefixtures("ends")
def test_messages_say_what_a_link_of_short_epochs_costs(kept, monkeypatch):
    """As process 0 sees them. They are kept while they hold, so that a run that is resumed chooses as before."""
    given, mesh, now = *hybrid(few("cites", "writes")), {"number": 2e-7}
    monkeypatch.setattr(link, "measure", None)
    monkeypatch.setattr(
        kept_link, "_there_and_back", lambda one, numbers: numbers * now["number"] if one.first else 1e9
    )

    def start():
        groups = group(2, rate=float("inf"))
        with ThreadPoolExecutor(2) as threads:
            work = threads.map(
                lambda of: costs._link(given._replace(processes=of), mesh, {}, 64, (1e-9, 1e-10)), groups
            )
            one, other = work
        assert one == other
        return one

    assert start() == pytest.approx((kept_link.SLOWER * 2e-7, 2e-7))
    now["number"] = 2.5e-7
    assert start() == pytest.approx((kept_link.SLOWER * 2e-7, 2e-7))  # near enough
    now["number"] = 4e-9
    assert start() == pytest.approx((kept_link.SLOWER * 4e-9, 4e-9))
    assert len(list(kept.iterdir())) == 1


def test_what_a_type_makes_of_its_own_rows_is_reckoned_once():
    """However many relations end there; of every relation its edges and sources."""
    graph = random_graph()
    given, _ = hybrid(graph)
    kinds = probes.kinds(given)
    own, edges, rows = (
        costs._step(graph, kinds, {kind: probes.Seconds(*of) for kind in probes.distinct(kinds)})
        for of in ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
    )
    nodes = graph.schema.nodes
    assert own == sum(nodes[t] for layer in kinds for t in {relation.target for relation in layer})
    assert edges == sum(graph.relations[relation].edges for layer in kinds for relation in layer)
    assert rows == sum(nodes[relation.source] for layer in kinds for relation in layer)


@pytest.mark.parametrize(
    ("others", "times"),
    [
        ([], 1.0),  # two devices on two cores
        ([("here", [0, 1])], 2.0),
        ([("here", [2, 3])], 1.0),
        ([("there", [0, 1])], 1.0),
    ],
)
def test_one_process_measures_rates_and_those_of_the_same_cores_share_them(kept, monkeypatch, others, times):
    """Devices read at the rate of a core, of which there may be too few."""

    class Second(ProcessGroup):
        first, count = False, 1 + len(others)

        def all_gather(self, tag, value):
            names, cores = zip(("here", [0, 1]), *others)
            return {"hosts": list(names), "cores": list(cores)}.get(tag, [value])

        def broadcast_object(self, name, value):
            return (costs.USUAL, 1e-11) if name == "costs, rates" else value

    given, mesh = hybrid(few("cites", "writes"))
    monkeypatch.setattr(rates, "measure", None)
    monkeypatch.setattr(costs, "EACH", math.inf)
    monkeypatch.setattr(costs, "_link", lambda *about: (0.0, 0.0))
    mesh = SimpleNamespace(size=2 * (1 + len(others)), devices=mesh.devices)
    assert costs.read_or_measure(given._replace(processes=Second()), mesh, 64).copy == times * costs.USUAL


def test_devices_share_what_all_cores_multiply():
    assert rates.shared(1.0, 1.0, 3, 4) == (1.0, 3.0) and rates.shared(1.0, 1.0, 6, 4) == (1.5, 6.0)
