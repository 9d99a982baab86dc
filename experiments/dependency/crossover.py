"""The crossover of cache and communicate, their ratio, and hybrid beside them: NeutronStar's Figure 2.

`python experiments/dependency/crossover.py` (as root, on Linux, with HETJAX_DATA) trains on emulated hosts (experiments/dependency/dependency_runs.py) for
every graph, hidden size and bandwidth. `winner` is the better of cache and communicate, `by` how many times as long the other
takes, and `hybrid_by_winner` the time of hybrid by that of the winner: 1 is as good, more is worse. Prints its table, the best and the worst cell, and
the noise, and writes `experiments/dependency/results/crossover.{csv,png}`.
"""

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

WAYS = {"cache": [CACHE], "communicate": [COMMUNICATE], "hybrid": [HYBRID]}
KEYS = ("graph", "model", "hidden", "hosts", "rate")


def cell(about: dict, found: list[dict]) -> dict:
    """Return a row of the three ways at one bandwidth."""
    ms = {row["way"]: row["milliseconds_per_step"] for row in found}
    winner = min(("cache", "communicate"), key=ms.__getitem__)
    hybrid = next(row for row in found if row["way"] == "hybrid")
    extra = {row["way"]: row["predicted_extra_ms"] for row in found}
    return about | {
        "rate": found[0]["rate"],
        **{f"{way}_ms": time for way, time in ms.items()},
        "winner": winner,
        "by": round(max(ms["cache"], ms["communicate"]) / ms[winner], 2),
        "hybrid_by_winner": round(ms["hybrid"] / ms[winner], 2),
        "communicate_minus_cache_ms": round(ms["communicate"] - ms["cache"], 2),
        "predicted_difference_ms": round(extra["communicate"] - extra["cache"], 2),
        **{f"{way}_bytes": next(row["bytes_counted"] for row in found if row["way"] == way) for way in WAYS},
        "hybrid_fetched_rows": hybrid["fetched_rows"],
        "hybrid_copied_nodes": hybrid["copied_nodes"],
    }


def draw(rows: list[dict], file: Path) -> None:
    """Draw how many times as long communicate takes as cache, a panel per graph, a line per bandwidth; crosses are hybrid's."""
    graphs, rates = (list(dict.fromkeys(row[key] for row in rows)) for key in ("graph", "rate"))
    figure, axes = pyplot.subplots(1, len(graphs), figsize=(4 * len(graphs), 3.4), layout="constrained", squeeze=False)
    for axis, graph in zip(axes[0], graphs):
        for number, rate in enumerate(rates):
            here = [row for row in rows if (row["graph"], row["rate"]) == (graph, rate)]
            here.sort(key=lambda row: int(row["hidden"]))
            sizes = range(len(here))
            for way, mark in (("communicate", "o-"), ("hybrid", "x:")):
                values = [float(row[f"{way}_ms"]) / float(row["cache_ms"]) for row in here]
                axis.plot(sizes, values, mark, color=f"C{number}", label=f"{way}, {rate}")
            axis.set_xticks(sizes, [row["hidden"] for row in here])
        axis.axhline(1, color="grey", linewidth=0.5)
        axis.set(title=graph, xlabel="hidden size", ylabel="time by cache's", yscale="log")
    axes[0][0].legend(frameon=False, fontsize=7)
    figure.savefig(file, dpi=120)


def main() -> None:
    parser = parser_of(__doc__, ("tolokers", "web", "ogbn-mag"))
    parser.set_defaults(rates=["100mbit", "1gbit", "10gbit"])
    parser.add_argument(
        "--sizes", type=int, nargs="+", default=[16, 64, 256], help="hidden sizes, in place of --hidden"
    )
    options = parser.parse_args()
    rows, all_found = [], []
    with tempfile.TemporaryDirectory() as made_here:
        folder = options.folder or Path(made_here)
        turns = [(name, hidden) for name in options.graphs for hidden in options.sizes]
        for name, hidden in tqdm(turns, unit="setting"):
            model = options.model or MODELS[name]
            given = setting(stored(name, folder), model, hidden)
            found = measured(given, WAYS, options.rates, options.count, (options.rounds, options.steps), folder)
            about = {"graph": name, "model": model, "hidden": hidden, "hosts": options.count}
            new = [cell(about, [row for row in found if row["rate"] == rate]) for rate in options.rates]
            rows, all_found = rows + new, all_found + found
            replace_rows(options.out / "crossover.csv", KEYS, new)
    draw(read_rows(options.out / "crossover.csv"), options.out / "crossover.png")
    print(markdown(rows))
    print(best_and_worst(rows, "by", "the winner over the other"))
    print(best_and_worst(rows, "hybrid_by_winner", "hybrid by the winner (large is slow)"))
    print(noise(all_found))
    check(all_found, options.count)


if __name__ == "__main__":
    main()
