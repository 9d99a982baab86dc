"""What a stranger finds: the version, the licence's metadata, the first command without a clone."""

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

import hetjax
from hetjax.options import owners
from hetjax.options.config import as_dict
from hetjax.sharding import registry

ROOT = Path(__file__).parent.parent


def test_the_quickstart_is_what_is_trained_without_options():
    chosen = yaml.safe_load((ROOT / "examples" / "quickstart.yaml").read_text())
    given = {name: section(**_tuples(chosen.get(name, {}))) for name, section in owners.all_sections().items()}
    assert as_dict(registry.config_of(given)) == as_dict(
        registry.config_of({n: s() for n, s in owners.all_sections().items()})
    )


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


def test_round_trips_of_other_libraries_need_no_jax():
    """`make peers` runs them in an environment that has PyG and DGL and no jax."""
    missing = "jax", "jaxlib", "flax", "optax", "orbax", "chex"
    code = f"import sys; sys.modules.update(dict.fromkeys({missing!r})); import tests.support.round_trips"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, cwd=ROOT)
    assert done.returncode == 0, done.stderr


def test_the_wheel_that_make_build_makes_has_the_whole_package_and_runs_from_an_empty_folder(tmp_path):
    source, empty, made = tmp_path / "source", tmp_path / "empty", tmp_path / "made"
    left_out = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "hetjax", source / "hetjax", ignore=left_out)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    empty.mkdir()
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    offline = ["--no-deps", "--no-index"]
    subprocess.run([*pip, "wheel", *offline, "--no-build-isolation", "-w", tmp_path, source], check=True, timeout=120)
    (wheel,) = tmp_path.glob("hetjax-*.whl")
    assert wheel.name == f"hetjax-{hetjax.__version__}-py3-none-any.whl"
    subprocess.run([*pip, "install", *offline, "--no-compile", "--target", made, wheel], check=True, timeout=120)
    files = [{file.relative_to(place) for file in place.rglob("*.*")} for place in (source / "hetjax", made / "hetjax")]
    assert files[0] == files[1]
    command = [sys.executable, "-c", "import hetjax, hetjax.__main__; print(hetjax.__file__)"]
    environment = os.environ | {"PYTHONPATH": str(made)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=empty, env=environment)
    assert done.stdout.strip() == str(made / "hetjax" / "__init__.py"), done.stderr
    assert not any(empty.iterdir())


def test_every_python_that_is_named_is_tried():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = [match[1] for text in project["classifiers"] if (match := re.fullmatch(r".*Python :: (3\.\d+)", text))]
    matrix = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())["jobs"]["test"]["strategy"][
        "matrix"
    ]
    assert named == matrix["python"] == ["3.11", "3.12", "3.13"]
    assert project["requires-python"] == f">={named[0]}"
    for page in ("README.md", "CONTRIBUTING.md"):
        assert f"Python {named[0]} to {named[-1]}" in (ROOT / page).read_text(), page


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


@pytest.mark.parametrize(
    ("tool", "status", "words"),
    [
        (None, 0, "no tests were run, because shared/tools/newest"),
        ("exit 3", 0, "no tests were run, because its system could not be made"),
        ("[ $2 != -m ] || exit 1; echo Python 3.99", 1, "a part of the tests on Python 3.99"),
        ("echo Python 3.99", 0, "a part of the tests on Python 3.99"),
    ],
)
def test_a_newer_python_is_tried_where_its_system_can_be_made_and_a_test_that_fails_there_counts(
    tmp_path, tool, status, words
):
    if tool:
        (tmp_path / "newest").write_text(f"#!/bin/bash\n{tool}\n")
        (tmp_path / "newest").chmod(0o755)
    environment = os.environ | {"NEWEST": str(tmp_path / "newest")}
    done = subprocess.run([ROOT / ".ci" / "newest"], capture_output=True, text=True, timeout=60, env=environment)
    assert done.returncode == status and words in done.stdout


def test_the_tests_of_a_newer_python_are_there():
    script = (ROOT / ".ci" / "newest").read_text()
    names = [part for group in re.findall(r"tests/test_\{([\w,]+)\}", script) for part in group.split(",")]
    assert len(names) > 15 and all((ROOT / "tests" / f"test_{name}.py").exists() for name in names)
    for file, name in re.findall(r"(tests/\w+\.py)::(\w+)", script):
        assert f"def {name}(" in (ROOT / file).read_text(), name
