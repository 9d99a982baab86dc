"""The options of predicting."""

from dataclasses import dataclass

from hetjax.graph.carry import NewNodes
from hetjax.options.config import MOST_PROCESSES, UNBOUNDED, Bytes, Processes
from hetjax.system.errors import InputError


@dataclass(frozen=True)
class Options(Processes):
    """Predictions: what is written, and of which graph; and the processes that share the work."""

    probabilities: bool = False
    """write the probability of every class, float32"""
    logits: bool = False
    """write the logits of every class, float32"""
    embeddings: bool = False
    """write the embeddings of the last layer, float32"""
    target: str = ""
    """of a run that learned several targets, the column of labels that is predicted; unset: the first of several.targets"""
    graph: str = ""
    """another graph to predict, a store with the same node types, relations and features; unset: the graph of the run"""
    new_nodes: NewNodes = "neighbours"
    """nodes of --graph that are new, of a type whose features were learned; neighbours: they get the mean of their neighbours; mean: the mean of their type; refuse: an error"""
    memory: Bytes = UNBOUNDED
    """bytes of host memory for what is computed of all nodes; if it is more, it lives in files beside --out until the end; -1: no bound"""
    devices: int = 0
    """devices of each process that share its nodes; 0: every accelerator, or one CPU device"""
    overwrite: bool = False
    """replace the file --out if it exists"""
    quote_formulas: bool = False
    """csv: put an apostrophe before ids and classes that begin with = + - @, a tab or a return, which a spreadsheet would run as formulas"""
    trust: bool = False
    """import the model of a user's own, MODULE:NAME, that the run's folder names, which runs its code; without it such a folder is refused"""

    def __post_init__(self):
        super().__post_init__()
        object.__setattr__(self, "memory", int(Bytes(self.memory)))
        for name, least, most in (("memory", -1, 2**63), ("devices", 0, MOST_PROCESSES)):
            value = getattr(self, name)
            if not least <= value <= most:
                raise InputError(f"{name} is {value}, and must be in {least}..{most}")
