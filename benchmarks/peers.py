"""hetjax's training step beside DGL's and PyG's: the same graph files, batch, fanout and widths, in turns, in one run.

`python benchmarks/peers.py --dgl PYTHON` times R-GCN, R-GAT and HGT on every graph of `GRID` in `--rounds` rounds, one process after
the other: hetjax, DGL, and again. `PYTHON` is that of an environment that has DGL 1.1.3; `experiments/peers/dgl_step.py` runs there, or the scripts of
`--scripts DIR`: `dgl_step.py`, `pyg_step.py` for `--pyg PYTHON`, and `graphbolt_step.py` for `--graphbolt PYTHON` (which says what its environment is), which take the arguments of `step.py` and print a line as it does. Whoever is not given is left
out. `--graphs` names some of the grid, or `SCHEMA x SCALE`, or files as `graph_file.py` writes. Real graphs are read from
`HETJAX_DATA`. `--whole` times an epoch of the whole graph (`whole_graph.py`) in place of mini-batches. Where training nodes are
few, a batch is a quarter of them. A process that takes over `--most` seconds, or fails, is said so in the table. `--busy N` times each again beside N
processes that never rest, and says how many times as long a step takes then. (As many threads as cores, beside twice as many processes, get a third of the time.)

Writes `benchmarks/results/peers_grid.{json,md,png}`, after each process; rows of graphs that are not asked for stay there: milliseconds of a step, sampling
and update included, the median of every round's median; how many times as long peers take, the median of the rounds and their spread; the parts of a step; peak
memory; how many times as long as its floor (`bytes_moved.py`) hetjax's step takes; and of every model the median of the graphs, with the least and the most. Compilation is timed apart. HGT's softmax is over all relations
in hetjax and PyG, and per relation in DGL, which has no other. hetjax keeps its buffers, as `hetjax.train` does (hetjax/system/runtime.py);
`GLIBC_TUNABLES`, where it is set, is everybody's. `peak_mib` is of the whole process, the reading of the graph file included;
of hetjax's up to its last step, because it measures the memory's bandwidth after that.
"""

import argparse
import contextlib
import itertools
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import numpy as np
from matplotlib import pyplot
from tqdm import tqdm

HERE = Path(__file__).parent
PEERS = HERE.parent / "experiments" / "peers"
MODELS = ("rgcn", "rgat", "hgt")
NAMES = {"rgcn": "R-GCN", "rgat": "R-GAT", "hgt": "HGT"}
# A process counts what it was forked from, so scripts are started from one that is small, which says what they held, in KiB.
MEASURED = """import resource, subprocess, sys
status = subprocess.call(sys.argv[1:])
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(status)"""
COUNTS = """import os, sys
while os.getppid() == int(sys.argv[1]):
    sum(range(10**6))"""  # until the process that started it ends
REAL = {"aifb": ("rdf", "aifb"), "mutag": ("rdf", "mutag"), "dblp": ("hgb", "hgb_dblp"), "imdb": ("hgb", "hgb_imdb")}
SYNTHETIC = ("ogbn-mag x 1", "ogbn-mag x 0.1", "ogbn-mag x 0.01")
SYNTHETIC += ("freebase x 0.1", "donor x 0.1", "igb-het x 0.01", "mag240m x 0.003")
GRID = (*SYNTHETIC, *REAL)


def timed(command: list, steps: int, most: int) -> dict:
    """Return the output of a script, with the most memory that its process held, unless it prints that; or the reason of its failure."""
    about = [*map(str, command), "--steps", str(steps)]
    given = (
        {"JAX_ENABLE_COMPILATION_CACHE": "false"}
        | os.environ
        | {"OMP_NUM_THREADS": str(os.cpu_count()), "DGLBACKEND": "pytorch"}
    )
    run = [sys.executable, "-c", MEASURED, *about]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(run, env=given, start_new_session=True, **pipes) as process:
        try:
            printed, errors = process.communicate(timeout=most)
        except subprocess.TimeoutExpired:
            return {"failed": f"over {most} s"}
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # and what it started
    if process.returncode:
        print(f"{' '.join(about)}\n{errors[-2000:]}", file=sys.stderr)
        return {"failed": f"exit status {process.returncode}"}
    *_, found, peak = printed.strip().splitlines()
    return {"peak_mib": round(int(peak) / 1024), "parts": {}} | json.loads(found)


@contextlib.contextmanager
def busy(count: int) -> Iterator[None]:
    """Run so many processes that count meanwhile."""
    command = [sys.executable, "-c", COUNTS, str(os.getpid())]
    with contextlib.ExitStack() as started:
        for _ in range(count):
            started.callback(started.enter_context(subprocess.Popen(command)).kill)
        yield


def batch_of(graph: Path, batch: int) -> int:
    """Return the seeds of a batch: so many, or a quarter of the training nodes if these are less than four such batches."""
    with np.load(graph, allow_pickle=False) as arrays:
        (key,) = (key for key in arrays.files if key.startswith("train|"))
        return max(1, min(batch, len(arrays[key]) // 4))


def written(name: str, folder: Path) -> Path:
    """Return the file of a graph of the grid, of a synthetic one, or of that name."""
    if Path(name).exists():
        return Path(name)
    if name in REAL:
        how, path = REAL[name]
        options = ["--data.format", how, "--data.path", path]
    else:
        schema, _, scale = name.partition(" x ")
        options = ["--synthetic.schema", schema, "--synthetic.scale", scale, "--synthetic.classes", "0"]
    file = folder / f"{name.replace(' ', '_')}.npz"
    if file.exists():
        return file
    command = [sys.executable, str(HERE / "graph_file.py"), *options, "--out", str(file)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr.strip())
    return file


def rounds(options: argparse.Namespace, graph: Path) -> Iterator[dict]:
    """Time everybody on a graph, in turns."""
    own = "whole_graph" if options.whole else "step"
    name = "whole_graph_{}.py" if options.whole else "{}_step.py"
    scripts = {"hetjax": [sys.executable, HERE / f"{own}.py"]}
    peers = {who: getattr(options, who) for who in ("dgl", "graphbolt", "pyg")}
    scripts |= {who: [python, options.scripts / name.format(who)] for who, python in peers.items() if python}
    about = {"hidden": options.hidden}
    about |= {} if options.whole else {"batch": batch_of(graph, options.batch), "fanout": options.fanout}
    given = [word for key, value in about.items() for word in (f"--{key}", value)]
    tries = list(itertools.product(range(options.rounds), options.models, scripts))
    for number, model, who in (bar := tqdm(tries)):
        bar.set_postfix_str(f"round {number + 1}, {NAMES[model]}, {who}")
        steps = max(2, options.steps // 10) if who == "pyg" and not options.whole else options.steps
        command = [*scripts[who], graph, "--model", model, *given]
        found = timed(command, steps, options.most)
        if options.busy and "failed" not in found:
            with busy(options.busy):
                beside = timed(command, steps, options.most)
            longer = {"busy": options.busy, "times_busy": beside.get("ms_per_step", 0) / found["ms_per_step"]}
            found |= beside if "failed" in beside else longer
        yield found | {"round": number, "who": who, "model": model, "about": about}


def summed(rows: list[dict]) -> list[dict]:
    """Return the medians of every graph, model and system, and for peers how many times as long as hetjax they take."""
    made = []
    for graph, model, who in dict.fromkeys((row["graph"], row["model"], row["who"]) for row in rows):
        same = [row for row in rows if (row["graph"], row["model"]) == (graph, model)]
        own = {row["round"]: row.get("ms_per_step") for row in same if row["who"] == "hetjax"}
        found = [row for row in same if row["who"] == who]
        cells = {"graph": graph, "model": model, "who": who}
        failed = [row["failed"] for row in found if "failed" in row]
        if failed:
            made.append(cells | {"failed": failed[0]})
            continue
        times = [row["ms_per_step"] for row in found]
        ratios = [row["ms_per_step"] / own[row["round"]] for row in found if own[row["round"]]]
        cells |= {
            "system": found[0]["system"],
            "ms_per_step": round(statistics.median(times), 1),
            "ms_of_rounds": times,
            "peak_mib": max(row["peak_mib"] for row in found),
            "parts": found[-1]["parts"],
        }
        floors = [row["times_floor"] for row in found if "times_floor" in row]
        cells |= {"times_floor": round(statistics.median(floors), 2)} if floors else {}
        longer = [round(row["times_busy"], 2) for row in found if "times_busy" in row]
        if longer:
            times_busy = {"times_busy": round(statistics.median(longer), 2), "busy_of_rounds": longer}
            cells |= {"busy": found[0]["busy"], **times_busy}
        if ratios and who != "hetjax":
            cells |= {
                "times_hetjax": round(statistics.median(ratios), 4),
                "spread": [round(min(ratios), 4), round(max(ratios), 4)],
            }
        made.append(cells)
    return made


def table(rows: list[dict]) -> str:
    columns = (
        "| graph | model | system | ms a step | times its floor | times hetjax's (spread) | peak MiB | parts, ms |"
    )
    columns += " busy processes: times as long (rounds) |" * any("times_busy" in row for row in rows)
    lines = [columns, "|---" * (columns.count("|") - 1) + "|"]
    for row in rows:
        about = [row["graph"], NAMES[row["model"]]]
        if "failed" in row:
            lines.append(f"| {' | '.join([*about, row['who'], row['failed'], '', '', '', ''])} |")
            continue
        parts = ", ".join(f"{name} {value:g}" for name, value in row["parts"].items())
        times = ""
        if "spread" in row:
            low, high = row["spread"]
            times = f"{row['times_hetjax']:.1f} ({low:.1f} to {high:.1f})"
        floor = f"{row['times_floor']:.1f}" if "times_floor" in row else ""
        cells = [*about, row["system"], f"{row['ms_per_step']:.1f}", floor, times, f"{row['peak_mib']:,}", parts]
        if "times_busy" in row:
            longer = ", ".join(f"{times:.1f}" for times in row["busy_of_rounds"])
            cells.append(f"{row['busy']}: {row['times_busy']:.1f} ({longer})")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def over_graphs(rows: list[dict]) -> str:
    """Return a line for every model and peer: the median of the graphs, with the least and the most."""
    lines = []
    for model, who in dict.fromkeys((row["model"], row["who"]) for row in rows if "times_hetjax" in row):
        found = {
            r["graph"]: r["times_hetjax"] for r in rows if (r["model"], r["who"]) == (model, who) and "spread" in r
        }
        least, most = min(found, key=found.__getitem__), max(found, key=found.__getitem__)
        lines.append(
            f"- {NAMES[model]}, {who}: {statistics.median(found.values()):.1f} times as long in the median of {len(found)} graphs, "
            f"{found[least]:.1f} ({least}) to {found[most]:.1f} ({most})"
        )
    return "\n".join(lines)


def draw(rows: list[dict], file: Path) -> None:
    """Draw how many times as long as hetjax peers take, by graph and model, with the spread of the rounds."""
    found = [row for row in rows if "spread" in row]
    graphs, models, peers = (list(dict.fromkeys(row[key] for row in found)) for key in ("graph", "model", "who"))
    figure, axes = pyplot.subplots(
        len(peers), 1, figsize=(3 + 1.1 * len(graphs), 3.6 * len(peers)), layout="constrained", squeeze=False
    )
    for axis, who in zip(axes[:, 0], peers):
        for number, model in enumerate(models):
            own = [row for row in found if (row["who"], row["model"]) == (who, model)]
            times = np.array([row["times_hetjax"] for row in own])
            spread = np.abs(np.array([row["spread"] for row in own]).T - times)
            places = [graphs.index(row["graph"]) + (number - (len(models) - 1) / 2) * 0.27 for row in own]
            bars = axis.bar(places, times, 0.25, yerr=spread, capsize=2, label=NAMES[model])
            axis.bar_label(bars, [f"{value:.1f}" for value in times], fontsize=7, padding=2)
        axis.axhline(1, color="black", linewidth=0.8)
        axis.set(yscale="log", xticks=range(len(graphs)), ylabel=f"times as long: {who}")
        axis.set_xticklabels(graphs, rotation=20, ha="right")
        axis.margins(y=0.12)
        axis.legend(frameon=False, loc="lower right", bbox_to_anchor=(1, 1), ncols=len(models))
    figure.savefig(file, dpi=110)


def keep(rows: list[dict], out: Path) -> None:
    """Write the rows, and their summary."""
    cells = summed(rows)
    words = f"# A training step beside its peers\n\n{over_graphs(cells)}\n\n{table(cells)}\n"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.with_suffix(".json").write_text(json.dumps({"summary": cells, "rounds": rows}, indent=1) + "\n")
    out.with_suffix(".md").write_text(words)
    if any("spread" in row for row in cells):
        draw(cells, out.with_suffix(".png"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", nargs="+", default=list(GRID), help="names, or .npz files; default: the grid")
    parser.add_argument("--whole", action="store_true", help="epochs of the whole graph, and no mini-batches")
    parser.add_argument("--scripts", type=Path, default=PEERS, help="the folder of the peers' scripts")
    parser.add_argument("--dgl", type=Path, help="the Python of an environment that has DGL")
    parser.add_argument("--pyg", type=Path, help="the Python of an environment that has PyG")
    parser.add_argument(
        "--graphbolt", type=Path, help="the Python of an environment that has DGL 2.1; mini-batches alone"
    )
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument(
        "--steps", type=int, default=20, help="that are timed in a round; a tenth of that, at least 2, by PyG"
    )
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--fanout", default="25,20")
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--busy", type=int, default=0, help="processes beside which each is timed again")
    parser.add_argument("--most", type=int, default=1200, help="seconds that a process may take")
    parser.add_argument("--folder", type=Path, help="where graphs are kept; default: they are not")
    parser.add_argument("--out", type=Path, help="without its suffix")
    options = parser.parse_args()
    for file in filter(None, (options.dgl, options.graphbolt, options.pyg, options.scripts)):
        if not file.exists():
            parser.error(f"{file} is not there")
    if options.whole and options.graphbolt:
        parser.error("--graphbolt samples mini-batches, and --whole has none")
    out = options.out or HERE / "results" / ("peers_whole" if options.whole else "peers_grid")
    kept = out.with_suffix(".json")
    rows: list[dict] = json.loads(kept.read_text())["rounds"] if kept.exists() else []
    with tempfile.TemporaryDirectory() as temporary:
        for name in options.graphs:
            graph, models = written(name, options.folder or Path(temporary)), options.models
            rows = [row for row in rows if row["graph"] != name or row["model"] not in models]
            for row in rounds(options, graph):
                rows.append({"graph": name} | row)
                keep(rows, out)
            if graph.parent == Path(temporary):
                graph.unlink()
    print(over_graphs(summed(rows)), table(summed(rows)), sep="\n\n")


if __name__ == "__main__":
    main()
