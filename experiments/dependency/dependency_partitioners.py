"""Cache, communicate and hybrid over every edge-cut: NeutronStar's Figure 15.

`python experiments/dependency/dependency_partitioners.py` (as root, on Linux, with HETJAX_DATA) trains on emulated hosts (experiments/dependency/dependency_runs.py) that divide a graph
by ranges of ids, METIS, Fennel and at random. Columns are those of dependency_gain.py; `gain` is the time of communicate by that
of the cell, over the same edge-cut. Prints its table, the best and the worst cell, and the noise, and writes
`experiments/dependency/results/dependency_partitioners.{csv,png}`.
"""

import itertools
import tempfile
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot
from tqdm import tqdm

from experiments.dependency.dependency_runs import (
    CACHE,
    COMMUNICATE,
    HYBRID,
    MODELS,
    best_and_worst,
    check,
    measured,
    noise,
    parser_of,
    setting,
    stored,
)
from experiments.runs import markdown, read_rows, replace_rows

METHODS = ("contiguous", "metis", "fennel", "random")
MODES = {"cache": CACHE, "communicate": COMMUNICATE, "hybrid": HYBRID}
KEYS = ("graph", "model", "hidden", "hosts", "rate", "partitioning", "way")


def compared(rows: list[dict]) -> list[dict]:
    """Return the rows beside communicate over the same edge-cut at the same bandwidth."""
    place = ("rate", "partitioning")
    for row in rows:
        (other,) = (r for r in rows if r["way"] == "communicate" and all(r[key] == row[key] for key in place))
        row["gain"] = round(other["milliseconds_per_step"] / row["milliseconds_per_step"], 2)
    return rows


def draw(rows: list[dict], file: Path) -> None:
    """Draw the milliseconds of a step, a panel per graph and bandwidth, a group of bars per edge-cut."""
    graphs, rates = (list(dict.fromkeys(row[key] for row in rows)) for key in ("graph", "rate"))
    size = 1.5 + 4 * len(graphs), 2.8 * len(rates)
    figure, axes = pyplot.subplots(len(rates), len(graphs), figsize=size, layout="constrained", squeeze=False)
    for axis, panel in zip(axes.T.flat, itertools.product(graphs, rates)):
        for number, way in enumerate(MODES):
            found = {
                r["partitioning"]: float(r["milliseconds_per_step"])
                for r in rows
                if (r["graph"], r["rate"], r["way"]) == (*panel, way)
            }
            places = [place + 0.27 * (number - 1) for place in range(len(METHODS))]
            axis.bar(places, [found.get(method, 0) for method in METHODS], 0.25, label=way)
        axis.set_xticks(range(len(METHODS)), METHODS, fontsize=8)
        axis.set(title=", ".join(panel), ylabel="ms a step")
    figure.legend(*axes[0][0].get_legend_handles_labels(), loc="outside right", frameon=False, fontsize=8)
    figure.savefig(file, dpi=120)


def main() -> None:
    parser = parser_of(__doc__, ("tolokers", "web"))
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS, help="edge-cuts")
    options = parser.parse_args()
    ways = {
        f"{method}/{mode}": [given, f"--dependency.partitioning={method}"]
        for method in options.methods
        for mode, given in MODES.items()
    }
    rows: list[dict] = []
    with tempfile.TemporaryDirectory() as made_here:
        folder = options.folder or Path(made_here)
        for name in tqdm(options.graphs, unit="graph"):
            model = options.model or MODELS[name]
            given = setting(stored(name, folder), model, options.hidden)
            found = measured(given, ways, options.rates, options.count, (options.rounds, options.steps), folder)
            about = {"graph": name, "model": model, "hidden": options.hidden, "hosts": options.count}
            parts = [dict(zip(("partitioning", "way"), row.pop("way").split("/"))) for row in found]
            new = compared([about | part | row for part, row in zip(parts, found)])
            rows += new
            replace_rows(options.out / "dependency_partitioners.csv", KEYS, new)
    draw(read_rows(options.out / "dependency_partitioners.csv"), options.out / "dependency_partitioners.png")
    print(markdown(rows))
    hybrid = [row for row in rows if row["way"] == "hybrid"]
    print(best_and_worst(hybrid, "gain", "hybrid over communicate"))
    print(noise(rows))
    check(rows, options.count)


if __name__ == "__main__":
    main()
