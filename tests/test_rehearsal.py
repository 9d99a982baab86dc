"""Sampling once, from a graph of two nodes, compiles what sampling other graphs calls."""

import os
import subprocess
import sys

CODE = """
import numpy as np
from hetjax.sampling import drawing, numbering, sampler
from hetjax.sampling.rehearsal import rehearse
from tests.support.graphs import random_graph

def compiled():
    functions = drawing.count_all, drawing.sample_all, numbering.number_all, sampler.group_all
    return [len(function.signatures) for function in functions]

assert compiled() == [0] * 4
rehearse()
assert compiled() == [1] * 4
graph = random_graph(0)
own = sampler.Sampler(graph, learnable=frozenset(graph.schema.nodes))
own.sample({graph.schema.target: np.arange(3)}, [2, 3], (0, 0))
assert compiled() == [1] * 4
"""


def test_nothing_is_compiled_for_a_graph():
    subprocess.run([sys.executable, "-c", CODE], env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}, check=True)
