"""Tables in HDF5, as GraphStorm writes them; and what such a file must not do."""

import json

import numpy as np
import pytest

from hetjax.graph import store
from tests.support.commands import here

h5py = pytest.importorskip("h5py", reason="h5py is not installed (pip install 'hetjax[hdf5]')")

LABEL = {"label_col": "kind", "task_type": "classification", "split_pct": [0.6, 0.2, 0.2]}
CONFIGURATION = {
    "version": "gconstruct-v0.1",
    "nodes": [
        {"node_type": "user", "files": "user.hdf5", "format": {"name": "hdf5"}, "node_id_col": "id"}
        | {"features": [{"feature_col": "feat"}, {"feature_col": "age", "transform": {"name": "standard"}}]}
        | {"labels": [LABEL]}
    ],
    "edges": [
        {"relation": ["user", "knows", "user"], "files": "knows.h5", "format": {"name": "hdf5"}}
        | {"source_id_col": "src", "dest_id_col": "dst"}
    ],
}
FEATURES = np.arange(15, dtype=np.float32).reshape(5, 3)
USERS = {"id": ["a", "b", "c", "dé", "e"], "feat": FEATURES, "age": np.array([1.0, 2, 3, 4, 5], ">f8")}
USERS |= {"kind": np.array([b"x", b"y", b"x", b"y", b"x"]), "weight": np.zeros((5, 2, 2))}


@pytest.fixture
def folder(tmp_path):
    for name, columns in (("user.hdf5", USERS), ("knows.h5", {"src": ["a", "dé"], "dst": ["b", "e"]})):
        with h5py.File(tmp_path / name, "w") as file:
            for column, values in columns.items():
                file[column] = values
    (tmp_path / "graph.json").write_text(json.dumps(CONFIGURATION))
    return tmp_path


def ingest(folder):
    return here("hetjax.ingest.__main__", "--config", folder / "graph.json", "--out", folder / "store")


def test_datasets_are_columns(folder):
    done = ingest(folder)
    assert done.returncode == 0, done.stderr
    graph = store.open(folder / "store")
    assert graph.names.nodes["user"].values.to_pylist() == USERS["id"] and graph.names.class_names(2) == ["x", "y"]
    np.testing.assert_array_equal(graph.features["user"][:, :3], FEATURES)
    np.testing.assert_allclose(graph.features["user"][:, 3], (np.arange(5) - 2) / np.sqrt(2), rtol=1e-6)
    assert graph.labels.tolist() == [0, 1, 0, 1, 0] and graph.edges == 2


def change(name):
    def external_link(file, folder):
        file["feat"] = h5py.ExternalLink(str(folder / "knows.h5"), "src")

    def soft_link(file, folder):
        file["feat"] = h5py.SoftLink("/age")

    def external(file, folder):
        file.create_dataset("feat", (5,), "f4", external=[(str(folder / "graph.json"), 0, 20)])

    def virtual(file, folder):
        layout = h5py.VirtualLayout((5,), "f8")
        layout[:] = h5py.VirtualSource(str(folder / "user.hdf5"), "age", (5,))
        file.create_virtual_dataset("feat", layout)

    def group(file, folder):
        file.create_group("feat")

    def missing(file, folder):
        pass

    def short(file, folder):
        file["feat"] = FEATURES[:4]

    def deep(file, folder):
        file["feat"] = USERS["weight"]

    def compound(file, folder):
        file["feat"] = np.zeros(5, [("a", "f4"), ("b", "i4")])

    def bomb(file, folder):
        file.create_dataset("feat", (5, 2**32), "f8", chunks=(1, 2**20), compression="gzip")

    def utf8(file, folder):
        file["feat"] = FEATURES
        del file["kind"]
        file.create_dataset("kind", data=[b"\xff"] * 5, dtype=h5py.string_dtype())

    return locals()[name]


@pytest.mark.parametrize(
    "name, message",
    [
        ("external_link", "'feat' is no dataset of this file"),
        ("soft_link", "'feat' is no dataset of this file"),
        ("external", "'feat' is no dataset of this file"),
        ("virtual", "'feat' is no dataset of this file"),
        ("group", "'feat' is no dataset of this file"),
        ("missing", "no dataset 'feat' among age, id, kind, weight"),
        ("short", "datasets of different lengths: "),
        ("deep", "dataset 'feat' has shape (5, 2, 2), and should be (rows,) or (rows, width)"),
        ("compound", "and should be numbers or texts"),
        ("bomb", "unpacks from "),
        ("utf8", "dataset 'kind': UnicodeDecodeError"),
    ],
)
def test_what_is_wrong_is_one_line(folder, name, message):
    with h5py.File(folder / "user.hdf5", "a") as file:
        del file["feat"]
        change(name)(file, folder)
    done = ingest(folder)
    assert done.returncode == 2 and message in done.stderr and done.stderr.count("\n") == 1, done.stderr
    assert "user.hdf5: " in done.stderr and not (folder / "store").exists()


def test_a_file_that_is_none_and_one_without_h5py(folder, monkeypatch):
    (folder / "user.hdf5").write_text("id,feat\n")
    done = ingest(folder)
    assert done.returncode == 2 and "user.hdf5: " in done.stderr and done.stderr.count("\n") == 1
    monkeypatch.setitem(__import__("sys").modules, "h5py", None)
    assert "HDF5 needs h5py: pip install 'hetjax[hdf5]'" in ingest(folder).stderr
