"""Tensor parallelism and partitions of the nodes by workers, layers and widths: NeutronTP's Figures 12 to 14.

`HETJAX_DATA=... python experiments/tensor/tensor_scaling.py` trains every cell for a few steps, all workers in one
process: `vanilla`, `communicate`, `coupled` and `decoupled` as of `tensor_hosts.py`. Columns: values that edges
aggregate by the worker that aggregates most and by the one that aggregates least, and bytes that all send but for
gradients of weights, by the formulae (`tensor_load.py`); these bytes as the compiled programs send them; and, where
there is a core for every worker, the median milliseconds of a step. Models have a head on graphs of two classes. A cell
that is in the table already is left as it is, so that an interrupted table continues. Writes
`experiments/tensor/results/tensor_scaling.{csv,png}`.
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path

from hetjax.system import runtime

if __name__ == "__main__":
    runtime.prepare()

import matplotlib

matplotlib.use("Agg")
import jax
from matplotlib import pyplot
from tqdm import tqdm

from experiments.dependency.dependency_counts import config_of, setup_of
from experiments.dependency.dependency_runs import GRAPHS, MODELS, setting, stored
from experiments.runs import markdown, read_rows, replace_rows
from experiments.tensor.tensor_load import MODES, by_columns, by_nodes
from experiments.tensor.tensor_runs import WAYS
from hetjax.partition import edge_cut
from hetjax.sharding import mesh as meshes
from hetjax.sharding import registry
from hetjax.sharding.strategy import Setup
from hetjax.sharding.traffic import GRADIENTS

OUT = Path(__file__).parent / "results" / "tensor_scaling.csv"
KEYS = ("graph", "model", "layers", "hidden", "workers", "way")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", nargs="+", choices=list(GRAPHS), default=["tolokers"])
    parser.add_argument("--workers", type=int, nargs="*", default=[2, 4, 8, 16], help="with 2 layers, 128 wide")
    parser.add_argument("--layers", type=int, nargs="*", default=[3, 4, 5], help="with 2 workers, 128 wide")
    parser.add_argument("--hidden", type=int, nargs="*", default=[256, 512, 1024], help="with 2 workers and 2 layers")
    parser.add_argument("--head", nargs="*", default=["tolokers", "web"], help="graphs whose models have a head")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="where graphs are kept for another time; unset: nowhere")
    options = parser.parse_args()
    meshes.provide_cpu_devices(max([2, *options.workers]))
    cells = [(2, 128, workers) for workers in options.workers]
    cells += [(layers, 128, 2) for layers in options.layers] + [(2, hidden, 2) for hidden in options.hidden]
    known = {tuple(row[name] for name in KEYS) for row in read_rows(OUT)}
    with tempfile.TemporaryDirectory() as made_here:
        folder = options.folder or Path(made_here)
        folder.mkdir(parents=True, exist_ok=True)
        every = [(name, *cell, way) for name in options.graphs for cell in cells for way in WAYS]
        for name, layers, hidden, workers, way in tqdm(every, unit="cell"):
            key = (name, MODELS[name], str(layers), str(hidden), str(workers), way)
            if key in known:
                continue
            more = [f"--model.layers={layers}", f"--model.head={str(name in options.head).lower()}", *WAYS[way]]
            given = [one for one in setting(stored(name, folder), MODELS[name], hidden) if "strategy" not in one]
            found = setup_of(config_of([*given, *(one.format(count=workers) for one in more)]))
            row = dict(zip(KEYS, key)) | counted(found, way, workers) | trained(found, workers, options.steps)
            replace_rows(OUT, KEYS, [row])
    rows = read_rows(OUT)
    print(markdown(rows))
    draw(rows, OUT.with_suffix(".png"))


def counted(given: Setup, way: str, workers: int) -> dict:
    """Return the counts by the formulae."""
    if way not in MODES:
        found = by_columns(given, workers)
    else:
        found = by_nodes(given, edge_cut(given.graph, workers, "contiguous"), MODES[way])
    return {name: found[name] for name in ("folded_most", "folded_least", "bytes")}


def trained(given: Setup, workers: int, steps: int) -> dict:
    """Return the bytes that the compiled programs send, and the time of a step."""
    strategy = registry.find(given.config)
    engine = strategy.engine(given, strategy.partition(given))
    (drawn,) = engine.batches.epoch(0)
    state, seconds = engine.init(0), []
    timed = workers <= runtime.cores()
    for _ in range(1 + steps * timed):
        started = time.perf_counter()
        state, loss = engine.step(state, drawn.batch)
        jax.block_until_ready(loss)
        seconds.append(time.perf_counter() - started)
    sent = sum(one.bytes for one in engine.traffic() if one.kind != GRADIENTS)
    milliseconds = round(1000 * statistics.median(seconds[1:]), 1) if timed else ""
    return {"bytes_compiled": round(sent), "milliseconds_per_step": milliseconds}


def draw(rows: list[dict], file: Path) -> None:
    """Draw the bytes of a step, and the aggregated values of the busiest worker, by workers, layers and width; two
    lines of pictures per graph."""
    base, graphs = {"workers": "2", "layers": "2", "hidden": "128"}, list(dict.fromkeys(row["graph"] for row in rows))
    shown = {"bytes_compiled": "bytes a step", "folded_most": "numbers folded by\nthe busiest worker"}
    lines = [(graph, field) for graph in graphs for field in shown]
    figure, axes = pyplot.subplots(
        len(lines), len(base), figsize=(10, 2.75 * len(lines)), layout="constrained", squeeze=False
    )
    for column, swept in enumerate(base):
        fixed = {name: value for name, value in base.items() if name != swept}
        cells = [row for row in rows if all(row[name] == value for name, value in fixed.items())]
        for line, (graph, field) in enumerate(lines):
            axis = axes[line][column]
            for way in WAYS:
                points = sorted(
                    (int(r[swept]), float(r[field])) for r in cells if (r["graph"], r["way"]) == (graph, way)
                )
                if points:
                    axis.plot(*zip(*points), "o-", label=way)
            axis.set(yscale="symlog" if field == "bytes_compiled" else "log", xlabel=swept if line % 2 else "")
            if not column:
                axis.set_ylabel(f"{graph}: {shown[field]}")
    axes[0][0].legend(frameon=False, fontsize=8)
    figure.savefig(file, dpi=110)


if __name__ == "__main__":
    main()
