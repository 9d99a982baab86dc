"""Compiled code that is kept: what is damaged is compiled again, and what others can write is not run."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hetjax.system import runtime

ROOT = Path(__file__).parent.parent
USE = """
from hetjax.system.compiled import compiled

@compiled
def twice(x):
    return 2 * x

print(twice(21), sum(twice.stats.cache_hits.values()))
"""


def use(folder, module):
    """Run a compiled function of a module of the package's name in a process of its own; returns what it prints."""
    environment = os.environ | {"NUMBA_CACHE_DIR": str(folder), "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, str(module)], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.split(), done.stderr


@pytest.fixture
def module(tmp_path):
    """A module whose function counts as one of the package's."""
    file = tmp_path / "used.py"
    file.write_text("import hetjax.system.threads\n__name__ = 'hetjax.system.threads'\n" + USE)
    return file


@pytest.mark.parametrize("suffix", ["nbi", "nbc"])
def test_damaged_code_is_compiled_again(tmp_path, module, suffix):
    folder = tmp_path / "kept"
    assert use(folder, module)[0] == ["42", "0"]
    (file,) = folder.rglob(f"*.{suffix}")
    for kind in ("empty", "half", "flipped"):
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 0x10
        file.write_bytes({"empty": b"", "half": content[: len(content) // 2], "flipped": bytes(content)}[kind])
        assert use(folder, module)[0] == ["42", "0"], kind
    assert use(folder, module)[0] == ["42", "1"]


def test_code_that_others_can_write_is_not_run(tmp_path, module):
    folder = tmp_path / "kept"
    assert use(folder, module)[0] == ["42", "0"]
    (inner,) = {file.parent for file in folder.rglob("*.nbc")}
    inner.chmod(0o777)
    found, said = use(folder, module)
    assert found == ["42", "0"] and "can be written to by others" in said and said.count("\n") == 1


@pytest.mark.parametrize("mode", [0o666, 0o664])
@pytest.mark.parametrize("suffix", ["nbi", "nbc"])
def test_a_file_that_others_can_write_is_not_run(tmp_path, module, suffix, mode):
    folder = tmp_path / "kept"
    assert use(folder, module)[0] == ["42", "0"]
    (file,) = folder.rglob(f"*.{suffix}")
    file.chmod(mode)
    assert use(folder, module)[0] == ["42", "0"]


def test_code_is_kept_whatever_the_usual_mode_of_new_folders(tmp_path, module):
    folder, usual = tmp_path / "kept", os.umask(0o002)
    try:
        (module.parent / "__pycache__").mkdir()
        assert use(folder, module) == (["42", "0"], "") and use(folder, module) == (["42", "1"], "")
    finally:
        os.umask(usual)


def test_a_folder_of_compiled_code_is_made_for_its_user_alone(tmp_path, capfd):
    assert runtime.private(str(tmp_path / "a" / "b"))
    assert (tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o700
    (tmp_path / "c").mkdir(mode=0o777)
    (tmp_path / "c").chmod(0o770)
    assert not runtime.private(str(tmp_path / "c"))
    assert "chmod 700" in capfd.readouterr().err


def test_a_folder_with_files_that_others_can_reach_and_write_is_not_private(tmp_path, capfd):
    for number, (folder, file, right) in enumerate(((0o755, 0o664, False), (0o755, 0o644, True), (0o700, 0o664, True))):
        kept = tmp_path / str(number)
        kept.mkdir()
        (kept / "program").touch()
        (kept / "program").chmod(file)
        kept.chmod(folder)
        assert runtime.private(str(kept)) == right
    assert "has files, one of which can be written to by others" in capfd.readouterr().err
