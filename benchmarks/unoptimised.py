"""A check that the optimisations of a step do not change its result: the loss of every step beside that of the plain path.

`python benchmarks/unoptimised.py` trains each model for `--steps` steps, by `step.py` and by `step.py --plain`: sums over edges by
XLA's segment sums, attention by XLA's operations, every source row multiplied by its matrix first; and by `step.py --nudge`, from
weights that are the next larger numbers, which says how far apart rounding alone takes a model. The graph is a file as
`graph_file.py` says; without one a synthetic ogbn-mag of `--scale` is written. Prints a table, and writes
`benchmarks/results/unoptimised.{json,md}`: the losses at the last step, the largest relative difference of any step's, and
how many times as long the plain path takes. `--double` does the same in float64, where what remains would be another cause
than rounding. Rows of models that are not trained stay as they are.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from graph_file import write
from peers import MODELS, NAMES
from tqdm import tqdm

from hetjax.datasets.synthetic import generate

HERE = Path(__file__).parent
DIFFERENCES = "difference_at_the_last_step", "largest_difference", "nudged_at_the_last_step", "largest_nudged"


def trained(graph: Path, model: str, steps: int, *how: str) -> dict:
    """Return the output of `step.py`."""
    about = [sys.executable, HERE / "step.py", graph, "--model", model, "--losses", steps, *how]
    process = subprocess.run(list(map(str, about)), capture_output=True, text=True)
    if process.returncode:
        sys.exit(f"{' '.join(map(str, about))}\n{process.stderr[-2000:]}")
    return json.loads(process.stdout.strip().splitlines()[-1])


def compared(fast: dict, plain: dict, nudged: dict) -> dict:
    differences, nudges = (
        [abs(a - b) / abs(b) for a, b in zip(fast["losses"], other["losses"], strict=True)] for other in (plain, nudged)
    )
    return {
        "loss": fast["losses"][-1],
        "plain_loss": plain["losses"][-1],
        **dict(zip(DIFFERENCES, (differences[-1], max(differences), nudges[-1], max(nudges)), strict=True)),
        "times_as_long": round(plain["ms_per_step"] / fast["ms_per_step"], 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graph", type=Path, help="an .npz file; default: a synthetic ogbn-mag")
    parser.add_argument("--scale", type=float, default=0.1, help="of the synthetic graph")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--double", action="store_true", help="train in float64")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "unoptimised", help="without its suffix")
    options = parser.parse_args()
    file, wide = options.out.with_suffix(".json"), ["--double"] if options.double else []
    rows = json.loads(file.read_text()) if file.exists() else []
    numbers, ways = "float64" if options.double else "float32", [wide, [*wide, "--plain"], [*wide, "--nudge"]]
    with tempfile.TemporaryDirectory() as folder:
        graph = options.graph or Path(folder) / "graph.npz"
        if not options.graph:
            write(generate("ogbn-mag", options.scale), graph)
        with tqdm(total=len(options.models) * len(ways), unit="run") as bar:
            for model in options.models:
                found = []
                for way in ways:
                    found.append(trained(graph, model, options.steps, *way))
                    bar.update()
                about = {"model": model, "numbers": numbers, "steps": options.steps}
                about["graph"] = "the file given" if options.graph else f"ogbn-mag, scale {options.scale}"
                rows = [row for row in rows if (row["model"], row["numbers"]) != (model, numbers)]
                rows.append(about | compared(*found))
    rows.sort(key=lambda row: (row["numbers"], MODELS.index(row["model"])))
    lines = [
        "| model | numbers | graph | steps | last loss | of the plain path | relative difference | largest of any step | of nudged weights | largest | plain takes |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        differences = " | ".join(f"{row[key]:.1e}" if key in row else "" for key in DIFFERENCES)
        about = f"{NAMES[row['model']]} | {row['numbers']} | {row['graph']} | {row['steps']}"
        lines.append(
            f"| {about} | {row['loss']:.6f} | {row['plain_loss']:.6f} | {differences} | {row['times_as_long']} times as long |"
        )
    print("\n".join(lines))
    options.out.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(rows, indent=1) + "\n")
    options.out.with_suffix(".md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
