"""Train a model: `python -m hetjax.train --config FILE.yaml --workdir DIR [--section.key value ...]`.

Read from top to bottom: what a run is made of, where it resumes, its epochs, its end.
"""

import hashlib
import json
import math
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import jax
import numpy as np
from tqdm import tqdm

from hetjax import metrics, models
from hetjax.assembly import make_batches, make_engine, make_plan, make_trainer, relations_of
from hetjax.checkpoint import Checkpoint, Checkpoints, parameters
from hetjax.config import Config, Data, Mesh, Model, Sampling, Train, as_dict, parse, run_command
from hetjax.errors import InputError
from hetjax.evaluate import Evaluator
from hetjax.graph.hetgraph import HetGraph
from hetjax.load import load
from hetjax.partition import EdgeCut, Plan, save
from hetjax.partition.report import readable
from hetjax.sharding import mesh as meshes
from hetjax.sharding.raf import Raf
from hetjax.sharding.single import OneDevice, TrainState
from hetjax.sharding.vanilla import Vanilla
from hetjax.workdir import Workdir, draw_curves

COMPILING = 3  # epochs that may compile before the user is told


@dataclass
class Progress:
    """How far a run is; saved with every checkpoint.

    Attributes:
      epoch: the epoch under way, from 0.
      step: steps of it that are done.
      loss_sum, nodes: over the seeds of those steps.
      best: step, epoch and quality of the checkpoint with the best micro-F1 (for one label a node, the accuracy) on the
        validation nodes, if there was one.
      metrics_bytes: size of `metrics.jsonl`.
      graph: digest of the graph's shape, labels and splits; a run does not continue on another graph.
      capacities: of the batches, so that a resumed run has the same shapes.
      seconds: time trained.
    """

    epoch: int = 0
    step: int = 0
    loss_sum: float = 0.0
    nodes: int = 0
    best: dict | None = None
    metrics_bytes: int = 0
    graph: str = ""
    capacities: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0


def main(arguments: Sequence[str]) -> None:
    """Train as the command line says, and print where the results are."""
    sections = {"data": Data, "model": Model, "sampling": Sampling, "train": Train, "mesh": Mesh}
    paths = {"workdir": "the folder that the run is written to; a run that was killed continues there"}
    made, paths = parse(sections, arguments, "python -m hetjax.train", "Train a model on a heterogeneous graph.", paths)
    config = Config(**made)
    if config.mesh.devices > 1:
        meshes.provide(config.mesh.devices)
    workdir = Workdir(Path(paths["workdir"]), as_dict(config))
    summary = workdir.summary()
    if summary is None:
        summary = Run(config, workdir).run()
    else:
        print(f"{workdir.path}: this run is done (another --workdir starts another); its results:")
    report(summary, workdir)


class Run:
    """One run, from the graph to the summary."""

    def __init__(self, config: Config, workdir: Workdir):
        self.config, self.workdir = config, workdir
        self.programs = metrics.ProgramCounter()
        self.started = time.perf_counter()
        self.graph = relations_of(models.find(config.model.name), load(config.data))
        if not len(self.graph.splits["train"]):
            raise InputError(
                f"no training nodes among the {len(self.graph.labels)} of type {self.graph.schema.target!r}"
            )
        if config.train.patience and not len(self.graph.splits["validation"]):
            raise InputError(f"train.patience is {config.train.patience}, and there are no validation nodes")
        self.trainer, self.seed = make_trainer(self.graph, config), np.int32(config.train.seed)
        plan = make_plan(self.graph, config) if config.mesh.devices > 1 else None
        self.engine = make_engine(self.trainer, self.graph, config, plan)
        self.checkpoints = Checkpoints(workdir.file("checkpoints"))
        found = self.checkpoints.newest_whole(lambda words: print(f"hetjax: {words}", file=sys.stderr))
        self.progress = Progress(**found[1]) if found else Progress(graph=digest(self.graph))
        if self.progress.graph != digest(self.graph):
            raise InputError(f"{workdir.path}: the graph of this run was another; give another --workdir")
        about = self.graph, config, frozenset(self.trainer.learnable), self.progress.capacities
        self.batches = make_batches(*about) if plan is None else make_batches(*about, plan, self.engine.mesh)
        workdir.claim()  # nothing was written before this line
        counts = f"{sum(self.graph.schema.nodes.values()):,} nodes of {len(self.graph.schema.nodes)} types"
        print(f"graph: {counts}, {self.graph.edges:,} edges of {len(self.graph.schema.relations)} relations; compiling")
        self.records = metrics.Records(workdir.file("metrics.jsonl"), self.progress.metrics_bytes)
        self.abstract = on_device(jax.eval_shape(self.trainer.init, self.seed))
        self.evaluator = Evaluator(self.trainer.model, self.graph, config.sampling.evaluation_edges)
        if plan:
            keep_plan(plan, workdir, self.graph)
        self.state = self.engine.place(self.initial_state(found[0] if found else None))
        self.resumed_seconds, self.reported, self.compiling = self.progress.seconds, self.progress.epoch, 0
        self.clock = metrics.Clock()

    def initial_state(self, checkpoint: Checkpoint | None) -> TrainState:
        """The run's own newest checkpoint that is whole, or else a state from scratch."""
        if checkpoint:
            print(f"continuing from {checkpoint.folder}", file=sys.stderr)
            return checkpoint.state(self.abstract)
        return jax.jit(self.trainer.init)(self.seed)

    def run(self) -> dict:
        """Train all epochs that are left, test once, and write the summary."""
        epochs, steps = self.config.train.epochs, self.batches.steps()
        done = self.progress.epoch * steps + self.progress.step
        with tqdm(total=epochs * steps, initial=done, unit="step", disable=None, desc="training") as bar:
            for epoch in range(self.progress.epoch, epochs):
                if self.out_of_patience():
                    bar.write(f"stopped after epoch {epoch}: none was better than epoch {self.progress.best['epoch']}")
                    break
                programs = self.programs.count
                self.train_epoch(epoch, bar)
                self.note_compiling(self.programs.count - programs, bar)
                self.end_epoch(epoch, bar)
        return self.finish()

    def train_epoch(self, epoch: int, bar: tqdm) -> None:
        progress, every = self.progress, self.config.train.checkpoint_steps
        self.clock.start()
        for drawn in self.batches.epoch(epoch, progress.step):
            self.clock.lap("waiting for a batch")
            self.state, loss = self.engine.step(self.state, drawn.batch)
            loss = float(loss)
            self.clock.lap("step")
            self.clock.note("sampling, in a thread ahead", drawn.seconds)
            if not math.isfinite(loss):
                raise FloatingPointError(
                    f"the loss is {loss} at step {progress.step} of epoch {epoch + 1}; a lower train.learning_rate may help"
                )
            progress.step += 1
            progress.loss_sum += loss * drawn.nodes
            progress.nodes += drawn.nodes
            progress.capacities = drawn.capacities
            bar.update()
            bar.set_postfix(loss=f"{loss:.3f}", refresh=False)
            if every and progress.step % every == 0 and progress.step < self.batches.steps():
                self.save(self.engine.whole(self.state))
                self.clock.start()

    def end_epoch(self, epoch: int, bar: tqdm) -> None:
        """Record the epoch; evaluate and save where it is time to."""
        progress, options = self.progress, self.config.train
        steps = (epoch + 1) * self.batches.steps()
        record = {"epoch": epoch + 1, "step": steps, "train_loss": progress.loss_sum / progress.nodes}
        self.progress.epoch, self.progress.step, self.progress.loss_sum, self.progress.nodes = epoch + 1, 0, 0.0, 0
        due = (epoch + 1) % options.evaluate_every == 0 or epoch + 1 == options.epochs
        if due:
            state = self.engine.whole(self.state)
            found = self.evaluate(state, "validation")
            record |= {f"validation_{name}": value for name, value in found.items()}
            best = progress.best
            if found["micro_f1"] is not None and (
                best is None or (found["micro_f1"], -found["loss"]) > (best["micro_f1"], -best["loss"])
            ):
                progress.best = {"step": record["step"], "epoch": epoch + 1} | found
        self.records.write(record | {"seconds": round(self.seconds(), 3)})
        progress.metrics_bytes = self.records.size
        if due:
            self.save(state)
            if epoch + 1 - self.reported >= options.epochs / 10 or epoch + 1 == options.epochs:
                bar.write(_line(record))
                self.reported = epoch + 1

    def out_of_patience(self) -> bool:
        """Whether the validation has not become better for `train.patience` epochs; never before it was read again."""
        progress, options = self.progress, self.config.train
        due = progress.step == 0 and progress.epoch % options.evaluate_every == 0
        return bool(options.patience and due and progress.best) and (
            progress.epoch - progress.best["epoch"] >= options.patience
        )

    def note_compiling(self, programs: int, bar: tqdm) -> None:
        """Say so if epochs go on compiling training steps: the shapes of batches still grow."""
        self.compiling += programs > 0
        if self.compiling == COMPILING and programs:
            bar.write(
                f"{COMPILING} epochs compiled new programs, because batches kept growing; for a small graph try --sampling.mode full"
            )

    def evaluate(self, state: TrainState, split: str) -> dict[str, float]:
        """Quality on the nodes of a split, from full neighbourhoods."""
        ids = self.graph.splits[split]
        learned = {name: np.asarray(table.rows) for name, table in state.tables.items()}
        features = {name: self.graph.features[name] for name in self.trainer.widths if name not in learned}
        found = metrics.quality(self.evaluator.logits(state.params, features | learned, ids), self.graph.labels[ids])
        if len(ids) and not math.isfinite(found["loss"]):
            raise FloatingPointError(f"the {split} loss is {found['loss']}; a lower train.learning_rate may help")
        return found

    def save(self, state: TrainState) -> None:
        self.progress.seconds = self.seconds()
        self.checkpoints.save(int(state.step), state, asdict(self.progress))

    def seconds(self) -> float:
        """Time of this run, over all of its processes."""
        return self.resumed_seconds + time.perf_counter() - self.started

    def finish(self) -> dict:
        """Read the test nodes, once, with the checkpoint that validation chose."""
        best = self.progress.best
        if best:
            chosen = self.checkpoints.at(best["step"])
            chosen.verify()
        state = chosen.state(self.abstract) if best else self.engine.whole(self.state)
        test = self.evaluate(state, "test")
        self.records.write({f"test_{name}": value for name, value in test.items()})
        summary = {
            "test_accuracy": test["accuracy"],
            "validation_accuracy": best["accuracy"] if best else None,
            "test_macro_f1": test["macro_f1"],
            "test_micro_f1": test["micro_f1"],
            "epoch": best["epoch"] if best else self.config.train.epochs,
            "seconds": round(self.seconds(), 2),
            "milliseconds_per_step": self.clock.medians(),
            "peak_memory_bytes": metrics.peak_memory(),
            "compiled_programs": self.programs.count,
            "weights": parameters(state.params),
            "learnable_features": sum(table.rows.size for table in state.tables.values()),
            "nodes": sum(self.graph.schema.nodes.values()),
            "edges": self.graph.edges,
            "seed": self.config.train.seed,
            "mesh": asdict(self.config.mesh),
            "sent_per_step": sent(self.engine),
            "device": jax.devices()[0].device_kind,
            "versions": metrics.versions(),
        }
        data = self.config.data
        name = f"a synthetic {data.schema}, scale {data.scale}" if data.format == "synthetic" else data.path
        draw_curves(self.records.all(), self.workdir.file("curves.png"), f"{self.config.model.name} on {name}")
        self.workdir.write("summary.json", json.dumps(summary, indent=1) + "\n")
        return summary


def sent(engine: OneDevice | Raf | Vanilla) -> list[dict]:
    """Bytes that all devices together send in a step, by kind, collective and mesh axis."""
    return [] if isinstance(engine, OneDevice) else [one._asdict() for one in engine.traffic()]


def keep_plan(plan: Plan | EdgeCut, workdir: Workdir, graph: HetGraph) -> None:
    """Write a plan beside the run, with its report and picture; a run that moves to another mesh keeps both."""
    cut = isinstance(plan, EdgeCut)
    name = f"cut_{plan.method}_{plan.parts}" if cut else "plan_{relation}x{data}".format(**plan.mesh)
    folder = workdir.file(name)
    if not folder.exists():
        save(plan, folder, graph)


def digest(graph: HetGraph) -> str:
    """Of a graph's schema, numbers of edges, feature widths, labels and splits."""
    shape = [dict(graph.schema.nodes), graph.schema.relations, graph.schema.target, graph.schema.classes]
    shape += [
        [csc.edges for csc in graph.relations.values()],
        {name: matrix.shape for name, matrix in graph.features.items()},
    ]
    made = hashlib.blake2b(repr(shape).encode(), digest_size=16)
    for array in (graph.labels, *graph.splits.values()):
        made.update(np.ascontiguousarray(array))
    return made.hexdigest()


def on_device(abstract: TrainState) -> TrainState:
    """Abstract arrays that say where they are to live: on the first device."""
    place = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=place), abstract)


def report(summary: dict, workdir: Workdir) -> None:
    """Print the results, and where to look next."""
    validation = summary["validation_accuracy"]
    chosen = "the last" if validation is None else f"chosen by its validation accuracy, {_percent(validation)}"
    laps = {name: value for name, value in summary["milliseconds_per_step"].items() if value >= 0.05}
    parts = ", ".join(f"{name} {value:.1f}" for name, value in laps.items()) or "none was trained by this process"
    peak = summary["peak_memory_bytes"] / 2**20
    print(
        f"took {summary['seconds']:.1f} s, peak memory {peak:.0f} MiB, {summary['compiled_programs']} compiled programs"
    )
    print(f"median milliseconds of a step: {parts}")
    if summary.get("sent_per_step"):
        kinds = Counter()
        for one in summary["sent_per_step"]:
            kinds[one["kind"].replace("_", " ")] += one["bytes"]
        words = ", ".join(f"{kind} {readable(count)}" for kind, count in kinds.items())
        print(f"sent in a step, by all devices together: {readable(kinds.total())} ({words})")
    several = summary["test_micro_f1"] != summary["test_accuracy"]  # as they are where nodes have several labels
    micro = f"micro-F1 {_percent(summary['test_micro_f1'])}, " if several else ""
    scores = f"test accuracy {_percent(summary['test_accuracy'])}, {micro}macro-F1 {_percent(summary['test_macro_f1'])}"
    print(f"{scores} (epoch {summary['epoch']}, {chosen})")
    print(f"written to {workdir.path}: summary.json, metrics.jsonl, curves.png, config.yaml, checkpoints/")
    if workdir.config["data"]["format"] == "synthetic":
        print(
            "try next, each with a --workdir of its own: the whole graph at every step (--sampling.mode full --train.epochs 50),"
        )
        print("  a real graph (examples/aifb.yaml), your own (--data.format), or any other choice (--help lists them)")


def _line(record: dict) -> str:
    found = record["validation_accuracy"]
    return f"epoch {record['epoch']}: train loss {record['train_loss']:.4f}" + (
        f", validation accuracy {found:.4f}" if found is not None else ""
    )


def _percent(share: float | None) -> str:
    return "none" if share is None else f"{100 * share:.2f} %"


if __name__ == "__main__":
    run_command(main)
