"""hetjax's training step beside DGL's and PyG's: the same graph file, batch, fanout and widths, in turns, in one run.

`python benchmarks/peers.py --graph GRAPH.npz --scripts DIR --dgl PYTHON --pyg PYTHON` times the three models in `--rounds`
rounds, one process after the other: hetjax, DGL, PyG, and again. `DIR` holds `dgl_step.py` and `pyg_step.py`, which run
in environments of their own, take the arguments of `step.py` and print a line as it does. Whoever is not given is left out. The graph is
a file as `graph_file.py` says; without one a synthetic ogbn-mag of `--scale` is written.

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
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from graph_file import write
from matplotlib import pyplot
from tqdm import tqdm

from hetjax.datasets.synthetic import generate

HERE = Path(__file__).parent
MODELS = ("rgcn", "rgat", "hgt")
ABOUT = ("models", "rounds", "steps", "batch", "fanout", "hidden")
NAMES = {"rgcn": "R-GCN", "rgat": "R-GAT", "hgt": "HGT"}


def timed(command: list, steps: int, threads: int) -> dict:
    """What a script prints, with the most memory that its process held, unless it prints that."""
    about = [*map(str, command), "--steps", str(steps)]
    given = os.environ | {"OMP_NUM_THREADS": str(threads), "JAX_ENABLE_COMPILATION_CACHE": "false"}
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(about, stdout=subprocess.PIPE, stderr=errors, text=True, env=given)
        out = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        if status:
            errors.seek(0)
            sys.exit(f"{' '.join(about)}\n{errors.read()[-2000:]}")
    return {"peak_mib": round(usage.ru_maxrss / 1024)} | json.loads(out.strip().splitlines()[-1])


def summed(rows: list[dict]) -> list[dict]:
    """Of every model and system the medians, and of peers how many times as long as hetjax they take."""
    made = []
    for model in dict.fromkeys(row["model"] for row in rows):
        own = {row["round"]: row["ms_per_step"] for row in rows if (row["model"], row["who"]) == (model, "hetjax")}
        for who in dict.fromkeys(row["who"] for row in rows):
            found = [row for row in rows if (row["model"], row["who"]) == (model, who)]
            if found:
                ratios = [row["ms_per_step"] / own[row["round"]] for row in found]
                times = [row["ms_per_step"] for row in found]
                made.append(
                    {
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
        "| model | system | ms a step | times hetjax's (spread) | peak MiB | parts, ms |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        parts = ", ".join(f"{name} {value:g}" for name, value in row["parts"].items())
        times = (
            ""
            if row["who"] == "hetjax"
            else f"{row['times_hetjax']:.1f} ({row['spread'][0]:.1f} to {row['spread'][1]:.1f})"
        )
        lines.append(
            f"| {NAMES[row['model']]} | {row['system']} | {row['ms_per_step']:.0f} | {times} | {row['peak_mib']:,} | {parts} |"
        )
    return "\n".join(lines)


def draw(rows: list[dict], file: Path) -> None:
    """Milliseconds of a step by model and system, on a logarithmic scale."""
    models, systems = (list(dict.fromkeys(row[key] for row in rows)) for key in ("model", "who"))
    figure, axis = pyplot.subplots(figsize=(7, 3.6), layout="constrained")
    for number, who in enumerate(systems):
        found = [row for row in rows if row["who"] == who]
        places = [models.index(row["model"]) + (number - (len(systems) - 1) / 2) * 0.27 for row in found]
        bars = axis.bar(places, [row["ms_per_step"] for row in found], 0.25, label=found[0]["system"])
        axis.bar_label(bars, [f"{row['ms_per_step']:,.0f}" for row in found], fontsize=8)
    axis.set(ylabel="milliseconds of a step", yscale="log", xticks=range(len(models)))
    axis.set_xticklabels([NAMES[model] for model in models])
    axis.legend(frameon=False)
    axis.margins(y=0.12)
    figure.savefig(file, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graph", type=Path, help="an .npz file; default: a synthetic ogbn-mag")
    parser.add_argument("--scale", type=float, default=1.0, help="of the synthetic graph")
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
    needed = [options.graph, options.dgl, options.pyg]
    needed += [options.scripts / f"{name}_step.py" for name in ("dgl", "pyg") if getattr(options, name)]
    for file in filter(None, needed):
        if not file.exists():
            parser.error(f"{file} is not there")
    with tempfile.TemporaryDirectory() as folder:
        graph = options.graph or Path(folder) / "graph.npz"
        if not options.graph:
            write(generate("ogbn-mag", options.scale), graph)
        scripts = {"hetjax": [sys.executable, HERE / "step.py"]}
        scripts |= {
            name: [python, options.scripts / f"{name}_step.py"]
            for name in ("dgl", "pyg")
            if (python := getattr(options, name))
        }
        about = ["--batch", options.batch, "--fanout", options.fanout, "--hidden", options.hidden]
        rows, threads = [], os.cpu_count() or 1
        tries = list(itertools.product(range(options.rounds), options.models, scripts))
        for number, model, who in (bar := tqdm(tries)):
            bar.set_postfix_str(f"round {number + 1}, {NAMES[model]}, {who}")
            steps = max(2, options.steps // 10) if who == "pyg" else options.steps
            found = timed([*scripts[who], graph, "--model", model, *about], steps, threads)
            rows.append(found | {"round": number, "who": who, "model": model})
            options.out.parent.mkdir(parents=True, exist_ok=True)
            made = {
                "about": {key: getattr(options, key) for key in ABOUT},
                "summary": summed(rows),
                "rounds": rows,
            }
            options.out.with_suffix(".json").write_text(json.dumps(made, indent=1) + "\n")
    words = table(summed(rows))
    print(words)
    options.out.with_suffix(".md").write_text(f"# A training step beside its peers\n\n{words}\n")
    draw(summed(rows), options.out.with_suffix(".png"))


if __name__ == "__main__":
    main()
