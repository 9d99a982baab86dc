"""The pictures in a run's folder."""

from pathlib import Path

import matplotlib

from hetjax.drawing import picture, shown
from hetjax.results import name_of


@picture
def draw_cache(types: list[dict], file: Path) -> None:
    """A picture of what reading features that do not live on the device cost, a row per node type."""
    matplotlib.use("Agg")
    from matplotlib import pyplot

    names = [f"{shown(name_of(one))} ({one['place']})" for one in types]
    size = 9, 1.6 + 0.4 * len(types)
    figure, (left, right) = pyplot.subplots(1, 2, sharey=True, figsize=size, layout="constrained")
    reads = [max(1, one["hits"] + one["misses"]) for one in types]
    left.barh(names, [100 * one["hits"] / of for one, of in zip(types, reads)], color="tab:green", label="hits")
    left.barh(
        names,
        [100 * one["kept"] / max(1, one["rows"]) for one in types],
        0.3,
        color="black",
        label="rows on the device",
    )
    left.set(xlabel="% of reads, % of rows", xlim=(0, 100))
    sent, returned = ([one[key] / 2**20 for one in types] for key in ("sent_bytes", "returned_bytes"))
    right.barh(names, sent, color="tab:blue", label="sent")
    right.barh(names, returned, left=sent, color="tab:orange", label="returned")
    right.set(xlabel="MiB to the device and back")
    left.invert_yaxis()
    for axis in (left, right):
        axis.grid(axis="x", alpha=0.3)
        axis.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, frameon=False)
    figure.savefig(file, dpi=120)
    pyplot.close(figure)


@picture
def draw_curves(records: list[dict], file: Path, title: str) -> None:
    """A picture of loss and accuracy by epoch."""
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (above, below) = pyplot.subplots(2, 1, sharex=True, figsize=(7, 6), layout="constrained")
    epochs = [record for record in records if "epoch" in record]
    for axis, name, unit in ((above, "loss", "cross-entropy"), (below, "accuracy", "accuracy")):
        for split, colour in (("train", "tab:blue"), ("validation", "tab:orange")):
            points = [(r["epoch"], r[f"{split}_{name}"]) for r in epochs if r.get(f"{split}_{name}") is not None]
            if points:
                axis.plot(*zip(*points), color=colour, marker="." if len(points) < 60 else "", label=split)
        axis.set_ylabel(unit)
        axis.grid(alpha=0.3)
    test = next((record["test_accuracy"] for record in records if record.get("test_accuracy") is not None), None)
    if test is not None:
        below.axhline(test, color="black", linestyle=":", label=f"test, read once at the end: {test:.3f}")
    for axis in (above, below):
        if axis.get_legend_handles_labels()[0]:
            axis.legend()
    below.set_xlabel("epoch")
    below.xaxis.get_major_locator().set_params(integer=True)
    figure.suptitle(shown(title))
    figure.savefig(file, dpi=120)
    pyplot.close(figure)
