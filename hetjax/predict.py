"""Predict with a model that was trained: `python -m hetjax.predict --workdir RUN --out FILE.parquet` (or `.csv`, or `.npy`).

The weights and learnable features are those of the run's checkpoint that did best on its validation nodes, or of its last
one where it had none; a run that was killed, or that goes on, has them too. Every node of the target type is predicted from all
of its neighbours, however the run was trained; the graph is the run's own, or another store of the same node types,
relations and features, tomorrow's say. Devices and processes share the nodes of each layer.
"""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from hetjax.system import runtime

if __name__ == "__main__":
    runtime.prepare()

from hetjax.inference.options import Options
from hetjax.options.command_line import parse, run_command
from hetjax.options.config import Processes
from hetjax.options.run_folder import config_file
from hetjax.system import durable
from hetjax.system.callables import call_as
from hetjax.system.errors import InputError
from hetjax.system.version import __version__
from hetjax.tasks.predictions import SUFFIXES, check_one, check_quoted


def main(arguments: Sequence[str]) -> None:
    """Predict as the command line says, and print where the predictions are."""
    paths = {
        "workdir": "the folder of the run",
        "out": "the .parquet or .csv to write, a row per node of the target type, by your own ids; or a .npy, one array",
    }
    description = "Predict with a model that was trained."
    instances, paths = parse({"": Options}, arguments, "python -m hetjax.predict", description, paths)
    options, workdir, out = instances[""], Path(paths["workdir"]), Path(paths["out"])
    if out.suffix not in SUFFIXES:
        raise InputError(
            f"{out}: is to end in {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}, which says what is written"
        )
    check_quoted(out, options.quote_formulas)
    check_one(out, [name for name in ("logits", "probabilities", "embeddings") if getattr(options, name)])
    config_file(workdir)
    import jax  # which takes seconds; help and errors do without

    from hetjax.inference import predicting
    from hetjax.processes import digests
    from hetjax.processes.launch import process_group
    from hetjax.sharding.mesh import provide_cpu_devices

    alike = {name: value for name, value in asdict(options).items() if name not in vars(Processes())}
    alike |= {"workdir": paths["workdir"], "out": str(out), "hetjax": __version__, "jax": jax.__version__}
    with process_group(options, alike | {"code": digests.of_code()}) as group:
        if group.first:
            durable.check_replaceable(out, options.overwrite)
        provide_cpu_devices(options.devices, alone=options.devices <= 1)
        with predicting.scratch(out, options, group) as folder:
            predicting.write(workdir, out, options, folder, group)


if __name__ == "__main__":
    run_command(main)
else:
    call_as(__name__, "hetjax.inference.predicting", "predict")  # `hetjax.predict(workdir)`
