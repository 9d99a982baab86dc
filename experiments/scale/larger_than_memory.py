"""Train a learnable table that is four times as large as the memory that the process may have.

`python experiments/scale/larger_than_memory.py` makes a store in which papers are written by so many authors that their learnable
features, with moments and counts, take four times `--limit`, and trains an R-GCN of one layer on it for two epochs, with
the table on disk, in a process whose data the system limits (`ulimit -d`). It then does so again without the limit and
with the table in memory, and compares: the losses are the same to the last bit. Takes 5 to 8 times the limit on disk.

Prints, and writes to `experiments/scale/results/larger_than_memory.json`, the limit, the table's bytes, both runs' peak memory
(the largest resident set, mapped files included) and seconds.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from experiments.runs import ROOT, environment, records
from hetjax.graph import store
from hetjax.graph.hetgraph import build
from hetjax.graph.schema import Relation, Schema

WIDTH, PAPERS, EDGES = 64, 50_000, 500_000


def make(authors: int, folder: Path) -> Path:
    """Write a graph of papers of 8 classes, whose authors mostly write for one class."""
    chance, writes = np.random.default_rng(0), Relation("author", "writes", "paper")
    labels = chance.integers(0, 8, PAPERS)
    paper = chance.integers(0, PAPERS, EDGES)
    author = np.minimum(
        chance.integers(0, authors // 8, EDGES) // 100 * 100 + labels[paper] * (authors // 8), authors - 1
    )
    order = chance.permutation(PAPERS)
    splits = {"train": order[:30_000], "validation": order[30_000:35_000], "test": order[35_000:40_000]}
    schema = Schema({"paper": PAPERS, "author": authors}, (writes,), target="paper", classes=8)
    features = {"paper": chance.normal(size=(PAPERS, 16)).astype(np.float32)}
    store.save(build(schema, {writes: (author, paper)}, features, labels, splits), folder)
    return folder


def run(graph: Path, workdir: Path, limit: int | None, *options: str) -> dict:
    about = [
        "--train.recipe=none",
        "--data.format=store",
        f"--data.path={graph}",
        "--data.check=false",
        "--model.layers=1",
        f"--workdir={workdir}",
    ]
    about += ["--sampling.fanout=[10]", "--train.epochs=2", f"--model.feature_width={WIDTH}", *options]
    bound = (lambda: resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))) if limit else None
    command = [sys.executable, "-m", "hetjax.train", *about]
    given = environment(workdir.parent) | {"GLIBC_TUNABLES": ""}  # where memory is short, no buffer is kept
    subprocess.run(command, check=True, preexec_fn=bound, env=given, cwd=ROOT)
    summary = json.loads((workdir / "summary.json").read_text())
    losses = [record["train_loss"] for record in records(workdir) if "epoch" in record]
    return {name: summary[name] for name in ("peak_memory_bytes", "seconds", "test_accuracy")} | {"losses": losses}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limit", type=float, default=2.0, help="GiB that the process may have")
    options = parser.parse_args()
    limit = int(options.limit * 2**30)
    row = 12 * WIDTH + 4
    authors = -(-4 * limit // row)
    found = {"limit_bytes": limit, "authors": authors, "table_bytes": authors * row}
    with tempfile.TemporaryDirectory() as made:
        graph = make(authors, Path(made) / "graph")
        found["on disk, limited"] = run(graph, Path(made) / "disk", limit, "--cache.placement=[author=disk]")
        found["in memory"] = run(graph, Path(made) / "host", None, "--cache.placement=[author=host]")
    found["same losses"] = found["on disk, limited"]["losses"] == found["in memory"]["losses"]
    file = Path(__file__).parent / "results" / "larger_than_memory.json"
    file.write_text(json.dumps(found, indent=1) + "\n")
    print(file.read_text())


if __name__ == "__main__":
    main()
