"""RAF and vanilla execution over a network of limited bandwidth: seconds of an epoch, and bytes on the wire against those counted.

`python experiments/raf/bandwidth.py` (as root, on Linux) stores a synthetic ogbn-mag, and trains an R-GCN on it on emulated hosts
(experiments/raf/over_hosts.py), one device each, at every bandwidth and in every way: RAF, and vanilla execution over a random
and a METIS edge-cut. The setting is Heta's: batches of 1024, fanout 25 then 20, 64 wide, no self terms, two hosts. The
seconds of an epoch are those of a step times the steps over all training nodes; the rounds are repeated in turn, and the
plot has their median. Prints its table, and writes `experiments/raf/results/bandwidth.{csv,png}`; ends with status 1 where the
wire carried over 5 % more or less than was counted.
"""

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot
from tqdm import tqdm

from experiments.hosts import hosts
from experiments.raf.over_hosts import METIS, RAF, VANILLA, measure, steps_of, stored
from experiments.runs import markdown, write_rows

WAYS = {"RAF": RAF, "vanilla, random": VANILLA, "vanilla, METIS": METIS}
MOST = 0.05  # of what was counted, between it and the wire


def draw(rows: list[dict], rates: list[str], file: Path) -> None:
    """Draw the seconds of an epoch by bandwidth, a line per way."""
    figure, axis = pyplot.subplots(figsize=(7, 4), layout="constrained")
    for way in WAYS:
        found = [[r["epoch_seconds"] for r in rows if r["way"] == way and r["rate"] == rate] for rate in rates]
        axis.plot(range(len(rates)), [statistics.median(seconds) for seconds in found], "o-", label=way)
    axis.set_xticks(range(len(rates)), rates)
    axis.set_yscale("log")
    axis.set_xlabel("bandwidth of every host")
    axis.set_ylabel("seconds of an epoch")
    axis.grid(alpha=0.3)
    axis.legend()
    figure.savefig(file, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--rates", nargs="+", default=["10gbit", "1gbit", "100mbit"], help="bandwidths, as tc writes them"
    )
    parser.add_argument("--scale", type=float, default=0.05, help="of the synthetic ogbn-mag")
    parser.add_argument("--steps", type=int, default=10, help="of an epoch that is run")
    parser.add_argument("--rounds", type=int, default=2, help="of all ways in turn")
    parser.add_argument("--count", type=int, default=2, help="number of hosts")
    parser.add_argument(
        "--out", type=Path, default=Path(__file__).parent / "results", help="where the table is written"
    )
    options = parser.parse_args()
    rows, wrong = [], 0.0
    with tempfile.TemporaryDirectory() as made_here:
        folder = Path(made_here)
        graph = stored("ogbn-mag", options.scale, folder)
        epoch = steps_of(graph)
        turns = [(rate, way) for rate in options.rates for _ in range(options.rounds) for way in WAYS]
        for rate, way in tqdm(turns, unit="round"):
            with hosts(options.count, rate) as made:
                row = {"rate": rate, "scale": options.scale, "hosts": options.count, "way": way}
                row |= measure(made, graph, WAYS[way], min(options.steps, epoch), folder)
            row |= {"steps_of_epoch": epoch, "epoch_seconds": round(epoch * row["milliseconds_per_step"] / 1000, 2)}
            rows.append(row)
            write_rows(options.out / "bandwidth.csv", rows)
            off = row["bytes_on_wire"] / row["bytes_counted"] - 1
            words = f"{row['epoch_seconds']} s an epoch, {row['bytes_counted']:,} bytes a step counted, {off:+.1%} on the wire"
            tqdm.write(f"{rate}, {way}: {words}")
            wrong = max(wrong, abs(off))
    draw(rows, options.rates, options.out / "bandwidth.png")
    print(markdown(rows))
    if wrong > MOST:
        sys.exit(f"the wire carried {wrong:.1%} more or less than was counted, and {MOST:.0%} is what headers may take")


if __name__ == "__main__":
    main()
