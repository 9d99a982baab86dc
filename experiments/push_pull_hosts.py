"""Push-pull over emulated hosts: the bytes that the compiled programs say a step sends, and those that cross the links.

`python experiments/push_pull_hosts.py [--scale 0.01] [--count 2]` (as root, on Linux) trains mini-batches of a graph of ogbn-mag's schema
on so many hosts of a device each. Headers of packets are on the wire and not counted. Writes `experiments/results/push_pull_hosts.csv`.
"""

import argparse
import tempfile
from pathlib import Path

from hosts import hosts
from over_hosts import VANILLA, measure, stored
from runs import markdown, replace_rows
from tqdm import tqdm

RESULTS = Path(__file__).parent / "results"
KEYS = ("schema", "scale", "model", "hosts", "way")
WAYS = {"push-pull": ["--mesh.strategy=tensor", "--mesh.feature={count}"], "vanilla": VANILLA}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--schema", default="ogbn-mag")
    parser.add_argument("--scale", type=float, default=0.01)
    parser.add_argument("--models", nargs="+", default=["rgcn", "rgat"])
    parser.add_argument("--count", type=int, default=2)
    parser.add_argument("--rate", default="1gbit")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--steps", type=int, default=4)
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder, hosts(options.count, options.rate) as made:
        graph = stored(options.schema, options.scale, Path(folder))
        for model in tqdm(options.models, unit="model"):
            for way, more in WAYS.items():
                about = {
                    "schema": options.schema,
                    "scale": options.scale,
                    "model": model,
                    "hosts": options.count,
                    "way": way,
                }
                given = [*more, f"--model.name={model}", f"--sampling.batch_size={options.batch}"]
                given += [] if model == "rgcn" else ["--model.self_term=true"]
                found = measure(made, graph, given, options.steps, Path(folder))
                rows.append(about | found)
                replace_rows(RESULTS / "push_pull_hosts.csv", KEYS, rows)
    print(markdown(rows))


if __name__ == "__main__":
    main()
