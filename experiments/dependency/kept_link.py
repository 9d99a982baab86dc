"""The frequency with which a start between hosts uses the cached costs of the link, and notices that the link has changed.

`python experiments/dependency/kept_link.py` (as root, on Linux) limits the links of emulated hosts to one bandwidth after the other, and asks for the costs
that `hybrid` chooses by as often at each as there are starts. Nothing is kept at first. At every bandwidth the first start should measure, if
the one before was another, and no other should. Writes `experiments/dependency/results/kept_link.csv`: of every start whether the link was measured, what a
number costs, and the messages that the processes sent each other for it, those of jax apart. Prints what was right.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from hetjax.system import runtime

if __name__ == "__main__" and "--number" in sys.argv:
    runtime.prepare()

from experiments.dependency.dependency_counts import config_of, setup_of
from experiments.dependency.dependency_runs import HYBRID
from experiments.hosts import DEVICE, hosts, run, shape
from experiments.runs import replace_rows
from hetjax.options.config import Processes
from hetjax.processes.launch import process_group
from hetjax.sharding import mesh as meshes
from hetjax.sharding.dependency import link
from hetjax.sharding.dependency.costs import read_or_measure

OUT = Path(__file__).parent / "results" / "kept_link.csv"
RATES = ("1gbit", "1gbit", "10gbit", "1gbit", "100mbit", "10gbit", "100mbit")
NUMBERS = 700_000  # of a message of Tolokers, 64 wide


def host(out: Path, starts: int, given: Processes) -> None:
    """Run one host; the first writes the rows."""
    rows: list[dict] = []
    with process_group(given, {}) as group, tempfile.TemporaryDirectory() as cache:
        os.environ["XDG_CACHE_HOME"] = cache
        meshes.provide_cpu_devices(1)
        options = ["--mesh.strategy=dependency", "--sampling.mode=full", f"--mesh.data={group.count}", HYBRID]
        setup, mesh = setup_of(config_of(options), group), meshes.row(meshes.make(1, group.count), 0)
        measured, measure = [], link.measure
        link.measure = lambda *about: measured.append(about) or measure(*about)
        before = ""
        for rate in RATES:
            subprocess.run(["tc", "qdisc", "replace", "dev", DEVICE, "root", *shape(rate)], check=True)
            for start in range(starts):
                group.barrier("start")
                sent, times = group.calls.total(), len(measured)
                costs = read_or_measure(setup, mesh, NUMBERS)
                row = {"hosts": group.count, "rate": rate, "before": before, "start": start}
                row |= {"measured": len(measured) - times, "nanoseconds_of_a_number": round(1e9 * costs.sent, 1)}
                rows.append(row | {"messages": group.calls.total() - sent})
                before = rate
        if group.first:
            out.write_text(json.dumps(rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=2, help="number of hosts")
    parser.add_argument("--starts", type=int, default=12, help="at every bandwidth")
    parser.add_argument("--out", type=Path, default=OUT, help="where the table is written")
    parser.add_argument("--coordinator", help="of one host: address and port of host 0")
    parser.add_argument("--number", type=int, help="of one host")
    given = parser.parse_args()
    if given.number is not None:
        return host(given.out, given.starts, Processes(given.coordinator, given.count, given.number))
    with tempfile.TemporaryDirectory() as folder, hosts(given.count, RATES[0]) as made:
        out = Path(folder, "rows.json")
        common = [sys.executable, __file__, f"--out={out}", f"--count={given.count}", f"--starts={given.starts}"]
        ended = run(made, [*common, "--coordinator={coordinator}", "--number={host}"], Path(folder), 1800)
        for number, one in enumerate(ended):
            if one.status != 0:
                sys.exit(f"host {number} ended with {one.status}\n{one.output[-3000:]}")
        rows = json.loads(out.read_text())
    replace_rows(given.out, ("hosts",), rows)
    changed = [row for row in rows if row["before"] not in ("", row["rate"])]
    same = [row for row in rows if row["before"] == row["rate"]]
    print(
        f"measured in {sum(row['measured'] for row in changed)} of {len(changed)} starts with another link than before"
    )
    print(f"measured in {sum(row['measured'] for row in same)} of {len(same)} starts with the same")
    print(
        f"messages of a process in a start that took what was kept: {sorted({row['messages'] for row in rows if not row['measured']})}"
    )


if __name__ == "__main__":
    main()
