"""RAF and vanilla execution as the model and the sampling grow: hidden size, widths, fanout and hops (Heta's Figures 15 and 16).

`python experiments/raf/sweep.py` (as root, on Linux) stores a synthetic ogbn-mag and trains an R-GCN on two emulated hosts
(experiments/raf/over_hosts.py) by RAF and by vanilla execution over a METIS edge-cut; one of hidden size, width of the learnable
features, fanout and number of hops is changed at a time. Writes `experiments/raf/results/sweep.{csv,png}`: milliseconds of a step, bytes counted in it, and
bytes on the wire.
"""

import argparse
import tempfile
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot
from tqdm import tqdm

from experiments.hosts import hosts
from experiments.raf.over_hosts import METIS, RAF, measure, stored
from experiments.runs import markdown, read_rows, replace_rows, write_rows

WAYS = {"RAF": RAF, "vanilla, METIS": METIS}
SWEEPS = {
    "hidden size": {str(width): [f"--model.hidden={width}"] for width in (16, 64, 256)},
    "feature width": {str(width): [f"--model.feature_width={width}"] for width in (16, 64, 256)},
    "fanout": {text: [f"--sampling.fanout=[{text}]"] for text in ("5,4", "25,20", "50,40")},
    "hops": {
        "1": ["--model.layers=1", "--sampling.fanout=[10]"],
        "2": ["--sampling.fanout=[10,10]"],
        "3": ["--model.layers=3", "--sampling.fanout=[10,10,10]"],
    },
}


def draw(rows: list[dict], file: Path) -> None:
    """Draw a column per sweep: milliseconds of a step above, bytes counted in it below."""
    figure, axes = pyplot.subplots(2, len(SWEEPS), figsize=(11, 5.5), layout="constrained", sharey="row")
    for column, (sweep, values) in zip(axes.T, SWEEPS.items()):
        for axis, (key, unit) in zip(column, (("milliseconds_per_step", 1), ("bytes_counted", 2**20))):
            for way in WAYS:
                found = [float(row[key]) / unit for row in rows if row["sweep"] == sweep and row["way"] == way]
                axis.plot(range(len(found)), found, "o-", label=way)
            axis.set(yscale="log", xticks=range(len(values)))
            axis.set_xticklabels(list(values))
            axis.grid(alpha=0.3)
        column[1].set_xlabel(sweep)
    axes[0, 0].set_ylabel("milliseconds a step")
    axes[1, 0].set_ylabel("MiB sent in a step")
    axes[0, 0].legend(frameon=False)
    figure.savefig(file, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sweeps", nargs="+", choices=list(SWEEPS), default=list(SWEEPS), help="rows of the table")
    parser.add_argument("--scale", type=float, default=0.05, help="of the synthetic ogbn-mag")
    parser.add_argument("--rate", default="1gbit", help="bandwidth of every host, as tc writes it")
    parser.add_argument("--steps", type=int, default=6, help="of an epoch that is run")
    out = Path(__file__).parent / "results"
    parser.add_argument("--out", type=Path, default=out, help="where the table is written")
    options = parser.parse_args()
    file = options.out / "sweep.csv"
    with tempfile.TemporaryDirectory() as made_here:
        folder = Path(made_here)
        graph = stored("ogbn-mag", options.scale, folder)
        turns = [(sweep, value, way) for sweep in options.sweeps for value in SWEEPS[sweep] for way in WAYS]
        for sweep, value, way in tqdm(turns, unit="run"):
            with hosts(2, options.rate) as made:
                found = measure(made, graph, [*SWEEPS[sweep][value], *WAYS[way]], options.steps, folder)
            about = {"scale": options.scale, "rate": options.rate, "sweep": sweep, "value": value, "way": way}
            replace_rows(file, tuple(about), [about | found])
    rows = sorted(read_rows(file), key=lambda row: list(SWEEPS).index(row["sweep"]))
    write_rows(file, rows)
    draw(rows, file.with_suffix(".png"))
    print(markdown(rows))


if __name__ == "__main__":
    main()
