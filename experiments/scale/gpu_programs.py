"""The program that XLA makes of a training step for a GPU that need not be there: its kernels, its memory, and the time
of compilation without tuning.

`JAX_PLATFORMS=cpu python experiments/scale/gpu_programs.py GRAPH.npz --target h100.txtpb` compiles steps of R-GCN, R-GAT and HGT, in mini-batches and on the whole graph,
as `benchmarks/step.py` and `whole_graph.py` have them. The graph is a file of `benchmarks/graph_file.py`, the target a description of a GPU as
XLA writes it. It needs jax's CUDA plugin (`jax-cuda12-plugin`, `jax-cuda12-pjrt` and `nvidia-cuda-nvcc-cu12` beside a jax of the same version;
`--plugin` names a folder that has them). Where a GPU is there, XLA also tries many ways of each product, which takes longer than the rest.

Writes `experiments/scale/results/gpu_programs.csv` after every program: kernels that the program starts, of which scatters and products; MiB of temporary
arrays; seconds until it was compiled, and of work of all cores.
"""

import argparse
import re
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import jax
from jax.experimental import topologies

from experiments.runs import markdown, read_rows, replace_rows

OUT = Path(__file__).parent / "results" / "gpu_programs.csv"
MODES = "full", "minibatch"
KERNEL = re.compile(r"^\s+(?:ROOT )?%?(\S+) = .*? (?:fusion|custom-call|dot|sort|scatter|gather|while)\(", re.MULTILINE)


class Given(Exception):
    """The arguments with which a step's program would have been called."""


def program(graph: Any, model: str, mode: str) -> tuple[Any, tuple]:
    """Return the function that a step of one device compiles, and its arguments."""
    import step
    import whole_graph

    from hetjax.sharding.registry import make_engine

    config = step.configuration(model, min(1024, len(graph.splits["train"])), "25,20", 64)
    if mode == "full":
        config = whole_graph.configuration(model, 64, 4)
    engine: Any = make_engine(replace(config, sampling=replace(config.sampling, mode=mode)), graph)

    def given(*arguments: Any) -> None:
        raise Given(arguments)

    state, engine.compiled = engine.init(0), given
    try:
        engine.step(state, next(iter(engine.batches.epoch(0))).batch)
    except Given as called:
        return engine.trainer.learn, called.args[0]
    raise AssertionError("a step trains")


def compiled(graph: Any, model: str, mode: str, target: Path) -> dict[str, Any]:
    """Return a row of the table."""
    from hetjax.sharding.trainer import multiply_in_full

    gpu = topologies.get_topology_desc("", "cuda", topology="1x1x1", target_config=target.read_text()).devices[0]
    where = jax.sharding.SingleDeviceSharding(gpu)
    with mock.patch.object(jax, "default_backend", lambda: "gpu"):
        multiply_in_full()
        learn, arguments = program(graph, model, mode)
        shapes = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=where), arguments)
        started, before = time.perf_counter(), time.process_time()
        made = jax.jit(learn, donate_argnums=0).lower(*shapes).compile()
    seconds, work = time.perf_counter() - started, time.process_time() - before
    text, memory = made.as_text(), made.memory_analysis()
    assert text is not None and memory is not None
    names = KERNEL.findall(text[text.index("\nENTRY ") :])
    row = {"model": model, "mode": mode, "kernels": len(names), "scatters": sum("scatter" in name for name in names)}
    row |= {"products": sum("gemm" in name or "dot" in name for name in names)}
    return row | {
        "temporary_mib": memory.temp_size_in_bytes >> 20,
        "seconds": round(seconds, 1),
        "work": round(work, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graph", help="an .npz file")
    parser.add_argument("--target", type=Path, required=True, help="a GPU's description")
    parser.add_argument("--plugin", type=Path, help="a folder of Python packages with jax's CUDA plugin")
    parser.add_argument("--models", nargs="+", choices=["rgcn", "rgat", "hgt"], default=["rgcn", "rgat", "hgt"])
    parser.add_argument("--modes", nargs="+", choices=MODES, default=list(MODES))
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    if options.plugin:
        sys.path.append(str(options.plugin))
    sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
    from graph_file import read

    graph = read(options.graph)
    for model in options.models:
        for mode in options.modes:
            replace_rows(options.out, ("model", "mode"), [compiled(graph, model, mode, options.target)])
    print(markdown(read_rows(options.out)))


if __name__ == "__main__":
    main()
