"""The page: its parts as plain values, which `template.html` sets out."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jinja2

from hetjax.options import owners
from hetjax.options.config import Config, as_dict, changed
from hetjax.partition.report import readable
from hetjax.results.pictures import draw_cache, draw_curves
from hetjax.results.results import name_of
from hetjax.system import durable, svg
from hetjax.system.drawing import kept
from hetjax.tasks.report_parts import MOST_ROWS, Image, Part, Table, percent
from hetjax.tasks.shown import Shown, of_summary
from hetjax.tasks.stacking import weighed

FILE = "report.html"


class ReportInputs(NamedTuple):
    """The contents of a report.

    Attributes:
      config: of the run.
      summary: as `summary.json` has it.
      records: of its epochs.
      task_parts: what the task says of the test examples.
      folder: of the run.
      title: the model and the graph.
    """

    config: Config
    summary: Mapping[str, Any]
    records: list[dict]
    task_parts: Sequence[Part]
    folder: Path
    title: str


@kept
def write(inputs: ReportInputs, file: Path) -> None:
    """Write the page; where that fails a line says so, and the run keeps its results."""
    parts = [
        curves(inputs),
        *inputs.task_parts,
        *compared(inputs),
        costs(inputs),
        *cache(inputs),
        *plan(inputs),
        reproduction(inputs),
    ]
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    page = environment.get_template("template.html").render(
        title=inputs.title, tiles=tiles(inputs.summary), parts=parts, version=inputs.summary["versions"]["hetjax"]
    )
    durable.write(file, page)


def _stacked(summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return what the model stacked with baselines has, where that is kept."""
    found, shown = summary.get("stacking") or {}, of_summary(summary)
    return [("stacked with baselines", score(shown, shown.headline, found))] if found.get("kept") else []


def tiles(summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the few numbers that come first."""
    shown = of_summary(summary)
    tests = [(f"test {shown.metrics[name].label}", score(shown, name, summary)) for name in shown.names]
    headline = shown.metrics[shown.headline].label
    return [
        tests[0],
        *_stacked(summary),
        *tests[1:],
        (f"validation {headline}", score(shown, shown.headline, summary, "validation")),
        ("best epoch", str(summary["epoch"])),
        ("time", f"{summary['seconds']:.1f} s"),
        ("peak memory", readable(summary["peak_memory_bytes"])),
    ]


def score(shown: Shown, name: str, summary: Mapping[str, Any], split: str = "test") -> str:
    """Return a metric on a split as the page shows it."""
    value, metric = summary.get(f"{split}_{name}"), shown.metrics[name]
    return percent(value) if metric.unit == "%" or value is None else metric.words(value)


def curves(inputs: ReportInputs) -> Part:
    shown = of_summary(inputs.summary)
    headline = shown.headline
    address = svg.drawn(inputs.folder, lambda file: draw_curves(inputs.records, file, "", svg.WIDTH, headline))
    epochs = [record for record in inputs.records if record.get("epoch") is not None]
    keys = [key for key in epochs[-1] if key != "step"] if epochs else []
    rows = [[record.get("epoch"), *(number(record.get(key)) for key in keys if key != "epoch")] for record in epochs]
    head = ["epoch", *(HEADS.get(key, key.replace("_", " ")) for key in keys if key != "epoch")]
    words = f"Loss and {shown.metrics[headline].label} of {len(epochs)} epochs; the table below has the numbers."
    return Part(
        "Curves",
        images=[Image(address, words)],
        folded={"Every epoch": Table("Every epoch", head, rows[-MOST_ROWS:])},
    )


HEADS = {"seconds": "seconds so far"}


def compared(inputs: ReportInputs) -> list[Part]:
    """Return the comparison of a model with what it is to be better than."""
    found = inputs.summary.get("baselines") or {}
    if not found:
        return []
    shown = of_summary(inputs.summary)
    keys = [key for key in shown.names if inputs.summary.get(f"test_{key}") is not None]
    rows = [["this model", *(score(shown, key, inputs.summary) for key in keys), ""]]
    if (stacking := inputs.summary.get("stacking") or {}).get("kept"):
        rows += [["stacked, as predictions are", *(score(shown, key, stacking) for key in keys)]]
        rows[-1].append(weighed(stacking["weights"]))
    tested = {name: {f"test_{key}": row.get(key) for key in keys} for name, row in found.items()}
    rows += [[name, *(score(shown, key, tested[name]) for key in keys), row["how"]] for name, row in found.items()]
    head = ("", *(shown.metrics[key].label for key in keys), "how")
    words = "Baselines are simple methods without a graph neural network. A model should do better than each of them."
    return [Part("Baselines", [words], tables=[Table("The model and the baselines, on the test nodes", head, rows)])]


def costs(inputs: ReportInputs) -> Part:
    """Return the part about time and bytes."""
    summary = inputs.summary
    laps = summary["milliseconds_per_step"]
    tables = (
        [
            Table(
                "Median time of each part of a step",
                ("part", "milliseconds"),
                [[k, f"{v:.2f}"] for k, v in laps.items()],
            )
        ]
        if laps
        else []
    )
    if summary["sent_per_step"]:
        rows = [
            [row["kind"].replace("_", " "), row["collective"], row["axis"], readable(row["bytes"])]
            for row in summary["sent_per_step"]
        ]
        tables.append(
            Table("Bytes sent in a step, all devices together", ("what", "collective", "mesh axis", "bytes"), rows)
        )
    compiled = f"Programs compiled: {summary['compiled_programs']}. Programs reused from earlier runs: {summary['kept_programs']}."
    sent = "" if summary["sent_per_step"] else " One device trained, so nothing was sent."
    return Part("Time and bytes", [compiled + sent], tables=tables)


def cache(inputs: ReportInputs) -> list[Part]:
    rows = inputs.summary["cache"]
    if not rows:
        return []
    head = "node type", "place", "rows kept", "of rows", "hits", "sent", "returned"
    cells = [
        [name_of(row), row["place"], f"{row['kept']:,}", f"{row['rows']:,}", percent(row["hit_rate"])]
        + [readable(row[key]) for key in ("sent_bytes", "returned_bytes")]
        for row in rows
    ]
    image = svg.drawn(inputs.folder, lambda file: draw_cache(rows, file, ""))
    alt = "The cost of reading features from the host, by node type; the table below has the numbers."
    return [
        Part("Feature cache", images=[Image(image, alt, True)], tables=[Table("Features on the host", head, cells)])
    ]


def plan(inputs: ReportInputs) -> list[Part]:
    """Return the part about what each device has, where several devices train."""
    axes = [[name, str(size)] for name, size in inputs.config.mesh.axes.items()]
    if inputs.config.mesh.devices == 1:
        return []
    words = f"Strategy: {inputs.config.mesh.strategy}. Processes: {inputs.summary['processes']}."
    found = sorted(inputs.folder.glob("partition_*/plan.png"), key=lambda file: file.stat().st_mtime)[-1:]
    images = [
        Image(svg.address(file, "png"), f"What each partition owns: the picture of {file.parent.name}.", True)
        for file in found
    ]
    return [Part("Plan", [words], images, [Table("Devices", ("mesh axis", "size"), axes)])]


def reproduction(inputs: ReportInputs) -> Part:
    """Return the part about what to run to have the same again."""
    values = [
        [f"{s}.{k}", "unset" if v is None else str(v)]
        for s, keys in as_dict(inputs.config).items()
        for k, v in keys.items()
    ]
    versions = [[name, version] for name, version in inputs.summary["versions"].items()]
    facts = [["device", inputs.summary["device"]], ["seed", str(inputs.summary["seed"])]]
    facts += [[name, f"{inputs.summary[name]:,}"] for name in ("nodes", "edges", "weights", "learnable_features")]
    return Part(
        "How it was made",
        folded={
            "The command": command(inputs.config, inputs.folder),
            "Every option": Table("Every option", ("option", "value"), values),
            "Versions": Table("Versions", ("library", "version"), versions),
            "The graph and the machine": Table("The graph and the machine", ("what", "value"), facts),
        },
    )


def command(config: Config, folder: Path) -> str:
    """Return a command that trains the same, of the options that differ from the defaults; an option a line."""
    lines = ["python -m hetjax.train", shlex.join(["--workdir", str(folder)])]
    for name, section in owners.sections_of(config).items():
        for key, value in changed(section).items():
            text = str(value).lower() if isinstance(value, bool) else str(value)
            text = f"[{','.join(map(str, value))}]" if isinstance(value, tuple) else text
            lines.append(shlex.join([f"--{name}.{key}", text]))
    return " \\\n  ".join(lines)


def number(value: Any) -> str:
    return "–" if value is None else f"{value:.4f}" if isinstance(value, float) else str(value)
