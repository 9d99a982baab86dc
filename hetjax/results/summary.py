"""The files that a run writes at its end: `summary.json`, the pictures and the report."""

import itertools
import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax

from hetjax.checkpoints.checkpoint import parameters
from hetjax.options import owners
from hetjax.options.config import Config, as_dict
from hetjax.results import report
from hetjax.results.pictures import draw_run
from hetjax.sharding.traffic import Sent
from hetjax.system import runtime
from hetjax.tasks.quality import Quality
from hetjax.tasks.report_parts import Part
from hetjax.tasks.shown import of_task
from hetjax.training import guard, meters
from hetjax.training.run import Run


def summarise(
    run: Run,
    test: Quality,
    sent: list[dict],
    cache: list[dict],
    details: dict[str, Any],
    say: Callable[[str], None],
) -> dict:
    """Write the summary, the pictures and the report of a run that is done.

    Args:
      test: quality of the model alone on the test nodes.
      sent: as `total_traffic` gives it.
      cache: as `Engine.cache_report` gives it, of all processes.
      details: as `Engine.details` gives them.
      say: is told what cannot be drawn.
    """
    best, config, schema = run.progress.best, run.config, run.graph.schema
    weights, learned = jax.eval_shape(run.engine.init_weights, run.engine.seed).params, run.engine.trainer.learnable
    records = run.records
    assert records is not None  # process 0 has them
    if config.train.test:
        records.write({f"test_{name}": value for name, value in test.items()})
    written = records.all(say)
    summary = {
        **of_task(run.task, test if config.train.test else best or {}),
        **{f"test_{name}": test[name] for name in run.task.metrics if name in test},
        **{f"validation_{name}": (best or {}).get(name) for name in run.task.metrics if name in (best or test)},
        **(run.chosen if best else {}),
        "learning_rate_lowered": run.progress.lowered,
        "train_loss": _losses(written),
        "learning_rate": guard.lowered(config, run.progress.lowered).train.learning_rate,
        "stacking": _stacking(run),
        "baselines": _compared(run),
        "epoch": best["epoch"] if best else config.train.epochs,
        "seconds": round(run.seconds(), 2),
        "seconds_before": round(run.resumed_seconds, 2),
        "milliseconds_per_step": run.clock.medians(),
        "peak_memory_bytes": runtime.peak_memory(),
        "compiled_programs": run.programs.count - run.programs.kept,
        "kept_programs": run.programs.kept,
        "weights": parameters(weights),
        "learnable_features": sum(shape.nodes * shape.width for shape in learned.values()),
        "nodes": sum(schema.nodes.values()),
        "edges": run.graph.edges,
        "seed": config.train.seed,
        "mesh": as_dict(config.mesh) | {name: as_dict(keys) for name, keys in config.strategies.items()},
        "processes": run.processes.count,
        "sent_per_step": sent,
        "cache": cache,
        "details": details,
        "device": jax.devices()[0].device_kind,
        "versions": meters.versions(),
    }
    run.workdir.write("summary.json", json.dumps(summary, indent=1) + "\n")
    draw_run(written, cache, run.workdir.path, title(config), run.task.headline)
    report.write(report_inputs(run, summary, written), run.workdir.file(report.FILE))
    return summary


def report_inputs(run: Run, summary: dict, records: list[dict]) -> report.ReportInputs:
    """Return the contents of the report."""
    task_parts: Sequence[Part] = ()
    if run.outputs is not None:
        examples = run.task.examples("test")[: len(run.outputs)]
        task_parts = run.task.report_of(run.outputs, run.graph.names, run.chosen, examples, run.workdir.path)
    return report.ReportInputs(run.config, summary, records, task_parts, run.workdir.path, title(run.config))


def _stacking(run: Run) -> dict[str, Any]:
    """Return how the model was stacked with baselines, whether that is kept, why, and what a kept stack has on the test nodes; nothing, where it was not tried."""
    tried = run.tried
    if not tried:
        return {}
    by_class = owners.own(run.config.task, "node_classification").class_weights != "none"
    found = {"kept": tried.kept, "weights": dict(tried.stacked.weights), "class_weights": by_class}
    found |= {"metric": tried.metric, "alone": tried.alone, "stacked": tried.score, "standard_error": tried.error}
    found |= {"nodes": tried.nodes, "seconds": round(run.stacking_seconds, 2)}
    if run.stacked:
        found |= dict(run.stacked.chosen)
    return found | {f"test_{name}": value for name, value in (run.stack_quality or {}).items()}


def _compared(run: Run) -> dict[str, dict[str, Any]]:
    """Return what the baselines reach on the test nodes, if that is asked for."""
    options = run.config.train
    shown = options.baselines and options.test
    return run.task.compared(run.baselines) if shown else {}


def _losses(written: Sequence[dict]) -> dict[str, float]:
    """Return the first and the largest loss of an epoch in training."""
    losses = [row["train_loss"] for row in written if row.get("train_loss") is not None]
    return {"first": losses[0], "largest": max(losses)} if losses else {}


def title(config: Config) -> str:
    """Return the model and the graph, in words."""
    data, reader = config.data, owners.reader_options(config.data)
    graph = (
        f"a synthetic {reader.schema}, scale {reader.scale}"
        if data.format == "synthetic"
        else Path(data.path).absolute().name
    )
    return f"{config.model.name} on {graph}"


def total_traffic(shares: Sequence[Sequence]) -> list[dict]:
    """Return the bytes that all devices of all processes send in a step, by kind, collective and mesh axis."""
    total: Counter[tuple[str, str, str]] = Counter()
    for kind, collective, axis, count in itertools.chain.from_iterable(shares):
        total[kind, collective, axis] += count
    return [Sent(*names, count)._asdict() for names, count in sorted(total.items())]
