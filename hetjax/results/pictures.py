"""The pictures in a run's folder."""

from pathlib import Path

from hetjax.results.results import name_of
from hetjax.system.drawing import headless_pyplot, picture, save, shown

SPLITS = ("train", "tab:blue"), ("validation", "tab:orange")


def draw_run(records: list[dict], cache: list[dict], folder: Path, title: str, headline: str = "accuracy") -> None:
    """Draw `curves.png` and, of what the caches did, `cache.png`."""
    draw_curves(records, folder / "curves.png", title, headline=headline)
    if cache:
        draw_cache(cache, folder / "cache.png", title)


@picture
def draw_cache(types: list[dict], file: Path, title: str) -> None:
    """Draw what it cost to read features that do not live on the device, a row per node type and a measure per axis."""
    names = [f"{shown(name_of(row))} ({row['place']})" for row in types]
    reads = [100 * row["hits"] / max(1, row["hits"] + row["misses"]) for row in types]
    rows = [100 * row["kept"] / max(1, row["rows"]) for row in types]
    sent, returned = ([row[key] / 2**20 for row in types] for key in ("sent_bytes", "returned_bytes"))
    measures = (
        ("rows on the device", "% of rows", rows, "0.45"),
        ("hits", "% of reads", reads, "tab:green"),
        ("sent to the device", "MiB", sent, "tab:blue"),
        ("returned to the host", "MiB", returned, "tab:orange"),
    )
    pyplot = headless_pyplot()
    size = 12, 1.7 + 0.4 * len(types)
    figure, axes = pyplot.subplots(1, len(measures), sharey=True, figsize=size, layout="constrained")
    for axis, (what, unit, values, colour) in zip(axes, measures):
        bars = axis.barh(range(len(names)), values, color=colour)
        axis.bar_label(bars, [_said(value) for value in values], padding=2, fontsize=8)
        axis.set(title=what, xlabel=unit, xlim=(0, 1.25 * (100 if unit[0] == "%" else max(values) or 1)))
        axis.grid(axis="x", alpha=0.3)
        axis.set_axisbelow(True)
    axes[0].set_yticks(range(len(names)), names)
    for axis in axes[:2]:
        axis.set_xticks(range(0, 101, 25))
    for axis in axes[2:]:
        axis.xaxis.set_major_locator(pyplot.MaxNLocator(4))
    axes[0].invert_yaxis()
    figure.suptitle(f"Feature cache: {shown(title)}" if title else "")
    save(figure, file)
    pyplot.close(figure)


@picture
def draw_curves(records: list[dict], file: Path, title: str, width: float = 7, headline: str = "accuracy") -> None:
    """Draw the loss and, if any was measured, the headline by epoch, so many inches wide."""
    epochs = [record for record in records if record.get("epoch") is not None]
    test = next((record[f"test_{headline}"] for record in records if record.get(f"test_{headline}") is not None), None)
    curves = {name: _curves(epochs, name) for name in ("loss", headline)}
    rows = 1 + bool(curves[headline])
    pyplot = headless_pyplot()
    figure, axes = pyplot.subplots(
        rows, 1, sharex=True, figsize=(width, 0.8 + 2.6 * rows), layout="constrained", squeeze=False
    )
    axes = list(axes[:, 0])
    for axis, (name, unit) in zip(axes, (("loss", "loss"), (headline, headline.replace("_", " ")))):
        for split, colour, points in curves[name]:
            axis.plot(*zip(*points), color=colour, marker="." if len(points) < 60 else "", label=split)
        axis.set_ylabel(unit)
        axis.grid(alpha=0.3)
    if curves[headline]:
        values = [value for _, _, points in curves[headline] for _, value in points] + [test] * (test is not None)
        axes[1].set_ylim(*_around(values))
        if test is not None:
            axes[1].axhline(test, color="black", linestyle=":", label=f"test, at the best epoch: {test:.3f}")
    elif test is not None:
        title = f"{title}; test {headline} {test:.3f}"
    for axis in axes:
        if axis.get_legend_handles_labels()[0]:
            axis.legend()
    axes[-1].set_xlabel("epoch")
    axes[-1].xaxis.set_major_locator(pyplot.MaxNLocator(integer=True, min_n_ticks=1))
    figure.suptitle(shown(title))
    save(figure, file)
    pyplot.close(figure)


@picture
def draw_search(names: list[str], values: list[list[float]], metric: str, file: Path) -> None:
    """Draw a search: of each combination of options the runs and their mean, the first at the top."""
    pyplot, most = headless_pyplot(), 40
    names, values = names[:most], values[:most]
    figure, axis = pyplot.subplots(figsize=(8, 1.2 + 0.3 * len(names)), layout="constrained")
    for place, scores in enumerate(values):
        axis.plot(scores, [place] * len(scores), "o", color="tab:blue", alpha=0.5)
        if scores:
            axis.plot([sum(scores) / len(scores)], [place], "|", color="black", markersize=14)
    axis.set_yticks(range(len(names)), [shown(name) for name in names])
    axis.set(xlabel=f"validation {metric.replace('_', ' ')}; a line is the mean of a combination's runs")
    axis.invert_yaxis()
    axis.grid(axis="x", alpha=0.3)
    save(figure, file)
    pyplot.close(figure)


def _curves(epochs: list[dict], name: str) -> list[tuple[str, str, list]]:
    """Return the splits of which there is something to draw, each with its colour and points."""
    curves = []
    for split, colour in SPLITS:
        key = f"{split}_{name}"
        points = [(record["epoch"], record[key]) for record in epochs if record.get(key) is not None]
        curves += [(split, colour, points)] if points else []
    return curves


def _around(values: list[float]) -> tuple[float, float]:
    """Return limits of an axis that keep off every value, 0 and 1 too."""
    low, high = min(values), max(values)
    margin = 0.06 * max(high - low, 0.1)
    return low - margin, high + margin


def _said(value: float) -> str:
    return "0" if not value else f"{value:.1f}" if value >= 0.1 else "< 0.1"
