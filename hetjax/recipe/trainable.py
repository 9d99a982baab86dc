"""Checks that a graph has what the options of training and the task ask for."""

from hetjax.datasets.load import source
from hetjax.graph.hetgraph import HetGraph
from hetjax.options.config import Config
from hetjax.system.errors import InputError
from hetjax.tasks import registry as tasks


def check_trainable(config: Config, graph: HetGraph) -> None:
    """Raise an InputError where a graph cannot be trained on as the options say."""
    options = config.train
    if not len(graph.splits["train"]):
        place = source(config.data) or "the generated graph"
        raise InputError(f"{place}: 0 training nodes among the {len(graph.labels)} of type {graph.schema.target!r}")
    tasks.find(config.task.name).check(graph, config)
    if options.patience and not len(graph.splits["validation"]):
        raise InputError(f"train.patience is {options.patience}, and there are no validation nodes")
