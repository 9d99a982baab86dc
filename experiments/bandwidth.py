"""RAF and vanilla execution over a network of limited bandwidth: seconds of an epoch, and bytes on the wire against those counted.

`python experiments/bandwidth.py` (as root, on Linux) stores a synthetic ogbn-mag, and trains an R-GCN on it on emulated hosts
(experiments/hosts.py), one device each, at every bandwidth and in every way: RAF, and vanilla execution over a random and a
METIS edge-cut. The setting is Heta's: batches of 1024, fanout 25 then 20, 64 wide, two hosts. Every way is run for one epoch and
for three, which differ by two epochs of training and nothing else: the difference of the bytes on the links is theirs, and is
held against `sent_per_step` of the run's summary. The time is the median step's, its wait for a batch included, times the steps
of an epoch over all training nodes; the rounds are repeated in turn, and the table has their median and range. Writes
`experiments/results/bandwidth.{csv,png}`.
"""

import argparse
import csv
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from hosts import Host, hosts, run
from matplotlib import pyplot
from runs import ROOT, environment
from tqdm import tqdm

from hetjax.graph import store

WAYS = {
    "RAF": ["--mesh.relation={count}"],
    "vanilla, random": ["--mesh.data={count}", "--mesh.strategy=vanilla"],
    "vanilla, METIS": ["--mesh.data={count}", "--mesh.strategy=vanilla", "--mesh.partitioning=metis"],
}
SETTING = [
    "--model.hidden=64",
    "--sampling.batch_size=1024",
    "--sampling.fanout=[25,20]",
    "--train.evaluate_every=1000",
]
JOIN = ["--coordinator={coordinator}", "--num_processes={count}", "--process_id={host}"]
SHORT, LONG = 1, 3  # epochs


def train(made: list[Host], graph: Path, way: str, epochs: int, steps: int, folder: Path) -> tuple[dict, int]:
    """Train on all hosts; returns the summary, and the bytes that all of them sent."""
    workdir = folder / "run"
    shutil.rmtree(workdir, ignore_errors=True)
    data = ["--data.format=store", f"--data.path={graph}", "--data.check=false"]
    length = [f"--train.epochs={epochs}", f"--train.steps_per_epoch={steps}"]
    command = [
        sys.executable,
        "-m",
        "hetjax.train",
        f"--workdir={workdir}",
        *data,
        *SETTING,
        *length,
        *WAYS[way],
        *JOIN,
    ]
    ended = run(made, command, folder)
    for number, one in enumerate(ended):
        if one.status != 0:
            sys.exit(f"{way}: host {number} ended with {one.status}\n{one.output[-3000:]}")
    return json.loads((workdir / "summary.json").read_text()), sum(one.sent for one in ended)


def measure(made: list[Host], graph: Path, way: str, steps: int, folder: Path) -> dict:
    """One round of one way: milliseconds of a step, bytes counted in it, and on the wire."""
    _, once = train(made, graph, way, SHORT, steps, folder)
    summary, thrice = train(made, graph, way, LONG, steps, folder)
    laps = summary["milliseconds_per_step"]
    return {
        "way": way,
        "milliseconds_per_step": round(laps["step"] + laps["waiting for a batch"], 1),
        "bytes_counted": round(sum(one["bytes"] for one in summary["sent_per_step"])),
        "bytes_on_wire": round((thrice - once) / (steps * (LONG - SHORT))),
    }


def draw(rows: list[dict], rates: list[str], file: Path) -> None:
    """Seconds of an epoch by bandwidth, a line per way."""
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
    rows: list[dict] = []
    with tempfile.TemporaryDirectory() as made_here:
        folder = Path(made_here)
        os.environ |= environment(folder)
        graph = folder / "mag"
        convert = [
            "hetjax.convert",
            "--data.schema",
            "ogbn-mag",
            "--data.scale",
            str(options.scale),
            "--out",
            str(graph),
        ]
        subprocess.run([sys.executable, "-m", *convert], check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
        epoch = -(-len(store.open(graph).splits["train"]) // 1024)
        turns = [(rate, way) for rate in options.rates for _ in range(options.rounds) for way in WAYS]
        for rate, way in tqdm(turns, unit="round"):
            with hosts(options.count, rate) as made:
                row = {"rate": rate, "scale": options.scale, "hosts": options.count}
                row |= measure(made, graph, way, min(options.steps, epoch), folder)
            row |= {"steps_of_epoch": epoch, "epoch_seconds": round(epoch * row["milliseconds_per_step"] / 1000, 2)}
            rows.append(row)
            options.out.mkdir(parents=True, exist_ok=True)
            with open(options.out / "bandwidth.csv", "w", newline="") as stream:
                writer = csv.DictWriter(stream, list(row))
                writer.writeheader()
                writer.writerows(rows)
            off = row["bytes_on_wire"] / row["bytes_counted"] - 1
            words = f"{row['epoch_seconds']} s an epoch, {row['bytes_counted']:,} bytes a step counted, {off:+.1%} on the wire"
            tqdm.write(f"{rate}, {way}: {words}")
    draw(rows, options.rates, options.out / "bandwidth.png")


if __name__ == "__main__":
    main()
