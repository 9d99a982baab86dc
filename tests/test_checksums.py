"""Whether a store is what was written: in checking a graph, and by `python -m hetjax.convert --check`."""

import json
import re
import shutil

import numpy as np
import pytest

from hetjax import convert
from hetjax.datasets.load import load, load_abstract
from hetjax.graph import checksums, store
from hetjax.graph.hetgraph import HetGraph
from hetjax.options.command_line import run_command
from hetjax.options.config import Data
from hetjax.partition import partition, save
from hetjax.partition.__main__ import main as partition_main
from hetjax.sharding.raf.strategy import load_part
from hetjax.system.errors import InputError
from tests.support.graphs import random_graph


def flip(array):
    array.view(np.uint8).reshape(-1)[16] ^= 1  # of a float the lowest bit: as valid as before


CHANGES = {
    "a row permuted": ("features_0", lambda a: a.__setitem__(slice(2), a[1::-1].copy())),
    "a bit flipped": ("features_0", flip),
    "edges permuted": ("relation_0.indices", lambda a: a.__setitem__(slice(None), np.roll(a, 1))),
    "a split permuted": ("split_test", lambda a: a.__setitem__(slice(None), np.roll(a, 1))),
    "labels permuted": ("labels", lambda a: a.__setitem__(slice(4), (a[:4] + 1) % 3)),
}


def damaged(path, name, change):
    array = np.load(path / f"{name}.npy")
    change(array)
    np.save(path / f"{name}.npy", array)


@pytest.mark.parametrize("case", CHANGES)
def test_an_array_that_was_changed_is_named_with_both_checksums(stored, tmp_path, capsys, case):
    path = shutil.copytree(stored, tmp_path / "store")
    name, change = CHANGES[case]
    damaged(path, name, change)
    told = store.contents(path)[name]
    wrong = rf"{re.escape(str(path))}/{name}.npy: checksum (?!{told:08x})[0-9a-f]{{8}} != {told:08x} in schema.json"
    with pytest.raises(InputError, match=wrong):
        load(Data(format="store", path=str(path)))
    with pytest.raises(SystemExit, match="2"):
        run_command(convert.main, ["--check", str(path)])
    assert re.fullmatch(f"hetjax: error: {wrong}.*\n", capsys.readouterr().err)
    load(Data(format="store", path=str(path), check=False))


def test_a_file_that_was_cut_is_named_with_both_sizes(stored, tmp_path, capsys):
    path = shutil.copytree(stored, tmp_path / "store")
    size = (path / "features_0.npy").stat().st_size
    with open(path / "features_0.npy", "r+b") as stream:
        stream.truncate(size - 28)
    with pytest.raises(SystemExit, match="2"):
        run_command(convert.main, ["--check", str(path)])
    assert f"features_0.npy: {size - 28} bytes != {size} that its header says\n" in capsys.readouterr().err


def test_a_store_that_is_right(stored, tmp_path, capsys):
    run_command(convert.main, ["--check", str(stored)])
    assert capsys.readouterr().out.endswith("all as they were written\n")
    path = shutil.copytree(stored, tmp_path / "older")
    about = json.loads((path / "schema.json").read_text())
    del about["contents"]
    (path / "schema.json").write_text(json.dumps(about))
    assert not checksums.verify(path)
    run_command(convert.main, ["--check", str(path)])
    assert capsys.readouterr().out.endswith("no checksums: an older hetjax wrote it\n")


def test_values_count_and_not_their_order_in_the_file(graph, tmp_path, monkeypatch):
    features = {name: np.asfortranarray(matrix) for name, matrix in graph.features.items()}
    columns = HetGraph(graph.schema, graph.relations, features, graph.labels, graph.splits)
    store.save(columns, tmp_path / "store")
    assert not store.open(tmp_path / "store").features["paper"].flags.c_contiguous
    monkeypatch.setattr(checksums, "AT_ONCE", 64)  # a few rows at a time
    assert checksums.verify(tmp_path / "store")


def test_a_partition_reads_its_own_files_alone(tmp_path, capsys):
    graph = random_graph()
    store.save(graph, tmp_path / "store")
    plan = partition(graph, 2, hops=1)
    number = next(n for n, part in enumerate(plan.parts) if graph.schema.relations[0] not in part.local_model.relations)
    save(partition(graph, 2, hops=1, copied=True), tmp_path / "plan", graph)
    damaged(tmp_path / "store", *CHANGES["edges permuted"])
    data = Data(format="store", path=str(tmp_path / "store"))
    load_part(data, load_abstract(data), plan, number)
    with pytest.raises(InputError, match="relation_0.indices.npy: checksum"):
        load_part(data, load_abstract(data), plan, 1 - number)
    run_command(convert.main, ["--check", str(tmp_path / "plan" / "part_0")])
    assert "all as they were written" in capsys.readouterr().out


@pytest.mark.parametrize("way", [["--copy"], ["--method", "random"]])
def test_what_is_copied_or_cut_is_checked_before(stored, tmp_path, capsys, way):
    path = shutil.copytree(stored, tmp_path / "store")
    damaged(path, *CHANGES["edges permuted"])
    with pytest.raises(SystemExit, match="2"):
        run_command(partition_main, ["--graph", str(path), "--out", str(tmp_path / "plan"), *way])
    assert "relation_0.indices.npy: checksum" in capsys.readouterr().err and not (tmp_path / "plan").exists()


@pytest.mark.parametrize(
    "options, message",
    [
        ([], "--out is required"),
        (["--out", "a", "--check", "b"], "--out and --check are given, and should be one or the other"),
        (["--check", "a", "--synthetic.scale", "2"], "--check reads the store alone"),
        (["--check", "nowhere"], "nowhere/schema.json: No such file or directory; is this a store?"),
        (["--out", "x" * 300], f"{'x' * 300}: File name too long"),
    ],
)
def test_what_converting_is_told_wrongly(capsys, options, message):
    with pytest.raises(SystemExit, match="2"):
        run_command(convert.main, options)
    found = capsys.readouterr()
    assert found.err.startswith(f"hetjax: error: {message}") and found.err.count("\n") == 1 and not found.out
