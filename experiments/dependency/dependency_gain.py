"""Cache, communicate and hybrid on emulated hosts: NeutronStar's Figure 9.

`python experiments/dependency/dependency_gain.py` (as root, on Linux, with HETJAX_DATA) trains on every graph, on the
whole of it, at every bandwidth, in seven ways: all dependencies computed, all fetched (by an all-to-all, around a ring,
and aggregating received rows while the next travel), and some of each (likewise).
Columns: the time of a step, the median of the rounds, and the fastest and the slowest round; `speedup` over cache; `ratio` to the better of
cache and communicate, round by round, with its 95 % interval; bytes counted and on the wire; rows
that are fetched; nodes of others that are computed, and their edges; the measured costs, and what they predict that a step takes
longer because the graph is divided. Prints its table, the best and the worst cell, and the noise, and writes
`experiments/dependency/results/dependency_gain.{csv,png}`. Ends with status 1 where the wire carried over 5 % more or less than was counted.
"""

import tempfile
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot
from tqdm import tqdm

from experiments.dependency.dependency_runs import (
    MODELS,
    WAYS,
    best_and_worst,
    check,
    measured,
    noise,
    parser_of,
    ratio,
    setting,
    stored,
)
from experiments.runs import markdown, read_rows, replace_rows

KEYS = ("graph", "model", "hidden", "hosts", "rate", "way")


def with_speedup(rows: list[dict]) -> list[dict]:
    """Return the rows with their speedups over cache, and over the better of cache and communicate, at the same bandwidth."""
    for row in rows:
        alike = {one["way"]: one for one in rows if one["rate"] == row["rate"]}
        row["speedup"] = round(alike["cache"]["milliseconds_per_step"] / row["milliseconds_per_step"], 2)
        pure = [one for way, one in alike.items() if not way.startswith("hybrid")]
        row |= ratio(row, min(pure, key=lambda one: one["milliseconds_per_step"]))
    return rows


def draw(rows: list[dict], file: Path) -> None:
    """Draw the speedups over cache, a group of bars per graph, width and number of hosts, a panel per bandwidth."""
    rates, cells = list(dict.fromkeys(row["rate"] for row in rows)), {}
    for row in rows:
        group = row["graph"], int(row["hidden"]), int(row["hosts"])
        cells[*group, row["rate"], row["way"]] = float(row["speedup"])
    graphs = sorted(set(key[:3] for key in cells), key=lambda group: (group[2], *group[:2]))
    size = 2 + 1.1 * len(graphs), 2.6 * len(rates)
    figure, axes = pyplot.subplots(len(rates), 1, figsize=size, layout="constrained", squeeze=False)
    for axis, rate in zip(axes[:, 0], rates):
        for number, way in enumerate(WAYS):
            places = [place + 0.12 * (number - 3) for place in range(len(graphs))]
            axis.bar(places, [cells.get((*graph, rate, way), 0) for graph in graphs], 0.11, label=way)
        labels = [f"{graph}\n{hidden} wide\n{hosts} hosts" for graph, hidden, hosts in graphs]
        axis.set_xticks(range(len(graphs)), labels, fontsize=8)
        axis.set(title=rate, ylabel="speedup over cache")
        axis.axhline(1, color="grey", linewidth=0.5)
    figure.legend(*axes[0][0].get_legend_handles_labels(), loc="outside right", frameon=False, fontsize=8)
    figure.savefig(file, dpi=120)


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--ways", nargs="+", choices=list(WAYS), default=list(WAYS), help="of these")
    options = parser.parse_args()
    ways = {name: WAYS[name] for name in options.ways}
    rows: list[dict] = []
    with tempfile.TemporaryDirectory() as made_here:
        folder = options.folder or Path(made_here)
        folder.mkdir(parents=True, exist_ok=True)
        for name in tqdm(options.graphs, unit="graph"):
            model = options.model or MODELS[name]
            given = setting(stored(name, folder), model, options.hidden)
            found = measured(given, ways, options.rates, options.count, (options.rounds, options.steps), folder)
            about = {"graph": name, "model": model, "hidden": options.hidden, "hosts": options.count}
            new = with_speedup([about | row for row in found])
            rows += new
            replace_rows(options.out / "dependency_gain.csv", KEYS, new)
    draw(read_rows(options.out / "dependency_gain.csv"), options.out / "dependency_gain.png")
    print(markdown([{name: value for name, value in row.items() if name != "rounds"} for row in rows]))
    hybrid = [row for row in rows if row["way"].startswith("hybrid")]
    print(best_and_worst(hybrid, "speedup", "hybrid over cache"))
    print(
        best_and_worst(hybrid, "ratio", "time of hybrid by that of the better of cache and communicate (large is slow)")
    )
    print(noise(rows))
    check(rows, options.count)


if __name__ == "__main__":
    main()
