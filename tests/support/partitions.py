"""Schemas, sizes and plans that the tests of partitioning share."""

import tempfile
from pathlib import Path

from hypothesis import strategies as st

from hetjax.datasets.schemas import SHAPES
from hetjax.graph.schema import Relation, Schema
from hetjax.graph.sizes import Sizes
from hetjax.partition import read, save

WRITES, REV_WRITES = Relation("author", "writes", "paper"), Relation("paper", "rev_writes", "author")
CITES = Relation("paper", "cites", "paper")


def full(shape):
    """The sizes of a data set at its published size."""
    form = SHAPES[shape]
    return Sizes(form.schema(), form.relations(), form.features)


@st.composite
def schemas(draw, most_relations=7):
    """Small schemas, with loops and parallel relations; the target has an in-relation."""
    types = [f"t{number}" for number in range(draw(st.integers(1, 4)))]
    ends = draw(st.lists(st.tuples(st.sampled_from(types), st.sampled_from(types)), max_size=most_relations - 1))
    ends.append((draw(st.sampled_from(types)), "t0"))
    relations = tuple(Relation(source, f"r{number}", target) for number, (source, target) in enumerate(ends))
    return Schema({name: draw(st.integers(2, 6)) for name in types}, relations, "t0", 2)


def read_back(plan):
    """The plan as its manifest on disk has it."""
    with tempfile.TemporaryDirectory() as place:
        save(plan, Path(place) / "plan")
        return read(Path(place) / "plan")
