"""A search over options: `python -m hetjax.sweep --config FILE --over train.learning_rate=0.003,0.01 model.hidden=64,128 --seeds 3`.

Every combination is trained with every seed, each as a run of `hetjax.train` in a folder of its own, and compared on the
validation nodes alone: no run reads the test nodes. A search that was stopped continues; runs that are done are kept.
"""

import csv
import hashlib
import io
import itertools
import json
import re
import shlex
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from tqdm import tqdm

from hetjax.options.command_line import given_options, parse, run_command
from hetjax.options.config import Config, as_dict
from hetjax.system import durable, files, yaml_file
from hetjax.system.errors import InputError, reading, short
from hetjax.system.logs import hides_bar, log
from hetjax.training import run_options

LONGEST_NAME, MOST_RUNS = 80, 10_000


@dataclass(frozen=True)
class Options:
    """Search: which options are varied, and how often each is tried."""

    over: str = ""
    """SECTION.KEY=VALUE,VALUE,... of one option or more, divided by blanks; every combination is tried"""
    seeds: int = 3
    """runs of every combination, with the seeds 0, 1 and so on"""
    out: str = "runs/sweep"
    """the folder that everything is written to; a search that was stopped continues there"""

    def __post_init__(self):
        if not 1 <= self.seeds <= MOST_RUNS:
            raise InputError(f"seeds is {self.seeds}, and must be in 1..{MOST_RUNS}")


class Run(NamedTuple):
    """One run of a search.

    Attributes:
      point: the values of the options that are varied, by their names.
      seed: the seed of the run.
      folder: the folder that it is written to.
    """

    point: dict[str, str]
    seed: int
    folder: Path

    def arguments(self, file: str) -> list[str]:
        """Return the command line of training."""
        varied = [f"--{key}={value}" for key, value in self.point.items()]
        fixed = ["--config", file, "--workdir", str(self.folder), f"--train.seed={self.seed}", "--train.test=false"]
        return [*fixed, *varied]


def main(arguments: Sequence[str]) -> None:
    """Train all combinations to compare, and print the table."""
    given = {"config": "the configuration of training that is varied, as `hetjax.train --config` takes it"}
    words = "Search over options of training, on the validation nodes alone."
    instances, given = parse({"": Options}, _joined(arguments), "python -m hetjax.sweep", words, given)
    options, file = instances[""], given["config"]
    runs = list(grid(options))
    configs = [run_options.read(run.arguments(file)).config for run in runs]  # all, before any is trained
    from hetjax.tasks.shown import of_summary  # which imports jax

    out = Path(options.out)
    rows, lower = [], False
    for run, config in tqdm(list(zip(runs, configs)), unit="run", desc="search", disable=hides_bar()):
        summary = trained(run, file, config)
        rows.append(row(run, summary))
        lower = lower or (summary is not None and not of_summary(summary).chosen_higher)
        write(out, rows, lower)
    table = ranked(rows, lower)
    draw(table, rows, out)
    log.info(_shown(table))
    best = runs[next(n for n, one in enumerate(rows) if all(one[k] == table[0][k] for k in runs[n].point))].point
    command = ["python", "-m", "hetjax.train", "--config", file, *(f"--{key}={value}" for key, value in best.items())]
    log.info(f"the best, to be trained and tested: {shlex.join([*command, '--workdir', f'{out}-best'])}")
    log.info(f"written to {out}: sweep.csv, runs.csv, sweep.png, and a folder for each run")


def _joined(arguments: Sequence[str]) -> list[str]:
    """Return the command line, with all that follows `--over` as one value."""
    joined, rest = [], list(arguments)
    while rest:
        argument = rest.pop(0)
        joined.append(argument)
        if argument == "--over":
            values = list(itertools.takewhile(lambda one: not one.startswith("--"), rest))
            rest = rest[len(values) :]
            joined[-1] = f"--over={' '.join(values)}"
    return joined


def grid(options: Options) -> Iterator[Run]:
    """Return all runs, combination by combination.

    Raises:
      InputError: nothing is varied, an option is varied twice, or there are too many runs.
    """
    axes: dict[str, list[str]] = {}
    for one in options.over.split():
        key, _, values = one.partition("=")
        if not values or key in axes or key in ("train.seed", "train.test"):
            raise InputError(f"over: {short(one)!r}, and should be SECTION.KEY=VALUE,VALUE,..., each option once")
        axes[key] = re.findall(r"\[[^\]]*\]|[^,\[\]]+", values)
    if not axes:
        raise InputError("--over names no option to vary")
    points = list(itertools.islice(itertools.product(*axes.values()), MOST_RUNS + 1))
    if len(points) * options.seeds > MOST_RUNS:
        raise InputError(f"over: {len(points)} combinations or more, {options.seeds} seeds each, over {MOST_RUNS} runs")
    for chosen in points:
        point = dict(zip(axes, chosen))
        for seed in range(options.seeds):
            yield Run(point, seed, Path(options.out) / _name(point) / f"seed_{seed}")


def _name(point: dict[str, str]) -> str:
    """Return a folder's name, one for each combination."""
    whole = "_".join(f"{key.split('.')[-1]}={value}" for key, value in point.items())
    plain = re.sub(r"[^\w.=\-]", "-", whole)[:LONGEST_NAME]
    full = "_".join(f"{key}={value}" for key, value in point.items())
    return plain if plain == whole else f"{plain}-{hashlib.sha256(full.encode()).hexdigest()[:8]}"


def trained(run: Run, file: str, config: Config) -> dict[str, Any] | None:
    """Return the summary of a run, which is trained if that is not done; None: its loss was not finite.

    Raises:
      InputError: it could not be trained.
    """
    summary, failed = run.folder / "summary.json", run.folder / "diverged.txt"
    if (summary.exists() or failed.exists()) and kept(run, file, config) == yaml_file.read(run.folder / "config.yaml"):
        return _read(summary) if summary.exists() else None
    command = [sys.executable, "-m", "hetjax.train", *run.arguments(file)]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", errors="backslashreplace")
    said = done.stderr.strip().splitlines()[-1:]
    if done.returncode == 1 and said and said[0].startswith("hetjax: error: "):
        durable.write(failed, said[0] + "\n")
        log.warning(f"{run.folder}: {said[0].removeprefix('hetjax: error: ')}")
        return None
    if done.returncode:
        raise InputError(f"{run.folder}: {' '.join(said).removeprefix('hetjax: error: ')}")
    return _read(summary)


def kept(run: Run, file: str, config: Config) -> dict[str, Any]:
    """Return the configuration that the run's folder has if it is of this run: with the options chosen by the graph, if that is asked for."""
    if config.by_graph:
        from hetjax.recipe import compatible, recipe

        config = compatible.applied(config, recipe.before(run.folder, given_options(run.arguments(file))) or [])
    return as_dict(config)


def _read(file: Path) -> dict[str, Any]:
    with reading(file):
        return json.loads(files.read_text(file))


def row(run: Run, summary: dict[str, Any] | None) -> dict[str, Any]:
    """Return a run's row of the table: the quality of the best epoch on the validation nodes, by the metric of the task."""
    about = run.point | {"seed": run.seed}
    if summary is None:
        return about | {"metric": "", "validation": None, "epoch": None, "seconds": None}
    metric, file = summary["chosen_by"], run.folder / "metrics.jsonl"
    with reading(file):
        records = map(json.loads, files.read_text(file).splitlines())
        chosen = next(record for record in records if record.get("epoch") == summary["epoch"])
        value = chosen.get(f"validation_{metric}")
    if value is None:
        raise InputError(f"{run.folder}: no {metric} on validation nodes, by which runs are compared")
    return about | {"metric": metric, "validation": value, "epoch": summary["epoch"], "seconds": summary["seconds"]}


def ranked(rows: Sequence[dict[str, Any]], lower: bool = False) -> list[dict[str, Any]]:
    """Return a row per combination, the best mean first; a combination of which a run diverged comes last."""
    keys = list(rows[0])[:-5]
    table = []
    for _, group in itertools.groupby(rows, lambda one: [one[key] for key in keys]):
        own = list(group)
        values = [one["validation"] for one in own if one["validation"] is not None]
        metric = next((one["metric"] for one in own if one["metric"]), "")
        table.append(
            {key: own[0][key] for key in keys}
            | {"metric": metric, "mean": statistics.fmean(values) if values else None}
            | {"deviation": statistics.stdev(values) if len(values) > 1 else None}
            | {"runs": len(values), "diverged": len(own) - len(values)}
        )
    return sorted(table, key=lambda one: _place(one, lower))


def _place(one: dict[str, Any], lower: bool) -> tuple:
    mean = one["mean"]
    return one["diverged"] > 0, mean is None, 0 if mean is None else mean if lower else -mean


def write(out: Path, rows: Sequence[dict[str, Any]], lower: bool = False) -> None:
    """Write both tables, each whole."""
    for name, table in (("runs.csv", list(rows)), ("sweep.csv", ranked(rows, lower))):
        text = io.StringIO()
        writer = csv.DictWriter(text, list(table[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(table)
        durable.write(out / name, text.getvalue())


def draw(table: Sequence[dict[str, Any]], rows: Sequence[dict[str, Any]], out: Path) -> None:
    """Draw `sweep.png`: a point per run, a line per combination, the best at the top."""
    from hetjax.results.pictures import draw_search

    keys = list(rows[0])[:-5]
    names = [", ".join(f"{key.split('.')[-1]} {one[key]}" for key in keys) for one in table]
    own = [[r["validation"] for r in rows if all(r[k] == one[k] for k in keys)] for one in table]
    draw_search(names, [[v for v in values if v is not None] for values in own], table[0]["metric"], out / "sweep.png")


def _shown(table: Sequence[dict[str, Any]]) -> str:
    """Return a table in columns."""
    lines = [list(table[0]), *([_cell(value) for value in one.values()] for one in table)]
    widths = [max(len(line[n]) for line in lines) for n in range(len(lines[0]))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in lines)


def _cell(value: Any) -> str:
    return "" if value is None else f"{value:.4f}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    run_command(main)
