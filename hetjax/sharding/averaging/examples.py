"""The examples of one partition, of a task on the whole graph."""

from collections.abc import Mapping

import numpy as np

from hetjax.tasks.task import Seeds, Task


class LocalTask:
    """The part of a task that trains a partition: its own training examples, whose seeds are numbered as its subgraph is.

    Whatever the task found in all training examples, such as the mean of numbers, is the same in all partitions.

    Args:
      task: the task on the whole graph.
      examples: the numbers of the partition's training examples.
      nodes: the ids of the subgraph's nodes per type, rising.
    """

    def __init__(self, task: Task, examples: np.ndarray, nodes: Mapping[str, np.ndarray]):
        self.task, self.train, self.nodes = task, examples, nodes
        self.roots, self.loss, self.weight, self.head = task.roots, task.loss, task.weight, task.head

    def examples(self, split: str) -> np.ndarray:
        """Return the training examples; the other splits have none here."""
        return self.train if split == "train" else self.train[:0]

    def seeds(self, examples: np.ndarray) -> Seeds:
        """Return the seeds of some examples."""
        found = self.task.seeds(examples)
        local = {t: np.searchsorted(self.nodes[t], ids).astype(np.int32) for t, ids in found.nodes.items()}
        return found._replace(nodes=local)
