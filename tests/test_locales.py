"""Names in other scripts, where the locale of the system is ASCII."""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import hetjax
from tests.support.commands import ROOT, SMALL

ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
CALLS = """
import pathlib, sys, hetjax
edges = {("künstler", "kennt", "künstler"): (["ä", "b", "c", "d"], ["b", "c", "d", "ä"])}
splits = {"train": ["ä", "b"], "validation": ["c"], "test": ["d"]}
graph = hetjax.from_arrays(edges, labels={"künstler": ["schön", "häßlich"] * 2}, splits=splits)
run = hetjax.train(graph, sys.argv[1], epochs=1, hidden=4, baselines=False, accuracy_nodes=0)
run.predict().write(pathlib.Path(sys.argv[1], "out.csv"))
for folder in sys.argv[2], "ö":
    try:
        hetjax.train(graph, folder, epochs=1)
    except hetjax.system.errors.InputError as error:
        print("refused", error)
"""


def tables(folder: Path) -> None:
    """A configuration and its tables."""
    people = [f"künstler{i},{i % 5},{'schön' if i % 2 else 'häßlich'}" for i in range(30)]
    (folder / "künstler.csv").write_text("\n".join(["nötig,größe,klasse", *people]), "utf-8")
    knows = [f"künstler{i},künstler{(i * 7 + 1) % 30}" for i in range(30)]
    (folder / "kanten.csv").write_text("\n".join(["von,nach", *knows]), "utf-8")
    node = {"node_type": "künstler", "format": {"name": "csv"}, "files": ["künstler.csv"], "node_id_col": "nötig"}
    label = {"label_col": "klasse", "task_type": "classification", "split_pct": [0.6, 0.2, 0.2]}
    edge = {"relation": ["künstler", "kennt_ähnlich", "künstler"], "format": {"name": "csv"}, "files": ["kanten.csv"]}
    edge |= {"source_id_col": "von", "dest_id_col": "nach"}
    node |= {"features": [{"feature_col": "größe"}], "labels": [label]}
    written = {"version": "gconstruct-v0.1", "nodes": [node], "edges": [edge]}
    (folder / "graph.json").write_text(json.dumps(written, ensure_ascii=False), "utf-8")


def said(tmp_path: Path, *command: str, **environment: str) -> str:
    """What a process that ends well says on either stream."""
    given = {name: value for name, value in os.environ.items() if not name.startswith(("LC_", "LANG", "PYTHON"))}
    given |= {"PYTHONPATH": str(ROOT), "HETJAX_DATA": "", "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"} | environment
    del given["HETJAX_DATA"]
    done = subprocess.run([sys.executable, *command], capture_output=True, cwd=tmp_path, env=given)
    output = (done.stdout + done.stderr).decode("ascii")
    assert done.returncode == 0 and "Traceback" not in output and "Error" not in output, output
    return output


@pytest.mark.parametrize("environment", [ASCII, {"PYTHONIOENCODING": "ascii"}], ids=["locale", "output"])
def test_commands_take_names_that_are_not_ascii(tmp_path, environment):
    folder = tmp_path / "größe"
    folder.mkdir()
    tables(folder)
    words = said(tmp_path, "-m", "hetjax", "ingest", "--config", "größe/graph.json", "--out", "stör", **environment)
    assert r"st\xf6r: 1 node type" in words
    store = ["--data.format=store", "--data.path=stör"]
    said(tmp_path, "-m", "hetjax.train", *store, "--workdir=läufe", *SMALL, "--sampling.mode=full", **environment)
    said(tmp_path, "-m", "hetjax.predict", "--workdir=läufe", "--out=vörher.csv", **environment)
    rows = (tmp_path / "vörher.csv").read_text("utf-8").splitlines()
    assert len(rows) == 31 and rows[1].startswith("künstler0,") and rows[1].split(",")[1] in ("häßlich", "schön")


def test_python_takes_names_that_are_not_ascii_and_says_which_folder_it_cannot(tmp_path):
    (tmp_path / "calls.py").write_text(CALLS, "utf-8")
    words = said(tmp_path, "calls.py", "plain", "läufe", **ASCII)
    assert words.count("start Python with PYTHONUTF8=1") == 2
    assert (tmp_path / "plain" / "out.csv").read_text("utf-8").splitlines()[1].startswith("ä,")
    assert {file.name for file in tmp_path.iterdir()} == {"calls.py", "plain"}


def in_the_locales_encoding():
    """Every call of the package that reads or writes text and names no encoding, as `module:line`."""
    for file in sorted(Path(hetjax.__file__).parent.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and _is_text(node) and "encoding" not in {k.arg for k in node.keywords}:
                yield f"{file.name}:{node.lineno}: {ast.unparse(node)}"


def _is_text(node: ast.Call) -> bool:
    owner = ast.unparse(node.func.value) if isinstance(node.func, ast.Attribute) else ""
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    words = {word.arg: word.value for word in node.keywords}
    if name in ("read_text", "write_text"):
        return owner != "files"
    if name in ("run", "Popen", "check_output"):
        return bool({"text", "universal_newlines"} & set(words))
    if name == "TextIOWrapper":
        return len(node.args) < 2
    if name == "fdopen" or (name == "open" and not owner):
        mode = node.args[1] if len(node.args) > 1 else words.get("mode")
        return not (isinstance(mode, ast.Constant) and "b" in str(mode.value))
    return False


def test_no_file_is_read_or_written_in_the_encoding_of_the_locale():
    assert list(in_the_locales_encoding()) == []
