"""The cost of a missed byte, by width, of static and of learnable features (Heta's Figure 8).

`python experiments/cache/miss_penalty.py` measures, as a run does before it fills the cache (hetjax/cache/penalty.py), rows of
features in host memory: read and sent to the device, and if they are learnable returned and written, with both moments
and the count. Says whether narrow features cost more per byte than wide ones, and learnable more than static, as the paper
found: of a byte of the cache that a row would take, which is what its share is decided by, and of a byte of the feature
itself, of which a learnable one takes three on the device.

Prints its table, and writes `experiments/cache/results/miss_penalty.{csv,png}`. Runs in rounds, forwards and backwards, whose
median and range stand in the table.
"""

import argparse
import itertools
import statistics
from pathlib import Path

import jax
import matplotlib

matplotlib.use("Agg")
import numpy as np
from matplotlib import pyplot
from tqdm import tqdm

from experiments.runs import write_rows
from hetjax.cache.host import HostMatrix, HostTable
from hetjax.cache.penalty import measure

WIDTHS = (4, 8, 16, 32, 64, 128, 256, 512, 1024)
KINDS = {"static": (HostMatrix, False), "learnable": (HostTable, True)}


def cost(kind: str, width: int, nodes: int) -> tuple[int, float]:
    """Return the bytes of a row, and the nanoseconds of one of them."""
    made, learnable = KINDS[kind]
    matrix = np.ones((nodes, 3 * width + 1), np.int32) if learnable else np.ones((nodes, width), np.float32)
    one = made(matrix, jax.devices()[0])
    return one.row_bytes, 1e9 * measure({"it": one}, {"it"} if learnable else {})["it"]


def draw(rows: list[dict], file: Path) -> None:
    figure, axis = pyplot.subplots(figsize=(6, 3.8), layout="constrained")
    for kind, colour in zip(KINDS, ("tab:blue", "tab:orange")):
        found = [row for row in rows if row["kind"] == kind]
        middle = [row["ns_a_byte"] for row in found]
        spread = [
            [m - row["least"] for m, row in zip(middle, found)],
            [row["most"] - m for m, row in zip(middle, found)],
        ]
        axis.errorbar([row["width"] for row in found], middle, spread, marker="o", color=colour, label=kind, capsize=3)
    axis.set(xscale="log", yscale="log", xlabel="width", ylabel="nanoseconds of a missed byte")
    axis.set_xticks(WIDTHS, map(str, WIDTHS))
    axis.set_yticks([0.5, 1, 2, 5, 10], ["0.5", "1", "2", "5", "10"])
    axis.minorticks_off()
    axis.grid(alpha=0.3)
    axis.legend(frameon=False)
    figure.savefig(file, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=200_000, help="rows of a type")
    parser.add_argument("--rounds", type=int, default=6, help="times that everything is measured")
    out = Path(__file__).parent / "results"
    parser.add_argument("--out", type=Path, default=out, help="where the table is written")
    options = parser.parse_args()
    cases = [(kind, width) for kind in KINDS for width in WIDTHS]
    found, sizes = {case: [] for case in cases}, {}
    for number in tqdm(range(options.rounds), unit="round"):
        for case in cases if number % 2 == 0 else reversed(cases):
            sizes[case], nanoseconds = cost(*case, options.nodes)
            found[case].append(nanoseconds)
    rows = [
        {"kind": kind, "width": width, "row_bytes": sizes[kind, width], "ns_a_byte": round(statistics.median(times), 4)}
        | {"least": round(min(times), 4), "most": round(max(times), 4)}
        | {"ns_a_feature_byte": round(statistics.median(times) * sizes[kind, width] / (4 * width), 4)}
        for (kind, width), times in found.items()
    ]
    write_rows(options.out / "miss_penalty.csv", rows)
    of = {(row["kind"], row["width"]): row["ns_a_byte"] for row in rows}
    own = {(row["kind"], row["width"]): row["ns_a_feature_byte"] for row in rows}
    for row in rows:
        print(*row.values())
    for kind in KINDS:
        costs = [of[kind, width] for width in WIDTHS]
        falls = sum(narrow > wide for narrow, wide in itertools.pairwise(costs))
        print(
            f"{kind}: narrow dearer than the next wider at {falls} of {len(costs) - 1} widths, {costs[0] / costs[-1]:.1f} times over all"
        )
    for what, costs in (("cache", of), ("feature", own)):
        dearer = [width for width in WIDTHS if costs["learnable", width] > costs["static", width]]
        print(f"a byte of the {what}: learnable dearer than static at widths {dearer} of {list(WIDTHS)}")
    draw(rows, options.out / "miss_penalty.png")


if __name__ == "__main__":
    main()
