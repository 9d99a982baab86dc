"""Classes of ordered categories keep their order in whichever form they come, so that class numbers are the same at every door."""

import numpy as np
import pyarrow as pa
import pytest

import hetjax
from hetjax.casts.labels import as_labels
from hetjax.system.errors import InputError

ORDERED = pa.DictionaryArray.from_arrays(pa.array([0, 1, None]), pa.array(["low", "high"]), ordered=True)


@pytest.mark.parametrize("given", [ORDERED, pa.chunked_array([ORDERED.slice(0, 1), ORDERED.slice(1)])])
def test_ordered_dictionaries_keep_the_order_of_classes(given):
    found, classes = as_labels(given, "labels")
    assert found.tolist() == [0, 1, -1] and classes.values.to_pylist() == ["low", "high"]


def test_a_frame_and_its_arrow_table_have_the_same_class_numbers():
    pd = pytest.importorskip("pandas")
    label = pd.Categorical(["low", "high", None], ["low", "high"], ordered=True)
    frame = pd.DataFrame({"id": [7, 8, 9], "label": label})
    edges = {("n", "k", "n"): {"source": [7], "target": [8]}}
    graphs = [
        hetjax.from_pandas({"n": one}, edges, splits={"train": [7, 8]}) for one in (frame, pa.Table.from_pandas(frame))
    ]
    assert [graph.labels.tolist() for graph in graphs] == [[0, 1, -1]] * 2
    assert {tuple(graph.names.classes.values.to_pylist()) for graph in graphs} == {("low", "high")}


def test_dates_of_numpy_among_objects_are_refused_as_dates():
    with pytest.raises(InputError, match="labels: .*should be whole numbers, texts"):
        as_labels(list(np.array(["2020-01-01", "NaT"], "M8[D]")), "labels")
