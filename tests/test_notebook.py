"""The notebook, run cell by cell; and the tutorial, run command by command."""

import ast
import json
import logging
import os
import re
import shlex
import sys
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import pyarrow.parquet as pq
import pytest

from hetjax.system.logs import hides_bar, log
from tests.support.commands import ROOT, here

TUTORIAL = ROOT / "docs" / "tutorial.md"


def run_cell(source: str, names: dict) -> object:
    """What the last line of a cell gives, as a notebook shows it."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), names)
    return eval(compile(ast.Expression(last.value), "cell", "eval"), names) if last else None


def test_the_notebook_runs(capsys):
    pytest.importorskip("pandas")
    notebook = json.loads((ROOT / "examples" / "notebook.ipynb").read_text())
    assert notebook["nbformat"] == 4 and len({cell["id"] for cell in notebook["cells"]}) == len(notebook["cells"])
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert not any(cell["outputs"] or cell["execution_count"] for cell in code)
    names: dict = {"__name__": "notebook"}
    shown = [run_cell("".join(cell["source"]), names) for cell in code]
    assert shown[2] is names["run"] and 'alt="loss and accuracy by epoch"' in shown[2]._repr_html_()
    assert list(shown[3].columns[:3]) == ["node", "class", "probability"] and shown[3]["node"][0] == "c0"
    said = re.search(r"^([0-9.]+)% of the test customers are right", capsys.readouterr().out, re.M)
    assert said and float(said[1]) > 60 and "report.html" in shown[-1]  # a guess among three is right in a third


def test_a_bar_is_shown_in_notebooks_and_can_be_quieted(monkeypatch):
    assert hides_bar() is None
    monkeypatch.setitem(sys.modules, "ipykernel", ModuleType("ipykernel"))
    assert hides_bar() is False
    monkeypatch.setattr(log, "level", logging.WARNING)
    assert hides_bar() is True


def run_page(page: Path, prints: bool = False) -> None:
    """Run the Python and the commands of a page in the current folder, but for those of several processes, which tests/test_docs.py parses.

    With `prints` a block of text has lines, in part, that the commands before it print; such commands may end with status 1 or 2, all others must not.
    """
    names: dict = {"__name__": page.stem}
    kinds = "sh|python|text" if prints else "sh|python"
    steps = re.findall(rf"^```({kinds})\n(.*?)^```$", page.read_text(), re.M | re.S)
    for (kind, block), (following, expected) in pairwise([*steps, ("", "")]):
        if kind == "python":
            exec(compile(block, page.stem, "exec"), names)
        if kind != "sh":
            continue
        printed = ""
        for line in re.sub(r"\s*\\\n\s*", " ", block).splitlines():
            words = shlex.split(line.replace("$PWD", os.getcwd()), comments=True)
            if words[:2] != ["python", "-m"] or "$i" in line:
                continue
            module = (
                f"{words[2]}.__main__" if words[2].split(".")[-1] in ("ingest", "partition", "doctor") else words[2]
            )
            done = here(module, *words[3:])
            printed += done.stdout + done.stderr
            assert done.returncode in ((0, 1, 2) if following == "text" else (0,)), (line, done.stderr)
        for line in expected.splitlines() if following == "text" else ():
            assert line in printed, f"{page.name}: {line}\n{printed}"


def test_the_tutorial_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_page(TUTORIAL)
    rows = pq.read_table("kinds.parquet").to_pylist()
    assert rows[0]["node"] == "c0" and {row["class"] for row in rows} <= {"cook", "gardener", "reader"}
    assert (tmp_path / "runs" / "shop" / "report.html").exists()


@pytest.mark.parametrize("page", ["messy_tables", "trouble"])
def test_commands_of_a_page_print_what_it_says(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HETJAX_DATA", raising=False)
    run_page(ROOT / "docs" / f"{page}.md", prints=True)
