"""Write docs/casts.md from the table of casts: `python -m tests.support.casts_page`."""

from pathlib import Path
from typing import Any

from tests.support.casts_table import ENDS, FEATURES, IDS, LABELS, LEFT_OUT, MASKS, REFUSED, SPLITS, WEIGHTS, Case

HEAD = """# What a value means

Every way of giving hetjax a graph reads columns by one table: arrays and lists, pandas, polars, Arrow, dictionaries, networkx,
PyG, DGL, tables in csv, parquet and HDF5, and arrays in `.npz`. The tests run every row below at every one of these that has such
columns; this page is generated from them.

What hetjax takes by name, by position or by kind it says in one line that names the columns, by Python's logger "hetjax". What it
cannot take ends with one line that says what was found and what should be there (`hetjax.system.errors.InputError`; exit status 2 on the
command line).

**Missing** is every null, `None`, NaN, NaT and `pandas.NA`, and in columns of texts the words `NA`, `N/A`, `NaN`, `nan`, `null`,
`NULL`, `None`, `<NA>`, `#N/A` and the empty text, in exactly these spellings. Ids are as they are: an id may be called `NA`.

Files differ where their format cannot give a kind of value, or where a configuration replaces a rule:

- A cell of csv is a text. Labels and ids are read as the texts that are written, and whole numbers are told by their digits. The rows below
  list what csv reads where that is another value. An empty cell is missing.
- HDF5 and `.npz` have no missing texts or whole numbers. `.npz` has class numbers and node numbers, and no texts for them; texts
  `class_names` and `node_names` name them.
- In tables the configuration chooses the columns, so a feature that is no number is refused rather than left out. `fill` of a transform
  says which number a missing one becomes, and `null_values` says which words are missing. Splits are shares,
  ranges of a column (`split_by`) or files of ids, so there is no column `split` and there are no masks.
"""
ROLES = {
    "Labels": (
        "Whole numbers are class numbers, from 0; texts and booleans are names of classes, in their order; texts that are all whole numbers are in the order of these. Missing values and -1 are nodes without a label. Categories keep their order. A class that no node has keeps its number: labels 0 and 2 are of 3 classes. In tables whole numbers are names, which a line says, where 0 is none of them or more than half are left out; elsewhere integers are always class numbers.",
        LABELS,
    ),
    "Ids of nodes": ("Whole numbers of 64 bits, or texts, each once.", IDS),
    "Ends of edges": (
        "Ids of nodes, or node numbers from 0 where there are no ids. A text and a whole number are one id only where the text is how the number is written. In a frame they are the columns `source` and `target`, `src` and `dst`, `source_id` and `target_id` (or `dest_id`), `src_id` and `dst_id`, `from` and `to`, `head` and `tail`, `u` and `v`, or the names of the two node types, also with `_id`; in any order and case. Two columns of other names are taken in their order, with a line.",
        ENDS,
    ),
    "The column `split`": (
        "Words. A node whose word is missing is in no split. In `splits=` give masks, or the ids of nodes (node numbers where a type has no ids); each node is in one split, once.",
        SPLITS,
    ),
    "Masks": (
        "Columns `train_mask`, `val_mask` (or `valid_mask`, `validation_mask`) and `test_mask` are the split, never features.",
        MASKS,
    ),
    "Weights of edges": (
        "Numbers, from the column `weight`, `weights`, `edge_weight` or `w` alone; other columns of edges are left out, with a line.",
        WEIGHTS,
    ),
    "Features": (
        "Numbers. A frame's other columns are left out, with a line that names them; where the features are one array, it is refused.",
        FEATURES,
    ),
}


def page() -> str:
    """The text of the page."""
    parts = [HEAD]
    for title, (words, cases) in ROLES.items():
        parts.append(f"## {title}\n\n{words}\n\n| values | for example | become |\n|---|---|---|\n{_rows(cases)}\n")
    return "\n".join(parts)


def _rows(cases: list[Case]) -> str:
    rows = []
    for case in cases:
        example = ", ".join(_shown(value) for value in case.values)
        csv = "" if case.csv is None else f"; in csv {_values(case.csv)}"
        rows.append(f"| {_cell(case.kind)} | {_cell(example)} | {_cell(_values(case.becomes))}{_line(case)}{csv} |")
    return "\n".join(rows)


def _values(becomes: Any) -> str:
    return becomes if becomes in (REFUSED, LEFT_OUT) else ", ".join(map(_result, becomes))


def _line(case: Case) -> str:
    where = f"; ids are {', '.join(map(_shown, case.ids))}" if case.ids else ""
    where += "; PyG's and DGL's are numbers to predict" * case.numbers
    return where + ("; a line says so" if case.said or case.becomes == LEFT_OUT else "")


def _shown(value: Any) -> str:
    return "missing" if value is None else f"`{value!r}`" if isinstance(value, str) else f"`{value}`"


def _result(value: Any) -> str:
    return "none" if value is None else f"`{value}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    (Path(__file__).parents[2] / "docs" / "casts.md").write_text(page())
