"""Files that hetjax reads are regular files, whatever a path names."""

import os
import socket

import pytest

from hetjax import files
from hetjax.errors import InputError


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
