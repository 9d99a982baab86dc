"""A test whether XLA on a CPU runs a collective beside work that does not wait for it.

`python experiments/dependency/overlap.py` (as root, on Linux) sends an array around two emulated hosts (experiments/hosts.py) at 1 Gbit/s by one
`ppermute`, multiplies matrices that have nothing to do with it, and does both in one program, in turns. If the two ran side by side,
both would take as long as the longer of them; if not, as long as their sum. Prints milliseconds, the median of the rounds, and
writes `experiments/dependency/results/overlap.csv`.
"""

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

from hetjax.system import runtime

if __name__ == "__main__":
    runtime.prepare()

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec as P

from experiments.hosts import hosts, run
from experiments.runs import markdown, read_rows, write_rows
from hetjax.options.config import Processes
from hetjax.processes.launch import process_group
from hetjax.sharding import mesh as meshes
from hetjax.sharding.mesh import DATA, from_shards, shard_map

OUT = Path(__file__).parent / "results" / "overlap.csv"
BYTES, SIDE, TIMES, ROUNDS = 25 * 2**20, 1500, 5, 6


def sent(x: jax.Array, matrix: jax.Array) -> tuple[jax.Array, jax.Array]:
    return jax.lax.ppermute(x, DATA, [(0, 1), (1, 0)]), matrix


def multiplied(x: jax.Array, matrix: jax.Array) -> tuple[jax.Array, jax.Array]:
    for _ in range(TIMES):
        matrix = jnp.tanh(matrix @ matrix)
    return x, matrix


def both(x: jax.Array, matrix: jax.Array) -> tuple[jax.Array, jax.Array]:
    return sent(x, matrix)[0], multiplied(x, matrix)[1]


def of_host(address: str, number: int, out: Path) -> None:
    """Run one host."""
    with process_group(Processes(address, 2, number), {}):
        meshes.provide_cpu_devices(1)
        line = meshes.row(meshes.make(1, 2), 0)
        x = np.ones((BYTES // 512, 128), np.float32)
        arguments = [from_shards(line, [array]) for array in (x, np.full((SIDE, SIDE), 1e-3, np.float32))]
        programs = {f.__name__: jax.jit(shard_map(f, line, P(DATA), P(DATA))) for f in (sent, multiplied, both)}
        times: dict[str, list[float]] = {name: [] for name in programs}
        for _ in range(ROUNDS + 1):
            for name, program in programs.items():
                started = time.perf_counter()
                jax.block_until_ready(program(*arguments))
                times[name].append(1000 * (time.perf_counter() - started))
        rows = [{"program": name, "milliseconds": round(statistics.median(of[1:]), 1)} for name, of in times.items()]
        if not number:
            write_rows(out, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--host", nargs=3, metavar=("ADDRESS", "NUMBER", "FILE"), help="be one of the hosts")
    options = parser.parse_args()
    if options.host:
        address, number, file = options.host
        of_host(address, int(number), Path(file))
        return
    with tempfile.TemporaryDirectory() as folder, hosts(2, "1gbit") as made:
        command = [sys.executable, __file__, "--host", "{coordinator}", "{host}", str(OUT)]
        for number, ended in enumerate(run(made, command, Path(folder), 300)):
            if ended.status != 0:
                sys.exit(f"host {number} ended with {ended.status}\n{ended.output[-3000:]}")
    print(markdown(read_rows(OUT)))


if __name__ == "__main__":
    main()
