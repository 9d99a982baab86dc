"""The command line of training, read without jax, so that its help and its errors come at once."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from hetjax.options.command_line import given_options, given_value, parse
from hetjax.options.config import SECTIONS, Config, Processes
from hetjax.options.run_folder import check_folder
from hetjax.sharding import registry
from hetjax.system.errors import InputError
from hetjax.training import loggers

PATHS = {"workdir": "the folder that the run is written to; a run that was killed continues there"}


class Given(NamedTuple):
    """The parsed command line."""

    config: Config
    processes: Processes
    workdir: Path


def sections(arguments: Sequence[str]) -> dict[str, type]:
    """Return the sections of options that a command line may use, with that of a strategy of a user's own."""
    return SECTIONS | registry.sections(given_value(arguments, "mesh.strategy")) | {"": Processes}


def read(arguments: Sequence[str]) -> Given:
    """Read the command line of training.

    Raises:
      InputError: an option is wrong, its strategy cannot run that, there is no such model, or nothing where the graph should be.
    """
    about = "python -m hetjax.train", "Train a model on a heterogeneous graph."
    arguments = [re.sub(r"^--init_from(?==|$)", "--train.init_from", argument) for argument in arguments]
    instances, paths = parse(sections(arguments), arguments, *about, PATHS)
    processes = instances.pop("")
    config = registry.config_of(instances)
    workdir = Path(paths["workdir"])
    check_folder(workdir)
    check_strategy(config, arguments)
    loggers.check(config.train.loggers)
    from hetjax import models  # half a second, which --help does not need
    from hetjax.datasets.load import source

    models.check_name(config.model.name)
    if not processes.several:  # else the others are told too, when they have met
        source(config.data)
    return Given(config, processes, workdir)


def check_strategy(config: Config, arguments: Sequence[str]) -> None:
    """Check the strategy, as `registry.check`; where the graph is to choose `sampling.mode`, either mode will do."""
    try:
        registry.check(config)
    except InputError:
        chosen = "sampling.mode" not in given_options(arguments) and config.by_graph
        if not (chosen and registry.runs(config, "full")):
            raise
