"""Bytes that two hosts send in an epoch of R-GCN: RAF, and vanilla execution over three edge-cuts (Heta's Table 2).

`python experiments/raf/traffic.py` makes a graph of each schema at the scale that stands in its table, and trains an R-GCN on
two devices in every way, in Heta's setting: batches of 1024, fanout 25 then 20, 64 wide, no self terms (its metatrees have
none). The bytes of a step are those of the compiled programs (`sent_per_step` of a run's summary). Beside them stands what
the formulas of `hetjax.partition.traffic` expect of the same graph, and of the data set's full counts; the epoch at full
size is that last times its steps. For an edge-cut at full size nodes, edges and draws between partitions grow as the
schema's counts do: the share that is cut is taken to be the one at this scale. RAF's formula needs no such guess.

Prints its table, and writes `experiments/raf/results/traffic.{csv,md,png}`; rows of other schemas and scales stay there. `experiments/raf/bandwidth.py` holds the same count
against a wire.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("Agg")
from matplotlib import pyplot
from tqdm import tqdm

import hetjax
from experiments.runs import ROOT, environment, markdown, read_rows, replace_rows, write_rows
from hetjax.datasets.schemas import SHAPES
from hetjax.datasets.synthetic import generate
from hetjax.graph import store
from hetjax.graph.hetgraph import HetGraph
from hetjax.graph.sizes import Sizes
from hetjax.partition import EdgeCut, Workload, measure, read, traffic
from hetjax.partition.edge_cut import PART

SCALES = {"ogbn-mag": 0.1, "freebase": 0.05, "donor": 0.05, "igb-het": 0.01, "mag240m": 0.002}
VANILLA = ["--mesh.data=2", "--mesh.strategy=vanilla"]
WAYS = {
    "vanilla, random": [*VANILLA, "--vanilla.partitioning=random"],
    "vanilla, METIS": [*VANILLA, "--vanilla.partitioning=metis"],
    "vanilla, METIS-VOL": [*VANILLA, "--vanilla.partitioning=metis-vol"],
    "RAF": ["--mesh.relation=2"],
}
WORKLOAD = Workload(1024, (25, 20), 64, 64)
SETTING = [
    "--train.recipe=none",
    f"--sampling.batch_size={WORKLOAD.batch_size}",
    f"--sampling.fanout=[{','.join(map(str, WORKLOAD.fanout))}]",
    f"--model.hidden={WORKLOAD.hidden}",
    f"--model.feature_width={WORKLOAD.feature_width}",
    "--model.self_term=false",
    "--train.epochs=1",
    "--data.format=store",
    "--data.check=false",
]
KEYS = ("schema", "scale", "way")


def train(graph: Path, way: str, steps: int, workdir: Path) -> dict:
    """Train some steps; return the summary."""
    command = [sys.executable, "-m", "hetjax.train", f"--data.path={graph}", f"--workdir={workdir}", *SETTING]
    command += [f"--train.steps_per_epoch={steps}", *WAYS[way]]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(workdir.parent), cwd=ROOT)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stderr}")
    return json.loads((workdir / "summary.json").read_text())


def at_full_size(schema: str, plan, graph: HetGraph) -> float:
    """Return the bytes of a step by the formulas, for the data set's full counts, divided as `plan` divides the smaller graph."""
    shape = SHAPES[schema]
    full = Sizes(shape.schema(), shape.relations(), shape.features)
    if not isinstance(plan, EdgeCut):
        return sum(traffic.raf(hetjax.partition(full, 2, self_term=False, workload=WORKLOAD)).values())
    counts = measure.measure(graph, plan)
    nodes = {t: count * full.schema.nodes[t] / graph.schema.nodes[t] for t, count in counts.nodes.items()}
    draws = {r: count * full.edges[r] / max(1, graph.relations[r].edges) for r, count in counts.draws.items()}
    anywhere = {t: np.broadcast_to(np.zeros((), PART), (count,)) for t, count in full.schema.nodes.items()}
    whole = EdgeCut(full, anywhere, plan.parts, plan.method, plan.hops, WORKLOAD, plan.reads_own)
    return sum(traffic.vanilla(whole, counts._replace(nodes=nodes, draws=draws)).values())


def rows(schema: str, scale: float, steps: int, folder: Path) -> list[dict]:
    """Train a graph of a schema in every way."""
    store.save(generate(schema, scale, classes=32), folder / "graph")
    graph, found = store.open(folder / "graph"), []
    full_steps = -(-SHAPES[schema].splits["train"] // WORKLOAD.batch_size)
    for number, way in enumerate(WAYS):
        workdir = folder / f"run_{number}"
        summary = train(folder / "graph", way, steps, workdir)
        (plan,) = (path.parent for path in workdir.glob("*/manifest.json"))
        expected = json.loads((plan / "report.json").read_text())["step_bytes"]["total"]
        full = at_full_size(schema, read(plan), graph)
        row = {
            "schema": schema,
            "scale": scale,
            "way": way,
            "mib_a_step": round(sum(one["bytes"] for one in summary["sent_per_step"]) / 2**20, 2),
            "mib_a_step_by_formula": round(expected / 2**20, 2),
            "mib_a_step_at_full_size_by_formula": round(full / 2**20, 2),
            "steps_of_an_epoch_at_full_size": full_steps,
            "gb_an_epoch_at_full_size": round(full * full_steps / 1e9, 2),
        }
        tqdm.write(str(row))
        found.append(row)
    return found


def draw(results: list[dict], file: Path) -> None:
    """Draw the gigabytes of an epoch at full size, a bar per way; of several scales by the largest."""
    figure, axis = pyplot.subplots(figsize=(8, 4), layout="constrained")
    schemas = list(dict.fromkeys(row["schema"] for row in results))
    for number, way in enumerate(WAYS):
        found = {row["schema"]: float(row["gb_an_epoch_at_full_size"]) for row in results if row["way"] == way}
        places = [schemas.index(schema) + (number - 1.5) * 0.2 for schema in found]
        bars = axis.bar(places, list(found.values()), 0.19, label=way)
        axis.bar_label(
            bars, [f"{value:,.0f}" if value >= 100 else f"{value:.3g}" for value in found.values()], fontsize=6
        )
    axis.set(yscale="log", ylabel="GB sent in an epoch, full size, by formula", xticks=range(len(schemas)))
    axis.set_xticklabels(schemas)
    axis.grid(axis="y", alpha=0.3)
    axis.set_axisbelow(True)
    axis.legend(frameon=False, ncols=2)
    figure.savefig(file, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--schemas", nargs="+", choices=list(SCALES), default=list(SCALES), help="rows of the table")
    parser.add_argument("--scale", type=float, default=1.0, help="multiplies every schema's scale")
    parser.add_argument("--steps", type=int, default=8, help="steps that are run")
    out = Path(__file__).parent / "results"
    parser.add_argument("--out", type=Path, default=out, help="where the table is written")
    options = parser.parse_args()
    results = []
    for schema in tqdm(options.schemas, unit="schema"):
        with tempfile.TemporaryDirectory() as folder:
            results += rows(schema, round(SCALES[schema] * options.scale, 9), options.steps, Path(folder))
    file = options.out / "traffic.csv"
    replace_rows(file, KEYS, results)
    results = sorted(read_rows(file), key=lambda row: (list(SCALES).index(row["schema"]), float(row["scale"])))
    write_rows(file, results)
    setting = f"batch {WORKLOAD.batch_size}, fanout 25 then 20, hidden {WORKLOAD.hidden}"
    text = f"R-GCN without self terms, two hosts, {setting}.\n\n{markdown(results)}"
    file.with_suffix(".md").write_text(text + "\n")
    draw(results, file.with_suffix(".png"))
    print(text)


if __name__ == "__main__":
    main()
