"""The page: its parts as plain values, which `template.html` sets out."""

import math
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jinja2
import numpy as np

from hetjax.inference.predictions import Predictions
from hetjax.options import owners
from hetjax.options.config import Config, as_dict, changed
from hetjax.partition.report import readable
from hetjax.results.pictures import draw_cache, draw_curves
from hetjax.results.report import pictures, scores
from hetjax.results.results import name_of
from hetjax.system import durable
from hetjax.system.drawing import kept, shown

FILE = "report.html"
MOST_ROWS, MOST_CONFUSED, MOST_PAIRS = (
    500,
    30,
    10,
)  # rows of a table, classes of a picture, confusions that are listed
Row = Sequence[Any]


class Table(NamedTuple):
    """A table: a caption, a head, and rows whose first cell is their head."""

    caption: str
    head: Row
    rows: Sequence[Row]


class Image(NamedTuple):
    """An image, what it shows in words, and whether it is so wide that a phone scrolls it."""

    address: str
    words: str
    wide: bool = False


class Part(NamedTuple):
    """A part of the page, under a heading.

    Attributes:
      words: sentences before all else.
      folded: what can be unfolded, by its title.
    """

    heading: str
    words: Sequence[str] = ()
    images: Sequence[Image] = ()
    tables: Sequence[Table] = ()
    folded: Mapping[str, Table | str] = {}

    @property
    def anchor(self) -> str:
        return self.heading.lower().replace(" ", "-")


class Told(NamedTuple):
    """What a report is made of.

    Attributes:
      config: of the run.
      summary: as `summary.json` has it.
      records: of its epochs.
      test: what was predicted of the test nodes; None if there are none.
      labels: theirs.
      folder: of the run.
      title: the model and the graph.
    """

    config: Config
    summary: Mapping[str, Any]
    records: list[dict]
    test: Predictions | None
    labels: np.ndarray
    folder: Path
    title: str


@kept
def write(told: Told, file: Path) -> None:
    """Write the page; where that fails a line says so, and the run keeps its results."""
    parts = [curves(told), *quality(told), *compared(told), costs(told), *cache(told), *plan(told), made(told)]
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    page = environment.get_template("template.html").render(
        title=told.title, tiles=tiles(told.summary), parts=parts, version=told.summary["versions"]["hetjax"]
    )
    durable.write(file, page)


def _alone(summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return what the model alone has, where it is stacked."""
    alone = (summary.get("stacking") or {}).get("model_alone") or {}
    return [("the model alone", percent(alone.get("test_accuracy")))] if alone else []


def tiles(summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The few numbers that come first."""
    found = [
        ("test accuracy", percent(summary["test_accuracy"])),
        *_alone(summary),
        ("test macro-F1", percent(summary["test_macro_f1"])),
        ("validation accuracy", percent(summary["validation_accuracy"])),
        ("best epoch", str(summary["epoch"])),
        ("time", f"{summary['seconds']:.1f} s"),
        ("peak memory", readable(summary["peak_memory_bytes"])),
    ]
    if summary.get("test_roc_auc") is not None:
        found.insert(2, ("test ROC AUC", percent(summary["test_roc_auc"])))
    return found


def curves(told: Told) -> Part:
    address = pictures.drawn(told.folder, lambda file: draw_curves(told.records, file, "", pictures.WIDTH))
    epochs = [record for record in told.records if record.get("epoch") is not None]
    keys = [key for key in epochs[-1] if key != "step"] if epochs else []
    rows = [[record.get("epoch"), *(number(record.get(key)) for key in keys if key != "epoch")] for record in epochs]
    head = ["epoch", *(HEADS.get(key, key.replace("_", " ")) for key in keys if key != "epoch")]
    words = f"Loss and accuracy of {len(epochs)} epochs; the table below has the numbers."
    return Part(
        "Curves",
        images=[Image(address, words)],
        folded={"Every epoch": Table("Every epoch", head, rows[-MOST_ROWS:])},
    )


HEADS = {"seconds": "seconds so far"}


def quality(told: Told) -> list[Part]:
    """Of the test nodes, class by class."""
    if told.test is None or not len(told.labels):
        return []
    test, labels = told.test, told.labels
    names, predicted = test.class_names, test.classes
    found = scores.per_class(labels, predicted, len(names))
    there = np.flatnonzero((found.nodes > 0) | ~np.isnan(found.precision))
    order = there if len(there) <= MOST_ROWS else np.sort(there[np.argsort(-found.nodes[there])][:MOST_ROWS])
    rows = [[names[n], *(percent(column[n]) for column in found[:3]), f"{found.nodes[n]:,}"] for n in order]
    words = [f"How well each class is predicted, on {len(labels):,} test nodes of type {test.target}."]
    if len(order) < len(names):
        words.append(f"{len(order):,} of {len(names):,} classes are shown: the largest of those that occur.")
    parts = [Part("Classes", words, tables=[Table("Test nodes by class", HEAD, rows)])]
    if not test.multilabel:
        parts.append(
            _confusion(told.folder, labels, predicted, names, order[np.argsort(-found.nodes[order], kind="stable")])
        )
    return [*parts, _calibration(told.folder, test, labels)]


HEAD = "class", "precision", "recall", "F1", "nodes"


def _confusion(
    folder: Path, labels: np.ndarray, predicted: np.ndarray, names: Sequence[str], order: np.ndarray
) -> Part:
    """Of the largest classes."""
    largest, nodes = np.sort(order[:MOST_CONFUSED]), np.bincount(labels, minlength=len(names))
    part = scores.confusion(labels, predicted, largest)
    rows = [
        [shown(names[a]), shown(names[b]), f"{count:,}", percent(count / nodes[a])]
        for a, b, count in scores.confused(labels, predicted, MOST_PAIRS)
    ]
    image = pictures.drawn(folder, pictures.draw_confusion, part, [names[n] for n in largest])
    alt = f"Confusion matrix of {len(largest)} classes: rows are classes, columns are predictions. The table below has the largest confusions."
    table = Table("The largest confusions", ("class", "predicted as", "nodes", "share of the class"), rows)
    words = [f"The {len(largest)} largest of {len(names)} classes."] if len(largest) < len(order) else []
    return Part("Confusion", words, [Image(image, alt)], [table] if rows else [])


def _calibration(folder: Path, test: Predictions, labels: np.ndarray) -> Part:
    if test.multilabel:
        probability, right = test.probabilities.ravel(), (labels != 0).ravel()
        of = "Each pair of a node and a class is one prediction."
    else:
        chosen = np.take_along_axis(test.probabilities, test.classes[:, None], axis=1)
        probability, right = chosen[:, 0], test.classes == labels
        of = "The probability is that of the predicted class."
    found = scores.calibration(probability, right)
    rows = [
        [f"{low:.1f} to {high:.1f}", f"{count:,}", percent(mean), percent(share)]
        for low, high, count, mean, share in zip(found.edges, found.edges[1:], *found[1:4])
        if count
    ]
    words = f"The expected calibration error is {percent(found.error)}: on average, the probability of a prediction and the share of predictions that are right differ by this much. {of}"
    alt = "The share of predictions that are right, by their probability, in ten bins; the table below has the numbers."
    table = Table("Predictions by probability", ("probability", "predictions", "mean probability", "share right"), rows)
    return Part("Calibration", [words], [Image(pictures.drawn(folder, pictures.draw_calibration, found), alt)], [table])


def compared(told: Told) -> list[Part]:
    """What a model is to be better than."""
    found = told.summary.get("baselines") or {}
    if not found:
        return []
    keys = [key for key in ("accuracy", "macro_f1", "roc_auc") if told.summary.get(f"test_{key}") is not None]
    rows = [["this model", *(percent(told.summary[f"test_{key}"]) for key in keys), ""]]
    if stacking := told.summary.get("stacking"):
        alone = stacking["model_alone"]
        rows[0][-1] = " + ".join(f"{weight:.2f} {name}" for name, weight in stacking["weights"].items())
        rows += [["the model alone", *(percent(alone.get(f"test_{key}")) for key in keys), ""]]
    rows += [[name, *(percent(row.get(key)) for key in keys), row["how"]] for name, row in found.items()]
    head = ("", *("ROC AUC" if key == "roc_auc" else key.replace("_", "-").replace("f1", "F1") for key in keys), "how")
    words = "Baselines are simple methods without a graph neural network. A model should do better than each of them."
    return [Part("Baselines", [words], tables=[Table("The model and the baselines, on the test nodes", head, rows)])]


def costs(told: Told) -> Part:
    """Time and bytes."""
    summary = told.summary
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


def cache(told: Told) -> list[Part]:
    rows = told.summary["cache"]
    if not rows:
        return []
    head = "node type", "place", "rows kept", "of rows", "hits", "sent", "returned"
    cells = [
        [name_of(row), row["place"], f"{row['kept']:,}", f"{row['rows']:,}", percent(row["hit_rate"])]
        + [readable(row[key]) for key in ("sent_bytes", "returned_bytes")]
        for row in rows
    ]
    image = pictures.drawn(told.folder, lambda file: draw_cache(rows, file, ""))
    alt = "The cost of reading features from the host, by node type; the table below has the numbers."
    return [
        Part("Feature cache", images=[Image(image, alt, True)], tables=[Table("Features on the host", head, cells)])
    ]


def plan(told: Told) -> list[Part]:
    """Who has what, where several devices train."""
    axes = [[name, str(size)] for name, size in told.config.mesh.axes.items()]
    if told.config.mesh.devices == 1:
        return []
    words = f"Strategy: {told.config.mesh.strategy}. Processes: {told.summary['processes']}."
    found = sorted(told.folder.glob("partition_*/plan.png"), key=lambda file: file.stat().st_mtime)[-1:]
    images = [
        Image(pictures.address(file, "png"), f"What each partition owns: the picture of {file.parent.name}.", True)
        for file in found
    ]
    return [Part("Plan", [words], images, [Table("Devices", ("mesh axis", "size"), axes)])]


def made(told: Told) -> Part:
    """What to run to have the same again."""
    values = [
        [f"{s}.{k}", "unset" if v is None else str(v)]
        for s, keys in as_dict(told.config).items()
        for k, v in keys.items()
    ]
    versions = [[name, version] for name, version in told.summary["versions"].items()]
    about = [["device", told.summary["device"]], ["seed", str(told.summary["seed"])]]
    about += [[name, f"{told.summary[name]:,}"] for name in ("nodes", "edges", "weights", "learnable_features")]
    return Part(
        "How it was made",
        folded={
            "The command": command(told.config, told.folder),
            "Every option": Table("Every option", ("option", "value"), values),
            "Versions": Table("Versions", ("library", "version"), versions),
            "The graph and the machine": Table("The graph and the machine", ("what", "value"), about),
        },
    )


def command(config: Config, folder: Path) -> str:
    """A command that trains the same, of the options that are not as by default; an option a line."""
    lines = ["python -m hetjax.train", shlex.join(["--workdir", str(folder)])]
    for name, section in owners.sections_of(config).items():
        for key, value in changed(section).items():
            text = str(value).lower() if isinstance(value, bool) else str(value)
            text = f"[{','.join(map(str, value))}]" if isinstance(value, tuple) else text
            lines.append(shlex.join([f"--{name}.{key}", text]))
    return " \\\n  ".join(lines)


def percent(share: float | None) -> str:
    return "–" if share is None or math.isnan(share) else f"{100 * share:.1f} %"


def number(value: Any) -> str:
    return "–" if value is None else f"{value:.4f}" if isinstance(value, float) else str(value)
