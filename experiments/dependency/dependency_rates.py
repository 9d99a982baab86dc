"""The rates that `hetjax.sharding.dependency.rates` measures alone, and where several processes of a computer measure at once.

`python experiments/dependency/dependency_rates.py` starts one and two processes, has all of them measure at the same moment, `--times` times, and writes
`experiments/dependency/results/dependency_rates.csv`: picoseconds of a number that is read and of a multiplication, the median and the range. numpy multiplies
with a thread for each core, so the threads of two processes wait for each other; that is why one process measures for all.
"""

import argparse
import multiprocessing
import statistics
from pathlib import Path

from tqdm import tqdm

from experiments.runs import markdown, replace_rows
from hetjax.sharding.dependency import rates

OUT = Path(__file__).parent / "results" / "dependency_rates.csv"


def measure(together, times: int, found) -> None:
    """Put the seconds of every time into a queue."""
    for _ in range(times):
        together.wait()
        found.put(rates.measure())


def row(count: int, times: int) -> dict:
    """Return the row of so many processes at once."""
    context = multiprocessing.get_context("spawn")
    together, found = context.Barrier(count), context.Queue()
    processes = [context.Process(target=measure, args=(together, times, found), daemon=True) for _ in range(count)]
    for process in processes:
        process.start()
    seconds = [found.get(timeout=300) for _ in range(count * times)]
    for process in processes:
        process.join()
    cells = {"processes": count, "times": times}
    for name, values in zip(("read", "multiplied"), zip(*seconds)):
        picoseconds = [1e12 * value for value in values]
        cells |= {f"{name}_ps": round(statistics.median(picoseconds), 1)}
        cells |= {f"{name}_least": round(min(picoseconds), 1), f"{name}_most": round(max(picoseconds), 1)}
    return cells


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", nargs="+", type=int, default=[1, 2], help="how many at once")
    parser.add_argument("--times", type=int, default=30)
    options = parser.parse_args()
    rows = [row(count, options.times) for count in tqdm(options.processes, unit="setting")]
    replace_rows(OUT, ("processes",), rows)
    print(markdown(rows))


if __name__ == "__main__":
    main()
