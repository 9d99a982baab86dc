"""A run and its results, in Python, and predictions with it."""

import base64
import html
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, overload

import numpy as np

from hetjax.graph.carry import NewNodes
from hetjax.graph.hetgraph import HetGraph
from hetjax.inference.predicting import predict
from hetjax.inference.restored import restore
from hetjax.inference.serve import Served
from hetjax.options.run_folder import Trust
from hetjax.system import files
from hetjax.system.errors import InputError, reading
from hetjax.tasks.predictions import Predictions
from hetjax.tasks.shown import of_summary


def _rounded(accuracy: float | None) -> float | None:
    return accuracy if accuracy is None else round(accuracy, 4)


class Trained:
    """A run and its results: `hetjax.train` gives it, and `Trained(workdir)` is that of a run of the command line.

    Attributes:
      path: the folder of the run.
      trust: as of `hetjax.predict`; a run that `hetjax.train` made trusts the model that it was given.
    """

    def __init__(self, path: str | os.PathLike, trust: Trust = False):
        self.path, self.trust = Path(path), trust

    @property
    def summary(self) -> dict[str, Any]:
        """The results of the run: the content of `summary.json`."""
        file = self.path / "summary.json"
        with reading(file):
            return json.loads(files.read_text(file))

    @property
    def records(self) -> list[dict[str, Any]]:
        """A record per epoch, and a last one of the test nodes: the content of `metrics.jsonl`."""
        file = self.path / "metrics.jsonl"
        with reading(file):
            return [json.loads(line) for line in files.read_text(file).splitlines()]

    @overload
    def predict(
        self,
        graph: HetGraph | str | os.PathLike = "",
        embeddings: bool = False,
        new_nodes: NewNodes = "neighbours",
        target: str = "",
    ) -> Predictions: ...

    @overload
    def predict(self, graph: Sequence | np.ndarray, *, target: str = "") -> np.ndarray: ...

    def predict(
        self, graph: Any = "", embeddings: bool = False, new_nodes: NewNodes = "neighbours", target: str = ""
    ) -> Any:
        """Predict all nodes of the target type, of the run's graph or of another, as `hetjax.predict.predict`; or some nodes of the run's graph.

        Args:
          graph: the other graph, or its store; empty: the run's own. Or the ids of some nodes of the run's graph, a sequence: the answer is
            that of `hetjax.load(folder).predict(ids)`, which answers faster where it is asked often.
          embeddings, new_nodes: as of `hetjax.predict.predict`; not for ids.
          target: of a run that learned several, the column of labels that is predicted; empty: the first.

        Raises:
          InputError: as `hetjax.predict.predict`; or there is no node of an id.
        """
        if isinstance(graph, HetGraph | str | os.PathLike):
            return predict(self.path, graph, embeddings, new_nodes, self.trust, target)
        if embeddings or new_nodes != "neighbours":
            option = "embeddings" if embeddings else "new_nodes"
            raise InputError(f"predict: {option} is given with ids, and is for all nodes of a graph")
        return Served(restore(self.path, trust=self.trust, target=target)).predict(graph)

    def __repr__(self) -> str:
        summary = self.summary if (self.path / "summary.json").exists() else {}
        key, label = self._headline()
        words = f"test {label} {_rounded(summary.get(key))}"
        if (stacking := summary.get("stacking") or {}).get("kept"):
            words += f", stacked {_rounded(stacking.get(key))}"
        return f"Trained({str(self.path)!r}, {words})"

    def _headline(self) -> tuple[str, str]:
        """Return the key in the summary, and the name, of the metric that is shown first."""
        if not (self.path / "summary.json").exists():
            return "", "accuracy"
        shown = of_summary(self.summary)
        return f"test_{shown.headline}", shown.metrics[shown.headline].label

    def _repr_html_(self) -> str:
        """Return the result and the curves as HTML, for a notebook."""
        picture = self.path / "curves.png"
        image = ""
        if picture.exists():
            data = base64.b64encode(files.read_bytes(picture)).decode()
            alt = f"loss and {self._headline()[1]} by epoch"
            image = f'<br><img alt="{alt}" style="max-width: 100%" src="data:image/png;base64,{data}">'
        return f"<p>{html.escape(repr(self))}</p>{image}"
