"""The costs of a link between processes that were kept: few messages say whether they hold, and process 0 decides for all."""

import itertools
from concurrent.futures import ThreadPoolExecutor

import pytest

from hetjax.sharding.dependency import costs, kept_link, link
from hetjax.sharding.dependency.kept_link import AT_ONCE, LASTS, LEAST, MOST, ROUNDS, TRIES
from tests.support.equivalence import few
from tests.support.hybrid import hybrid
from tests.support.links import group

EXCHANGE = 1 + 2 * (ROUNDS + 1)  # messages


def together(groups, work):
    """What every process gives that does the same, each in a thread."""
    with ThreadPoolExecutor(len(groups)) as threads:
        return list(threads.map(work, groups))


@pytest.mark.parametrize(("sent", "numbers"), [(LASTS / 3000, 1500), (1.0, LEAST), (1e-15, MOST)])
@pytest.mark.usefixtures("ends")
def test_an_exchange_takes_few_messages_of_what_lasts_some_milliseconds(sent, numbers):
    groups = group(3, rate=float("inf"))
    together(groups, lambda one: kept_link.exchange(one, sent))
    assert all(one.calls["exchange"] == EXCHANGE for one in groups)
    rows = AT_ONCE // 2 + ROUNDS * numbers
    for one, others in zip(groups, (2, 1, 1)):
        assert 0 <= one.bytes["exchange"] - 4 * others * rows < 200 * others * EXCHANGE


@pytest.mark.usefixtures("ends")
def test_an_exchange_takes_as_long_as_the_slowest_link():
    """40 kB, of which a link of 1 MB/s is no faster than 40 ms each way."""
    slow = together(group(3, rate=1e6), lambda one: kept_link.exchange(one, LASTS / 2e4))
    assert slow[0] > 0.04


def test_a_link_is_alike_to_a_factor():
    assert kept_link.alike(1.0, 1.4) and kept_link.alike(1.4, 1.0)
    assert not kept_link.alike(1.0, 1.6) and not kept_link.alike(1.6, 1.0)


@pytest.mark.usefixtures("ends")
def test_a_kept_link_is_measured_anew_only_where_an_exchange_differs(kept, monkeypatch):
    """Process 0 alone knows how long it takes; the others do as it says."""
    given, mesh = hybrid(few("cites", "writes"))
    now, measured = {"link": (4.0, 2.0), "exchange": 1.0}, []
    monkeypatch.setattr(link, "measure", lambda *about: measured.append(about) or now["link"])
    monkeypatch.setattr(kept_link, "_there_and_back", lambda one, numbers: now["exchange"] if one.first else 1e9)

    def start():
        groups, before = group(2, rate=float("inf")), len(measured)
        found = together(groups, lambda one: costs._link(given._replace(processes=one), mesh, {}, 64))
        assert found[0] == found[1] and len(measured) - before in (0, 2)
        return found[0], len(measured) > before

    for link_now, exchange, expected in (
        ((4.0, 2.0), 1.0, ((4.0, 2.0), True)),  # nothing was kept
        ((9.0, 9.0), 1.4, ((4.0, 2.0), False)),  # not looked at
        ((5.0, 1.6), 2.0, ((4.0, 2.0), True)),  # looked at, and much the same
        ((9.0, 9.0), 2.2, ((4.0, 2.0), False)),  # that is what an exchange takes now
        ((8.0, 2.0), 4.0, ((8.0, 2.0), True)),
        ((8.0, 0.5), 1.0, ((8.0, 0.5), True)),
        ((9.0, 9.0), 1.0, ((8.0, 0.5), False)),
    ):
        now.update(link=link_now, exchange=exchange)
        assert start() == expected


@pytest.mark.usefixtures("ends")
def test_a_start_with_a_kept_link_sends_few_messages(kept, monkeypatch):
    """What was kept, one exchange, and what process 0 decided; and no more than three exchanges before it is measured."""
    given, mesh = hybrid(few("cites", "writes"))
    same, none = itertools.repeat(True), itertools.repeat(False)
    monkeypatch.setattr(link, "measure", lambda *about: (1e-6, 1e-3))
    for alike, calls in (
        (same, 2 + TRIES * EXCHANGE),  # nothing is kept: costs are told, and what an exchange usually takes is found
        (same, 1 + EXCHANGE + 1),
        (iter((False, False, True, True)), 1 + 2 * (EXCHANGE + 1)),  # disturbed once, which both are asked
        (none, 1 + TRIES * (EXCHANGE + 1) + 1 + TRIES * EXCHANGE),
    ):
        groups = group(2, rate=float("inf"))
        monkeypatch.setattr(kept_link, "alike", lambda one, other, alike=alike: next(alike))
        together(groups, lambda one: costs._link(given._replace(processes=one), mesh, {}, 64))
        assert [one.calls.total() for one in groups] == [calls, calls]
