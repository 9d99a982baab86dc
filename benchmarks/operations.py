"""The time of a training step by kinds of XLA's operations, as jax's profiler has it.

`python benchmarks/operations.py GRAPH.npz --model rgcn|rgat|hgt [--mode full]` trains steps as `step.py` or `whole_graph.py` do, and prints the median milliseconds of a
step without the profiler; then, of `--steps` steps with it, the milliseconds a step of every kind of operation, and of the longest ones: how often a step starts it, its name and result in the compiled
program, and the function that it is of. On a CPU, whose threads work at several operations at once and wait for each other, the sum is more than the step.
`--program FILE` also writes the compiled program. On a GPU `XLA_FLAGS=--xla_gpu_enable_command_buffer=` has it start operations one by one, which the profiler can tell apart.
"""

import argparse
import collections
import re
import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from hetjax.system import runtime

if __name__ == "__main__":
    runtime.prepare()

import jax
import step
import whole_graph
from graph_file import read

from hetjax.options.command_line import run_command
from hetjax.sharding import mesh as meshes
from hetjax.sharding.registry import make_engine

WARM = 3  # steps that compile, or follow them
INSTRUCTION = re.compile(r"^\s*(?:ROOT )?%?([\w.\-]+) = (\(.*?\)|\S+) [\w\-]+\(.*", re.MULTILINE)
LAYOUT = re.compile(r"\{[^{}]*\}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graph", help="an .npz file")
    parser.add_argument("--model", choices=list(step.MODELS), required=True)
    parser.add_argument("--mode", choices=["minibatch", "full"], default="minibatch")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--longest", type=int, default=40, help="how many operations are printed")
    parser.add_argument("--program", type=Path, help="a file for the compiled program's text")
    options = parser.parse_args()
    meshes.provide_cpu_devices(1, alone=True)
    graph = read(options.graph)
    config = step.configuration(options.model, min(1024, len(graph.splits["train"])), "25,20", 64)
    if options.mode == "full":
        config = whole_graph.configuration(options.model, 64, 4)
    engine: Any = make_engine(replace(config, sampling=replace(config.sampling, mode=options.mode)), graph)
    batch = next(iter(engine.batches.epoch(0))).batch
    jitted, given = engine.compiled, []

    def learn(*arguments: Any) -> Any:
        if not given:
            given.append(jax.tree.map(jax.typeof, arguments))
        return jitted(*arguments)

    state, engine.compiled, times = engine.init(0), learn, []
    for _ in range(WARM + options.steps):
        started = time.perf_counter()
        state, loss = engine.step(state, batch)
        jax.block_until_ready((state, loss))
        times.append(1000 * (time.perf_counter() - started))
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            for _ in range(options.steps):
                state, loss = engine.step(state, batch)
                jax.block_until_ready((state, loss))
        (file,) = Path(folder).rglob("*.xplane.pb")
        found = list(operations(jax.profiler.ProfileData.from_file(str(file))))
    text = jitted.lower(*given[0]).compile().as_text()
    if options.program:
        options.program.write_text(text)
    print(f"{options.model}, {options.mode}: {statistics.median(times[WARM:]):.2f} ms a step")
    show(found, text, options.steps, options.longest)


def operations(profile: jax.profiler.ProfileData) -> Iterator[tuple[str, float]]:
    """Yield names of operations, and the milliseconds that each ran, once for every time that it did."""
    for plane in profile.planes:
        for line in plane.lines:
            for event in line.events:
                name = dict(event.stats).get("hlo_op")
                if name is not None:
                    yield str(name), event.duration_ns / 1e6


def kind(name: str) -> str:
    """Return the kind of an operation, by its name in the program."""
    return re.sub(r"[.\d]+$", "", name)


def show(found: list[tuple[str, float]], text: str, steps: int, longest: int) -> None:
    """Print the tables."""
    about = {one[1]: one for one in INSTRUCTION.finditer(text)}
    times, kinds = collections.defaultdict(float), collections.defaultdict(float)
    for name, milliseconds in found:
        times[name] += milliseconds / steps
        kinds[kind(name)] += milliseconds / steps
    counts, of_kind = (collections.Counter(map(key, (name for name, _ in found))) for key in (str, kind))
    print(f"{sum(times.values()):.2f} ms of operations, {len(found) / steps:.0f} of them\n")
    for one, milliseconds in sorted(kinds.items(), key=lambda item: -item[1])[:longest]:
        print(f"{milliseconds:8.3f} ms {of_kind[one] / steps:6.1f} times  {one}")
    print()
    for name, milliseconds in sorted(times.items(), key=lambda item: -item[1])[:longest]:
        said = about.get(name)
        shape = LAYOUT.sub("", said[2])[:100] if said else ""
        of = re.search(r'op_name="([^"]*)"', said[0]) if said else None
        print(f"{milliseconds:8.3f} ms {counts[name] / steps:6.1f} times  {name} {shape} {of[1][-120:] if of else ''}")


if __name__ == "__main__":
    run_command(lambda arguments: main())
