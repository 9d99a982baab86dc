"""The time in which a served model answers for one node.

`python benchmarks/serving.py --workdir RUN` loads a run with `hetjax.load`, and asks for the class of random nodes of
its target type, one at a time, each from its full neighbourhood. It times every question from the call to the answer, in
this process, and prints a row of Markdown: the graph, the first question (with its compilation), and of the
others the median, the 99th percentile and the slowest, in milliseconds; how many programs there were at the end; and the
largest difference of a probability from that which `hetjax.predict` gives, beside how many are the same to the last bit. With `--ahead` the
layers below the last were computed for all nodes before. `--out FILE.md` also appends the row to a file.

Questions that wait for a program are among those that are timed, as they are when a model is served. `--warm N` asks for so many
other nodes before, and leaves them out.
"""

import argparse
import time
from pathlib import Path

import numpy as np

import hetjax

HEADER = "| graph | nodes | edges | load, s | first, ms | median, ms | 99 %, ms | slowest, ms | programs | largest difference | same bits |"


def main() -> None:
    """Measure as the command line asks."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workdir", type=Path, required=True)
    parser.add_argument("--questions", type=int, default=1000)
    parser.add_argument("--warm", type=int, default=0)
    parser.add_argument("--ahead", action="store_true")
    parser.add_argument("--name", default="")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    started = time.perf_counter()
    model = hetjax.load(options.workdir, ahead=options.ahead)
    loading = time.perf_counter() - started
    ids = model.graph.names.of(model.target, model.graph.schema.nodes[model.target])
    rng = np.random.default_rng(0)
    asked = rng.integers(0, len(ids), 1 + options.warm + options.questions)
    answers, seconds = [], []
    for number in asked:
        name = ids[int(number)].as_py()
        started = time.perf_counter()
        answers.append(model.proba(name)[0])
        seconds.append(time.perf_counter() - started)
    expected = hetjax.predict(options.workdir).probabilities[asked]
    found = np.stack(answers)
    times = 1000 * np.array(seconds[1 + options.warm :])
    name = (options.name or options.workdir.name) + ", ahead" * options.ahead
    row = [
        name,
        f"{sum(model.graph.schema.nodes.values()):,}",
        f"{model.graph.edges:,}",
        f"{loading:.1f}",
        f"{1000 * seconds[0]:.0f}",
        *(f"{value:.2f}" for value in (np.median(times), np.percentile(times, 99), times.max())),
        str(model.programs),
        f"{np.abs(found - expected).max():.1e}",
        f"{np.mean((found == expected).all(axis=1)):.1%}",
    ]
    line = f"| {' | '.join(row)} |"
    print(HEADER, line, sep="\n")
    if options.out:
        new = not options.out.exists()
        with open(options.out, "a") as stream:
            stream.write((f"{HEADER}\n|{'---|' * len(row)}\n" if new else "") + line + "\n")


if __name__ == "__main__":
    main()
