"""Tables of text beside Arrow's reading of the whole file, ids looked up beside a dictionary, and threads that keep the order."""

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc_csv
import pytest

from hetjax.casts import written
from hetjax.casts.column import joined
from hetjax.ingest import text, whole_numbers
from hetjax.ingest.configuration import Format
from hetjax.ingest.in_order import in_order
from hetjax.ingest.lookup import Close, Texts, Wide, lookup
from tests.support.progress import Bar

PLAIN = ["0", "7", "-12", "123456789012345678"]
ODD = {
    "whole": ["-0", "007", " 8", "9223372036854775807", "", '"5"'],
    "text": ["007", "-0", "é", "a b", "", '"a,\nb"', '"say ""x"""', "99999999999999999999"],
}


def read(file, form, columns):
    found = [batch for batch, _ in text.batches(file, form, columns, lambda batch: None, Bar())]
    return {name: joined([batch.column(name) for batch in found], pa.int64()) for name in columns}


def by_arrow(file, form, columns):
    return pc_csv.read_csv(
        file,
        pc_csv.ReadOptions(use_threads=False, block_size=2**24),
        pc_csv.ParseOptions(delimiter=form.separator, newlines_in_values=True),
        pc_csv.ConvertOptions(
            column_types={name: text.KINDS[kind] for name, kind in columns.items()},
            include_columns=list(columns),
            null_values=list(form.null_values),
            strings_can_be_null=True,
        ),
    )


@pytest.mark.parametrize("seed", range(24))
def test_pieces_are_what_arrow_reads(seed, tmp_path, monkeypatch):
    rng = np.random.default_rng(seed)
    monkeypatch.setattr(text, "PIECE", int(rng.integers(40, 400)))
    monkeypatch.setattr(text, "BLOCK", 1000)
    header = ["a", "b", "c", "d"]
    columns = {"c": "whole", "a": "text"} if seed % 3 else {"b": "text"}
    form = Format("csv", ",;"[seed % 2], ("", "7") if seed % 5 == 4 else ("",))
    kinds = {name: (PLAIN + ODD[kind] * (rng.random() < 0.5)) for name, kind in columns.items()}
    if seed % 4 == 3:  # plain to the last line but one
        kinds = dict.fromkeys(columns, PLAIN)
    end = ["\n", "\r\n"][seed % 7 == 0]

    def line():
        cells = [str(rng.choice(kinds.get(name, ["x", "", "y z"]))) for name in header]
        return form.separator.join(cells)

    lines = [line() for _ in range(60)] + ([""] if seed % 6 == 5 else []) + [line()]
    first = form.separator.join(f'"{name}"' if seed % 2 else name for name in header)
    content = end.join([first, *lines]) + (end if seed % 8 else "")
    file = tmp_path / "table.csv"
    file.write_bytes((b"\xef\xbb\xbf" if seed % 9 == 1 else b"") + content.encode())
    expected = by_arrow(file, form, columns)
    found = read(file, form, columns)
    for name in columns:
        column = expected.column(name).combine_chunks()
        assert found[name].cast(column.type).equals(column), (name, found[name], column)


def test_whole_numbers_leave_the_rest_to_arrow():
    def made(content, kind="whole", header=("a", "b"), columns=("a",)):
        spared = content.encode() + whole_numbers.SPARE * b"7"
        batch = whole_numbers.read(memoryview(spared), len(content), ",", header, dict.fromkeys(columns, kind))
        return None if batch is None else batch.to_pydict()

    assert made("1,x\n-20,\r\n", columns="a") == {"a": [1, -20]}
    assert made("1,2\n", columns="ba") == {"b": [2], "a": [1]}
    digits = ["1234567890123456789"[:size] for size in range(1, 19)]
    numbers = [f"{sign}{one}" for one in digits for sign in ("", "-")]
    assert made("".join(f"x-{one},{one}\n" for one in numbers), columns="b") == {"b": [int(one) for one in numbers]}
    assert made("007,x\n") == {"a": [7]} and made("007,x\n", "text") is None and made("-0,x\n", "text") is None
    for content in (
        "1\n",
        "1,2,3\n",
        ",2\n",
        "+1,2\n",
        "1.0,2\n",
        "1" * 19 + ",2\n",
        "1,2\n\n",
        "1\r,2\n",
        "-,2\n",
        " 1,2\n",
    ):
        assert made(content) is None, content
    assert not whole_numbers.usable(Format("csv", null_values=("-1",)), {"a": "whole"})
    assert not whole_numbers.usable(Format("csv"), {"a": "number"})


@pytest.mark.parametrize("kind", [Close, Wide, Texts])
def test_ids_are_found(kind):
    rng = np.random.default_rng(0)
    there = rng.permutation(4000)[:1000] - 1500
    values = there.tolist() if kind is Close else (there * 2**40).tolist() if kind is Wide else [f"é{n}" for n in there]
    values[0] = values[0] if kind is not Texts else ""
    made = lookup(pa.array(values, pa.large_string() if kind is Texts else pa.int64()))
    assert type(made) is kind
    others = ["", "x", "é"] if kind is Texts else [-(2**63), 2**63 - 1, 5001]
    wanted = [None, *others, *rng.choice(np.array(values, object), 3000), None]
    given = pa.array(wanted, pa.large_string() if kind is Texts else pa.int64())
    expected = [values.index(one) if one in values else -1 for one in wanted]
    assert made.find(given).dtype == np.int32 and made.find(given).tolist() == expected
    assert made.find(given.slice(7, 100)).tolist() == expected[7:107] and not len(made.find(given.slice(0, 0)))
    none = lookup(given.slice(0, 0))
    assert set(none.find(given).tolist()) == {-1}


def test_threads_keep_the_order():
    def given():
        yield from range(20)
        raise OSError("after all of these")

    seen = []
    with pytest.raises(OSError, match="after all of these"):
        for made in in_order(lambda n: n * n, given()):
            seen.append(made)
    assert seen == [n * n for n in range(20)]
    with pytest.raises(ZeroDivisionError):
        list(in_order(lambda n: 1 // (n - 3), given()))


def test_whole_numbers_are_as_python_writes_them():
    rng = np.random.default_rng(0)
    texts = ["".join(rng.choice(list("0019-+ x.é"), rng.integers(0, 5))) for _ in range(3000)]
    ends = [2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 10**19, 10**18, -(10**18)]
    texts += [str(one) for one in ends] + ["0x7", "0xFFFFFFFFF", "²", "٣", "1" * 400, "-", "-0", None]
    column = pa.array(["before", *texts, "after"], pa.large_string()).slice(1, len(texts))
    numbers, wrong = written.whole_numbers(column)
    for given, number, none in zip(texts, numbers.tolist(), wrong.tolist()):
        try:
            right = str(int(given)) == given and -(2**63) <= int(given) < 2**63
        except (TypeError, ValueError):
            right = False
        assert none != right and (not right or number == int(given)), given
