"""The gradient of a matrix, `X^T G`, by hetjax's kernel and by XLA, on a grid of shapes.

`python benchmarks/products.py` times both in turns, in float32, and writes `benchmarks/results/products.md`: of every shape the median milliseconds, how many times as
long XLA takes (median of the rounds, with the least and the most), and the billion multiplications a second.
"""

import statistics
import time
from argparse import ArgumentParser
from pathlib import Path

from hetjax.system import runtime

if __name__ == "__main__":
    runtime.prepare()

import jax
from tqdm import tqdm

from hetjax.kernels import products

OUT = Path(__file__).parent / "results" / "products.md"
SHAPES = (
    *((1, rows, width, 64) for rows in (1000, 20_000, 100_000) for width in (16, 64, 128, 1024)),
    (1, 700_000, 128, 64),
    (1, 5000, 95, 64),
    (1, 20_000, 64, 4),
    (1, 20_000, 4, 64),
    *((1, rows, 64, 349) for rows in (1000, 60_000)),
    *((4, rows, width, 16) for rows in (1000, 20_000) for width in (64, 128, 1024)),
)
HEAD = """# The gradient of a matrix: hetjax's kernel beside XLA

`python benchmarks/products.py --rounds {rounds}`: jax {version}, {cores} cores, float32.

| matrices, rows, width, columns | kernel, ms | XLA, ms | times as long | billion multiplications a second: kernel, XLA |
|---|---|---|---|---|
"""


def main() -> None:
    parser = ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    ways = jax.jit(products.turned_product), jax.jit(products.turned_by_xla)
    lines, ratios = [], []
    for batch, rows, width, columns in tqdm(SHAPES):
        keys = jax.random.split(jax.random.key(0))
        x, y = (jax.random.normal(key, (batch, rows, size)) for key, size in zip(keys, (width, columns)))
        times = [[seconds(way, x, y) for way in ways] for _ in range(rounds + 1)][1:]
        own, other = (1000 * statistics.median(column) for column in zip(*times))
        both = sorted(plain / kernel for kernel, plain in times)
        ratio, work = statistics.median(both), batch * rows * width * columns / 1e6
        ratios.append(ratio)
        lines.append(
            f"| {batch}, {rows:,}, {width}, {columns} | {own:.2f} | {other:.2f} | {ratio:.1f} ({both[0]:.1f} to {both[-1]:.1f}) "
            f"| {work / own:.0f}, {work / other:.0f} |"
        )
    head = HEAD.format(rounds=rounds, version=jax.__version__, cores=runtime.cores())
    middle = f"\nXLA takes {statistics.median(ratios):.1f} times as long in the median, {min(ratios):.1f} to {max(ratios):.1f}.\n"
    OUT.write_text(head + "\n".join(lines) + "\n" + middle)
    print(OUT.read_text())


def seconds(way, x, y) -> float:
    started = time.perf_counter()
    jax.block_until_ready(way(x, y))
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
