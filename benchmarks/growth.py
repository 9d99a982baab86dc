"""The growth of hetjax's costs: of building a store with the number of edges, and of a training step with the size of its batches.

`python benchmarks/growth.py --graph GRAPH.npz` measures, one thing at a time, and each in a new process:

- `store`: for each of `--edges`, a graph in the shape of ogbn-mag with about that many edges, reverses included. Its
  features and labels are read into memory; then the graph is built of them and of edge lists (int32 `[2, edges]` of
  every relation, shuffled), which are read from files as building asks for them, and saved as a store. That is timed:
  once without features, once with them. `held` is the memory of the process just before that, `empty` that before it
  read features, and `peak` the most that it ever had; nothing is subtracted. The peak is held against the bytes of the
  graph as stored: pointers and indices of its CSC, features, labels and splits. Code that numba compiles is compiled
  before all that; seconds have the reading of the edge lists in them, and end when the disk has the files. Then the
  store, which is still in the system's cache, is opened, which maps it, and read through once by the check that
  loading makes.
- `steps`: for each of `--batches`, `step.py` with R-GCN on `--graph`, a file as `graph_file.py` says; without one a
  synthetic ogbn-mag of the full size is written. Milliseconds of a step, sampling and update included, the median of
  `--steps`, and the sampled edges of the last of them.

Prints a table of each, and writes `benchmarks/results/growth.{json,md,png}`. Of a part that is not among `--parts`
the results stay as the JSON file has them. At 100 million edges about 3 GiB of memory and 4 GiB of disk are needed,
the latter where `TMPDIR` says. Memory is read from `/proc`, so on Linux alone.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections import UserDict
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import graph_file
import numpy as np
from tqdm import tqdm

from hetjax.datasets.schemas import SHAPES
from hetjax.datasets.synthetic import generate
from hetjax.graph import store
from hetjax.graph.columns import SPLITS
from hetjax.graph.csc import edges_of, from_edges
from hetjax.graph.hetgraph import build, check
from hetjax.graph.schema import Relation

HERE = Path(__file__).parent
NAME = "ogbn-mag"
ALLOWED = 2.5  # times the bytes of a graph that building its store may take
MIB = 2**20


def alone(work, *given):
    """Return the result of a function that is called in a new process."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(work, *given).result()


class EdgeFiles(UserDict):
    """Edge lists in files, which are read when they are asked for."""

    def __getitem__(self, relation: Relation) -> np.ndarray:
        return np.load(self.data[relation])


def memory(what: str) -> int:
    """Return the bytes that this process holds now (`VmRSS`), or the most that it has held (`VmHWM`)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(f"{what}:"))


def write_inputs(folder: Path, scale: float) -> None:
    """Write the arrays that a graph is built of."""
    graph = generate(NAME, scale)
    for number, relation in enumerate(graph.schema.relations):
        ends = edges_of(graph.relations[relation])
        order = np.random.default_rng(number).permutation(len(ends[0]))
        np.save(folder / f"edges_{number}.npy", np.stack([side[order].astype(np.int32) for side in ends]))
    for node_type, matrix in graph.features.items():
        np.save(folder / f"features_{node_type}.npy", matrix)
    for name, array in {"labels": graph.labels, **graph.splits}.items():
        np.save(folder / f"{name}.npy", array)


def write_graph(file: Path) -> None:
    """Write a synthetic graph of the full size as `graph_file.py` says."""
    graph_file.write(generate(NAME), file)


def built(folder: Path, scale: float, featured: bool, out: Path) -> dict:
    """Build a graph of the arrays in `folder` and save it; return the time and the memory."""
    schema, nothing = SHAPES[NAME].schema(scale), np.empty(0, np.int32)
    for relation in schema.relations:
        from_edges(nothing, nothing, schema.nodes[relation.source], 0)  # compiles for these types
    empty = memory("VmRSS")
    edges = EdgeFiles({r: folder / f"edges_{number}.npy" for number, r in enumerate(schema.relations)})
    types = SHAPES[NAME].features if featured else ()
    features = {node_type: np.load(folder / f"features_{node_type}.npy") for node_type in types}
    labels = np.load(folder / "labels.npy")
    splits = {name: np.load(folder / f"{name}.npy") for name in SPLITS}
    held, start = memory("VmRSS"), time.perf_counter()
    graph = build(schema, edges, features, labels, splits)
    between = time.perf_counter()
    store.save(graph, out)
    done, peak = time.perf_counter(), memory("VmHWM")
    parts = {
        "pointers": sum(csc.indptr.nbytes for csc in graph.relations.values()),
        "indices": sum(csc.indices.nbytes for csc in graph.relations.values()),
        "features": sum(matrix.nbytes for matrix in graph.features.values()),
    }
    return {
        "edges": graph.edges,
        "featured": featured,
        "seconds": round(done - start, 4),
        "seconds_of_parts": {"building": round(between - start, 4), "saving": round(done - between, 4)},
        "edges_per_second": round(graph.edges / (done - start)),
        "graph_bytes": graph.nbytes,
        "bytes_of_parts": parts | {"labels and splits": graph.nbytes - sum(parts.values())},
        "empty_bytes": empty,
        "held_bytes": held,
        "peak_bytes": peak,
        "peak_by_graph": round(peak / graph.nbytes, 3),
    }


def opened(path: Path) -> dict:
    """Open a store, then read all of it; return the time and the memory."""
    held, start = memory("VmRSS"), time.perf_counter()
    graph = store.open(path)
    done, peak = time.perf_counter(), memory("VmHWM")
    check(graph, str(path))
    return {
        "edges": graph.edges,
        "seconds": round(done - start, 5),
        "edges_per_second": round(graph.edges / (done - start)),
        "seconds_to_read_all": round(time.perf_counter() - done, 4),
        "held_bytes": held,
        "peak_bytes": peak,
    }


def measure_stores(counts: list[int], found: dict, bar: tqdm, keep) -> None:
    """Build, save and open a graph of each number of edges; every row goes to `found`."""
    found |= {"about": {"shape": NAME, "ids": "int32", "cores": os.cpu_count()}, "built": [], "opened": []}
    full = sum(SHAPES[NAME].relations().values())
    for count in counts:
        with tempfile.TemporaryDirectory() as name:
            folder, scale = Path(name), count / full
            bar.set_postfix_str(f"{count:,} edges: drawing them")
            alone(write_inputs, folder, scale)
            for featured in (False, True):
                bar.set_postfix_str(f"{count:,} edges: building, {'with' if featured else 'without'} features")
                found["built"].append(alone(built, folder, scale, featured, folder / f"store_{featured:d}"))
                keep()
                bar.update()
            bar.set_postfix_str(f"{count:,} edges: opening")
            found["opened"].append(alone(opened, folder / "store_1"))
            keep()
            bar.update()


def measure_steps(graph: Path | None, batches: list[int], steps: int, found: dict, bar: tqdm, keep) -> None:
    """Time steps of each size of batch; every row goes to `found`."""
    from peers import timed  # with what draws, which the measured processes do without

    found |= {"about": {"model": "rgcn", "steps": steps, "cores": os.cpu_count()}, "rows": []}
    with tempfile.TemporaryDirectory() as folder:
        if graph is None:
            graph = Path(folder) / "graph.npz"
            bar.set_postfix_str("drawing the graph of the steps")
            alone(write_graph, graph)
        for batch in batches:
            bar.set_postfix_str(f"steps of {batch}")
            command = [sys.executable, HERE / "step.py", graph, "--model", "rgcn", "--batch", batch]
            row = timed(command, steps, os.cpu_count() or 1)
            per_edge = {"ns_per_edge": round(1e6 * row["ms_per_step"] / max(row["edges"], 1), 1)}
            found["rows"].append({"batch": batch} | row | per_edge)
            keep()
            bar.update()


def mib(count: int) -> str:
    return f"{count / MIB:,.1f}"


def store_words(found: dict) -> str:
    lines = [
        "## Building a store",
        "",
        "| edges | features | seconds (building + saving) | edges a second | graph MiB (features) "
        "| empty, held, peak MiB | peak / graph |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in found["built"]:
        parts, memories = row["seconds_of_parts"], [mib(row[f"{key}_bytes"]) for key in ("empty", "held", "peak")]
        lines.append(
            f"| {row['edges']:,} | {'with' if row['featured'] else 'without'} "
            f"| {row['seconds']:.3f} ({parts['building']:.3f} + {parts['saving']:.3f}) | {row['edges_per_second']:,} "
            f"| {mib(row['graph_bytes'])} ({mib(row['bytes_of_parts']['features'])}) "
            f"| {'; '.join(memories)} | {row['peak_by_graph']:.2f} |"
        )
    for row in found["built"][-2:]:
        kept = "within" if row["peak_by_graph"] < ALLOWED else "over"
        with_them = "with" if row["featured"] else "without"
        lines += [
            "",
            f"At {row['edges']:,} edges, {with_them} features, the peak is {row['peak_by_graph']:.2f} times the "
            f"graph's bytes, {kept} the {ALLOWED} allowed; before building, with the features read, it is "
            f"{row['held_bytes'] / row['graph_bytes']:.2f}.",
        ]
    lines += [
        "",
        "## Opening a store",
        "",
        "| edges | milliseconds | edges a second | seconds to read all of it | held, peak MiB |",
        "|---|---|---|---|---|",
    ]
    for row in found["opened"]:
        lines.append(
            f"| {row['edges']:,} | {1000 * row['seconds']:.1f} | {row['edges_per_second']:,} "
            f"| {row['seconds_to_read_all']:.3f} | {mib(row['held_bytes'])}; {mib(row['peak_bytes'])} |"
        )
    return "\n".join(lines)


def step_words(found: dict) -> str:
    rows = found["rows"]
    first, last = rows[0], rows[-1]
    lines = [
        "## A training step of R-GCN",
        "",
        "| batch | ms a step | sampled edges | ns an edge | times the first's ms | times its edges | peak MiB |",
        "|---|---|---|---|---|---|---|",
    ]
    times = [[row[key] / first[key] for key in ("ms_per_step", "edges")] for row in rows]
    for row, (slower, larger) in zip(rows, times):
        lines.append(
            f"| {row['batch']} | {row['ms_per_step']:,.1f} | {row['edges']:,} | {row['ns_per_edge']:,.0f} "
            f"| {slower:.2f} | {larger:.2f} | {row['peak_mib']:,} |"
        )
    slower, larger = times[-1]
    lines += [
        "",
        f"From batch {first['batch']} to {last['batch']} a step takes {slower:.2f} times as long, of {larger:.2f} "
        f"times the edges: it grows {'faster' if slower > larger else 'no faster'} than they do.",
    ]
    return "\n".join(lines)


def draw_stores(axis, found: dict) -> None:
    """Draw seconds on the left and peak memory on the right, by edges."""
    right = axis.twinx()
    for featured, color in ((True, "tab:blue"), (False, "tab:orange")):
        rows = [row for row in found["built"] if row["featured"] == featured]
        edges, words = [row["edges"] for row in rows], "with features" if featured else "without"
        axis.plot(edges, [row["seconds"] for row in rows], "o-", color=color, label=f"seconds, {words}")
        right.plot(edges, [row["peak_bytes"] / MIB for row in rows], "s--", color=color, label=f"peak MiB, {words}")
        allowed = [ALLOWED * row["graph_bytes"] / MIB for row in rows]
        right.plot(edges, allowed, ":", color=color, label=f"{ALLOWED} times the graph, {words}")
    axis.set(xscale="log", yscale="log", xlabel="edges", ylabel="seconds to build and save")
    right.set(yscale="log", ylabel="peak memory, MiB")
    lines = [line for each in (axis, right) for line in each.get_lines()]
    axis.legend(handles=lines, frameon=False, fontsize=7)


def draw_steps(axis, found: dict) -> None:
    """Draw milliseconds of a step by sampled edges, and a line in proportion to the first."""
    edges, times = ([row[key] for row in found["rows"]] for key in ("edges", "ms_per_step"))
    axis.plot(edges, times, "o-", label="R-GCN")
    axis.plot(edges, [times[0] * count / edges[0] for count in edges], "k:", label="in proportion to the edges")
    for row in found["rows"]:
        place = {"textcoords": "offset points", "xytext": (5, -10), "fontsize": 7}
        axis.annotate(str(row["batch"]), (row["edges"], row["ms_per_step"]), **place)
    axis.set(xscale="log", yscale="log", xlabel="sampled edges of a step (points: batch)", ylabel="milliseconds a step")
    axis.xaxis.set_minor_formatter("")
    axis.margins(x=0.12)
    axis.legend(frameon=False, fontsize=8)


SHOWN = {"store": (store_words, draw_stores), "steps": (step_words, draw_steps)}


def draw(made: dict, file: Path) -> None:
    """Draw a panel for each part that has been measured."""
    import matplotlib  # here, as the measured processes do without

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, len(made), figsize=(5.5 * len(made), 4), layout="constrained", squeeze=False)
    for axis, part in zip(axes[0], made):
        SHOWN[part][1](axis, made[part])
    figure.savefig(file, dpi=110)
    pyplot.close(figure)


def whole(text: str) -> int:
    """Return a number from 1 up, which may be written as 1e6."""
    number = float(text)
    if not 1 <= number < 2**53 or number != int(number):
        raise argparse.ArgumentTypeError(f"{text} is not a whole number from 1 up")
    return int(number)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", choices=list(SHOWN), default=list(SHOWN), help="default: both")
    parser.add_argument("--edges", nargs="+", type=whole, default=[10**6, 10**7, 10**8], help="of the stores")
    parser.add_argument("--graph", type=Path, help="an .npz file, for the steps; default: a synthetic ogbn-mag")
    parser.add_argument("--batches", nargs="+", type=whole, default=[256, 512, 1024, 2048, 4096, 8192])
    parser.add_argument("--steps", type=whole, default=20, help="that are timed for each batch")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "growth", help="without its suffix")
    options = parser.parse_args()
    if "steps" in options.parts and options.graph and not options.graph.exists():
        parser.error(f"{options.graph} is not there")
    options.out.parent.mkdir(parents=True, exist_ok=True)
    file = options.out.with_suffix(".json")
    kept = json.loads(file.read_text()) if file.exists() else {}
    made = {part: {} if part in options.parts else kept[part] for part in SHOWN if part in {*options.parts, *kept}}

    def keep() -> None:
        file.write_text(json.dumps({part: found for part, found in made.items() if found}, indent=1) + "\n")

    tasks = {"store": 3 * len(options.edges), "steps": len(options.batches)}
    with tqdm(total=sum(tasks[part] for part in set(options.parts))) as bar:
        if "store" in options.parts:
            measure_stores(sorted(options.edges), made["store"], bar, keep)
        if "steps" in options.parts:
            measure_steps(options.graph, sorted(options.batches), options.steps, made["steps"], bar, keep)
    words = "\n\n".join(SHOWN[part][0](found) for part, found in made.items())
    print(words)
    options.out.with_suffix(".md").write_text(f"# How hetjax grows\n\n{words}\n")
    draw(made, options.out.with_suffix(".png"))


if __name__ == "__main__":
    main()
