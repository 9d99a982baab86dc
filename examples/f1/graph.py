"""The 13 tables of the Formula 1 race data (the continuation of Ergast's, CC0) as a graph that knows no future.

    python -m examples.f1.graph --data F1 --out stores/f1

`F1` is the folder of the tables as csv.gz. An entry, a driver in a race, is a node without what came of it; the label is whether the
driver was on the podium. Results, standings, pit stops and so on are nodes of their own, and edges go from each to later entries
of the same driver or constructor alone: to those of the next `NEXT` races. So an edge never goes back in time, and no path leads
from what came of a race to an entry in it, or before. Qualifying comes before the race, and is not used for its own race either.
"""

import argparse
import csv
import gzip
import io
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from hetjax.ingest.__main__ import main as ingest

CONFIG = Path(__file__).parent / "graph.json"
NEXT = 5  # races of the same driver or constructor that an event is told to
PODIUM = 3
NUMBERED = {"pit_stops": "stopId"}  # tables without a key of one column get the number of the row
EVENTS = {  # a key of each, and whose later entries hear of it
    "results": ("resultId", "driverId", "constructorId"),
    "sprint_results": ("resultId", "driverId"),
    "qualifying": ("qualifyId", "driverId"),
    "pit_stops": ("stopId", "driverId"),
    "driver_standings": ("driverStandingsId", "driverId"),
    "constructor_standings": ("constructorStandingsId", "constructorId"),
    "constructor_results": ("constructorResultsId", "constructorId"),
}


def read(folder: Path, name: str) -> pa.Table:
    """Return a table of the dump. Placeholders of missing values are missing, and so are cells that the end of a row
    lacks: some races have no sessions."""
    padded = io.StringIO()
    with gzip.open(folder / f"{name}.csv.gz", "rt", encoding="utf-8", newline="") as stream:
        rows = csv.reader(stream)
        header = next(rows)
        csv.writer(padded).writerows([header, *(row + [""] * (len(header) - len(row)) for row in rows)])
    convert = pa_csv.ConvertOptions(null_values=["\\N", ""], strings_can_be_null=True)
    table = pa_csv.read_csv(io.BytesIO(padded.getvalue().encode()), convert_options=convert)
    if name in NUMBERED:
        table = table.append_column(NUMBERED[name], pa.array(np.arange(table.num_rows)))
    return table


def later_entries(events: pa.Table, entries: pa.Table, key: str, owner: str) -> pa.Table:
    """Return the edges from each event to the entries of its owner in the next `NEXT` races that the owner was in.

    Args:
      events, entries: with `when`, days; and `owner`.
      key: of the events.
    """
    when, whose, entry = (entries[name].to_numpy() for name in ("when", owner, "resultId"))
    order = np.lexsort((when, whose))
    when, whose, entry = when[order], whose[order], entry[order]
    race = np.zeros(len(when), np.int64)  # a number per owner and race, rising within an owner
    race[1:] = np.cumsum((when[1:] != when[:-1]) | (whose[1:] != whose[:-1]))
    starts = np.r_[np.unique(race, return_index=True)[1], len(race)]  # where the entries of a race begin
    packed = whose.astype(np.int64) * 2**32 + when
    event_packed = events[owner].to_numpy().astype(np.int64) * 2**32 + events["when"].to_numpy()
    first = np.searchsorted(packed, event_packed, side="right")  # the first entry after the event's own race
    known = first < len(packed)
    first = np.where(known, first, 0)
    last_race = np.minimum(race[first] + NEXT, len(starts) - 1)
    stop = starts[last_race]
    owner_end = np.searchsorted(whose, events[owner].to_numpy(), side="right")
    count = np.where(known, np.maximum(np.minimum(stop, owner_end) - first, 0), 0)
    source = np.repeat(np.arange(len(count)), count)
    offset = np.arange(len(source)) - np.repeat(np.cumsum(count) - count, count)
    return pa.table({"event": events[key].take(pa.array(source)), "entry": pa.array(entry[first[source] + offset])})


def tables(data: Path, folder: Path) -> None:
    """Write the tables that `graph.json` reads."""
    races = read(data, "races")
    days = races["date"].cast(pa.date32()).cast(pa.int32())
    when_of = pa.table(
        {
            "raceId": races["raceId"],
            "when": days,
            "circuitId": races["circuitId"],
            "date": races["date"].cast(pa.string()),
        }
    )
    results = read(data, "results")
    entries = (
        results.select(["resultId", "raceId", "driverId", "constructorId", "positionOrder"])
        .join(when_of, "raceId")
        .sort_by("resultId")
    )
    podium = pc.if_else(pc.less_equal(entries["positionOrder"], PODIUM), "podium", "no")
    pq.write_table(
        entries.drop(["positionOrder"])
        .append_column("label", podium)
        .append_column("one", pa.array([1] * len(podium))),
        folder / "entries.parquet",
    )
    for name in ("circuits", "constructors", "drivers", "seasons", "status"):
        pq.write_table(read(data, name), folder / f"{name}.parquet")
    year = races["year"].cast(pa.float64())
    pq.write_table(
        races.select(["raceId", "year", "round", "circuitId"]).append_column("yearNumber", year),
        folder / "races.parquet",
    )
    for name, (key, *owners) in EVENTS.items():
        table = read(data, name)
        pq.write_table(table, folder / f"{name}.parquet")
        dated = table.select(list(dict.fromkeys([key, "raceId", *owners]))).join(when_of, "raceId")
        for owner in owners:
            edges = later_entries(dated, entries, key, owner)
            pq.write_table(edges, folder / f"{name}_of_{owner.removesuffix('Id')}.parquet")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="the folder of the tables, csv.gz")
    parser.add_argument("--out", type=Path, required=True, help="the store to write")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        tables(given.data, Path(folder))
        ingest(["--config", str(CONFIG), "--root", folder, "--out", str(given.out)])


if __name__ == "__main__":
    main()
