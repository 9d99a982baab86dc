"""Time, peak memory and storage of meta-partitioning, METIS and random partitioning (Heta's Tables 3 and 4).

`python experiments/partitioning/partitioning.py` makes a graph of each schema at the scale that stands in its table, stores it,
partitions it with every method through `python -m hetjax.partition`, each run a process of its own, and does
meta-partitioning once more with every schema's full counts, on a store whose arrays are holes in files: nothing reads
them. It prints its table, and writes `experiments/partitioning/results/partitioning.{csv,md,png}`.

Seconds are of the whole process, the start of Python, report and picture included; peak memory is the kernel's `VmHWM`
of it and, added, of METIS's own process (Linux), mapped pages that they read included. Storage is of all partitions together: topology and static features.
"""

import argparse
import csv
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("Agg")
from matplotlib import pyplot
from tqdm import tqdm

from hetjax.datasets.schemas import SHAPES, Shape
from hetjax.datasets.synthetic import generate
from hetjax.graph import store
from hetjax.graph.csc import index_dtype
from hetjax.graph.sizes import Sizes

SCALES = {"ogbn-mag": 0.5, "freebase": 0.2, "donor": 0.1, "igb-het": 0.02, "mag240m": 0.005}
ROOT = Path(__file__).parents[2]
MEASURED = """import runpy, sys
try: runpy.run_module("hetjax.partition", run_name="__main__", alter_sys=True)
finally:
    import resource
    own = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
    print(own + resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"""
METHODS = {
    "meta": ["--method", "meta"],
    "meta, as the paper assigns": ["--method", "meta", "--assign", "lpt"],
    "random": ["--method", "random"],
    "metis": ["--method", "metis"],
    "metis-vol": ["--method", "metis-vol"],
}
FULL = "full counts"
COLUMNS = (
    "schema", "scale", "method", "nodes", "edges", "seconds", "peak_mib", "manifest_mib", "storage_mib",
    "replication_nodes", "replication_edges", "balance_bytes", "cut_share", "step_mib",
)  # fmt: skip


def hollow_store(shape: Shape, folder: Path) -> None:
    """Write a store of a data set's schema and full counts whose files are holes: headers and lengths, no rows.

    It takes no space on disk, opens, and can be meta-partitioned; anything that reads rows finds zeros, which are no graph.
    """
    schema, edges = shape.schema(), shape.relations()
    arrays = {"labels": ("int32", (schema.nodes[shape.target],))}
    arrays |= {f"split_{name}": ("int32", (count,)) for name, count in shape.splits.items()}
    for number, relation in enumerate(schema.relations):
        arrays[f"relation_{number}.indptr"] = ("int64", (schema.nodes[relation.target] + 1,))
        arrays[f"relation_{number}.indices"] = (index_dtype(schema.nodes[relation.source]), (edges[relation],))
    for number, (name, count) in enumerate(schema.nodes.items()):
        if name in shape.features:
            width, dtype = shape.features[name]
            arrays[f"features_{number}"] = (dtype, (count, width))
    folder.mkdir(parents=True)
    for name, (dtype, dimensions) in arrays.items():
        with open(folder / f"{name}.npy", "wb") as file:
            about = {"descr": np.dtype(dtype).str, "fortran_order": False, "shape": tuple(map(int, dimensions))}
            np.lib.format.write_array_header_2_0(file, about)
            file.truncate(file.tell() + int(np.prod(dimensions, dtype=np.int64)) * np.dtype(dtype).itemsize)
    about = {"format": store.FORMAT, "version": store.VERSION} | Sizes(schema, edges, shape.features).json()
    (folder / "schema.json").write_text(json.dumps(about))


def partition(path: Path, out: Path, parts: int, method: str) -> dict:
    """Run the command on a store; return its seconds, its peak memory in MiB, and its report."""
    command = [sys.executable, "-c", MEASURED, "--graph", path, "--parts", parts, "--out", out]
    started = time.perf_counter()
    done = subprocess.run([*map(str, command), *METHODS[method]], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    seconds = time.perf_counter() - started
    if done.returncode:
        sys.exit(f"partitioning {path} by {method}: exit status {done.returncode}")
    report = json.loads((out / "report.json").read_text())
    stored = sum(part["topology_bytes"] + part["feature_bytes"] for part in report["parts"])
    written = sum(file.stat().st_size for file in out.iterdir())
    return {
        "method": method,
        "seconds": round(seconds, 2),
        "peak_mib": round(int(done.stdout.split()[-1]) / 1024),
        "manifest_mib": round(written / 2**20, 2),
        "storage_mib": round(stored / 2**20, 1),
        **{name: report[name] for name in ("replication_nodes", "replication_edges", "balance_bytes")},
        "cut_share": report.get("cut_share", ""),
        "step_mib": round(report["step_bytes"]["total"] / 2**20, 2),
    }


def rows(schema: str, parts: int, scale: float, folder: Path) -> list[dict]:
    """Partition a graph of a schema by every method, and its full counts by the first."""
    store.save(generate(schema, scale, classes=32), folder / "store")
    hollow_store(SHAPES[schema], folder / "full")
    runs = [("store", scale, method) for method in METHODS] + [("full", FULL, "meta")]
    found = []
    for number, (name, size, method) in enumerate(runs):
        about = store.describe(folder / name)
        counts = {"nodes": sum(about.schema.nodes.values()), "edges": sum(about.edges.values())}
        done = partition(folder / name, folder / f"out{number}", parts, method)
        found.append({"schema": schema, "scale": size} | counts | done)
    return found


def table(results: list[dict], parts: int) -> str:
    """Return a Markdown table."""
    heads = [
        "schema", "scale", "method", "nodes", "edges", "seconds", "peak MiB", "written MiB", "storage of all partitions MiB",
        "replication of nodes", "of edges", "balance of bytes", "edges cut", "expected MiB sent a step",
    ]  # fmt: skip
    lines = [f"{parts} partitions, 2 hops, batch 1024, fanout 25 then 20, hidden 64.", ""]
    lines += [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    for row in results:
        cells = [f"{row[name]:,}" if isinstance(row[name], int) else str(row[name]) for name in COLUMNS]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def draw(results: list[dict], file: Path) -> None:
    """Draw seconds, peak memory and storage by schema, a bar per method; the full counts have a bar of their own."""
    figure, axes = pyplot.subplots(1, 3, figsize=(14, 4.2), layout="constrained")
    schemas = list(dict.fromkeys(row["schema"] for row in results))
    groups = [(method, method, False) for method in METHODS] + [("meta, full counts", "meta", True)]
    keys = (
        ("seconds", "seconds"),
        ("peak_mib", "peak memory (MiB)"),
        ("storage_mib", "storage of all partitions (MiB)"),
    )
    for axis, (key, label) in zip(axes, keys):
        for number, (name, method, full) in enumerate(groups):
            found = {r["schema"]: r[key] for r in results if r["method"] == method and (r["scale"] == FULL) == full}
            place = [schemas.index(schema) + (number - 2.5) * 0.14 for schema in found]
            axis.bar(place, list(found.values()), 0.13, label=name, color=f"C{number}")
        axis.set(yscale="log", ylabel=label, xticks=range(len(schemas)))
        axis.set_xticklabels([f"{schema}\nx {SCALES[schema]}" for schema in schemas])
        axis.yaxis.set_major_formatter("{x:,.0f}")
        axis.yaxis.set_minor_formatter("")
        axis.grid(axis="y", which="both", alpha=0.3)
        axis.set_axisbelow(True)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=6, frameon=False)
    figure.savefig(file, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--schemas", nargs="+", choices=list(SCALES), default=list(SCALES), help="rows of the table")
    parser.add_argument("--scale", type=float, default=1.0, help="multiplies every schema's scale")
    parser.add_argument("--parts", type=int, default=2, help="partitions")
    out = Path(__file__).parent / "results"
    parser.add_argument("--out", type=Path, default=out, help="where the table is written")
    options = parser.parse_args()
    results = []
    for schema in tqdm(options.schemas, unit="schema"):
        with tempfile.TemporaryDirectory() as folder:
            results += rows(schema, options.parts, SCALES[schema] * options.scale, Path(folder))
    options.out.mkdir(parents=True, exist_ok=True)
    with open(options.out / "partitioning.csv", "w", newline="") as stream:
        writer = csv.DictWriter(stream, COLUMNS)
        writer.writeheader()
        writer.writerows(results)
    text = table(results, options.parts)
    (options.out / "partitioning.md").write_text(text + "\n")
    draw(results, options.out / "partitioning.png")
    print(text)


if __name__ == "__main__":
    main()
