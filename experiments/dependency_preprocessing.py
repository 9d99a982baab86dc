"""What hybrid takes before the first step, against 100 epochs: NeutronStar's Table 3.

`HETJAX_DATA=... python experiments/dependency_preprocessing.py` times, in one process with a device for each partition, of every graph: dividing
it, naming the dependencies (`shares`), measuring costs (`costs.measure`, programs compiled as in a first run), and choosing (`hybrid.choose`, Algorithm 4). Functions that
numba compiles are compiled before. 100 epochs of each mode are 100 times the step of
`experiments/results/dependency_gain.csv`, at `--rates`, where that table has the graph; on emulated hosts costs take longer to measure
(`costs_seconds` there). `share` is all but dividing, by 100 epochs of hybrid. Prints its table, and writes `experiments/results/dependency_preprocessing.csv`.
"""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dependency_counts import config_of, setup_of
from dependency_runs import HYBRID, MODELS, best_and_worst, parser_of, setting, stored
from runs import markdown, read_rows, replace_rows
from tqdm import tqdm

from hetjax.partition import edge_cut
from hetjax.sampling.sampler import ALL, Sampler
from hetjax.sharding import mesh as meshes
from hetjax.sharding.dependency.costs import measure
from hetjax.sharding.dependency.hybrid import choose
from hetjax.sharding.dependency.prices import priced
from hetjax.sharding.dependency.shares import nothing, shares
from hetjax.sharding.single.strategy import flowing
from hetjax.sharding.strategy import Setup

EPOCHS, METHODS = 100, ("contiguous", "metis", "fennel", "random")


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """What it gives, and its seconds."""
    started = time.perf_counter()
    found = work()
    return found, round(time.perf_counter() - started, 3)


def prepared(given: Setup, parts: int) -> dict:
    """Seconds of each part."""
    graph, model, hops = given.graph, given.trainer.model, (ALL,) * len(given.regime.fanouts)
    seconds, cuts = {}, {}
    for method in METHODS:
        cuts[method], seconds[f"{method}_s"] = timed(lambda method=method: edge_cut(graph, parts, method))
    owned, seeds = cuts["contiguous"].owned, {graph.schema.target: graph.splits["train"]}
    sampler = Sampler(graph, frozenset(), flowing(given), model.reads_own, model.drops)
    layers, seconds["dependencies_s"] = timed(lambda: shares(sampler, owned, seeds, hops, (0,), nothing))
    mesh = meshes.row(meshes.make(1, parts), 0)
    costs, seconds["measuring_costs_s"] = timed(lambda: measure(given, mesh))
    prices = priced(given, costs)
    _, seconds["choosing_s"] = timed(lambda: choose(graph, owned, layers, prices, hops, model.reads_own))
    return seconds


def epochs(about: dict, rate: str, out: Path) -> dict:
    """Seconds of 100 epochs of each mode, as far as they were measured."""
    rows = [row for row in read_rows(out / "dependency_gain.csv") if row["rate"] == rate]
    alike = [row for row in rows if all(row[key] == str(value) for key, value in about.items())]
    found = {row["way"]: float(row["milliseconds_per_step"]) * EPOCHS / 1000 for row in alike}
    return {
        f"{way}_100_epochs_s": round(found[way], 1) if way in found else ""
        for way in ("cache", "communicate", "hybrid")
    }


def main() -> None:
    options = parser_of(__doc__).parse_args()
    meshes.provide_cpu_devices(options.count)
    rows: list[dict] = []
    with tempfile.TemporaryDirectory() as made_here:
        folder = options.folder or Path(made_here)
        for name in tqdm(["cora", *options.graphs], unit="graph"):  # the first compiles
            model = options.model or MODELS[name]
            graph = setting(stored(name, folder), model, options.hidden)
            about = {"graph": name, "model": model, "hidden": options.hidden, "hosts": options.count}
            given = setup_of(config_of([*graph, f"--mesh.data={options.count}", HYBRID]))
            row = about | prepared(given, options.count) | epochs(about, options.rates[0], options.out)
            before = row["dependencies_s"] + row["measuring_costs_s"] + row["choosing_s"]
            hybrid = row["hybrid_100_epochs_s"]
            row["share"] = round(before / hybrid, 4) if hybrid else ""
            rows.append(row | {"rate": options.rates[0]})
    rows = rows[1:]
    replace_rows(options.out / "dependency_preprocessing.csv", ("graph", "model", "hidden", "hosts", "rate"), rows)
    print(markdown(rows))
    known = [row | {"share": -row["share"]} for row in rows if row["share"] != ""]
    if known:
        print(best_and_worst(known, "share", "minus the share of 100 epochs of hybrid"))
    print("noise: every second is of one run")


if __name__ == "__main__":
    main()
