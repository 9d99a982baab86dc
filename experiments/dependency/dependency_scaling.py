"""1, 2, 4 and 8 partitions: the computation, traffic and time of a step in every mode: NeutronStar's Figure 12.

`HETJAX_DATA=... python experiments/dependency/dependency_scaling.py` counts, in one process and exactly
(experiments/dependency/dependency_counts.py), for every graph, edge-cut, number of partitions and mode: rows fetched,
bytes, copied nodes and edges, edges aggregated in all, and by the partition that aggregates most. `ideal` is the edges
of one device by partitions by these most: 1 is perfect scaling of the work. Hybrid goes by costs: `T_v`, `T_e` are
measured on one device of this computer, and `T_c` is that of a link of `--rate`, of eight bytes for each number.

`--timed 2 4` (as root, on Linux) also trains on so many emulated hosts (experiments/dependency/dependency_runs.py), which share this
computer's cores: times say nothing of scaling where there are more hosts than cores, and bytes do.
Writes `experiments/dependency/results/dependency_scaling.{csv,png}`, and `dependency_scaling_times.csv`.
"""

import tempfile
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import numpy as np
from matplotlib import pyplot
from tqdm import tqdm

from experiments.dependency.dependency_counts import config_of, counted, measured_here, rows_of, setup_of
from experiments.dependency.dependency_runs import (
    CACHE,
    COMMUNICATE,
    HYBRID,
    MODELS,
    best_and_worst,
    bits,
    check,
    measured,
    noise,
    parser_of,
    setting,
    stored,
)
from experiments.runs import markdown, read_rows, replace_rows
from hetjax.partition import edge_cut
from hetjax.sharding.dependency.declared import Options

MODES = {"cache": CACHE, "communicate": COMMUNICATE, "hybrid": HYBRID}
KEYS = ("graph", "model", "hidden", "partitioning", "hosts", "way")


def grid(name: str, options, folder: Path) -> list[dict]:
    """Return the counts of one graph."""
    model, graph = options.model or MODELS[name], stored(name, folder)
    given = setup_of(config_of(setting(graph, model, options.hidden)))
    costs, rows = measured_here(given), []
    costs = costs._replace(sent=64 / bits(options.rates[0]))
    alone = None
    turns = [
        (parts, method)
        for parts in options.parts
        for method in options.methods
        if parts > 1 or method == options.methods[0]
    ]
    for parts, method in tqdm(turns, desc=name, unit="cut"):
        cut = edge_cut(given.graph, parts, method)
        for mode in MODES:
            found = counted(given, cut, Options(mode=mode), costs)
            row = rows_of(found.done, 1, found.padded)
            alone = alone or row["edges"]
            about = {"graph": name, "model": model, "hidden": options.hidden, "partitioning": method, "hosts": parts}
            rows.append(about | {"way": mode, "bytes": found.bytes} | row)
            rows[-1]["ideal"] = round(alone / parts / row["most_edges"], 3)
    return rows


def draw(rows: list[dict], file: Path) -> None:
    """Draw the edges of the partition that aggregates most, and the bytes, by partitions; a column per graph."""
    rows = [row for row in rows if row["partitioning"] == "contiguous"]
    graphs = list(dict.fromkeys(row["graph"] for row in rows))
    figure, axes = pyplot.subplots(2, len(graphs), figsize=(3 * len(graphs), 5), layout="constrained", squeeze=False)
    for column, graph in enumerate(graphs):
        for way in MODES:
            here = sorted((int(r["hosts"]), r) for r in rows if (r["graph"], r["way"]) == (graph, way))
            parts = [count for count, _ in here]
            axes[0][column].plot(parts, [int(row["most_edges"]) for _, row in here], "o-", label=way)
            axes[1][column].plot(parts, [int(row["bytes"]) / 2**20 for _, row in here], "o-", label=way)
        axes[0][column].set(title=graph, xscale="log", yscale="log")
        axes[1][column].set(xlabel="partitions", xscale="log")
        for axis in axes[:, column]:
            axis.set_xticks(parts, map(str, parts))
            axis.tick_params("x", which="minor", bottom=False, labelbottom=False)
    axes[0][0].set(ylabel="edges of the partition\nthat folds most")
    axes[1][0].set(ylabel="MiB a step")
    axes[0][0].legend(frameon=False, fontsize=8)
    figure.savefig(file, dpi=120)


def times(options, folder: Path) -> list[dict]:
    """Return the times of steps on emulated hosts."""
    rows = []
    for name in tqdm(options.graphs, unit="graph"):
        for count in options.timed:
            model = options.model or MODELS[name]
            given, ways = (
                setting(stored(name, folder), model, options.hidden),
                {way: [of] for way, of in MODES.items()},
            )
            found = measured(given, ways, options.rates, count, (options.rounds, options.steps), folder)
            about = {"graph": name, "model": model, "hidden": options.hidden, "hosts": count}
            rows += [about | row for row in found]
            replace_rows(options.out / "dependency_scaling_times.csv", (*KEYS[:3], "hosts", "rate", "way"), rows)
    return rows


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--parts", type=int, nargs="+", default=[1, 2, 4, 8], help="partitions to count")
    parser.add_argument("--methods", nargs="+", default=["contiguous", "metis"], help="edge-cuts to count")
    parser.add_argument("--timed", type=int, nargs="*", default=[], help="numbers of hosts to time")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as made_here:
        folder = options.folder or Path(made_here)
        rows = [row for name in options.graphs for row in grid(name, options, folder)]
        replace_rows(options.out / "dependency_scaling.csv", KEYS, rows)
        draw(read_rows(options.out / "dependency_scaling.csv"), options.out / "dependency_scaling.png")
        print(markdown(rows))
        divided = [row for row in rows if row["hosts"] > 1]
        print(best_and_worst(divided, "ideal", "scaling of the work (1 is perfect)"))
        for way in MODES:
            print(f"{way}: {np.mean([row['ideal'] for row in divided if row['way'] == way]):.2f} in the mean")
        if options.timed:
            timed = times(options, folder)
            print(markdown(timed), noise(timed), sep="\n")
            for count in options.timed:
                check([row for row in timed if row["hosts"] == count], count)


if __name__ == "__main__":
    main()
