"""Which checkpoints are kept, and which is chosen when some are damaged."""

import errno
import gc
import os
import shutil
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from hetjax.checkpoints.checkpoint import Checkpoints, Damaged
from hetjax.options.run_folder import check_folder
from hetjax.system import durable
from hetjax.system.errors import InputError


def state(value: int):
    return {"weights": jnp.full((3, 2), value, jnp.float32), "empty": jnp.zeros((0, 4)), "step": jnp.int32(value)}


def saved(folder, *steps):
    """Checkpoints of `(step, step of the best so far)`."""
    checkpoints = Checkpoints(folder)
    for step, best in steps:
        checkpoints.save(step, state(step), {"best": best and {"step": best}, "note": step})
    return checkpoints


def steps(checkpoints):
    return [checkpoint.step for checkpoint in checkpoints.newest_first()]


def damage(checkpoints, step):
    file = checkpoints.at(step).folder / "progress.json"
    file.write_text(file.read_text() + " ")


def test_round_trip(tmp_path):
    checkpoints = saved(tmp_path, (7, None))
    checkpoint, progress = checkpoints.newest_whole(pytest.fail)
    assert progress == {"best": None, "note": 7}
    found = checkpoint.state(state(0))
    for name, expected in state(7).items():
        assert found[name].dtype == expected.dtype and np.array_equal(found[name], expected)


def test_the_last_two_and_their_best_are_kept(tmp_path):
    assert steps(saved(tmp_path / "a", (10, None), (20, None), (30, None))) == [30, 20]
    assert steps(saved(tmp_path / "b", (10, 10), (20, 10), (30, 10), (40, 10))) == [40, 30, 10]
    assert steps(saved(tmp_path / "c", (10, 10), (20, 10), (30, 30))) == [30, 20, 10]
    assert steps(saved(tmp_path / "d", (10, 10), (20, 10), (30, 30), (40, 30))) == [40, 30]


@pytest.mark.parametrize(
    "hurt,chosen,left",
    [((30,), 20, [20, 10]), ((30, 20), 10, [10]), ((10,), 30, [30, 20, 10]), ((30, 20, 10), None, [])],
)
def test_damaged_checkpoints_are_passed_over(tmp_path, hurt, chosen, left):
    checkpoints = saved(tmp_path, (10, 10), (20, 10), (30, 30))
    for step in hurt:
        damage(checkpoints, step)
    said = []
    found = checkpoints.newest_whole(said.append)
    assert steps(checkpoints) == [30, 20, 10]  # nothing is lost until the run is sure to go on
    checkpoints.wait()
    assert (found[0].step if found else None) == chosen
    assert steps(checkpoints) == left
    if chosen != 30:
        assert (
            f"{checkpoints.at(30).folder} is damaged: progress.json has" in said[0]
            and "the one before it is used" in said[0]
        )
    else:
        assert not said
    assert ("the run starts anew" in said[-1]) if not left else True


@pytest.mark.parametrize(("hurt", "chosen"), [((10,), 30), ((30, 10), 20)])
def test_a_run_goes_on_where_only_the_best_checkpoint_is_damaged(tmp_path, hurt, chosen):
    checkpoints = saved(tmp_path, (10, 10), (20, 10), (30, 10))
    for step in hurt:
        damage(checkpoints, step)
    said = []
    found, progress = checkpoints.newest_whole(said.append)
    checkpoints.wait()
    assert found.step == chosen and progress["best"] is None and steps(checkpoints) == list(range(chosen, 10, -10))
    assert (
        f"{checkpoints.at(10).folder} is damaged" in said[-1]
        and "it was the best" in said[-1]
        and len(said) == len(hurt)
    )


@pytest.mark.parametrize("change", ["missing", "added", "digests"])
def test_what_was_not_written_with_a_checkpoint_is_damage(tmp_path, change):
    checkpoint = next(saved(tmp_path, (1, None)).newest_first())
    if change == "missing":
        (checkpoint.folder / "progress.json").unlink()
    elif change == "added":
        (checkpoint.folder / "more").touch()
    else:
        (checkpoint.folder / "digests.json").write_text("{}")
    with pytest.raises(Damaged, match="is missing, or was not written with it"):
        checkpoint.verify()


def test_digests_that_were_cut_off_are_named(tmp_path):
    checkpoint = next(saved(tmp_path, (1, None)).newest_first())
    file = checkpoint.folder / "digests.json"
    file.write_text(file.read_text()[:9])
    with pytest.raises(Damaged, match=r"damaged: digests.json: JSONDecodeError: "):
        checkpoint.verify()


def test_what_cannot_be_read_is_said_once(tmp_path, caplog):
    """Of several arrays that cannot be read one is raised, and the others are not logged some time later."""
    many = {f"array {number}": jnp.ones(2) for number in range(20)}
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(1, many, {"best": None})
    checkpoint = checkpoints.at(1)
    manifest = checkpoint.folder / "state" / "state" / "manifest.ocdbt"
    manifest.write_bytes(manifest.read_bytes() + b"more")
    for _ in range(3):
        with pytest.raises(InputError, match="state"):
            checkpoint.state(many)
        gc.collect()
    assert not caplog.records


def test_what_a_killed_save_left_is_cleared(tmp_path):
    saved(tmp_path, (1, None))
    (tmp_path / ".2.partial" / "state").mkdir(parents=True)
    checkpoints = Checkpoints(tmp_path)
    checkpoint, _ = checkpoints.newest_whole(pytest.fail)
    checkpoints.wait()
    assert checkpoint.step == 1 and not list(tmp_path.glob(".*"))


def test_tables_are_files_that_are_mapped(tmp_path):
    table = {"a/b": {"rows": np.arange(15, dtype=np.float32).reshape(5, 3)[:, :2]}}
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(1, {"step": jnp.int32(1), "tables": table}, {"best": None})
    like = {"step": jnp.int32(0), "tables": {"a/b": {"rows": np.zeros((5, 2), np.float32)}}}
    found = checkpoints.at(1).state(like)["tables"]["a/b"]["rows"]
    assert isinstance(found, np.memmap)
    np.testing.assert_array_equal(found, table["a/b"]["rows"])
    like["tables"]["a/b"]["rows"] = np.zeros((6, 2), np.float32)
    with pytest.raises(InputError, match=r"rows: float32 \(5, 2\) != float32 \(6, 2\)"):
        checkpoints.at(1).state(like)


def test_what_gets_its_name_is_on_the_disk(tmp_path, monkeypatch):
    """Every file and folder before, and the folder that holds the name after; where folders cannot be synced too."""
    done, sync, rename = [], os.fsync, Path.rename
    monkeypatch.setattr(os, "fsync", lambda handle: (done.append(os.readlink(f"/proc/self/fd/{handle}")), sync(handle)))
    monkeypatch.setattr(Path, "rename", lambda path, name: (done.append((str(path), str(name))), rename(path, name)))
    with durable.new_folder(tmp_path / "made") as partial:
        (partial / "inner").mkdir()
        (partial / "inner" / "file").write_text("x")
    named = done.index((str(partial), str(tmp_path / "made")))
    assert {str(partial / name) for name in ("", "inner", "inner/file")} <= set(done[:named])
    assert str(tmp_path) in done[named:]
    done.clear()
    durable.write(tmp_path / "file", "text")
    partial = done[0]
    assert Path(partial).name == "file" and Path(partial).parent.parent == tmp_path
    assert done == [partial, (partial, str(tmp_path / "file")), str(tmp_path)]

    def no_folders(handle):
        if os.path.isdir(f"/proc/self/fd/{handle}"):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    monkeypatch.setattr(os, "fsync", no_folders)
    durable.write(tmp_path / "file", "other")
    assert (tmp_path / "file").read_text() == "other"


def test_a_full_disk_is_said_and_loses_nothing(tmp_path, monkeypatch):
    checkpoints = saved(tmp_path, (10, None))

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(InputError, match="No space left on device; the checkpoints before it are as they were"):
            checkpoints.save(20, state(20), {"best": None})
    with monkeypatch.context() as patched:
        patched.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(9, 9, 4))
        with pytest.raises(InputError, match="a checkpoint takes 28 bytes, and 4 are free"):
            checkpoints.save(20, state(20), {"best": None})
    assert checkpoints.newest_whole(pytest.fail)[0].step == 10


@pytest.mark.parametrize("name", ["run[1]", "a*", "b?", "[!x]", "{c}"])
def test_folders_of_any_name_are_read(tmp_path, name):
    """Orbax looks for its files by a pattern, of which the folder's name is no part."""
    for other in (name, "a2", "b2"):  # which the patterns would match too
        checkpoints = saved(tmp_path / other / "checkpoints", (7, None))
    checkpoints = Checkpoints(tmp_path / name / "checkpoints")
    checkpoint, _ = checkpoints.newest_whole(pytest.fail)
    assert np.array_equal(checkpoint.state(state(0))["weights"], state(7)["weights"])


def test_a_folder_with_a_backslash_is_refused_before_training(tmp_path):
    with pytest.raises(InputError, match="has a backslash"):
        check_folder(tmp_path / "a\\b")


@pytest.mark.parametrize("name", ["/s3/run", "/gs/run", "{}/gs:/run", "{}/logs:", "{}/gs:"])
def test_a_folder_that_would_be_taken_for_a_bucket_is_refused_before_training(tmp_path, name):
    with pytest.raises(InputError, match="for a bucket"):
        check_folder(Path(name.format(tmp_path)))


@pytest.mark.parametrize("name", ["s3/run", "gs", "s3:", "gs:x", "gs/run"])
def test_a_folder_that_only_looks_like_a_bucket_is_taken(tmp_path, name):
    check_folder(tmp_path / name)
