"""The gain of each part of tensor parallelism on emulated hosts: NeutronTP's Figure 11.

`HETJAX_DATA=... python experiments/tensor/tensor_ablation.py --graphs web tolokers` (as root, on Linux) trains every graph on so many hosts of one
device each, over links of the first of `--rates`, so many `--steps` a round, embeddings `--hidden` wide: by partitions of the nodes that fetch what they read (`data parallel`), by tensor parallelism
(`tensor`), the same in chunks of `--bytes` of each device (`chunks`), then decoupled without chunks (`decoupled`), in chunks that wait for
each other (`decoupled, chunks`), and in chunks of which one is aggregated while others travel (`decoupled, chunks, pipelined`). The
paper's data parallel baseline in chunks is not here: hetjax has chunks for tensor parallelism alone. Columns as of
`tensor_hosts.py`; how much faster is told beside data parallel. Writes `experiments/tensor/results/tensor_ablation.{csv,png}`.
"""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot

from experiments.dependency.dependency_runs import COMMUNICATE, noise
from experiments.runs import markdown, read_rows
from experiments.tensor.tensor_runs import PARTS, SLICES, compared, parser_of

APART = [*SLICES, "--model.decoupled=true"]


def ways(device_bytes: str) -> dict[str, list[str]]:
    chunks = f"--tensor.device_bytes={device_bytes}"
    waiting = "--tensor.pipelined=false"
    return {
        "data parallel": [*PARTS, COMMUNICATE],
        "tensor": SLICES,
        "chunks": [*SLICES, chunks, waiting],
        "chunks, pipelined": [*SLICES, chunks],
        "decoupled": APART,
        "decoupled, chunks": [*APART, chunks, waiting],
        "decoupled, chunks, pipelined": [*APART, chunks],
    }


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--bytes", default="20MB", help="of each device, for the ways in chunks")
    options = parser.parse_args()
    file = options.out / "tensor_ablation.csv"

    def allowed(way: str) -> dict:
        return {"device_bytes": options.bytes if "chunks" in way else ""}

    rows = compared(options, ways(options.bytes), file, allowed)
    print(markdown(rows), noise(rows), sep="\n")
    draw(read_rows(file), options.out / "tensor_ablation.png")


def draw(rows: list[dict], file: Path) -> None:
    """Draw how much faster than data parallel every way is, a group of bars per graph."""
    rows = [row for row in rows if row["head"] == "true"]
    cases = list(dict.fromkeys((row["graph"], row["hosts"]) for row in rows))
    names = list(dict.fromkeys(row["way"] for row in rows))
    figure, axis = pyplot.subplots(figsize=(1.5 + 2.6 * len(cases), 3.4), layout="constrained")
    for place, way in enumerate(names):
        found = {
            (row["graph"], row["hosts"]): float(row["faster_than_data_parallel"]) for row in rows if row["way"] == way
        }
        at = [number + 0.12 * (place - len(names) / 2) for number in range(len(cases))]
        axis.bar(at, [found.get(case, 0) for case in cases], 0.11, label=way)
    axis.axhline(1, color="grey", linewidth=0.6)
    axis.set_xticks(range(len(cases)), [f"{graph}, {hosts} hosts" for graph, hosts in cases])
    axis.set_ylabel("times as fast as\ndata parallel")
    axis.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
    figure.savefig(file, dpi=110)


if __name__ == "__main__":
    main()
