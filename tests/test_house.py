"""The structure of the package: imports point down only and never in a circle, and modules stay small.

The imports are parsed, not run: those inside functions count too. A user's plug-in that is loaded by its name is no import.
"""

import ast
import itertools
import pathlib

import networkx as nx
import pytest

PACKAGE = pathlib.Path(__file__).resolve().parents[1] / "hetjax"
FLOORS = (  # from the ground; a wing imports from the wings before it, and not from those beside it in the same line
    ("system",),
    ("options",),
    ("graph",),
    ("casts", "metapaths", "sampling"),
    ("datasets",),
    ("ingest", "objects"),
    ("kernels",),
    ("cache",),
    ("models", "tasks"),
    ("partition", "processes"),
    ("checkpoints",),
    ("sharding",),
    ("recipe",),
    ("inference",),
    ("training",),
    ("results", "doctor"),
    ("convert", "predict", "sweep", "train"),
    ("train_graph",),
    ("hetjax",),  # the package's own names, and its command
)
LOOSE = 12  # modules in no wing
LINES = 400  # in a module
LONG = {  # modules of more, each with its reason
    "hetjax.options.config": "all options of a run, with their help",
    "hetjax.models.hgnn": "the stack of layers and the module that users call",
}
UPWARD: dict[tuple[str, str], str] = {}  # imports that point up, each with its reason


def modules() -> dict[str, pathlib.Path]:
    """Return the file of each module of the package, by the module's name."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        found[".".join(parts[:-1] if path.name == "__init__.py" else parts)] = path
    return found


FILES = modules()


def imports(name: str) -> set[str]:
    """Return the modules of the package that the module `name` imports, anywhere in its text."""
    named: set[str] = set()
    for node in ast.walk(ast.parse(FILES[name].read_text())):
        if isinstance(node, ast.Import):
            named |= {alias.name for alias in node.names if alias.name in FILES}
        elif isinstance(node, ast.ImportFrom) and node.module in FILES:
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            named |= (inner & FILES.keys()) or {node.module}
    return named - {name}


IMPORTS = {name: imports(name) for name in FILES}


def floor(name: str) -> int:
    """Return the floor of a module, counted from the ground; the package's own modules are on the highest."""
    wing = [*name.split("."), "hetjax"][1]
    return next((number for number, wings in enumerate(FLOORS) if wing in wings), len(FLOORS) - 1)


def points_up(importer: str, imported: str) -> bool:
    """Return whether an import leads to a higher floor, or to another wing of the same floor."""
    same_wing = importer.split(".")[:2] == imported.split(".")[:2]
    return floor(imported) > floor(importer) or (floor(imported) == floor(importer) < len(FLOORS) - 1 and not same_wing)


def circles(depth: int) -> list[list[str]]:
    """Return the sets of modules, their names cut after `depth` parts, that import one another in a circle."""
    arrows = nx.DiGraph()
    for importer, imported in ((a, b) for a, names in IMPORTS.items() for b in names):
        a, b = (".".join(name.split(".")[:depth]) for name in (importer, imported))
        if a != b:
            arrows.add_edge(a, b)
    return [sorted(circle) for circle in nx.strongly_connected_components(arrows) if len(circle) > 1]


def test_each_wing_has_one_floor():
    wings = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists()}
    declared = list(itertools.chain(*FLOORS))
    assert len(declared) == len(set(declared))
    assert wings - set(declared) == set()


def test_relative_imports_are_not_used():
    for name, path in FILES.items():
        nodes = (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom))
        assert all(node.level == 0 for node in nodes), name


def test_imports_point_down():
    up = {(a, b) for a, names in IMPORTS.items() for b in names if points_up(a, b)}
    assert sorted(f"{a} -> {b}" for a, b in up - UPWARD.keys()) == []
    assert UPWARD.keys() - up == set(), "these point down now: take them off the list"


@pytest.mark.parametrize("depth", range(2, 6))
def test_there_is_no_circle(depth):
    assert circles(depth) == []


def test_few_modules_are_loose():
    assert len([name for name, path in FILES.items() if path.parent == PACKAGE]) <= LOOSE


def test_modules_are_short():
    lengths = {name: len(path.read_text().splitlines()) for name, path in FILES.items()}
    long = {name: length for name, length in lengths.items() if length > LINES}
    assert {name: length for name, length in long.items() if name not in LONG} == {}
    assert LONG.keys() - long.keys() == set(), "these are short now: take them off the list"


def test_each_wing_says_what_it_is_for():
    folders = {path.parent for path in FILES.values()}
    assert [
        str(folder) for folder in folders if not ast.get_docstring(ast.parse((folder / "__init__.py").read_text()))
    ] == []


def test_the_map_of_the_source_has_every_wing_in_order():
    text = (PACKAGE.parent / "docs" / "extend" / "source.md").read_text()
    shown = [line.split("`")[1].removeprefix("hetjax/") for line in text.splitlines() if line.startswith("| `hetjax/")]
    wings = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert sorted(shown) == sorted(wings)
    assert [floor(f"hetjax.{wing}") for wing in shown] == sorted(floor(f"hetjax.{wing}") for wing in shown)


def test_test_modules_do_not_import_each_other():
    for path in sorted((PACKAGE.parent / "tests").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            modules = [node.module] if isinstance(node, ast.ImportFrom) else []
            modules += [alias.name for alias in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
            assert not any(str(module).split(".")[-1].startswith("test_") for module in modules), (path, node.lineno)
