"""The lines that a run prints at its end, from its summary."""

import json
from collections import Counter
from pathlib import Path

from hetjax.partition.report import readable
from hetjax.system import files
from hetjax.system.errors import InputError, reading
from hetjax.system.logs import counted, log
from hetjax.tasks.shown import Shown, of_summary
from hetjax.tasks.stacking import weighed

FILES = (
    "summary.json",
    "metrics.jsonl",
    "report.html",
    "curves.png",
    "cache.png",
    "config.yaml",
    "stacking.npz",
    "checkpoints",
)  # that a run leaves


ROSE = 10.0  # times the first loss, that a rate which suits a graph does not reach


def summary_of(file: Path | None) -> dict | None:
    """Return the summary of a run that is done; a damaged one counts for nothing, which is logged, and is made again from the checkpoint.

    Args:
      file: as `Workdir.summary_file` gives it; None: the run is not done.
    """
    if file is None:
        return None
    try:
        with reading(file):
            summary = json.loads(files.read_text(file))
            lines(summary, file.parent, False)
            details(summary)
    except InputError as error:
        log.warning(f"{error}; this is no summary, and is made again from the checkpoint")
        return None
    return summary


def log_results(summary: dict, path: Path, synthetic: bool) -> None:
    """Log the results, and what only `--verbose` shows; arguments as of `lines`."""
    for line in lines(summary, path, synthetic):
        log.info(line)
    for line in details(summary):
        log.debug(line)


def lines(summary: dict, path: Path, synthetic: bool) -> list[str]:
    """Return the results, and where to look next, a line each.

    Args:
      summary: of the run; the exception that another shape causes may be any.
      path: the run's folder.
      synthetic: whether its graph was generated.
    """
    shown = of_summary(summary)
    by = shown.chosen_by if shown.chosen_by in (*shown.names, "loss") else shown.headline
    validation = summary[f"validation_{by}"]
    of_validation = f"its validation {shown.metrics[by].label}, {shown.metrics[by].words(validation)}"
    chosen = "the last" if validation is None else f"chosen by {of_validation}"
    scores = shown.words(summary)
    tested = summary[f"test_{shown.headline}"] is not None
    if not tested:
        scores = "the test nodes were not read" if validation is not None else "nothing was validated or tested"
    printed = [
        f"{scores} (epoch {summary['epoch']}, {chosen})",
        *(shown.words(summary, target=target) for target in shown.targets[1:] if tested),
        *_guard_lines(summary),
        *_stacking_lines(summary),
        *_baseline_lines(summary, synthetic),
        f"took {summary['seconds']:.1f} s{_before(summary)}, peak memory {summary['peak_memory_bytes'] / 2**20:.0f} MiB",
    ]
    written = [name for name in FILES if (path / name).exists()]
    printed.append(f"written to {path}: {', '.join(written)}")
    if synthetic:
        printed += [
            "try next, each with a --workdir of its own: the whole graph at every step (--sampling.mode full --train.epochs 50),",
            "  attention (--model.name hgt), a graph of your own (--data.format and --data.path, or hetjax ingest for tables),",
            "  or any other choice (--help lists them)",
        ]
    return printed


def _before(summary: dict) -> str:
    before = summary.get("seconds_before", 0)
    return f", {before:.1f} s of them before it was continued" if before else ""


def details(summary: dict) -> list[str]:
    """Return where the time and the bytes of a run went, a line each. Arguments and exceptions are those of `lines`."""
    laps = {name: value for name, value in summary["milliseconds_per_step"].items() if value >= 0.05}
    parts = ", ".join(f"{name} {value:.1f}" for name, value in laps.items()) or "none was trained by this process"
    kept = f", {summary['kept_programs']} kept from runs before" if summary.get("kept_programs") else ""
    printed = [f"{summary['compiled_programs']} compiled programs{kept}", f"median milliseconds of a step: {parts}"]
    if summary.get("sent_per_step"):
        kinds: Counter[str] = Counter()
        for row in summary["sent_per_step"]:
            kinds[row["kind"].replace("_", " ")] += row["bytes"]
        words = ", ".join(f"{kind} {readable(count)}" for kind, count in kinds.items())
        printed.append(f"sent in a step, by all devices together: {readable(kinds.total())} ({words})")
    return printed + list(map(_cache_line, summary.get("cache") or ()))


def _guard_lines(summary: dict) -> list[str]:
    """Return what became of a learning rate that was too high."""
    losses = summary.get("train_loss") or {"first": 0.0, "largest": 0.0}
    if times := summary.get("learning_rate_lowered"):
        how = (
            f"exploded, and train.learning_rate was lowered {counted(times, 'time')}, to {summary['learning_rate']:.3g}"
        )
    elif losses["largest"] > max(1.0, ROSE * losses["first"]):
        how = f"of an epoch rose from {losses['first']:.3g} to {losses['largest']:.3g} at a train.learning_rate of {summary['learning_rate']:.3g}"
    else:
        return []
    return [f"the loss {how}: a run that begins with a lower one may do better"]


def _stacking_lines(summary: dict) -> list[str]:
    """Return what a stack of the model with baselines has, or why there is none."""
    found = summary.get("stacking") or {}
    if not found:
        return []
    shown = of_summary(summary)
    metric = shown.metrics[found["metric"]]
    alone, stacked = metric.words(abs(found["alone"])), metric.words(abs(found["stacked"]))
    error = f"{100 * found['standard_error']:.2f} points" if metric.unit == "%" else f"{found['standard_error']:.4f}"
    by = ", classes weighed as in training" if found.get("class_weights") else ""
    folds = f"in folds of {counted(found['nodes'], 'validation node')}{by}"
    if not found["kept"]:
        why = (
            f"{folds} the best stack has {metric.label} {stacked}, the model {alone}, with a standard error of {error}"
        )
        return [f"not stacked with baselines: {why}"]
    scores = f": {shown.words(found)}" if found.get(f"test_{shown.headline}") is not None else ""
    why = f"{folds} {metric.label} {stacked} instead of {alone}, with a standard error of {error}"
    return [f"stacked, as predictions are{scores} ({weighed(found['weights'])}; {why})"]


def _baseline_lines(summary: dict, synthetic: bool) -> list[str]:
    """Return what the baselines reach on the test nodes, which of them do better than the model, and which do better than its stack."""
    shown = of_summary(summary)
    by = (shown.compared_by, *shown.also_compared_by)
    return [line for metric in by for line in _lines_by(summary, shown, metric, synthetic)]


def _lines_by(summary: dict, shown: Shown, metric: str, synthetic: bool) -> list[str]:
    """Return the lines of `_baseline_lines` about one metric."""
    found, words = summary.get("baselines") or {}, shown.metrics[metric].words
    found = {name.rpartition(": ")[2]: row for name, row in found.items() if row.get(metric) is not None}
    scores = {name: row[metric] for name, row in found.items()}
    if not scores:
        return []
    line = ", ".join(f"{name} {words(score)}{_how(found[name])}" for name, score in scores.items())
    printed = [f"baselines, test {shown.metrics[metric].label}: {line}"]
    stacked = summary.get("stacking") or {}
    models = {"the model": summary.get(f"test_{metric}"), "the stacked model": stacked.get(f"test_{metric}")}
    if synthetic:
        printed.append(
            "label propagation is nearly always right here: the edges of a generated graph follow its labels"
        )
        return printed
    for who, has in models.items():
        sign = 1 if shown.metrics[metric].higher else -1
        better = [name for name, score in scores.items() if has is not None and sign * score > sign * has]
        if better:
            named_scores = (
                f"{name} ({words(scores[name])})" for name in sorted(better, key=lambda name: -sign * scores[name])
            )
            printed.append(f"{who}, {words(has)}, does worse than {' and '.join(named_scores)}")
    return printed


def _how(row: dict) -> str:
    """Return in brackets what a baseline read and chose; nothing of the larger class."""
    how = row.get("how", "").removeprefix("the class of most training nodes")
    return f" ({how})" if how else ""


def _cache_line(row: dict) -> str:
    """Return what it cost to read the features of one node type from the host."""
    is_cached = row["kept"] and row["hit_rate"] is not None
    hits = f", which {_percent(row['hit_rate'])} of the reads hit" if is_cached else ""
    more = row["next_tenth_bytes"]
    hint = f"; {readable(more)} more would hit another tenth" if more else ""
    moved = (
        f"{readable(row['sent_bytes'])} sent, {readable(row['returned_bytes'])} returned in {row['host_seconds']:.1f} s"
    )
    return (
        f"{name_of(row)} ({row['place']}): {row['kept']:,} of {row['rows']:,} rows on the device{hits}; {moved}{hint}"
    )


def name_of(cached: dict) -> str:
    """Return the name of a row of the caches' report: its node type, and its process where there are several."""
    return cached["node_type"] + (f", process {cached['process']}" if "process" in cached else "")


def _percent(share: float | None) -> str:
    return "none" if share is None else f"{100 * share:.2f} %"
