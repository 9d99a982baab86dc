"""Loggers of a run's records besides `metrics.jsonl`: TensorBoard, MLflow, Weights & Biases, or a class of your own.

`metrics.jsonl` has every record whatever is chosen. A logger gets the same, in process 0. To add one, write a class that
inherits from `Logger`, and name it by `train.loggers MODULE:NAME`.
"""

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hetjax.system.errors import InputError, reading, reason, short
from hetjax.system.logs import log

PACKAGES = {"tensorboard": "tensorboardX", "mlflow": "mlflow", "wandb": "wandb"}  # by the logger that needs it
CLASSES = {"tensorboard": "TensorBoard", "mlflow": "MLflow", "wandb": "WandB"}


class Logger(ABC):
    """Takes the records of one run.

    Args:
      folder: the folder of the run.
      config: its options, `section.key` by value.
      step: the step that the run continues from, 0 if it begins.
    """

    @abstractmethod
    def __init__(self, folder: Path, config: Mapping[str, Any], step: int): ...

    @abstractmethod
    def record(self, step: int, values: Mapping[str, float]) -> None:
        """Take the numbers of an epoch, or of the test nodes, by name."""

    @abstractmethod
    def close(self, folder: Path | None) -> None:
        """End the run. It is done, with its report in the folder, if one is given."""


def check(names: Sequence[str]) -> None:
    """Raise an InputError for a logger that is not known, or whose package is missing; nothing is imported."""
    for name in names:
        if ":" in name:
            continue
        if name not in PACKAGES:
            known = ", ".join(PACKAGES)
            raise InputError(
                f"train.loggers: {short(name)!r}, and there are {known}, or MODULE:NAME of one of your own"
            )
        if find_spec(PACKAGES[name]) is None:
            raise InputError(f"train.loggers: {name} needs {PACKAGES[name]}: pip install 'hetjax[{name}]'")


def find(name: str) -> type[Logger]:
    """Return the class of a logger.

    Raises:
      InputError: as `check`, or it cannot be imported, or is no logger.
    """
    check([name])
    module, _, attribute = name.partition(":")
    with reading(f"train.loggers: {short(name)}"):
        place = importlib.import_module(module if attribute else f"{__name__}.{name}")
        found = getattr(place, attribute or CLASSES[name])
        if not (isinstance(found, type) and issubclass(found, Logger)):
            raise TypeError("should be a class that inherits from hetjax.training.loggers.Logger")
        return found


class Loggers:
    """All loggers that were asked for.

    Args:
      names: their names.
      folder, config, step: as of `Logger`.

    Raises:
      InputError: as `find`, or one cannot start.
    """

    def __init__(self, names: Sequence[str], folder: Path, config: Mapping[str, Any], step: int):
        self.loggers: list[Logger] = []
        try:
            for name in names:
                made = find(name)
                with reading(f"train.loggers: {short(name)}"):
                    self.loggers.append(made(folder, config, step))
        except InputError:  # those that have started end
            self.close(None)
            raise

    def record(self, step: int, values: Mapping[str, Any]) -> None:
        """Give each logger the values of a record that are numbers."""
        numbers = {k: float(v) for k, v in values.items() if isinstance(v, int | float) and k not in ("epoch", "step")}
        self._each(lambda logger: logger.record(step, numbers))

    def close(self, folder: Path | None) -> None:
        """End the run, as `Logger.close` says."""
        self._each(lambda logger: logger.close(folder))
        self.loggers = []

    def _each(self, do: Callable[[Logger], None]) -> None:
        """Call each logger; one that fails is reported and left out from there on, because a run does not end when a server fails."""
        for logger in list(self.loggers):
            try:
                do(logger)
            except Exception as error:
                self.loggers.remove(logger)
                log.warning(f"train.loggers: {type(logger).__name__} gets no more: {reason(error)}")
