"""The example of a relational dump: no edge of its graph goes back in time."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from examples.f1.graph import CONFIG, EVENTS, NEXT, later_entries, tables
from hetjax.ingest import configuration


def test_events_are_told_to_the_entries_of_the_next_races():
    rng = np.random.default_rng(0)
    count = 300
    race = rng.integers(0, 40, count)
    entries = {"resultId": rng.permutation(count) + 1000, "driverId": rng.integers(0, 8, count), "when": race * 7}
    events = {"key": np.arange(90), "driverId": rng.integers(0, 9, 90), "when": rng.integers(0, 300, 90)}
    found = later_entries(pa.table(events), pa.table(entries), "key", "driverId")
    expected = set()
    for key, driver, when in zip(*events.values()):
        own = entries["driverId"] == driver
        races = np.unique(entries["when"][own & (entries["when"] > when)])[:NEXT]
        expected |= {(key, entry) for entry in entries["resultId"][own & np.isin(entries["when"], races)]}
    pairs = list(zip(found["event"].to_pylist(), found["entry"].to_pylist()))
    assert set(pairs) == expected and len(pairs) == len(expected) > 100


def test_no_edge_of_formula_1_goes_back_in_time(real_data, tmp_path):
    tables(real_data / "f1", tmp_path)
    config = configuration.read(CONFIG, tmp_path)
    entries = pq.read_table(tmp_path / "entries.parquet")
    races = pq.read_table(tmp_path / "races.parquet")
    date_of_race = dict(zip(entries["raceId"].to_pylist(), entries["date"].to_pylist()))
    date_of_entry = dict(zip(entries["resultId"].to_pylist(), entries["date"].to_pylist()))
    assert entries.num_rows == 27178 and races.num_rows == 1149
    into = {relation.target for relation in (edge.relation for edge in config.edges)}
    assert into == {"entries"}
    for edge in config.edges:
        key = EVENTS[edge.relation.source][0]
        events = pq.read_table(tmp_path / f"{edge.relation.source}.parquet")
        race_of = dict(zip(events[key].to_pylist(), events["raceId"].to_pylist()))
        ends = pq.read_table(edge.files[0]).to_pydict()
        assert len(ends["event"]) > 1000
        late = (date_of_race[race_of[e]] >= date_of_entry[n] for e, n in zip(ends["event"], ends["entry"]))
        assert not any(late), edge.relation
    for table in config.nodes:  # what an entry is, and what a row refers to, is known before; nothing hears of an entry
        assert all(way == "from" for _, way in table.foreign_keys.values()), table.node_type
        assert "entries" not in {to for to, _ in table.foreign_keys.values()}
    features = json.loads(CONFIG.read_text())["nodes"][0]["features"]
    assert features == [{"feature_col": "one"}]  # nothing of what came of it
