"""What a stranger finds: the version, the licence's metadata, the first command without a clone."""

import ast
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import yaml

import hetjax
from hetjax.config import SECTIONS, Config, as_dict

ROOT = Path(__file__).parent.parent


def test_the_quickstart_is_what_is_trained_without_options():
    chosen = yaml.safe_load((ROOT / "examples" / "quickstart.yaml").read_text())
    given = {name: section(**_tuples(chosen.get(name, {}))) for name, section in SECTIONS.items()}
    assert as_dict(Config(**given)) == as_dict(Config())


def _tuples(section):
    return {key: tuple(value) if isinstance(value, list) else value for key, value in section.items()}


def test_the_version_is_known_without_jax_and_without_installing():
    code = "import sys, hetjax; print(hetjax.__version__, 'jax' in sys.modules, 'importlib.metadata' in sys.modules)"
    done = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, timeout=60, cwd=ROOT)
    assert done.stdout.split() == [hetjax.__version__, "False", "False"], done.stderr


def test_training_begins_without_what_is_needed_later():
    later = "orbax", "tensorstore", "matplotlib", "pyarrow"
    code = f"import sys, hetjax.train; print({{name.split('.')[0] for name in sys.modules}} & {{*{later}}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, cwd=ROOT)
    assert done.stdout.strip() == "set()", done.stdout + done.stderr


def test_the_versions_of_citation_and_package_do_not_contradict():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert "version" not in project and "version" not in citation  # it stands in `hetjax/__init__.py` alone
    assert citation["license"] == project["license"] == "Apache-2.0"
    assert f"## {hetjax.__version__} - " in (ROOT / "CHANGELOG.md").read_text()


def test_every_public_function_says_the_types_of_what_it_takes_and_gives():
    assert not [
        bare for file in (ROOT / "hetjax").rglob("*.py") for bare in unannotated(ast.parse(file.read_text()), file.name)
    ]


def unannotated(scope: ast.Module | ast.ClassDef, where: str) -> Iterator[str]:
    """Arguments and results without types, of the public functions of a module or class; numba finds those of what it compiles."""
    for node in scope.body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from unannotated(node, f"{where}: {node.name}")
        elif isinstance(node, ast.FunctionDef) and (not node.name.startswith("_") or node.name.endswith("__")):
            if any(isinstance(of, ast.Name) and of.id == "compiled" for of in node.decorator_list):
                continue
            held = node.args
            some = [*held.posonlyargs, *held.args, *held.kwonlyargs, *filter(None, (held.vararg, held.kwarg))]
            yield from (
                f"{where}: {node.name}({one.arg})" for one in some if not (one.annotation or one.arg in ("self", "cls"))
            )
            if node.returns is None and node.name not in ("__init__", "__post_init__", "setup"):
                yield f"{where}: {node.name}"
