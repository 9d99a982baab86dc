"""Tables of ogbn-mag's size in csv.gz into a graph, timed by part.

    python experiments/ingest/ingest_mag.py

Four tables of nodes and four of edges, with as many rows as ogbn-mag has (`--scale` takes a part of them): ids are texts, such as `paper_17`;
papers have 128 numbers of four digits, a venue to predict and a year to split by. The content is drawn. `hetjax ingest --verbose` reads
them in a process of its own, with reverse edges; `experiments/ingest/results/ingest_mag.csv` gets the seconds of every part, and the peak of memory.
"""

import argparse
import csv
import gzip
import json
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
from tqdm import tqdm

OUT = Path(__file__).parent / "results" / "ingest_mag.csv"
NODES = {"paper": 736_389, "author": 1_134_649, "institution": 8_740, "field_of_study": 59_965}
EDGES = {
    ("author", "affiliated_with", "institution"): 1_043_998,
    ("author", "writes", "paper"): 7_145_660,
    ("paper", "cites", "paper"): 5_416_271,
    ("paper", "has_topic", "field_of_study"): 7_505_078,
}
WIDTH, VENUES, AT_ONCE = 128, 349, 2**16
FIRST, LAST = 2010, 2019  # years


def ids(node_type: str, numbers: np.ndarray) -> pa.Array:
    return pa.array(np.char.add(f"{node_type}_", numbers.astype(str)))


def papers(rng: np.random.Generator, numbers: np.ndarray) -> pa.Table:
    columns = {f"x{k}": rng.normal(size=len(numbers)).round(4) for k in range(WIDTH)}
    venue = np.char.add("venue_", rng.integers(0, VENUES, len(numbers)).astype(str))
    years = rng.integers(FIRST, LAST + 1, len(numbers))
    return pa.table({"id": ids("paper", numbers), "year": years, "venue": venue} | columns)


def write(file: Path, rows: int, make, bar: tqdm) -> None:
    """Write a table, `make` of so many rows at a time."""
    writer = None
    with gzip.open(file, "wb", compresslevel=1) as stream:
        for start in range(0, rows, AT_ONCE):
            table = make(np.arange(start, min(rows, start + AT_ONCE)))
            writer = writer or pa_csv.CSVWriter(stream, table.schema)
            writer.write_table(table)
            bar.update(len(table))
        writer.close()


def make(folder: Path, scale: float) -> None:
    """Write the tables, and the configuration."""
    rng, form = np.random.default_rng(0), {"format": {"name": "csv"}}
    counts = {name: max(1, round(scale * count)) for name, count in NODES.items()}
    edges = {relation: max(1, round(scale * count)) for relation, count in EDGES.items()}
    split = {"column": "year", "from": [str(LAST - 1), str(LAST)]}
    label = {"label_col": "venue", "task_type": "classification", "split_by": split}
    more = {"features": [{"feature_col": [f"x{k}" for k in range(WIDTH)]}], "labels": [label]}
    config: dict = {"nodes": [], "edges": []}
    with tqdm(total=sum(counts.values()) + sum(edges.values()), unit="row", unit_scale=True) as bar:
        for name, count in counts.items():
            of = (lambda numbers: papers(rng, numbers)) if name == "paper" else (
                lambda numbers, name=name: pa.table({"id": ids(name, numbers)})
            )  # fmt: skip
            write(folder / f"{name}.csv.gz", count, of, bar)
            about = {"node_type": name, "files": f"{name}.csv.gz", "node_id_col": "id"} | form
            config["nodes"].append(about | (more if name == "paper" else {}))
        for (source, name, target), count in edges.items():

            def of(numbers: np.ndarray, ends: tuple = (source, target)) -> pa.Table:
                drawn = [ids(end, rng.integers(0, counts[end], len(numbers))) for end in ends]
                return pa.table(drawn, names=["from", "to"])

            write(folder / f"{name}.csv.gz", count, of, bar)
            about = {"relation": [source, name, target], "files": f"{name}.csv.gz"} | form
            config["edges"].append(about | {"source_id_col": "from", "dest_id_col": "to"})
    (folder / "graph.json").write_text(json.dumps(config))


def read(folder: Path) -> list[dict]:
    """Return the rows of the parts, in their order, and of the whole command."""
    tables = ["--config", folder / "graph.json", "--out", folder / "store"]
    command = [sys.executable, "-m", "hetjax.ingest", *map(str, tables), "--add_reverse_edges", "--verbose"]
    started = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True)
    seconds = time.perf_counter() - started
    if done.returncode:
        sys.exit(done.stderr)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    said = [*re.findall(r"^(.+): ([0-9.]+) s$", done.stdout, re.M), ("whole command", f"{seconds:.2f}")]
    rows = [{"part": part, "value": value, "unit": "s"} for part, value in said]
    rows.append({"part": "work of all cores", "value": f"{used.ru_utime + used.ru_stime:.2f}", "unit": "s"})
    return [*rows, {"part": "peak of memory", "value": f"{used.ru_maxrss / 2**20:.2f}", "unit": "GiB"}]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--folder", help="where the tables are, or are written and kept; unset: one that is deleted")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(given.folder or name)
        if not (folder / "graph.json").exists():
            folder.mkdir(parents=True, exist_ok=True)
            make(folder, given.scale)
        packed = sum(file.stat().st_size for file in folder.glob("*.gz"))
        rows = [{"part": "tables, packed", "value": f"{packed / 2**20:.0f}", "unit": "MiB"}, *read(folder)]
    with open(OUT, "w", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    print(OUT.read_text())


if __name__ == "__main__":
    main()
