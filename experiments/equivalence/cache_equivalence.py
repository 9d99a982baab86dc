"""Training with features on the host or on disk against training with all on the device: equal to the last bit?

`python experiments/equivalence/cache_equivalence.py` trains every model, of two layers, on one device and on meshes of 2 and 4, where
partitions or replicas share learnable types, or where the nodes are divided among 2 and 4 partitions; with learnable tables on the device, on the host and on disk; every policy
of the cache; budgets of nothing, one row, 1 and 10 % of all bytes, and everything; with and without prefetching. Losses
and the last state (weights, moments, tables and counts) are held against those of the same mesh with tables on the
device. Disk is tried with prefetching alone, and R-GAT and HGT with a budget of 10 % alone. Prints a line per model and mesh, writes `experiments/equivalence/results/cache_equivalence.csv`, and exits with status 1 if
any differs. `--meshes nodes` leaves out those that do not divide the nodes.
"""

import argparse
import dataclasses
import itertools
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from experiments.runs import replace_rows
from tests.support import quick  # isort: split

quick.compile_quickly()

from tqdm import tqdm

from tests.support.graphs import random_graph
from tests.support.hosting import MODELS, config_of, same, trained

RELATIONS = ((1, 1), (2, 1), (1, 2), (4, 1), (2, 2))
NODES = (
    (1, 4, "dependency", ("mode", "communicate")),
    (1, 2, "dependency", ("mode", "hybrid"), ("cached", 0.5)),
    (1, 4, "vanilla"),
)
MESHES = {"relations": RELATIONS, "nodes": NODES}
LEARNABLE, STATIC = ("author", "venue", "ghost"), ("paper", "topic")
POLICIES = ("hotness", "miss_penalty", "optimal")
ROW = 76  # bytes of the largest
BUDGETS = {"one row": ROW, "1 %": 0.01, "10 %": 0.1, "everything": 10**9}


def everywhere(place: str) -> tuple[str, ...]:
    """Return a placement of learnable types in one place, and of static ones on the host: read in place they would be
    summed in another order."""
    return *(f"{name}={place}" for name in LEARNABLE), *(f"{name}=host" for name in STATIC)


def cases(total: int, budgets: Mapping[str, float]):
    """Yield the cases: the row of the table without its result, and the options of the cache."""
    for place, prefetch in (("host", True), ("host", False), ("disk", True)):
        about = {"tables": place, "prefetch": prefetch}
        for bound in (-1, 10**9):
            options = {
                "placement": everywhere(place),
                "prefetch": prefetch,
                "policy": "none",
                "bytes_per_device": bound,
            }
            yield about | {"policy": "none", "budget": "nothing" if bound < 0 else "everything"}, options
        for policy, (name, budget) in itertools.product(POLICIES, budgets.items()):
            bound = int(budget * total) if budget < 1 else budget
            options = {
                "placement": everywhere(place),
                "prefetch": prefetch,
                "policy": policy,
                "bytes_per_device": bound,
            }
            yield about | {"policy": policy, "budget": name}, options


def described(mesh: tuple) -> str:
    """Return the strategy of a mesh, and its options."""
    name = mesh[2] if len(mesh) > 2 else "single" if mesh == (1, 1) else "raf"
    return " ".join([name, *(str(value) for _, value in mesh[3:])])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--meshes", nargs="+", choices=list(MESHES), default=list(MESHES))
    options, graph, rows = parser.parse_args(), random_graph(3), []
    nodes = graph.schema.nodes
    total = sum(nodes[name] * ROW for name in LEARNABLE) + sum(graph.features[name].nbytes for name in STATIC)
    with tempfile.TemporaryDirectory() as place:
        for name, mesh in itertools.product(options.models, [mesh for of in options.meshes for mesh in MESHES[of]]):
            model = dataclasses.replace(MODELS[name], layers=2)
            tried = list(cases(total, BUDGETS if name == "rgcn" else {"10 %": 0.1}))
            plain = trained(graph, config_of(model, mesh=mesh, placement=everywhere("device")), Path(place))
            where = {"model": name, "relation": mesh[0], "data": mesh[1], "strategy": described(mesh)}
            for about, cache in tqdm(tried, " ".join(map(str, where.values()))):
                found = trained(graph, config_of(model, mesh=mesh, **cache), Path(place))
                hits = sum(one["hits"] for one in found.features.report())
                rows.append(
                    where | about | {"cache_hits": hits, "steps": len(found.losses), "identical": same(found, plain)}
                )
            alike = sum(row["identical"] for row in rows[-len(tried) :])
            print(
                f"{name} on {mesh[0]} x {mesh[1]}, {described(mesh)}: {alike} of {len(tried)} identical to tables on the device",
                flush=True,
            )
    replace_rows(Path(__file__).parent / "results" / "cache_equivalence.csv", ("model", "strategy"), rows)
    sys.exit(not all(row["identical"] for row in rows))


if __name__ == "__main__":
    main()
