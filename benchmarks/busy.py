"""How much a training step slows down on a busy machine: beside so many processes that never rest, hetjax and DGL.

`python benchmarks/busy.py --dgl PYTHON` times every model on every graph of `--graphs` in `--rounds` rounds, as `peers.py` does: hetjax alone, hetjax
beside `--loops` busy processes, DGL alone, DGL beside them, and again. Writes `benchmarks/results/busy.{json,md}`: the medians, how many times
as long a step takes beside them, and the least and the most of the rounds.
"""

import argparse
import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from peers import HERE, MODELS, NAMES, PEERS, batch_of, timed, written


@contextlib.contextmanager
def busy(loops: int) -> Iterator[None]:
    """Inside, so many processes count."""
    processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(loops)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def rounds(name: str, graph: Path, options: argparse.Namespace) -> Iterator[dict]:
    """Time everybody on a graph, in turns."""
    scripts = {"hetjax": [sys.executable, HERE / "step.py"], "DGL": [options.dgl, PEERS / "dgl_step.py"]}
    batch = batch_of(graph, options.batch)
    for number in range(options.rounds):
        for model in options.models:
            for who, script in scripts.items():
                row = {"graph": name, "model": model, "who": who, "round": number}
                for state, loops in (("alone", 0), ("busy", options.loops)):
                    with busy(loops):
                        found = timed([*script, graph, "--model", model, "--batch", batch], options.steps, options.most)
                    if "failed" in found:
                        sys.exit(f"{name}, {model}, {who}, {state}: {found['failed']}")
                    row[state] = found["ms_per_step"]
                print(json.dumps(row), flush=True)
                yield row


def table(rows: list[dict], loops: int) -> str:
    lines = [
        f"| graph | model | system | ms a step | beside {loops} busy processes | times as long (rounds) |",
        "|---|---|---|---|---|---|",
    ]
    for key in dict.fromkeys((row["graph"], row["model"], row["who"]) for row in rows):
        own = [row for row in rows if (row["graph"], row["model"], row["who"]) == key]
        alone, beside = (statistics.median(row[state] for row in own) for state in ("alone", "busy"))
        times = [row["busy"] / row["alone"] for row in own]
        spread = f"{statistics.median(times):.1f} ({min(times):.1f} to {max(times):.1f})"
        lines.append(f"| {key[0]} | {NAMES[key[1]]} | {key[2]} | {alone:.1f} | {beside:.1f} | {spread} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dgl", type=Path, required=True, help="the Python of an environment that has DGL")
    parser.add_argument("--graphs", nargs="+", default=["ogbn-mag x 0.1", "ogbn-mag x 0.01"], help="as of peers.py")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--loops", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--most", type=int, default=1200, help="seconds that a process may take")
    parser.add_argument("--folder", type=Path, help="where graphs are kept; default: they are not")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "busy", help="without its suffix")
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as temporary:
        for name in options.graphs:
            for row in rounds(name, written(name, options.folder or Path(temporary)), options):
                rows.append(row)
                options.out.with_suffix(".json").write_text(json.dumps(rows, indent=1) + "\n")
                words = f"# A training step on a busy machine\n\n{table(rows, options.loops)}\n"
                options.out.with_suffix(".md").write_text(words)
    print(table(rows, options.loops))


if __name__ == "__main__":
    main()
