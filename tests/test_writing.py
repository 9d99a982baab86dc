"""What a run writes, where the system refuses: one line that names the file, and nothing half written is left."""

import dataclasses
import errno
import os
import resource
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import numba
import numpy as np
import pytest

from hetjax.cache import table_files
from hetjax.cache.penalty import read_or_measure
from hetjax.checkpoints import checkpoint
from hetjax.checkpoints.checkpoint import Checkpoints
from hetjax.graph import store
from hetjax.graph.names import Ids, Names
from hetjax.partition import edge_cut, partition, save
from hetjax.results.pictures import draw_cache, draw_curves
from hetjax.system import durable
from hetjax.system.compiled import compiled
from hetjax.system.errors import InputError
from hetjax.system.mapped import mapped
from hetjax.tasks.predictions import ClassPredictions
from hetjax.training.records import Records
from tests.support.commands import call
from tests.support.graphs import random_graph

STATE = {"weights": np.arange(100_000, dtype=np.float32), "tables": {"a": {"rows": np.ones((9, 2), np.float32)}}}
CACHED = {"node_type": "a", "place": "host", "kept": 1, "rows": 2, "hits": 1, "misses": 1}
CACHED |= {"sent_bytes": 5, "returned_bytes": 3}
PREDICTED = ClassPredictions("paper", np.ones((5, 2), np.float32))


def table(folder: Path) -> None:
    with durable.new_folder(folder / "made") as partial:
        table_files.write(partial / "a.npy", STATE["tables"]["a"]["rows"])


def record(file: Path) -> None:
    records = Records(file, 0)
    records.write({"epoch": 1})


NAMED = dataclasses.replace(random_graph(), names=Names({"topic": Ids([f"t{n}" for n in range(11)])}))
WRITERS = {
    "text": lambda d: durable.write(d / "summary.json", "{}"),
    "store": lambda d: store.save(random_graph(), d / "store"),
    "plan": lambda d: save(partition(random_graph(), 2), d / "plan"),
    "edge-cut": lambda d: save(edge_cut(random_graph(), 2, "random"), d / "plan", random_graph()),
    "checkpoint": lambda d: Checkpoints(d).save(1, STATE, {"best": None}),
    "table of a checkpoint": lambda d: table(d),
    "records": lambda d: record(d / "metrics.jsonl"),
    "table on disk": lambda d: mapped(d / "0", (1000, 2), np.float32),
    "predictions": lambda d: PREDICTED.write(d / "p.npy"),
    "predictions in words": lambda d: PREDICTED.write(d / "p.csv"),
    "predictions in columns": lambda d: PREDICTED.write(d / "p.parquet"),
    "a store with names": lambda d: store.save(NAMED, d / "store"),
}


@contextmanager
def no_room():
    """No file may grow: for whoever runs the tests, and whatever disk they run on."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("name", WRITERS)
def test_what_cannot_be_written_is_one_line_and_leaves_nothing(tmp_path, tmp_path_factory, capfd, name):
    WRITERS[name](tmp_path_factory.mktemp("room"))  # where there is room it works, and numba keeps what it compiles
    with pytest.raises(InputError) as refused, no_room():
        WRITERS[name](tmp_path)
    said = str(refused.value)
    assert said.startswith(str(tmp_path)) and os.strerror(errno.EFBIG) in said and "\n" not in said
    assert {file.name for file in tmp_path.iterdir()} <= {"metrics.jsonl"}
    assert not any(file.stat().st_size for file in tmp_path.iterdir())
    assert not capfd.readouterr().err
    WRITERS[name](tmp_path)  # and with room all is well


def test_a_picture_that_cannot_be_written_is_said_and_costs_nothing(tmp_path, caplog):
    for draw in (
        lambda: draw_curves([{"epoch": 1, "train_loss": 1.0}], tmp_path / "curves.png", "a title"),
        lambda: draw_cache([CACHED], tmp_path / "cache.png", "a title"),
    ):
        with no_room():
            draw()
        assert os.strerror(errno.EFBIG) in caplog.messages[-1] and not list(tmp_path.iterdir())


def test_penalties_that_cannot_be_kept_are_measured_again(tmp_path):
    with no_room():
        assert read_or_measure(tmp_path / "penalties.json", {}, {}, {}) == {}
    assert not list(tmp_path.iterdir())


def test_compiled_code_that_cannot_be_kept_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))

    @compiled
    def twice(number):
        return 2 * number

    with pytest.raises(InputError) as refused, no_room():
        twice(1)
    said = str(refused.value)
    assert said.startswith(str(tmp_path)) and said.endswith(
        "; compiled code is kept there; NUMBA_CACHE_DIR names another folder"
    )
    assert twice(1) == 2


@pytest.fixture
def small_disk(tmp_path):
    """A function that makes a disk of so many KiB."""
    made = []

    def make(size: int) -> Path:
        folder = tmp_path / f"disk_{len(made)}"
        folder.mkdir()
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}k", "tmpfs", folder], capture_output=True)
        if done.returncode:
            pytest.skip("a small disk needs the right to mount one")
        made.append(folder)
        return folder

    if not shutil.which("mount"):
        pytest.skip("there is no mount here")
    yield make
    for folder in made:
        subprocess.run(["umount", "--lazy", folder], check=True)


@pytest.mark.parametrize("size, reserved", [(8, False), (24, False), (80, False), (320, False), (320, True)])
def test_a_disk_that_fills_up_under_orbax(small_disk, monkeypatch, capfd, size, reserved):
    """Also where another process takes the room that was there when a checkpoint was begun."""
    if not reserved:
        monkeypatch.setattr(checkpoint, "_reserve", lambda *_: None)
        monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(0, 0, 10**9))
    disk = small_disk(size)
    state = {f"weights_{n}": np.random.default_rng(n).random(40_000, np.float32) for n in range(3)}
    with pytest.raises(InputError, match="; the checkpoints before it are as they were|bytes, and [0-9,]+ are free"):
        Checkpoints(disk / "checkpoints").save(1, state, {"best": None})
    assert not list(disk.glob("checkpoints/*")) and not list(disk.glob("checkpoints/.*"))
    found = capfd.readouterr()
    assert not found.err and not found.out


def test_a_run_on_a_disk_that_is_too_small(small_disk, stored):
    """For its first checkpoint; with room the same command goes on."""
    disk = small_disk(40)
    options = {"workdir": disk / "run", "data.format": "store", "data.path": stored, "train.epochs": 1}
    options["train.recipe"] = "none"
    options |= {"model.hidden": 4, "model.feature_width": 4, "model.layers": 1, "sampling.mode": "full"}
    arguments = [f"--{name}={value}" for name, value in options.items()]
    done = call("hetjax.train", *arguments)
    said = [line for line in done.stderr.replace("\r", "\n").splitlines() if line.strip() and "training: " not in line]
    assert done.returncode == 2 and len(said) == 1 and said[0].startswith(f"hetjax: error: {disk}/run/checkpoints: ")
    assert not list(disk.rglob(".*partial"))
    subprocess.run(["mount", "-o", "remount,size=8m", disk], check=True)
    assert call("hetjax.train", *arguments).returncode == 0 and (disk / "run" / "summary.json").exists()


@pytest.mark.parametrize("overwrite", [False, True])
def test_nothing_but_a_regular_file_is_replaced(tmp_path, overwrite):
    (tmp_path / "folder.npy").mkdir()
    (tmp_path / "to_file.npy").symlink_to(tmp_path / "file.npy")
    (tmp_path / "to_nothing.npy").symlink_to(tmp_path / "nothing.npy")
    os.mkfifo(tmp_path / "pipe.npy")
    for name in ("folder.npy", "to_file.npy", "to_nothing.npy", "pipe.npy"):
        with pytest.raises(InputError, match=f"{name}: is no regular file, and is left as it is"):
            durable.check_replaceable(tmp_path / name, overwrite)
    with pytest.raises(InputError, match="null: is no regular file"):
        durable.check_replaceable(Path("/dev/null"), overwrite)
    with pytest.raises(InputError, match="nowhere: no such folder"):
        durable.check_replaceable(tmp_path / "nowhere" / "x.npy", overwrite)
    with pytest.raises(InputError, match="File name too long"):
        durable.check_replaceable(tmp_path / ("x" * 300), overwrite)
    durable.check_replaceable(tmp_path / "new.npy", overwrite)
    (tmp_path / "file.npy").write_text("there")
    if overwrite:
        durable.check_replaceable(tmp_path / "file.npy", overwrite)
    else:
        with pytest.raises(InputError, match="file.npy: exists already; --overwrite replaces it"):
            durable.check_replaceable(tmp_path / "file.npy", overwrite)


def test_of_two_writers_of_one_name_the_second_is_refused(tmp_path):
    with durable.new_folder(tmp_path / "out") as partial:
        (partial / "a").write_text("a")
        with pytest.raises(InputError, match="another process is writing it now"), durable.new_folder(tmp_path / "out"):
            raise AssertionError("not reached")
        with pytest.raises(InputError, match="another process is writing it now"), durable.new_file(tmp_path / "out"):
            raise AssertionError("not reached")
    assert [entry.name for entry in tmp_path.iterdir()] == ["out"]
    assert [entry.name for entry in (tmp_path / "out").iterdir()] == ["a"]


def test_of_two_writers_of_a_text_the_last_wins(tmp_path):
    with durable.new_file(tmp_path / "x", alone=False) as partial:
        durable.write(tmp_path / "x", "first")
        partial.write_text("second")
    assert (tmp_path / "x").read_text() == "second" and len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("name", ["out", "out[1]", "ö ut"])
def test_what_a_killed_writer_left_is_deleted_by_the_next(tmp_path, name):
    code = "import os, sys; from hetjax.system import durable; a = durable.new_folder(sys.argv[1]); a.__enter__(); os._exit(9)"
    assert subprocess.run([sys.executable, "-c", code, tmp_path / name]).returncode == 9
    (left,) = tmp_path.iterdir()
    other = tmp_path / f".{name}.theirs.partial"  # no name that hetjax gives
    other.mkdir()
    link = left.with_name(f".{name}.00000000.partial")
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "x").write_text("x")
    link.symlink_to("kept")
    with durable.new_folder(tmp_path / name):
        assert not left.exists() and other.exists()
    assert (tmp_path / "kept" / "x").exists()


def test_a_folder_within_one_that_is_being_written_is_written_too(tmp_path):
    with durable.new_folder(tmp_path / "outer") as partial, durable.new_folder(partial / "inner") as inner:
        (inner / "a").write_text("a")
    assert (tmp_path / "outer" / "inner" / "a").read_text() == "a"
