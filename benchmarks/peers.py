"""hetjax's training step beside DGL's and PyG's: the same graph files, batch, fanout and widths, in turns, in one run.

`python benchmarks/peers.py --graph GRAPH.npz --scripts DIR --dgl PYTHON --pyg PYTHON` times the three models in `--rounds`
rounds, one process after the other: hetjax, DGL, PyG, and again. `DIR` holds `dgl_step.py` and `pyg_step.py`, which run
in environments of their own, take the arguments of `step.py` and print a line as it does. Whoever is not given is left out. A graph is
a file as `graph_file.py` says, and several may be given; without one synthetic ogbn-mags are written, of each size in `--scale`.
ConnectedGroup stop after one pass over the training nodes, so on a small graph fewer steps than `--steps` are timed.

Prints a table, and writes `benchmarks/results/peers.{json,md,png}`: milliseconds of a step, sampling and update included, the median of every
round's median; how many times as long peers take, the median of the rounds and their spread; the parts of a step; peak
memory. Compilation is timed apart. HGT's softmax is over all relations in hetjax and PyG, and per relation in DGL, which has
no other. hetjax keeps its buffers, as `hetjax.train` does (hetjax/runtime.py); `GLIBC_TUNABLES`, where it is set, is everybody's.
`peak_mib` is of the whole process, the reading of the graph file included; of hetjax's up to its last step, because it measures the
memory's bandwidth after that.
"""

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import numpy as np
from graph_file import write
from matplotlib import pyplot
from tqdm import tqdm

from hetjax.datasets.synthetic import generate

HERE = Path(__file__).parent
MODELS = ("rgcn", "rgat", "hgt")
ABOUT = ("models", "rounds", "steps", "batch", "fanout", "hidden")
NAMES = {"rgcn": "R-GCN", "rgat": "R-GAT", "hgt": "HGT"}
# A process counts what it was forked from, so scripts are started from one that is small, which says what they held, in KiB.
MEASURED = """import resource, subprocess, sys
status = subprocess.call(sys.argv[1:])
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(status)"""
FIRST = 3  # steps at most that a peer takes before those that it times


def timed(command: list, steps: int, threads: int) -> dict:
    """What a script prints, with the most memory that its process held, unless it prints that."""
    about = [*map(str, command), "--steps", str(steps)]
    given = os.environ | {"OMP_NUM_THREADS": str(threads), "JAX_ENABLE_COMPILATION_CACHE": "false"}
    done = subprocess.run([sys.executable, "-c", MEASURED, *about], capture_output=True, text=True, env=given)
    if done.returncode:
        sys.exit(f"{' '.join(about)}\n{done.stderr[-2000:]}")
    *_, found, peak = done.stdout.strip().splitlines()
    return {"peak_mib": round(int(peak) / 1024)} | json.loads(found)


def steps_of(graph: Path, steps: int, batch: int) -> int:
    """How many steps to time: so many, or as many full batches as one pass over the training nodes leaves to peers."""
    with np.load(graph, allow_pickle=False) as arrays:
        (key,) = (key for key in arrays.files if key.startswith("train|"))
        full = len(arrays[key]) // batch
    if full <= FIRST:
        sys.exit(
            f"{graph}: {full} batches of {batch} training nodes, and {FIRST + 1} are needed; try a smaller --batch"
        )
    return min(steps, full - FIRST)


def graphs(options: argparse.Namespace, folder: Path) -> Iterator[tuple[str, Path]]:
    """The name and the file of every graph; a synthetic one lies in `folder` until the next is asked for."""
    for file in options.graph or ():
        yield file.stem, file
    for scale in () if options.graph else options.scale:
        file = folder / "graph.npz"
        write(generate("ogbn-mag", scale), file)
        yield f"ogbn-mag x {scale:g}", file


def rounds(options: argparse.Namespace, graph: Path) -> Iterator[dict]:
    """Time everybody on a graph, in turns."""
    scripts = {"hetjax": [sys.executable, HERE / "step.py"]}
    peers = {name: getattr(options, name) for name in ("dgl", "pyg")}
    scripts |= {name: [python, options.scripts / f"{name}_step.py"] for name, python in peers.items() if python}
    about = ["--batch", options.batch, "--fanout", options.fanout, "--hidden", options.hidden]
    most, threads = steps_of(graph, options.steps, options.batch), os.cpu_count() or 1
    tries = list(itertools.product(range(options.rounds), options.models, scripts))
    for number, model, who in (bar := tqdm(tries)):
        bar.set_postfix_str(f"round {number + 1}, {NAMES[model]}, {who}")
        steps = min(most, max(2, options.steps // 10)) if who == "pyg" else most
        found = timed([*scripts[who], graph, "--model", model, *about], steps, threads)
        yield found | {"round": number, "who": who, "model": model}


def summed(rows: list[dict]) -> list[dict]:
    """Of every graph, model and system the medians, and of peers how many times as long as hetjax they take."""
    made = []
    for graph, model, who in dict.fromkeys((row["graph"], row["model"], row["who"]) for row in rows):
        same = [row for row in rows if (row["graph"], row["model"]) == (graph, model)]
        own = {row["round"]: row["ms_per_step"] for row in same if row["who"] == "hetjax"}
        found = [row for row in same if row["who"] == who]
        ratios = [row["ms_per_step"] / own[row["round"]] for row in found]
        times = [row["ms_per_step"] for row in found]
        made.append(
            {
                "graph": graph,
                "model": model,
                "who": who,
                "system": found[0]["system"],
                "ms_per_step": round(statistics.median(times), 1),
                "ms_of_rounds": times,
                "times_hetjax": round(statistics.median(ratios), 2),
                "spread": [round(min(ratios), 2), round(max(ratios), 2)],
                "peak_mib": max(row["peak_mib"] for row in found),
                "parts": found[-1]["parts"],
            }
        )
    return made


def table(rows: list[dict]) -> str:
    lines = [
        "| graph | model | system | ms a step | times hetjax's (spread) | peak MiB | parts, ms |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        parts = ", ".join(f"{name} {value:g}" for name, value in row["parts"].items())
        low, high = row["spread"]
        times = "" if row["who"] == "hetjax" else f"{row['times_hetjax']:.1f} ({low:.1f} to {high:.1f})"
        cells = [row["graph"], NAMES[row["model"]], row["system"], f"{row['ms_per_step']:.0f}", times]
        cells += [f"{row['peak_mib']:,}", parts]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def draw(rows: list[dict], file: Path) -> None:
    """Milliseconds of a step by graph, model and system, on a logarithmic scale."""
    graphs, models, systems = (list(dict.fromkeys(row[key] for row in rows)) for key in ("graph", "model", "who"))
    figure, axes = pyplot.subplots(
        1, len(graphs), figsize=(1 + 5 * len(graphs), 3.6), layout="constrained", sharey=True, squeeze=False
    )
    for axis, graph in zip(axes[0], graphs):
        for number, who in enumerate(systems):
            found = [row for row in rows if (row["graph"], row["who"]) == (graph, who)]
            places = [models.index(row["model"]) + (number - (len(systems) - 1) / 2) * 0.27 for row in found]
            bars = axis.bar(places, [row["ms_per_step"] for row in found], 0.25, label=who)
            axis.bar_label(bars, [f"{row['ms_per_step']:,.0f}" for row in found], fontsize=8)
        axis.set(title=graph, yscale="log", xticks=range(len(models)))
        axis.set_xticklabels([NAMES[model] for model in models])
        axis.margins(y=0.12)
    axes[0, 0].set_ylabel("milliseconds of a step")
    axes[0, 0].legend([next(row["system"] for row in rows if row["who"] == who) for who in systems], frameon=False)
    figure.savefig(file, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graph", type=Path, nargs="+", help=".npz files; default: a synthetic ogbn-mag")
    parser.add_argument("--scale", type=float, nargs="+", default=[1.0], help="of the synthetic graph, one or more")
    parser.add_argument("--scripts", type=Path, help="the folder of the peers' scripts")
    parser.add_argument("--dgl", type=Path, help="the Python of an environment that has DGL")
    parser.add_argument("--pyg", type=Path, help="the Python of an environment that has PyG")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument(
        "--steps", type=int, default=20, help="that are timed in a round; a tenth of that, at least 2, by PyG"
    )
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--fanout", default="25,20")
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--out", type=Path, default=HERE / "results" / "peers", help="without its suffix")
    options = parser.parse_args()
    if (options.dgl or options.pyg) and not options.scripts:
        parser.error("--dgl and --pyg need --scripts, the folder of the peers' scripts")
    needed = [*(options.graph or ()), options.dgl, options.pyg]
    needed += [options.scripts / f"{name}_step.py" for name in ("dgl", "pyg") if getattr(options, name)]
    for file in filter(None, needed):
        if not file.exists():
            parser.error(f"{file} is not there")
    rows: list[dict] = []
    options.out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        for name, graph in graphs(options, Path(folder)):
            for row in rounds(options, graph):
                rows.append({"graph": name} | row)
                about = {key: getattr(options, key) for key in ABOUT}
                made = {"about": about, "summary": summed(rows), "rounds": rows}
                options.out.with_suffix(".json").write_text(json.dumps(made, indent=1) + "\n")
    words = table(summed(rows))
    print(words)
    options.out.with_suffix(".md").write_text(f"# A training step beside its peers\n\n{words}\n")
    draw(summed(rows), options.out.with_suffix(".png"))


if __name__ == "__main__":
    main()
