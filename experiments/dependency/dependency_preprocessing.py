"""The time that hybrid takes before the first step, against 100 epochs: NeutronStar's Table 3.

`HETJAX_DATA=... python experiments/dependency/dependency_preprocessing.py` times, in one process with a device for each partition, of every graph: dividing
it, naming the dependencies as every mode does (`shares`), knowing what they cost (`costs.read_or_measure`) on a computer that has kept nothing and
compiles every program anew (`new`), or has trained such a model before (`kept`), and choosing (`strategy.chosen`: Algorithm 4, and naming
the dependencies of what it compares). Functions that numba compiles are compiled before. Seconds are the median of five times, but for dividing
and new costs, which are of one. 100 epochs are 100 times the median of `--steps` steps of hybrid, in the same process. `new_share` and `kept_share`
are costs and choosing, by 100 epochs; `measured` says whether costs were measured with the model's own layers, or reckoned. Prints its table, and
writes `experiments/dependency/results/dependency_preprocessing.csv`.
"""

import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tqdm import tqdm

from experiments.dependency.dependency_counts import config_of, setup_of
from experiments.dependency.dependency_runs import HYBRID, MODELS, best_and_worst, parser_of, setting, stored
from experiments.runs import markdown, replace_rows
from hetjax.partition import edge_cut
from hetjax.sampling.sampler import ALL
from hetjax.sharding import mesh as meshes
from hetjax.sharding import registry
from hetjax.sharding.dependency.costs import read_or_measure
from hetjax.sharding.dependency.prices import priced
from hetjax.sharding.dependency.shares import Names, nothing, shares
from hetjax.sharding.dependency.strategy import chosen, message, sampler_of
from hetjax.sharding.strategy import Setup

EPOCHS, METHODS = 100, ("contiguous", "metis", "fennel", "random")
KEYS = ("graph", "model", "hidden", "hosts")
TIMES = 5


def timed(work: Callable[[], Any], times: int = 1) -> tuple[Any, float]:
    """Return the result of a function, and its seconds, the median of several times."""
    found, seconds = None, []
    for _ in range(times):
        started = time.perf_counter()
        found = work()
        seconds.append(time.perf_counter() - started)
    return found, round(statistics.median(seconds), 4)


def prepared(given: Setup, parts: int, folder: Path) -> dict:
    """Return the seconds of each part; costs are cached in the folder, which has none."""
    graph, hops = given.graph, (ALL,) * len(given.regime.fanouts)
    seconds, cuts = {}, {}
    for method in METHODS:
        cuts[method], seconds[f"{method}_s"] = timed(lambda method=method: edge_cut(graph, parts, method))
    owned, seeds = cuts["contiguous"].owned, {graph.schema.target: graph.splits["train"]}
    sampler = sampler_of(given)
    _, seconds["dependencies_s"] = timed(lambda: shares(sampler, owned, seeds, hops, (0,), nothing), TIMES)
    mesh, names = meshes.row(meshes.make(1, parts), 0), Names(sampler)
    os.environ["XDG_CACHE_HOME"] = str(folder)
    for name, times in (("costs_new_s", 1), ("costs_kept_s", TIMES)):
        costs, seconds[name] = timed(lambda: read_or_measure(given, mesh, message(given, owned, names)), times)
    prices = priced(given, costs)
    _, seconds["choosing_s"] = timed(lambda: chosen(given, owned, Names(sampler), prices), TIMES)
    return seconds | {"measured": str(costs.measured).lower()}


def step(given: Setup, steps: int) -> float:
    """Return the median seconds of a step, after two."""
    strategy = registry.find(given.config)
    engine = strategy.engine(given, strategy.partition(given))
    engine.batches.prepare()
    batch, state = next(iter(engine.batches.epoch(0))).batch, engine.init(0)
    found = []
    for _ in range(2 + steps):
        started = time.perf_counter()
        state, loss = engine.step(state, batch)
        float(loss)
        found.append(time.perf_counter() - started)
    return statistics.median(found[2:])


def main() -> None:
    parser = parser_of(__doc__)
    parser.set_defaults(graphs=["cora", "citeseer", "tolokers", "web", "aifb", "ogbn-mag"], steps=20)
    options = parser.parse_args()
    meshes.provide_cpu_devices(options.count)
    rows: list[dict] = []
    with tempfile.TemporaryDirectory() as made_here:
        folder = options.folder or Path(made_here)
        for number, name in enumerate(tqdm([options.graphs[0], *options.graphs], unit="graph")):  # the first compiles
            model = options.model or MODELS[name]
            graph = setting(stored(name, folder), model, options.hidden)
            given = setup_of(config_of([*graph, f"--mesh.data={options.count}", HYBRID]))
            about = {"graph": name, "model": model, "hidden": options.hidden, "hosts": options.count}
            row = about | prepared(given, options.count, Path(made_here, f"costs_{number}"))
            row["100_epochs_s"] = round(EPOCHS * step(given, options.steps), 2)
            for costs in ("new", "kept"):
                before = row[f"costs_{costs}_s"] + row["choosing_s"]
                row[f"{costs}_share"] = round(before / row["100_epochs_s"], 4)
            rows.append(row)
    rows = rows[1:]
    replace_rows(options.out / "dependency_preprocessing.csv", KEYS, rows)
    print(markdown(rows))
    for share in ("new_share", "kept_share"):
        print(best_and_worst([row | {share: -row[share]} for row in rows], share, f"minus the {share} of 100 epochs"))
    print("noise: dividing and new costs are of one run")


if __name__ == "__main__":
    main()
