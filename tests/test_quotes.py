"""Quotes in csv, beside Python's strict reader: what it refuses is refused, whatever the pieces are that are read at a time."""

import contextlib
import csv
import gzip
import io

import numpy as np
import pytest

from hetjax.datasets import quotes
from hetjax.ingest import text
from hetjax.ingest.configuration import Format
from hetjax.system.errors import InputError
from tests.support.progress import Bar

SWALLOWED = {
    "never closed": ('id,y,title\n1,a,x\n2,b,y\n3,a,"z\n4,b,q\n5,a,r\n', "line 4: a quote is opened and never closed"),
    "the first cell": ('id,y,title\n1,a,x\n"2,b,y\n3,a,z\n', "line 3: a quote is opened and never closed"),
    "the header": ('id,y,"title\n1,a,x\n2,b,y\n', "line 1: a quote is opened and never closed"),
    "two stray ones": ('id,y,title\n1,a,"x\n2,b,y\n3,a,"z\n4,b,q\n', "line 2: a quoted cell goes on after its"),
    "closed within a cell": ('id,y,title\n1,a,"x\n2,b,y "z\n3,a,q\n', "closing quote in line 3"),
    "a doubled one": ('id,y,title\n1,a,"x""\n2,b,y\n', "line 2: a quote is opened and never closed"),
    "blank after": ('id,y,title\n1,a,"x" \n2,b,y\n', "line 2: a quoted cell goes on after its closing quote"),
    "at the end": ('id,y,title\n1,a,x\n2,b,"', "line 3: a quote is opened and never closed"),
    "line ends of Windows": ('id,y,title\r\n1,a,x\r\n2,b,"y\r\n3,a,z\r\n', "line 3: a quote is opened"),
    "other line ends": ('id,y,title\r1,a,x\r2,b,"y\r3,a,z\r', "line 3: a quote is opened and never closed"),
}


def rows_of(file, form, columns):
    found = [batch for batch, _ in text.batches(file, form, columns, lambda batch: None, Bar())]
    return [tuple(row.values()) for batch in found for row in batch.to_pylist()]


@pytest.mark.parametrize("columns", [{"id": "whole"}, {"y": "text"}, {"id": "number"}, {"title": "text"}])
@pytest.mark.parametrize("name", SWALLOWED)
def test_a_wrong_quote_is_named_with_its_line(name, columns, tmp_path):
    """In a column that is read, and in one that is not."""
    content, message = SWALLOWED[name]
    forms = {"t.csv": ("utf8", ","), "u.csv": ("utf-16", ","), "s.csv": ("latin-1", ";"), "b.csv": ("utf-8-sig", ",")}
    for file, (encoding, separator) in forms.items():
        data = content.replace(",", separator).encode(encoding)
        (tmp_path / file).write_bytes(data)
        (tmp_path / f"{file}.gz").write_bytes(gzip.compress(data))
        form = Format("csv", separator, encoding=encoding if encoding != "utf-8-sig" else "utf8")
        for path in (tmp_path / file, tmp_path / f"{file}.gz"):
            with pytest.raises(InputError) as error:
                rows_of(path, form, columns)
            assert message in str(error.value) and str(error.value).startswith(str(path)), error.value


def test_a_wrong_quote_far_down_is_named_with_its_line(tmp_path, monkeypatch):
    monkeypatch.setattr(text, "PIECE", 64)
    monkeypatch.setattr(text, "BLOCK", 256)
    lines = [f"{n},x" for n in range(400)]
    for at, message in ((300, "line 302: a quote is opened"), (2, "line 4: a quote is opened")):
        content = "\n".join(["id,t", *lines[:at], '7,"x', *(lines[at:] if at > 200 else [])])
        (tmp_path / "t.csv").write_text(content)
        with pytest.raises(InputError, match=message):
            rows_of(tmp_path / "t.csv", Format("csv"), {"id": "whole"})


def test_rows_of_several_lines_are_said(tmp_path, caplog):
    caplog.set_level("INFO", "hetjax")
    (tmp_path / "t.csv").write_text('id,t\n1,x\n2,"a\nb ""c"" ,\n\nd"\n3,5" pipe\n4,"e\nf"\n')
    rows = rows_of(tmp_path / "t.csv", Format("csv"), {"id": "whole", "t": "text"})
    assert rows == [(1, "x"), (2, 'a\nb "c" ,\n\nd'), (3, '5" pipe'), (4, "e\nf")]
    assert "t.csv: 2 rows span several lines, as a quoted cell has line ends; the first from line 3" in caplog.text


@pytest.mark.parametrize("seed", range(12))
def test_what_python_refuses_is_refused(seed, tmp_path, monkeypatch):
    rng = np.random.default_rng(seed)
    monkeypatch.setattr(text, "PIECE", int(rng.integers(1, 60)))
    monkeypatch.setattr(text, "BLOCK", 100)
    end = ["\n", "\r\n"][seed % 2]
    for number in range(40):
        cells = rng.choice(["a", '"', '""', '"b"', "c", '"d', end, '",\n"', "é"], (int(rng.integers(1, 9)), 2))
        content = "x,y" + end + end.join(",".join(row) for row in cells) + (end if seed % 3 else "")
        expected, file = None, tmp_path / f"{number}.csv"
        file.write_text(content, newline="")
        with contextlib.suppress(csv.Error):
            given = csv.reader(io.StringIO(content, newline=""), strict=True)
            expected = [tuple(cell or None for cell in row) for row in given if row]
        try:
            found = rows_of(file, Format("csv"), {"x": "text", "y": "text"})
        except InputError as error:
            assert expected is None or any(len(row) != 2 for row in expected) or "straddling" in str(error), content
        else:
            assert found == expected[1:], content
        for size in (1, 2, 7, 1000):
            checked = quotes.Checked(io.BytesIO(content.encode()), ",")
            try:
                while checked.read(size):
                    pass
                assert expected is not None, content
            except quotes.Misquoted:
                assert expected is None, content
