"""What mkdocs builds beside the pages of this folder: the README as the first page, the files that pages link to, the options."""

import os
import re
import sys
from pathlib import Path

from mkdocs.structure.files import File

DOCS = Path(__file__).parent
ROOT = DOCS.parent
OPTIONS = "<!-- options -->"
LINK = re.compile(r"(\]\()([^)#\s]+)")

sys.path.insert(0, str(ROOT))

from hetjax import convert, predict, sweep  # noqa: E402
from hetjax.options import reference  # noqa: E402
from hetjax.options.config import SECTIONS, Processes  # noqa: E402
from hetjax.partition import __main__ as partition  # noqa: E402
from hetjax.partition.stream import command as streams  # noqa: E402
from hetjax.sharding import registry  # noqa: E402

COMMANDS = {
    "hetjax.train": SECTIONS | registry.sections(None) | {"": Processes},
    "hetjax.partition": {"": partition.Options},
    "hetjax.partition --stream": {"": streams.Options},
    "hetjax.convert": {"": convert.Options},
    "hetjax.predict": {"": predict.Options},
    "hetjax.sweep": {"": sweep.Options},
}


def on_files(files, config):
    """Add the README as the first page, and the files of the repository that pages link to."""
    pages = {"index.md": ROOT / "README.md"} | {
        file.src_uri: DOCS / file.src_uri for file in files.documentation_pages()
    }
    files.append(File.generated(config, "index.md", content=pages["index.md"].read_text()))
    linked = {
        file for page in pages.values() for _, link in LINK.findall(page.read_text()) if (file := _outside(page, link))
    }
    for file in sorted(linked):
        files.append(File.generated(config, _uri(file), abs_src_path=str(file)))
    return files


def on_page_markdown(markdown, page, config, files):
    """Links as they are on the site, and the options in their place."""
    here = page.file.src_uri
    source = ROOT / "README.md" if here == "index.md" else DOCS / here

    def moved(match):
        target = (source.parent / match[2]).resolve()
        if not target.is_relative_to(ROOT) or not target.exists():
            return match[0]  # an address, or a mistake that mkdocs names
        uri = str(target.relative_to(DOCS)) if target.is_relative_to(DOCS) else _uri(target)
        return match[1] + os.path.relpath(uri, os.path.dirname(here) or ".")

    return LINK.sub(moved, markdown).replace(OPTIONS, _options())


def _outside(page: Path, link: str) -> Path | None:
    """The file of the repository, but not of this folder, that a link leads to."""
    file = (page.parent / link).resolve()
    return file if file.is_file() and file.is_relative_to(ROOT) and not file.is_relative_to(DOCS) else None


def _uri(file: Path) -> str:
    """Where a file of the repository stands on the site: what is text as text, that a browser shows it."""
    uri = str(file.relative_to(ROOT))
    return uri if file.suffix in (".png", ".json", ".csv") else f"{uri}.txt"


def _options() -> str:
    """The lists of all options, per command and section."""
    lines = []
    for command, sections in COMMANDS.items():
        lines += [f"## python -m {command}", ""]
        for name, section in sections.items():
            head, _, about = reference.title(section).partition(": ")
            lines += [f"### {head if command == 'hetjax.train' else f'Options of {command}'}", "", _sentence(about), ""]
            for option in reference.options(name, section):
                default = f", default `{option.default}`" if option.default else ""
                lines.append(f"- **`{option.name}`** (`{option.values}`{default}): {option.words}")
            lines.append("")
    return "\n".join(lines)


def _sentence(words: str) -> str:
    return f"{words[:1].upper()}{words[1:]}."
