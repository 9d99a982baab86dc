"""The time and the memory that the baselines take.

`HETJAX_DATA=FOLDER python benchmarks/baselines.py` computes them for every graph of `evaluation.py`, each in a process of its own, and prints a table: of each graph
the median seconds of logistic regression and of label propagation, what the latter came along, its accuracy on the validation nodes (micro-F1), and the peak of memory,
reading the graph included. It writes `benchmarks/results/baselines.{json,md}` after each; rows of other graphs stay there. `--package DIR ...` are checkouts that are timed in turns.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

from evaluation import GRAPHS, HERE, ROOT

HEAD = "| graph | edges | classes | package | logistic regression, s | label propagation, s | along | validation micro-F1, % | peak, MiB |"
RUN = """
import json, sys
from hetjax.system import runtime
from hetjax.tasks import baselines
from hetjax.training import run_options
from hetjax.datasets.load import load
config, _, _ = run_options.read(sys.argv[1:])
graph = load(config.data)
found = baselines.baselines(graph, "micro_f1")
made = {name: one if isinstance(one, str) else {"seconds": one.seconds, "how": one.how} for name, one in found.items()}
for name, one in found.items():
    if not isinstance(one, str):
        made[name]["validation"] = one.quality(graph, "validation", "micro_f1")["micro_f1"]
print(json.dumps(made | {"edges": graph.edges, "classes": graph.schema.classes, "peak_mib": runtime.peak_memory() >> 20}))
"""


def measured(package: Path, graph: str) -> dict:
    """Return the results of a checkout."""
    options = ["--data.format", *GRAPHS[graph], "--train.recipe", "none", "--workdir", "unused"]
    environment = os.environ | {"PYTHONPATH": str(package)}
    command = [sys.executable, "-c", RUN, *options]
    done = subprocess.run(command, env=environment, cwd=package, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{graph}\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1]) | {"package": package.name, "graph": graph}


def table(rows: list[dict]) -> str:
    lines = [HEAD, "|---" * (HEAD.count("|") - 1) + "|"]
    for graph, package in dict.fromkeys((row["graph"], row["package"]) for row in rows):
        own = [row for row in rows if (row["graph"], row["package"]) == (graph, package)]
        cells = [graph, f"{own[0]['edges']:,}", str(own[0]["classes"]), package]
        for name in ("logistic regression", "label propagation"):
            made = [row[name] for row in own]
            left_out = isinstance(made[0], str)
            cells.append(made[0] if left_out else f"{statistics.median(one['seconds'] for one in made):.2f}")
        about = own[0]["label propagation"]
        cells += ["", ""] if left_out else [about["how"].removeprefix("along "), f"{100 * about['validation']:.2f}"]
        lines.append(f"| {' | '.join(cells)} | {max(row['peak_mib'] for row in own):,} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    choices = {"choices": list(GRAPHS), "metavar": "GRAPH", "help": f"of {', '.join(GRAPHS)}"}
    parser.add_argument("--graphs", nargs="+", default=list(GRAPHS), **choices)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--package", type=Path, nargs="+", default=[ROOT], help="checkouts; default: this one")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "baselines", help="without its suffix")
    options = parser.parse_args()
    packages = [package.absolute() for package in options.package]
    if len({package.name for package in packages}) < len(packages):
        parser.error("checkouts need folders of different names, by which rows are called")
    kept = options.out.with_suffix(".json")
    rows = json.loads(kept.read_text()) if kept.exists() else []
    for graph in options.graphs:
        rows = [row for row in rows if row["graph"] != graph]
        rows += [measured(package, graph) for _ in range(options.rounds) for package in packages]
        kept.write_text(json.dumps(rows))
        options.out.with_suffix(".md").write_text(f"# Baselines\n\n{table(rows)}\n")
    print(table(rows))


if __name__ == "__main__":
    main()
