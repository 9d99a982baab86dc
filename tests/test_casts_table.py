"""Every case of the table of casts at every door, and the page that is made of it."""

import logging
import math
from importlib.util import find_spec
from pathlib import Path

import pytest

from hetjax.system.errors import InputError
from tests.support import casts_page
from tests.support.casts_files import FILES
from tests.support.casts_table import CASES, DOORS, LEFT_OUT, NEEDS, REFUSED, WHOLE, result


def alike(found: object, right: object) -> bool:
    if not isinstance(found, list) or not isinstance(right, list):
        return found == right
    same = (
        a == b or (isinstance(a, float) and isinstance(b, float) and math.isclose(a, b)) for a, b in zip(found, right)
    )
    return len(found) == len(right) and all(same)


ALL = DOORS | FILES
THERE = [door for door in ALL if door not in NEEDS or find_spec(NEEDS[door])]


@pytest.mark.parametrize("door", THERE)
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.role} {case.kind}")
def test_every_door_reads_every_kind_alike(case, door, caplog):
    right = case.csv if door == "csv" and case.csv is not None else case.becomes
    right = REFUSED if right == LEFT_OUT and door in WHOLE else right
    try:
        with caplog.at_level(logging.INFO, "hetjax"):
            graph = ALL[door](case)
    except InputError as error:
        assert len(str(error).splitlines()) == 1 and "Error:" not in str(error), str(error)
        assert right == REFUSED, str(error)
        return
    if graph is None:
        return  # it has no such columns
    if case.numbers and door in ("PyG", "DGL"):
        assert graph.numeric and graph.labels.tolist() == case.values
        return
    found = result(graph, case)
    assert right != REFUSED, f"accepted: {found}"
    if case.role == "label" and all(isinstance(one, str) for one in found if one is not None):
        found, right = ([one if one is None else str(one) for one in values] for values in (found, right))
    assert alike(found, right), f"{found} instead of {right}"
    quiet = door == "csv" and case.role == "edge end"  # all ends are texts there
    assert quiet or case.said in " ".join(caplog.messages), caplog.messages
    assert right != LEFT_OUT or any("left out: age" in line for line in caplog.messages)


def test_the_page_is_what_the_table_says():
    page = Path(__file__).parent.parent / "docs" / "casts.md"
    assert page.read_text() == casts_page.page(), "run: python -m tests.support.casts_page"
