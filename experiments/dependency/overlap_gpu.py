"""A test whether XLA's program for GPUs aggregates received rows while the next rows of a ring travel: read from the
compiled program, as nothing runs.

`HETJAX_DATA=... JAX_PLATFORMS=cpu python experiments/dependency/overlap_gpu.py --target h100.txtpb` compiles a step of GCN on Tolokers, 64 wide, of four partitions,
`communicate` with every schedule, for four GPUs that need not be there. It needs jax's CUDA plugin (`jax-cuda12-plugin`, `jax-cuda12-pjrt` and
`nvidia-cuda-nvcc-cu12` beside a jax of the same version; `--plugin` names a folder that has them) and a description of a GPU as XLA writes it.

XLA orders a program's operations when it compiles it. A collective that begins at `-start` and ends at `-done` travels while what stands
between the two runs; `kernels_between` counts these: fusions, products and sorts. `scatters_between` are those of them that
add rows up by their targets, or number the edges' targets. Prints a row per
collective of rows, and writes `experiments/dependency/results/overlap_gpu.csv`.
"""

import argparse
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

OUT = Path(__file__).parent / "results" / "overlap_gpu.csv"
SCHEDULES, PARTS = ("all_to_all", "ring", "overlap"), 4
KERNEL = re.compile(r"^(?:ROOT )?%\S+ = .*? (fusion|custom-call|dot|sort|scatter|gather|while)\(")
START = re.compile(r"^%(\S+) = \(+(\w+\[[\d,]*\]).*? (collective-permute|all-to-all)-start\(")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", type=Path, required=True, help="a GPU's description")
    parser.add_argument("--plugin", type=Path, help="a folder of Python packages with jax's CUDA plugin")
    parser.add_argument("--folder", type=Path, help="where the graph is kept for another time; unset: nowhere")
    return parser.parse_args()


def program(graph: Path, schedule: str, target: Path) -> str:
    """Return the compiled step, its operations in the order in which they begin."""
    import jax
    from jax.experimental import topologies
    from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

    from experiments.dependency.dependency_counts import config_of, setup_of
    from experiments.dependency.dependency_runs import COMMUNICATE, setting
    from hetjax.sharding import registry
    from hetjax.sharding.mesh import DATA, shard_map

    options = [*setting(graph, "gcn", 64), f"--mesh.data={PARTS}", COMMUNICATE, f"--dependency.schedule={schedule}"]
    given = setup_of(config_of(options))
    strategy = registry.find(given.config)
    engine: Any = strategy.engine(given, strategy.partition(given))
    engine.batches.prepare()
    batch = next(iter(engine.batches.epoch(0))).batch.program
    shapes = jax.eval_shape(lambda *of: of, engine.init(0), engine.static, batch, engine.seed)
    about = topologies.get_topology_desc("", "cuda", topology=f"1x1x{PARTS}", target_config=target.read_text())
    gpus = Mesh(about.devices, (DATA,), axis_types=(AxisType.Auto,))
    specs = engine.state_spec, engine.rows_spec, engine.batch_spec, PartitionSpec()
    places = jax.tree.map(lambda of: NamedSharding(gpus, of), specs, is_leaf=lambda of: isinstance(of, PartitionSpec))
    step = shard_map(engine._step, gpus, specs, (engine.state_spec, PartitionSpec()))
    with mock.patch.object(jax, "default_backend", lambda: "gpu"):
        made = jax.jit(step, in_shardings=places).lower(*shapes)
    text = made.compile().as_text()
    assert text is not None
    return text


def collectives(text: str) -> Iterator[dict]:
    """Yield the collectives of rows, in order, with the operations that run meanwhile."""
    entry = [line.strip() for line in text[text.index("\nENTRY ") :].splitlines()]
    for number, line in enumerate(entry):
        begun = START.match(line)
        if begun:
            end = next(n for n, other in enumerate(entry) if f"{begun[3]}-done(%{begun[1]})" in other)
            between = [other for other in entry[number + 1 : end] if KERNEL.match(other)]
            yield {
                "direction": "back" if "transpose(" in line else "there",
                "collective": begun[3],
                "shape": begun[2],
                "kernels_between": len(between),
                "scatters_between": sum("scatter" in other.partition(" = ")[0] for other in between),
            }


def main() -> None:
    options = arguments()
    if options.plugin:
        sys.path.append(str(options.plugin))
    from experiments.dependency.dependency_runs import stored
    from experiments.runs import markdown, write_rows
    from hetjax.sharding import mesh as meshes

    rows = []
    with tempfile.TemporaryDirectory() as made_here:
        graph = stored("tolokers", options.folder or Path(made_here))
        meshes.provide_cpu_devices(PARTS)
        for schedule in SCHEDULES:
            text = program(graph, schedule, options.target)
            if options.folder:
                (options.folder / f"{schedule}.hlo").write_text(text)
            rows += [{"schedule": schedule} | row for row in collectives(text)]
    write_rows(OUT, rows)
    print(markdown(rows))


if __name__ == "__main__":
    main()
