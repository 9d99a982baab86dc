"""Predict with a model that was trained: `python -m hetjax.predict --workdir RUN --out FILE.npy`.

The weights and learnable features are those of the run's checkpoint that did best on its validation nodes, or of its last
one where it had none; a run that was killed, or goes on, has them too. Every node of the target type is predicted from all
of its neighbours, on one device, whatever the run was trained on.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hetjax import runtime

if __name__ == "__main__":
    runtime.prepare()

import jax
import numpy as np

from hetjax import durable, models
from hetjax.assembly import make_trainer, relations_of
from hetjax.checkpoint import Checkpoints, Damaged
from hetjax.command_line import parse, run_command
from hetjax.config import SECTIONS, Config
from hetjax.errors import InputError
from hetjax.evaluate import Evaluator
from hetjax.graph.hetgraph import HetGraph
from hetjax.load import load
from hetjax.sharding.single import Trainer
from hetjax.train import digest


@dataclass(frozen=True)
class Options:
    """Predictions."""

    logits: bool = False
    """write the logits, float32 [nodes, classes], and not the classes"""


def main(arguments: Sequence[str]) -> None:
    """Predict as the command line says, and print where the predictions are."""
    paths = {"workdir": "the folder of the run", "out": "the .npy to write, a line per node of the target type"}
    about = "Predict with a model that was trained."
    given, paths = parse({"": Options}, arguments, "python -m hetjax.predict", about, paths)
    out = Path(paths["out"])
    if not out.parent.is_dir():
        raise InputError(f"{out.parent}: no such folder")
    config, graph = run_of(paths["workdir"])
    found = _logits(Path(paths["workdir"]), config, graph)
    made = found if given[""].logits else classes(found, graph.multilabel)
    durable.save(out, made)
    print(f"{out}: {made.dtype} {list(made.shape)}, by the ids of type {graph.schema.target!r}")


def predict(workdir: str | os.PathLike) -> np.ndarray:
    """Logits float32 `[nodes, classes]` of all nodes of the target type.

    Args:
      workdir: of a run.

    Raises:
      InputError: it has no checkpoint that is whole, or its data are another graph now.
    """
    return _logits(Path(workdir), *run_of(workdir))


def run_of(workdir: str | os.PathLike) -> tuple[Config, HetGraph]:
    """The configuration of a run, and its graph.

    Raises:
      InputError: the folder is of no run.
    """
    file = Path(workdir, "config.yaml")
    if not file.exists():
        raise InputError(f"{file}: no such file, and the folder of a run has one")
    config = Config(**parse(SECTIONS, ["--config", str(file)], "python -m hetjax.predict", "", {})[0])
    return config, relations_of(models.find(config.model.name), load(config.data))


def _logits(workdir: Path, config: Config, graph: HetGraph) -> np.ndarray:
    trainer = make_trainer(graph, config)
    state = _state(workdir, trainer, config.train.seed, digest(graph))
    learned = {t: np.asarray(table.rows) for t, table in state.tables.items()}
    features = {t: learned.get(t, graph.features.get(t)) for t in trainer.widths}
    everyone = np.arange(graph.schema.nodes[graph.schema.target], dtype=np.int32)
    return Evaluator(trainer.model, graph, config.sampling.evaluation_edges).logits(state.params, features, everyone)


def _state(workdir: Path, trainer: Trainer, seed: int, graph: str) -> Any:
    """What the run's best checkpoint holds, as host arrays."""
    checkpoints = Checkpoints(workdir / "checkpoints")
    newest = next(checkpoints.newest_first(), None)
    if newest is None:
        raise InputError(f"{checkpoints.folder}: no checkpoint yet")
    try:
        progress = newest.verify()
        chosen = checkpoints.at(progress["best"]["step"]) if progress["best"] else newest
        chosen.verify()
    except Damaged as error:
        raise InputError(
            f"{error}; training on with this --workdir mends it, if the run is done with a larger --train.epochs"
        ) from None
    if progress["graph"] != graph:
        raise InputError(f"{workdir}: was trained on another graph: {progress['graph']} != {graph}")
    return chosen.state(jax.eval_shape(trainer.init, np.int32(seed)))


def classes(logits: np.ndarray, multilabel: bool) -> np.ndarray:
    """Class ids int32 `[nodes]`; of nodes with several labels 0 and 1, int8 `[nodes, classes]`."""
    return (logits > 0).astype(np.int8) if multilabel else np.argmax(logits, axis=1).astype(np.int32)


if __name__ == "__main__":
    run_command(main)
