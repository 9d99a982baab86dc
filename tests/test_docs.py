"""Every command, Python block, option, path and name in the README, the documentation and the examples' headers is run or checked."""

import ast
import json
import re
import shlex
import subprocess
import sys
from importlib import import_module, util
from pathlib import Path
from unittest import mock

import pytest

from hetjax import models
from hetjax.options import reference, renamed
from hetjax.options.command_line import parse
from hetjax.options.config import SECTIONS, Processes
from hetjax.sharding import registry
from hetjax.training import run_options
from tests.support.commands import ROOT, here

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
EXAMPLES = sorted(file for file in (ROOT / "examples").rglob("*.*") if file.suffix in (".py", ".yaml", ".sh"))
TRAIN = SECTIONS | registry.sections(None) | {"": Processes}
SMALL = shlex.split(
    "--synthetic.scale 0.002 --model.hidden 8 --model.feature_width 8 --train.epochs 1 --sampling.fanout [2,2] --train.steps_per_epoch 2"
)
RUN = {  # in this order, smaller than they stand there
    "python -m hetjax.train --config examples/quickstart.yaml --workdir runs/quickstart": SMALL,
    "python -m hetjax.predict --workdir runs/quickstart --out classes.csv": [],
    "python -m hetjax.convert --synthetic.schema ogbn-mag --synthetic.scale 0.02 --out stores/mag": [
        "--synthetic.scale",
        "0.002",
    ],
    "python -m hetjax.convert --check stores/aifb": ["--check", "stores/mag"],
    "python -m hetjax.partition --graph stores/mag --parts 2 --out runs/mag-2": [],
}
NOT_RUN = {
    ". .venv/bin/activate": "of the reader's shell; the tests run in such an environment",
    "export HETJAX_DATA=FOLDER": "of the reader's shell",
    "HETJAX_DATA=FOLDER python experiments/published_accuracy.py": "trains for hours on real graphs",
    "curl -LO http://snap.stanford.edu/ogb/data/nodeproppred/mag.zip && unzip mag.zip": "downloads 400 MB",
    "make lint": "the tests run after it",
    "make build": "tests/test_package.py looks at what is packed",
    "pytest -n 0 tests/test_sampling.py -k draw": "a part of these tests",
    "ruff check --fix . && ruff format .": "changes the source",
    "python -m hetjax.train --train.epoch 3 --workdir runs/other": "is refused, which tests/test_notebook.py looks at",
    "make train": "installs packages; the same training is run here",
    "make test": "installs packages, and runs these tests",
    "for i in 0 1; do": "two processes, which tests/test_processes.py starts; the commands inside are parsed here",
    "done; wait": "as above",
    "for i in 0 1; do mkdir -p hosts/$i; mv runs/mag-copy/part_$i hosts/$i/mag; done": "tests/test_many.py trains on such copies",
    "python -m examples.loop": "tests/test_command_line.py runs it on a smaller graph",
    "python -m examples.f1.graph --data F1 --out stores/f1": "needs the tables; tests/test_f1.py looks at what it makes",
    "python -m examples.f1.predict --data F1 --graph stores/f1 --workdir runs/f1": "trains for minutes on them",
    "sbatch examples/cluster/slurm.sh": "needs SLURM",
    "kubectl apply -f examples/cluster/jobset.yaml": "needs Kubernetes",
}


class Parsed(Exception):
    """What a command line gives."""


def blocks(page: Path, language: str) -> list[str]:
    """The fenced blocks of a page in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(), re.M | re.S)


def lines(text: str) -> list[str]:
    """The commands of a block, one a line, without comments."""
    joined = re.sub(r"\s*\\\n\s*", " ", text)
    return [line for one in joined.splitlines() if (line := re.sub(r"(^|\s+)#.*", "", one).strip().removesuffix(" &"))]


def header_commands(file: Path) -> list[str]:
    """The commands in the comments of an example's head, or in its docstring."""
    text = re.sub(r"^# ?", "", file.read_text(), flags=re.M).replace("\\\\\n", "\\\n")
    found = re.findall(r"^ {2,4}((?:python|sbatch|kubectl) (?:[^\n]*\\\n)*[^\n]*)", text, re.M)
    return [command for one in found for command in lines(one)]


def inline(page: Path) -> list[str]:
    """The code within a page's sentences."""
    return re.findall(r"(?<!`)`([^`\n]+)`(?!`)", prose(page))


def prose(page: Path) -> str:
    """A page without its fenced blocks."""
    return re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.M | re.S)


COMMANDS = {command: page for page in PAGES for block in blocks(page, "sh") for command in lines(block)}
COMMANDS |= {command: file for file in EXAMPLES for command in header_commands(file)}
COMMANDS |= {
    code: page for page in PAGES for code in inline(page) if re.match(r"([A-Z_]+=\S* )?(python|make|pip) \S", code)
}
SCRIPTS = "".join(file.read_text() for folder in ("experiments", "benchmarks") for file in (ROOT / folder).glob("*.py"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder in which the commands of `RUN` have been run as they stand in the documentation, but for their size."""
    path = tmp_path_factory.mktemp("docs")
    (path / "examples").symlink_to(ROOT / "examples")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(path)
        for command, more in RUN.items():
            _, _, module, *arguments = shlex.split(command)
            done = here(module_of(module), *arguments, *more)
            assert done.returncode == 0, (command, done.stderr)
    (path / "runs" / "cached").symlink_to(path / "runs" / "quickstart")  # which is the same run, with a cache
    return path


def module_of(name: str) -> str:
    return f"{name}.__main__" if name in ("hetjax.doctor", "hetjax.ingest", "hetjax.partition") else name


def test_the_lists_have_only_what_occurs():
    assert set(RUN) | set(NOT_RUN) <= set(COMMANDS)


def test_the_readme_is_short():
    assert len(PAGES[0].read_text().splitlines()) <= 150


def test_titles_fit_a_phone():
    """A line of 390 pixels has room for some 20 characters of a page's title, and for some 26 of a heading."""
    for page in PAGES:
        for level, text in re.findall(r"^(#+) (.*)$", prose(page), re.M):
            assert len(text) <= (40 if level == "#" else 52), (page, text)


def test_every_block_has_a_language():
    for page in PAGES:
        opened = re.findall(r"^```(.*)$", page.read_text(), re.M)[::2]
        assert set(opened) <= {"sh", "python", "yaml", "text"}, page


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")], ids=lambda page: page.stem)
def test_python_blocks_run(page, folder, tmp_path, monkeypatch):
    for name in ("stores", "runs"):
        (tmp_path / name).mkdir()
        for one in (folder / name).iterdir():
            (tmp_path / name / one.name).symlink_to(one)
    monkeypatch.chdir(tmp_path)
    names = {"__name__": f"docs_{page.stem}"}
    for number, block in enumerate(blocks(page, "python")):
        exec(compile(block, f"{page.name}, block {number + 1}", "exec"), names)


@pytest.mark.parametrize(("page", "example"), [("model", "gin"), ("strategy", "replicated")])
def test_classes_that_are_shown_are_those_of_the_examples(page, example):
    shown = classes("".join(blocks(ROOT / "docs" / "extend" / f"{page}.md", "python")))
    there = classes((ROOT / "examples" / f"{example}.py").read_text())
    assert there and there.items() <= shown.items()


def classes(source: str) -> dict[str, str]:
    """The classes of a source, without docstrings and comments."""
    found = {node.name: node for node in ast.parse(source).body if isinstance(node, ast.ClassDef)}
    return {
        name: "\n".join(ast.unparse(part) for part in node.body if not isinstance(part, ast.Expr))
        for name, node in found.items()
    }


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "yaml")], ids=lambda page: page.stem)
def test_yaml_blocks_are_configurations(page, tmp_path):
    for block in blocks(page, "yaml"):
        (tmp_path / "config.yaml").write_text(block)
        check_command(f"python -m hetjax.train --config {tmp_path}/config.yaml --workdir runs/x")


@pytest.mark.parametrize("command", [command for command in COMMANDS if command not in NOT_RUN])
def test_commands_are_right(command, monkeypatch):
    monkeypatch.chdir(ROOT)
    check_command(command)


def check_command(command: str) -> None:
    """That a command would start: its program or script is there, its options are known, its values possible."""
    words = shlex.split(command.replace("$PWD", "/tmp").replace("$i", "0"))
    while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
        words.pop(0)
    for word in words:
        if word.startswith(("examples/", "experiments/", "benchmarks/")):
            assert Path(word).exists(), word
    if words[:2] == ["python", "-m"] and words[2].startswith("hetjax."):
        check_options(words[2], words[3:])
    elif words[0] == "python" and words[1].endswith(".py"):
        source = next((text for place in ("", "benchmarks/") if (text := read(place + words[1]))), "")
        assert source, f"{words[1]}: there is no such script"
        for module in re.findall(r"^from (\w+) import", source, re.M):  # which may have its options
            source += read(f"experiments/{module}.py")
        for word in words[2:]:
            if word.startswith("--"):
                name = word[2:].split("=")[0]
                assert f"--{name}" in source or name in KEYS or name in source, f"{words[1]} has no option {word}"
    elif words[0] == "make":
        assert re.search(rf"^{words[-1]}:", read("Makefile"), re.M), command
    elif words[:3] == ["pip", "install", "dist/hetjax-*.whl"]:
        assert set(words[3:]) <= {"pandas", "notebook"}, command  # tests/test_package.py installs the wheel
    elif words[:2] == ["pip", "install"]:
        assert re.search(rf"^{re.search(r'hetjax.(.+).', words[2])[1]} = ", read("pyproject.toml"), re.M), command
    elif words[0] == "(umask":
        tried = command.replace("python ", f"{shlex.quote(sys.executable)} ").replace("> secret", "| wc -c")
        done = subprocess.run(["bash", "-c", tried], capture_output=True, check=True)
        assert int(done.stdout) >= 16
    else:
        pytest.fail(f"{command}: nothing checks it; list it in NOT_RUN with the reason, or teach check_command")


def read(file: str) -> str:
    return (ROOT / file).read_text() if (ROOT / file).is_file() else ""


def check_options(module: str, arguments: list[str]) -> None:
    """That a command's own parser takes its options, and that training would find strategy and model."""

    def stop(sections, given, prog, description, paths):
        missing = [word for name in paths if f"--{name}" not in given for word in (f"--{name}", "x")]  # in a sentence
        raise Parsed(parse(sections, [*given, *missing], prog, description, paths)[0])

    if "--help" in arguments:
        assert here(module_of(module), *arguments).returncode == 0
        return
    program = import_module(module_of(module))
    reads = run_options if module == "hetjax.train" else program
    with mock.patch.object(reads, "parse", stop), pytest.raises(Parsed) as parsed:
        program.main(arguments)
    if module == "hetjax.train":
        given = dict(parsed.value.args[0])
        given.pop("")
        config = registry.config_of(given)
        registry.check(config)
        models.options(config.model)


KEYS = {option.name for name, section in TRAIN.items() for option in reference.options(name, section)}
OTHERS = {
    option.name
    for module in (
        "hetjax.partition.__main__",
        "hetjax.partition.stream.command",
        "hetjax.ingest.__main__",
        "hetjax.sweep",
        "hetjax.convert",
        "hetjax.predict",
        "hetjax.doctor.__main__",
    )
    for option in reference.options("", import_module(module).Options)
} | {"version", "workdir", "out", "graph", "stream", "config", "print_config", "help", "verbose", "section.key"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_options_names_and_links_exist(page):
    sections = "|".join(filter(None, TRAIN))
    for code in inline(page):
        for name in re.findall(r"(?:^|\s)--([a-z][\w.]*)", code):
            assert name in KEYS | OTHERS or f'"--{name}"' in SCRIPTS, f"--{name} is no option of anything"
        if re.fullmatch(rf"({sections})\.(?!(png|txt|npy|csv)$)[a-z_0-9]+", code):
            assert code in KEYS | renamed.old_names().keys(), f"{code} is no key"
        if re.fullmatch(r"(hetjax|examples|experiments|benchmarks|tests)/[\w/.]+", code) and "NAME" not in code:
            assert (ROOT / code).exists(), code
        if re.fullmatch(r"(hetjax|tests)(\.\w+)+", code):
            assert resolves(code), f"{code} cannot be imported"
    for name in re.findall(r"^::: (\S+)", page.read_text(), re.M):
        assert resolves(name), f"{name} cannot be imported"
    for link, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)", prose(page)):
        target = (page.parent / link) if link else page
        assert target.exists(), f"{page}: {link}"
        if anchor:
            heads = re.findall(r"^#+ (.*)$", target.read_text(), re.M)
            assert anchor in [re.sub(r"[^\w\- ]", "", head).strip().lower().replace(" ", "-") for head in heads], anchor


def resolves(name: str) -> bool:
    module, _, attribute = name.rpartition(".")
    try:
        if util.find_spec(name):
            return True
    except ModuleNotFoundError:
        pass
    try:
        return hasattr(import_module(module), attribute)
    except ModuleNotFoundError:
        return False


def test_the_site_builds(tmp_path):
    build = pytest.importorskip("mkdocs.commands.build", reason="mkdocs is not installed (pip install 'hetjax[docs]')")
    from mkdocs.config import load_config

    build.build(load_config(str(ROOT / "mkdocs.yml"), site_dir=str(tmp_path)))
    for page in tmp_path.rglob("*.html"):
        text = page.read_text()
        assert not re.search(r'(src=|rel="(stylesheet|preconnect)" href=|@import )"?(https?:)?//', text), page
    index = json.loads((tmp_path / "search" / "search_index.js").read_text().removeprefix("var __index = "))
    assert {"Early stopping", "Class weights", "Missing values"} <= {section["title"] for section in index["docs"]}
    assert re.split(index["config"]["separator"], "train.class_weights") == ["train", "class", "weights"]
    assert (tmp_path / "iframe-worker.js").exists()  # by which the search runs where the site is opened from the disk
    configuration = (tmp_path / "reference" / "configuration.html").read_text()
    assert all(f"<code>{key}</code>" in configuration for key in KEYS)
