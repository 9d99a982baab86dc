"""Files that hetjax reads are regular files, whatever a path names."""

import ast
import os
import socket
from pathlib import Path

import numpy as np
import pytest

import hetjax
from hetjax.graph import store
from hetjax.options.run_folder import check_folder, config_file
from hetjax.system import durable, files
from hetjax.system.errors import InputError
from hetjax.training import run_options


def test_regular_files_are_read_and_links_to_them(tmp_path):
    (tmp_path / "a").write_bytes(b"x\r\ny")
    (tmp_path / "link").symlink_to("a")
    assert files.read_bytes(tmp_path / "link") == b"x\r\ny"
    assert files.read_text(tmp_path / "a") == "x\ny"
    with pytest.raises(OSError):
        files.open_regular(tmp_path / "link", follow=False)


def test_a_file_over_the_bound_is_refused(tmp_path):
    (tmp_path / "a").write_bytes(b"12345")
    assert files.read_bytes(tmp_path / "a", 5) == b"12345"
    with pytest.raises(InputError, match="over 4 bytes"):
        files.read_bytes(tmp_path / "a", 4)


@pytest.mark.parametrize("kind", ["a named pipe", "a device", "a socket", "a folder"])
def test_what_is_no_regular_file_is_refused_at_once(tmp_path, kind):
    place = tmp_path / "x"
    if kind == "a named pipe":
        os.mkfifo(place)
    elif kind == "a device":
        place.symlink_to("/dev/zero")
    elif kind == "a folder":
        place.mkdir()
    else:
        opened = socket.socket(socket.AF_UNIX)
        opened.bind(str(place))
        opened.close()
    with pytest.raises(InputError, match=f"is no regular file but {kind}"):
        files.open_regular(place)
    with pytest.raises(InputError, match=kind):
        files.check_regular(place)


# What may open files to read them without `hetjax.system.files`: sources of the package and of libraries, the system's own files,
# files that this process has just written, members of an archive that is open, and stores.
ALLOWED = {"system.compiled", "system.files", "system.internals"}
ALLOWED |= {"processes.digests", "doctor.system", "models.__init__", "system.svg"}
ALLOWED |= {"datasets.text", "ingest.diagnosis"}  # of what `open_regular` or `check_regular` has looked at
OWNERS = {"files", "os", "store", "strategy", "self.zip"}  # of other functions of these names


def opens():
    """Every call of the package that opens a file by its path and does not write it, as `module:line`."""
    root = Path(hetjax.__file__).parent
    for file in sorted(root.rglob("*.py")):
        module = ".".join(file.relative_to(root).with_suffix("").parts)
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and module not in ALLOWED and not _writes(node):
                function = node.func
                owner = ast.unparse(function.value) if isinstance(function, ast.Attribute) else ""
                name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
                bare = not owner and name.startswith("read_")  # `from hetjax.system.files import read_bytes`
                if name in ("open", "read_text", "read_bytes") and not bare and owner not in OWNERS:
                    yield f"{module}:{node.lineno}"


def _writes(node: ast.Call) -> bool:
    modes = [*node.args[1:2], *(word.value for word in node.keywords if word.arg == "mode")]
    return any(isinstance(mode, ast.Constant) and set(str(mode.value)) & set("wxa+") for mode in modes)


def test_nothing_opens_a_file_to_read_it_but_by_one_function():
    assert list(opens()) == []


# Libraries that open a file by its path, and the modules that let them: each looks at the file first, or has just made it.
LIBRARIES = {
    "load",
    "memmap",
    "fromfile",
    "loadtxt",
    "genfromtxt",
    "ZipFile",
    "ParquetFile",
    "read_table",
    "memory_map",
    "OSFile",
}
LIBRARIES |= {"File", "TarFile", "read_csv", "open_csv", "read_parquet", "dataset"}
LOOKED_AT = {
    "np.load": {"graph.npy", "partition.metis", "partition.edge_cut"},
    "np.memmap": {"datasets.npy_tree", "processes.kept", "sharding.gathered", "system.mapped"},
    "zipfile.ZipFile": {"datasets.hgb", "datasets.npz"},
}
STREAMS = {"stream", "block", "checked", "source", "pyarrow.BufferReader(block)"}  # what is open already


def given_to_libraries():
    """Every call of the package by which another library opens a file, as `function module:line`."""
    root = Path(hetjax.__file__).parent
    modules = {"np", "numpy", "zipfile", "tarfile", "pq", "pa", "pyarrow", "pc_csv", "csv", "h5py", "pd", "ds"}
    for file in sorted(root.rglob("*.py")):
        module = ".".join(file.relative_to(root).with_suffix("").parts)
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in LIBRARIES:
                name, given = ast.unparse(node.func), ast.unparse(node.args[0]) if node.args else ""
                opened = given in STREAMS or given.startswith(("pa.BufferReader(", "pa.PythonFile("))
                if ast.unparse(node.func.value) in modules and not opened and module not in LOOKED_AT.get(name, ()):
                    yield f"{name} {module}:{node.lineno}"


def test_no_library_opens_a_file_that_was_not_looked_at():
    assert list(given_to_libraries()) == []


NUL, LATIN = "a\0b", os.fsdecode(b"a\xff")


def test_a_name_that_no_file_can_have_is_refused(tmp_path):
    for name in (NUL, "a\ud800b", f"{tmp_path}/{NUL}/x"):
        for door in (files.check_name, files.open_regular, durable.check_new, config_file, check_folder, store.open):
            with pytest.raises(InputError, match="no name of a file|NUL character") as said:
                door(Path(name))
            assert str(said.value).isprintable()
        with pytest.raises(InputError), durable.new_file(Path(name)):
            raise AssertionError("not reached")
        with pytest.raises(InputError):
            durable.check_replaceable(Path(name), True)
    files.check_name(LATIN)
    files.check_name("ö ut[1]", utf8=True)


@pytest.mark.parametrize("name", [NUL, LATIN])
def test_a_run_is_refused_where_no_checkpoint_could_be_written(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="UTF-8|NUL character"):
        run_options.read([f"--workdir={name}"])
    with pytest.raises(InputError, match="UTF-8|NUL character"):
        hetjax.train(small_graph(), name)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("options", [{"hidden": "many"}, {"hidden": -1}, {"train.init_from": "no_run", "epochs": 1}])
def test_a_graph_of_a_refused_run_is_not_left(tmp_path, options):
    with pytest.raises(InputError):
        hetjax.train(small_graph(), tmp_path / "run", **options)
    assert not list(tmp_path.iterdir())


def small_graph():
    edges = {("a", "to", "a"): (np.arange(6), np.arange(6)[::-1].copy())}
    splits = {"train": [0, 1], "validation": [2, 3], "test": [4, 5]}
    return hetjax.from_arrays(edges, {"a": np.eye(6, 3, dtype=np.float32)}, {"a": np.arange(6) % 2}, splits)
