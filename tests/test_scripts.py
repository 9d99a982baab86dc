"""Every script of experiments/, benchmarks/ and examples/ imports: what it takes from hetjax and from its neighbours is there."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PEERS = ("torch", "dgl", "torch_geometric")  # in environments of their own
IMPORT_ALL = """
import importlib, sys, traceback
peers, modules, faults = sys.argv[1].split(), sys.argv[2:], 0
for name in modules:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name not in peers:
            faults += bool(traceback.print_exc() or True)
    except Exception:
        faults += bool(traceback.print_exc() or True)
sys.exit(faults)
"""


@pytest.mark.parametrize("folder", ["experiments", "benchmarks", "examples"])
def test_scripts_import(folder):
    files = sorted(file.relative_to(ROOT).with_suffix("") for file in (ROOT / folder).rglob("*.py"))
    modules = [".".join(file.parts) for file in files if file.name != "__init__"]
    assert modules
    if folder == "benchmarks":  # which are no package
        modules = [name.rpartition(".")[2] for name in modules]
    # In a process of its own, started as its scripts are: their folder first, then the repository's.
    path = {"PYTHONPATH": f"{ROOT / folder}:{ROOT}", "PATH": "", "JAX_PLATFORMS": "cpu", "MPLBACKEND": "agg"}
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_ALL, " ".join(PEERS), *modules], env=path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
