"""The speed and the memory of `hetjax.ingest` at a csv of edges, beside pandas reading the same file.

    python experiments/ingest/ingest_speed.py --edges 50000000 --rounds 3
    python experiments/ingest/ingest_speed.py --edges 21000000 --nodes 1940000 --gz --rounds 3

A table of nodes, whole numbers as ids, and a csv of edges. Each reader runs in a process of its own, in turns; the
peak memory is the process's, as the system counts it. Pandas reads the edges alone; hetjax maps ids, groups edges by target, and writes a
checked store. With `--gz` the tables are csv.gz, and a third reader unpacks the edges and does nothing else: one stream has one thread.
"""

import argparse
import csv
import json
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

RESULTS = Path(__file__).parent / "results"
AT_ONCE = 2**20  # bytes


def make(folder: Path, edges: int, nodes: int, ending: str) -> None:
    """Write the tables, packed if their names end in `.gz`."""
    rng = np.random.default_rng(0)
    ids = np.arange(nodes, dtype=np.int64) * 3 + 1
    table = pa.table({"id": rng.permutation(ids), "label": np.arange(nodes) % 2})
    with pa.output_stream(folder / f"nodes{ending}") as stream:
        pa_csv.write_csv(table, stream)
    schema = pa.schema([("src", pa.int64()), ("dst", pa.int64())])
    with pa.output_stream(folder / f"edges{ending}") as stream, pa_csv.CSVWriter(stream, schema) as writer:
        for start in range(0, edges, 10**6):
            size = min(10**6, edges - start)
            writer.write_table(pa.table([rng.choice(ids, size), rng.choice(ids, size)], schema=schema))
    form = {"name": "csv"}
    label = {"label_col": "label", "task_type": "classification"}
    node = {"node_type": "n", "files": f"nodes{ending}", "format": form, "node_id_col": "id", "labels": [label]}
    edge = {
        "relation": ["n", "to", "n"],
        "files": f"edges{ending}",
        "format": form,
        "source_id_col": "src",
        "dest_id_col": "dst",
    }
    (folder / "graph.json").write_text(json.dumps({"nodes": [node], "edges": [edge]}))


def measured(reader: str, folder: Path) -> tuple[float, float]:
    """Return the seconds of one reader, and the GiB at the peak."""
    command = [sys.executable, __file__, "--reader", reader, "--folder", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    seconds, peak = done.stdout.split()[-2:]
    return float(seconds), float(peak)


def read(reader: str, folder: Path) -> None:
    if reader == "hetjax":
        from hetjax.ingest.__main__ import main as ingest

        started = time.perf_counter()
        ingest(["--config", str(folder / "graph.json"), "--out", str(folder / "store")])
    elif reader == "pandas":
        import pandas

        started = time.perf_counter()
        frame = pandas.read_csv(next(folder.glob("edges.csv*")))
        assert frame.shape[1] == 2
    else:
        started = time.perf_counter()
        with pa.input_stream(next(folder.glob("edges.csv*"))) as stream:
            while stream.read(AT_ONCE):
                pass
    seconds = time.perf_counter() - started
    print(f"\n{seconds} {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--edges", type=int, default=50_000_000)
    parser.add_argument("--nodes", type=int, default=5_000_000)
    parser.add_argument("--gz", action="store_true", help="tables in csv.gz")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--reader", help="read in this process (started by the script)")
    parser.add_argument(
        "--folder", help="where the tables are, or are written and kept; unset: a folder that is deleted"
    )
    given = parser.parse_args()
    if given.reader:
        read(given.reader, Path(given.folder))
        return
    rows = []
    readers = ("hetjax", "pandas", *(["unpacking alone"] * given.gz))
    with tempfile.TemporaryDirectory() as name, tqdm(total=len(readers) * given.rounds) as bar:
        folder = Path(given.folder or name)
        if not (folder / "graph.json").exists():
            folder.mkdir(parents=True, exist_ok=True)
            make(folder, given.edges, given.nodes, ".csv.gz" if given.gz else ".csv")
        for number in range(given.rounds):
            for reader in readers:
                seconds, peak = measured(reader, folder)
                rows.append(
                    {
                        "edges": given.edges,
                        "round": number,
                        "reader": reader,
                        "seconds": round(seconds, 2),
                        "peak_gib": round(peak, 2),
                    }
                )
                bar.update()
                subprocess.run(["rm", "-rf", str(folder / "store")], check=True)
    file = RESULTS / f"ingest_speed{'_gz' * given.gz}.csv"
    with open(file, "w", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    print(file.read_text())


if __name__ == "__main__":
    main()
