"""Milliseconds of a step by the number of pairs up to which a relation is aggregated together with others (`models.grouping.LARGE`).

`python benchmarks/together.py GRAPH ...` times the models of `step.py` on files as `graph_file.py` writes them, each
limit in a process of its own, by turns; -1: no relations are aggregated together. Prints a table, and writes
`benchmarks/results/together.{json,md}`: medians of `--rounds`, and the least and the most.
"""

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

from hetjax.system import runtime

if __name__ == "__main__":
    runtime.prepare()

import step

from hetjax.kernels import grouping

HERE = Path(__file__).parent
LIMITS = -1, 3_000, 6_000, 12_000, 24_000, 48_000


def main() -> None:
    if "--limit" in sys.argv:  # in a process of its own
        at = sys.argv.index("--limit")
        grouping.LARGE = int(sys.argv[at + 1])
        del sys.argv[at : at + 2]
        step.main()
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graphs", nargs="+", type=Path, help=".npz files")
    parser.add_argument("--models", nargs="+", choices=list(step.MODELS), default=list(step.MODELS))
    parser.add_argument("--limits", nargs="+", type=int, default=LIMITS)
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    found: dict[str, list[float]] = {}
    for _ in range(options.rounds):
        for graph in options.graphs:
            for model in options.models:
                for limit in options.limits:
                    found.setdefault(f"{graph.stem} {model} {limit}", []).append(milliseconds(graph, model, limit))
                    write(found)


def milliseconds(graph: Path, model: str, limit: int) -> float:
    """Return the milliseconds of a step with nothing sampled beside it."""
    command = [sys.executable, __file__, str(graph), "--model", model, "--limit", str(limit)]
    made = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(made.stdout.splitlines()[-1])["parts"]["step, nothing sampled beside it"]


def write(found: dict[str, list[float]]) -> None:
    """Write the figures, and the table of them."""
    cells: dict[str, dict[str, list[float]]] = {}
    for name, times in found.items():
        case, limit = name.rsplit(" ", 1)
        cells.setdefault(case, {})[limit] = times
    limits = list(dict.fromkeys(name.rsplit(" ", 1)[1] for name in found))
    lines = ["# Relations folded together, by the most pairs that one may have", "", "Milliseconds of a step.", ""]
    lines += ["| graph, model | " + " | ".join(limits) + " |", "|---|" + len(limits) * "---|"]
    for case, row in cells.items():
        shown = [_shown(row[limit]) if limit in row else "" for limit in limits]
        lines.append(f"| {case} | " + " | ".join(shown) + " |")
    folder = HERE / "results"
    (folder / "together.json").write_text(json.dumps(found, indent=1) + "\n")
    (folder / "together.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines[4:]), flush=True)


def _shown(times: list[float]) -> str:
    return f"{statistics.median(times):.1f} ({min(times):.1f} to {max(times):.1f})"


if __name__ == "__main__":
    main()
