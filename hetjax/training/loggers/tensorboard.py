"""The event files in the folder `events` of the run: `tensorboard --logdir runs` shows them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tensorboardX import SummaryWriter

from hetjax.training.loggers import Logger


class TensorBoard(Logger):
    """The logger that writes by tensorboardX, which needs neither TensorFlow nor torch."""

    def __init__(self, folder: Path, config: Mapping[str, Any], step: int):
        self.writer = SummaryWriter(str(folder / "events"), purge_step=step + 1 if step else None)
        self.writer.add_text("options", "\n".join(f"- `{key}`: `{value}`" for key, value in config.items()), step)

    def record(self, step: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            split, _, what = name.partition("_")
            self.writer.add_scalar(f"{what}/{split}" if what else name, value, step)
        self.writer.flush()

    def close(self, folder: Path | None) -> None:
        self.writer.close()
