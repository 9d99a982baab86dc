"""Shares of the dependencies that are computed, beside the share that hybrid chooses: NeutronStar's Figure 11.

`python experiments/dependency/dependency_ratio.py` (as root, on Linux, with HETJAX_DATA) trains on emulated hosts (experiments/dependency/dependency_runs.py)
with `dependency.cached` 0, 0.1, 0.25, 0.5, 0.75, 0.9 and 1, and with what Algorithm 4 chooses by measured costs. A share of nothing fetches static features
at every step too; every other way copies as large a share of them. `ratio` is the time of a cell divided by that of the best share at that bandwidth, round by round, with its 95 % interval.
Prints its table, how far the choice is from the best share, and the noise, and writes `experiments/dependency/results/dependency_ratio.{csv,png}`.
"""

import tempfile
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot
from tqdm import tqdm

from experiments.dependency.dependency_runs import (
    HYBRID,
    MODELS,
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

SHARES = (0, 0.1, 0.25, 0.5, 0.75, 0.9, 1)
CHOSEN = "chosen"
WAYS = {str(share): [HYBRID, f"--dependency.cached={share}"] for share in SHARES} | {CHOSEN: [HYBRID]}
KEYS = ("graph", "model", "hidden", "hosts", "rate", "way")


def compared(rows: list[dict]) -> list[dict]:
    """Return the rows beside the best share at the same bandwidth."""
    for row in rows:
        shares = [one for one in rows if one["rate"] == row["rate"] and one["way"] != CHOSEN]
        row |= ratio(row, min(shares, key=lambda one: one["milliseconds_per_step"]))
    return rows


def draw(rows: list[dict], file: Path) -> None:
    """Draw the milliseconds of a step by the share, a panel per graph and width, a line per bandwidth; the choice is a dashed line."""
    rates = list(dict.fromkeys(row["rate"] for row in rows))
    graphs = sorted({(row["graph"], int(row["hidden"])) for row in rows})
    columns = min(4, len(graphs))
    down = -(-len(graphs) // columns)
    size = 4 * columns, 3.4 * down
    figure, axes = pyplot.subplots(down, columns, figsize=size, layout="constrained", squeeze=False)
    for axis in axes.flat[len(graphs) :]:
        axis.axis("off")
    for axis, graph in zip(axes.flat, graphs):
        for number, rate in enumerate(rates):
            found = {
                row["way"]: float(row["milliseconds_per_step"])
                for row in rows
                if (row["graph"], int(row["hidden"]), row["rate"]) == (*graph, rate)
            }
            shares = [share for share in SHARES if str(share) in found]
            if not shares:
                continue
            axis.plot(shares, [found[str(share)] for share in shares], "o-", color=f"C{number}", label=rate)
            if CHOSEN in found:
                axis.axhline(found[CHOSEN], linestyle="--", color=f"C{number}")
        axis.set(title=f"{graph[0]}, {graph[1]} wide", xlabel="share computed", ylabel="ms a step", yscale="log")
    axes[0][0].legend(frameon=False, fontsize=8)
    figure.savefig(file, dpi=120)


def main() -> None:
    options = parser_of(__doc__, ("tolokers", "web")).parse_args()
    rows: list[dict] = []
    with tempfile.TemporaryDirectory() as made_here:
        folder = options.folder or Path(made_here)
        for name in tqdm(options.graphs, unit="graph"):
            model = options.model or MODELS[name]
            given = setting(stored(name, folder), model, options.hidden)
            found = measured(given, WAYS, options.rates, options.count, (options.rounds, options.steps), folder)
            about = {"graph": name, "model": model, "hidden": options.hidden, "hosts": options.count}
            new = compared([about | row for row in found])
            rows += new
            replace_rows(options.out / "dependency_ratio.csv", KEYS, new)
    draw(read_rows(options.out / "dependency_ratio.csv"), options.out / "dependency_ratio.png")
    print(markdown([{name: value for name, value in row.items() if name != "rounds"} for row in rows]))
    print(best_and_worst(rows, "ratio", "time by that of the best share (large is slow)"))
    chosen = [row for row in rows if row["way"] == CHOSEN]
    print(best_and_worst(chosen, "ratio", "the choice, by the best share (large is slow)"))
    print(noise(rows))
    check(rows, options.count)


if __name__ == "__main__":
    main()
