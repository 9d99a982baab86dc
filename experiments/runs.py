"""Training runs of an experiment, each by the command line, in a work directory of its own."""

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def train(workdir: Path, example: str, options: dict[str, str]) -> dict:
    """Train an example's configuration, or none for an empty name; return its summary."""
    config = ["--config", str(ROOT / "examples" / f"{example}.yaml")] if example else []
    command = [sys.executable, "-m", "hetjax.train", *config, "--workdir", str(workdir)]
    command += [f"--{key}={value}" for key, value in options.items()]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(workdir.parent), cwd=ROOT)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stderr}")
    return json.loads((workdir / "summary.json").read_text())


def environment(folder: Path) -> dict[str, str]:
    """Return the environment of runs that differ only in their seeds, and so compile the same programs: jax keeps these
    in `folder/programs`."""
    cache = {"JAX_COMPILATION_CACHE_DIR": str(folder.absolute() / "programs")}
    return os.environ | cache | {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}


def records(workdir: Path) -> list[dict]:
    """Return the lines of a run's metrics.jsonl."""
    return [json.loads(line) for line in (workdir / "metrics.jsonl").read_text().splitlines()]


def markdown(rows: list[dict]) -> str:
    """Return a table; its heads are the rows' keys."""
    heads = [key.replace("_", " ").replace("mib", "MiB").replace("gb", "GB") for key in rows[0]]
    cells = [[f"{one:,}" if isinstance(one, int) else str(one) for one in row.values()] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in [heads, ["---"] * len(heads), *cells])


def read_rows(file: Path) -> list[dict]:
    """Return a table that was written, all values as text; nothing, if there is none."""
    if not file.exists():
        return []
    with open(file, newline="") as stream:
        return list(csv.DictReader(stream))


def write_rows(file: Path, rows: list[dict]) -> None:
    """Write a table, as CSV."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with open(file, "w", newline="") as stream:
        writer = csv.DictWriter(stream, list(dict.fromkeys(key for row in rows for key in row)))
        writer.writeheader()
        writer.writerows(rows)


def replace_rows(file: Path, keys: tuple[str, ...], rows: list[dict]) -> None:
    """Write rows of a table, in place of those that have the same values in the columns `keys`; the others stay."""
    new = {tuple(str(row[key]) for key in keys) for row in rows}
    others = [row for row in read_rows(file) if tuple(row[key] for key in keys) not in new]
    write_rows(file, [*others, *rows])
