"""Tensor parallelism beside partitions of the nodes on emulated hosts: the time of a step on the whole graph, and its bytes.

`HETJAX_DATA=... python experiments/tensor/tensor_hosts.py` (as root, on Linux) trains every graph on so many hosts of one device each, over links
of `--rate`, in four ways: `vanilla` (ranges of ids; every dependency is computed), `communicate` (every one is fetched), `coupled`
and `decoupled` (another model) by tensor parallelism. All stay in one process per host, and rounds take turns. Columns: median
milliseconds of a step, the fastest and the slowest round's median, bytes counted and on the wire, and how much faster than vanilla.
Hosts share this computer's cores, and its memory: with `--ways` some ways run alone, beside `vanilla`. Writes `experiments/tensor/results/tensor_hosts.csv`.
"""

from experiments.dependency.dependency_runs import check, noise
from experiments.runs import markdown
from experiments.tensor.tensor_runs import WAYS, compared, parser_of


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--ways", nargs="+", choices=list(WAYS), default=list(WAYS), help="of these, and vanilla")
    options = parser.parse_args()
    ways = {name: way for name, way in WAYS.items() if name in ("vanilla", *options.ways)}
    rows = compared(options, ways, options.out / "tensor_hosts.csv")
    print(markdown(rows), noise(rows), sep="\n")
    check(rows, options.count)


if __name__ == "__main__":
    main()
