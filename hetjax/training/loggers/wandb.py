"""A run of Weights & Biases, continued when the run is, by its number in `wandb.txt`. WANDB_MODE=offline sends nothing."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import wandb

from hetjax.system import durable, files
from hetjax.training.loggers import Logger

NUMBER = "wandb.txt"


class WandB(Logger):
    """The logger of one run; its name is that of the run's folder."""

    def __init__(self, folder: Path, config: Mapping[str, Any], step: int):
        file = folder / NUMBER
        number = files.read_text(file).strip() if step and file.exists() else None
        name = folder.absolute().name
        self.run = wandb.init(dir=str(folder), name=name, id=number, resume="allow", config=dict(config))
        durable.write(file, self.run.id + "\n")

    def record(self, step: int, values: Mapping[str, float]) -> None:
        self.run.log(dict(values), step=step)

    def close(self, folder: Path | None) -> None:
        self.run.finish(exit_code=0 if folder else 1)
