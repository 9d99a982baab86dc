"""Train a model: `python -m hetjax.train --config FILE.yaml --workdir DIR [--section.key value ...]`.

If several processes train together, each runs all of this; process 0 alone prints and writes results. Read from top to
bottom: parse, prepare, loop, finish.
"""

import contextlib
import logging
import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hetjax.options import owners
from hetjax.options.command_line import check_command, run_command
from hetjax.system import runtime
from hetjax.system.version import __version__
from hetjax.training import run_options

if __name__ == "__main__":
    runtime.prepare()
    check_command(run_options.read)  # help and errors come before jax, which takes seconds

import jax
import numpy as np
from tqdm import tqdm

from hetjax import models
from hetjax.checkpoints.checkpoint import Checkpoints
from hetjax.datasets.load import Ahead
from hetjax.models import precompile
from hetjax.options.config import Config, as_dict, flat
from hetjax.processes import digests
from hetjax.processes.group import ProcessGroup
from hetjax.processes.launch import process_group
from hetjax.recipe import recipe
from hetjax.results import results, summary
from hetjax.sampling.loader import Drawn
from hetjax.sharding import mesh as meshes
from hetjax.sharding import registry
from hetjax.sharding.evaluate import evaluated_together
from hetjax.sharding.strategy import Engine, Strategy
from hetjax.sharding.traffic import Sent
from hetjax.system.callables import call_as
from hetjax.system.errors import InputError
from hetjax.system.logs import hides_bar, log
from hetjax.tasks import baselines, stacking
from hetjax.tasks.quality import Metric, Quality
from hetjax.tasks.task import Task
from hetjax.training import guard, saving
from hetjax.training.prepare import OTHER_GRAPH, prepare
from hetjax.training.run import Run
from hetjax.training.workdir import Workdir

RECENT = 10  # one in so many epochs, the last of all
COMPILING = 3  # epochs that may compile before the user is told


def main(arguments: Sequence[str]) -> None:
    """Train as the command line says, and print where the results are."""
    config, processes, workdir = run_options.read(arguments)
    if processes.several and not log.isEnabledFor(logging.DEBUG):
        runtime.keep_stdout()
    if not processes.several and config.train.order_costs == "measured":
        precompile.before_measuring()
    alike_in_all = flat(as_dict(config)) | {"workdir": str(workdir), "hetjax": __version__}
    alike_in_all |= {
        "jax": jax.__version__,
        "code": digests.of_code(config.model.name, *owners.task_names(config.task), config.mesh.strategy),
    }
    with process_group(processes, alike_in_all) as group:
        config, ahead = recipe.resolve(config, arguments, workdir, group)
        train(config, workdir, group, ahead)


def train(config: Config, path: Path, processes: ProcessGroup, ahead: Ahead | None = None) -> None:
    """Train, or see that it is done, and print the results.

    Args:
      ahead: the graph, where it was read already.
    """
    registry.check(config)
    strategy = registry.find(config)
    meshes.provide_cpu_devices(meshes.share_of(config.mesh.axes, processes.count), alone=config.mesh.devices == 1)
    with contextlib.closing(Workdir(path, as_dict(config), processes.first)) as workdir:
        found = results.summary_of(workdir.summary_file())
        if found is not None:
            check_graph(config, strategy, path)
        found = processes.broadcast_object("summary", found)
        if found is None:
            found = trained(config, strategy, workdir, processes, ahead)
        elif processes.first:
            log.info(
                f"{workdir.path}: this run is done (a larger --train.epochs goes on, another --workdir starts another); its results:"
            )
        if processes.first:
            results.log_results(found, workdir.path, config.data.format == "synthetic")


def check_graph(config: Config, strategy: Strategy, path: Path) -> None:
    """Raise an InputError where the graph that a run of a folder is done on is another one now.

    A store has checksums of its content; files of other formats are read. A generated graph depends on its options alone.
    """
    newest = next(Checkpoints(path / "checkpoints").newest_first(), None)
    before = newest.noted("graph", str) if newest else ""
    if not before or config.data.format == "synthetic":
        return
    graph = models.folded(config.model.name, strategy.open(replace(config, data=replace(config.data, check=False))))
    if digests.of_graph(config.data, graph) != before:
        raise InputError(OTHER_GRAPH.format(path))


def trained(config: Config, strategy: Strategy, workdir: Workdir, processes: ProcessGroup, ahead: Ahead | None) -> dict:
    """Train to the end, and as often from where the guard goes back to; return the results."""
    lowered = 0
    while True:
        with contextlib.closing(prepare(config, strategy, workdir, processes, lowered, ahead)) as run:
            try:
                loop(run)
            except FloatingPointError as error:
                if run.engine.same_losses:  # or others may be in a step, and not wait for this checkpoint
                    saving.write_best(run)
                if not guard.watches(run):
                    raise
                lowered = guard.go_back(run, error)
                run.engine.close()
                continue
            return finish(run)


def loop(run: Run) -> None:
    """Train all epochs that are left."""
    epochs, steps = run.config.train.epochs, run.engine.batches.steps()
    hidden = hides_bar() if run.processes.first else True
    with tqdm(total=epochs * steps, initial=run.steps_done, unit="step", disable=hidden, desc="training") as bar:
        for epoch in range(run.progress.epoch, epochs):
            best = run.progress.best
            if best and run.progress.out_of_patience(run.config.train):
                run.say(f"stopped after epoch {epoch}: none was better than epoch {best['epoch']}")
                saving.save_the_end(run)
                break
            try:
                programs = run.programs.count
                train_epoch(run, epoch, bar)
                note_compiling(run, run.programs.count - programs)
                end_epoch(run, epoch)
            except FloatingPointError as error:
                if run.config.train.on_divergence == "stop" or not best or guard.watches(run):
                    raise
                run.say(f"{error}; the run goes back to epoch {best['epoch']}, the best, and ends there")
                break
        else:
            run.say(still_rising(run))
    saving.write_best(run)


def still_rising(run: Run) -> str:
    """Return a line where the last of all epochs came before validation stopped becoming better; empty where it had stopped."""
    epochs, best = run.config.train.epochs, run.progress.best
    recent = run.config.train.patience or epochs // RECENT
    highest = best and run.task.metrics[run.task.metric].higher and best[run.task.metric] == 1
    if not best or highest or epochs < RECENT or best["epoch"] <= epochs - max(1, min(recent, epochs // RECENT)):
        return ""
    return f"validation still became better when train.epochs {epochs} ended the run (best epoch: {best['epoch']}); a larger --train.epochs goes on from here"


def train_epoch(run: Run, epoch: int, bar: tqdm) -> None:
    """Train the steps of an epoch that are left."""
    done, checkpoint_steps, clock = run.progress, run.config.train.checkpoint_steps, run.clock
    batches = run.engine.batches
    clock.start()
    for drawn, upcoming in with_upcoming(batches.epoch(epoch, done.step)):
        clock.lap("waiting for a batch")
        run.state, before = run.engine.step(run.state, drawn.batch, upcoming and upcoming.batch)
        loss = float(before)
        clock.lap("step")
        clock.note("sampling, in a thread ahead", drawn.seconds)
        if not math.isfinite(loss):
            raise FloatingPointError(
                f"the loss is {loss} at step {done.step} of epoch {epoch + 1}; a lower train.learning_rate may help"
            )
        if (words := run.rises.note(loss)) and guard.watches(run):
            raise FloatingPointError(words)
        run.say(words, logging.WARNING)
        done.count(loss, drawn.nodes, drawn.capacities)
        bar.update()
        bar.set_postfix(loss=f"{loss:.3f}", refresh=False)
        if checkpoint_steps and done.step % checkpoint_steps == 0 and done.step < batches.steps():
            saving.save(run)
            clock.start()


def note_compiling(run: Run, programs: int) -> None:
    """Say so if epochs go on compiling training steps: the shapes of batches still grow."""
    run.compiling += programs > 0
    if run.compiling == COMPILING and programs:
        run.say(
            f"{COMPILING} epochs needed new programs, because batches kept growing; for a small graph try --sampling.mode full",
            logging.WARNING,
        )


def end_epoch(run: Run, epoch: int) -> None:
    """Record the epoch; evaluate and save where it is time to."""
    done, options, step = run.progress, run.config.train, (epoch + 1) * run.engine.batches.steps()
    run.engine.tell_progress(done)
    record: dict[str, Any] = {"epoch": epoch + 1, "step": step, "train_loss": done.end_epoch()}
    last = epoch + 1 == options.epochs
    due = (epoch + 1) % options.evaluate_every == 0 or last
    if due:
        quality, training = validate(run)
        record |= {f"train_{run.task.headline}": training} if options.accuracy_nodes else {}
        record |= {f"validation_{name}": value for name, value in quality.items()}
        done.validated(quality, step, run.task.metric, run.task.metrics[run.task.metric].higher)
    if run.records:
        run.records.write(record | {"seconds": round(run.seconds(), 3)})
        done.metrics_bytes = run.records.size
    if due:
        if last:
            saving.save(run)
        else:
            saving.save_if_due(run)
        if last or epoch + 1 - run.reported >= options.epochs / 10:
            run.say(_line(record, run.task))
            run.reported = epoch + 1


def validate(run: Run) -> tuple[Quality, float | None]:
    """Return the quality on the validation examples, and the headline of those training examples that `train.accuracy_nodes` takes; both at once."""
    validation, training = evaluated_together(run.task, run.config.train.accuracy_nodes)
    return evaluate(run, "validation", np.concatenate([validation, training]), len(validation))


def evaluate(
    run: Run, split: str, examples: np.ndarray, count: int, chosen: Mapping[str, float] | None = None
) -> tuple[Quality, float | None]:
    """Return from full neighbourhoods the quality on the first `count` examples, and the headline of the rest; None of none.

    Process 0 measures, and tells the others.

    Args:
      chosen: as of `Task.quality`.
    """
    task, outputs = run.task, run.engine.outputs(run.state, examples)
    if split == "test":
        run.outputs = outputs
    found = None
    if outputs is not None:
        of_split = task.quality(outputs[:count], examples[:count], chosen)
        rest = task.quality(outputs[count:], examples[count:], task.chosen(of_split) if chosen is None else chosen)
        found = [of_split, rest[task.headline]]
    quality, headline = run.processes.broadcast_object("quality", found)
    if quality["loss"] is not None and not math.isfinite(quality["loss"]):
        raise FloatingPointError(f"the {split} loss is {quality['loss']}; a lower train.learning_rate may help")
    return quality, headline


def stack(run: Run) -> None:
    """Weight the outputs of the state with those of the baselines, if that is asked for; process 0 keeps the stack where validation says that it helps."""
    examples, started = run.task.examples("validation"), time.perf_counter()
    if run.config.train.stacking and len(examples):
        outputs = run.engine.outputs(run.state, examples)
        if outputs is not None:
            run.tried = run.task.stacked(outputs, run.baselines)
            run.stacking_seconds = time.perf_counter() - started
    if run.processes.first:
        stacking.save(run.stacked, run.workdir.path)


def measure_stack(run: Run, examples: np.ndarray) -> None:
    """Measure the stack on the test examples, beside the model alone."""
    if run.stacked and run.outputs is not None:
        others = baselines.said(run.baselines, "test", len(examples))
        outputs = run.stacked(run.outputs, others, run.graph.multilabel)
        run.stack_quality = run.task.quality(outputs, examples, run.stacked.chosen)


def finish(run: Run) -> dict:
    """Read the test nodes, once, with the checkpoint that validation chose, and write the summary."""
    best, cache = run.progress.best, cached(run)
    if best:
        chosen = run.checkpoints.at(best["step"])
        if run.processes.first:
            chosen.verify()
        run.state = None  # its tables make room for those of the checkpoint
        run.state = run.engine.restored(chosen)
    stack(run)
    examples = run.task.examples("test")[: None if run.config.train.test else 0]
    test, _ = evaluate(run, "test", examples, len(examples), run.chosen)
    measure_stack(run, examples)
    sent = summary.total_traffic(run.processes.all_gather("sent", [list(row) for row in traffic(run.engine)]))
    details = run.engine.details()
    run.engine.close()
    return summary.summarise(run, test, sent, cache, details, log.warning) if run.processes.first else {}


def cached(run: Run) -> list[dict]:
    """Return the reports of the caches of all processes."""
    shares = run.processes.all_gather("cache", run.engine.cache_report())
    several = run.processes.count > 1
    return [row | ({"process": n} if several else {}) for n, share in enumerate(shares) for row in share]


def traffic(engine: Engine) -> list[Sent]:
    """Return the traffic that this process sent in a step; nothing, and a warning, if that cannot be read."""
    try:
        return engine.traffic()
    except ValueError as error:
        log.warning(f"the bytes sent in a step are not known: {error}")
        return []


def with_upcoming(drawn: Iterable[Drawn]) -> Iterator[tuple[Drawn, Drawn | None]]:
    """Yield each batch with the one that follows it; None follows the last."""
    rest = iter(drawn)
    current = next(rest, None)
    while current is not None:
        upcoming = next(rest, None)
        yield current, upcoming
        current = upcoming


def _line(record: dict, task: Task) -> str:
    """Return the line that is printed after an epoch: the metric that epochs are chosen by, and the headline."""
    quality = {name: record.get(f"validation_{name}") for name in task.metrics}
    shown = task.shown(quality)
    names = dict.fromkeys(
        (task.metric if task.metric in (*shown, "loss") else task.headline, task.headline, *task.beside)
    )
    words = [_score(task.metrics[name], value) for name in names if (value := quality.get(name)) is not None]
    return f"epoch {record['epoch']}: train loss {record['train_loss']:.4f}" + (
        f", validation {', '.join(words)}" if words else ""
    )


def _score(metric: Metric, value: float) -> str:
    """Return a metric of the line of an epoch, shares as they are."""
    return f"{metric.label} {value:.4f}" if metric.unit == "%" else f"{metric.label} {metric.words(value)}"


if __name__ == "__main__":
    run_command(main)
else:
    call_as(__name__, "hetjax.train_graph", "train_graph")  # `hetjax.train(graph, ...)`
