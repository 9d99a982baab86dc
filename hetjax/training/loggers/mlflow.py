"""A run of MLflow, wherever MLFLOW_TRACKING_URI says; continued when the run is, by its number in `mlflow.txt`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import mlflow

from hetjax.system import durable, files
from hetjax.training.loggers import Logger

NUMBER = "mlflow.txt"
LONGEST = 500  # characters of an option


class MLflow(Logger):
    """The logger of one run; its name is that of the run's folder."""

    def __init__(self, folder: Path, config: Mapping[str, Any], step: int):
        file = folder / NUMBER
        number = files.read_text(file).strip() if step and file.exists() else None
        self.run = mlflow.start_run(run_id=number, run_name=folder.absolute().name)
        if number is None:
            mlflow.log_params({key: str(value)[:LONGEST] for key, value in config.items()})
            durable.write(file, self.run.info.run_id + "\n")

    def record(self, step: int, values: Mapping[str, float]) -> None:
        mlflow.log_metrics(dict(values), step=step)

    def close(self, folder: Path | None) -> None:
        if folder is not None:
            for name in ("report.html", "summary.json"):
                mlflow.log_artifact(str(folder / name))
        mlflow.end_run("FINISHED" if folder else "KILLED")
