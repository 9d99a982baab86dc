"""Train a model: `python -m hetjax.train --config FILE.yaml --workdir DIR [--section.key value ...]`.

Where several processes train together each runs all of this; process 0 alone prints and writes results. Read from top to bottom: what a run is made of, where it resumes, its epochs, its end.
"""

import itertools
import json
import math
import os
import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from hetjax import runtime

if __name__ == "__main__":
    runtime.prepare()

import jax
import numpy as np
from tqdm import tqdm

from hetjax import alike, metrics, models
from hetjax.assembly import (
    fill_cache,
    make_batches,
    make_engine,
    make_evaluator,
    make_features,
    make_plan,
    make_site,
    make_trainer,
    relations_of,
)
from hetjax.checkpoint import Checkpoint, Checkpoints, parameters
from hetjax.command_line import parse, run_command
from hetjax.config import SECTIONS, Config, Processes, as_dict, data_path, flat
from hetjax.errors import InputError
from hetjax.graph.hetgraph import HetGraph
from hetjax.graph.sizes import hollow, sizes
from hetjax.load import load, outline
from hetjax.partition import EdgeCut, Plan, read, save
from hetjax.pictures import draw_run
from hetjax.processes.launch import joined
from hetjax.processes.peers import Alone
from hetjax.progress import check_progress, check_step
from hetjax.records import Records, check_records
from hetjax.sampling.loader import Drawn
from hetjax.sharding import mesh as meshes
from hetjax.sharding.single import TrainState
from hetjax.sharding.traffic import Sent
from hetjax.workdir import Workdir

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
      graph: digest of the graph; a run does not continue on another graph.
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
    sections = SECTIONS | {"": Processes}
    paths = {"workdir": "the folder that the run is written to; a run that was killed continues there"}
    made, paths = parse(sections, arguments, "python -m hetjax.train", "Train a model on a heterogeneous graph.", paths)
    processes = made.pop("")
    config = Config(**made)
    about = flat(as_dict(config)) | {"workdir": paths["workdir"], "hetjax": version("hetjax"), "jax": jax.__version__}
    about["code"] = alike.of_code(config.model.name)
    with joined(processes, about) as peers:
        train(config, Path(paths["workdir"]), peers)


def train(config: Config, path: Path, peers: Alone) -> None:
    """Train, or see that it is done, and print the results."""
    provided = meshes.share_of(config.mesh.relation, config.mesh.data, peers.count)
    if config.mesh.devices > 1:
        meshes.provide(provided)
    workdir = Workdir(path, as_dict(config), peers.first)
    summary = peers.first_says("summary", workdir.summary())
    if summary is None:
        summary = Run(config, workdir, peers).run()
    elif peers.first:
        print(
            f"{workdir.path}: this run is done (a larger --train.epochs goes on, another --workdir starts another); its results:"
        )
    if peers.first:
        workdir.report(summary)


class Run:
    """One run, from the graph to the summary."""

    def __init__(self, config: Config, workdir: Workdir, peers: Alone):
        self.config, self.workdir, self.peers = config, workdir, peers
        self.programs = metrics.ProgramCounter()
        self.started = time.perf_counter()
        on_mesh = config.mesh.devices > 1
        divided = on_mesh and config.mesh.strategy == "raf"  # then a process opens no more than its own partitions
        self.graph = relations_of(models.find(config.model.name), (outline if divided else load)(config.data))
        if not len(self.graph.splits["train"]):
            raise InputError(
                f"no training nodes among the {len(self.graph.labels)} of type {self.graph.schema.target!r}"
            )
        if config.train.patience and not len(self.graph.splits["validation"]):
            raise InputError(f"train.patience is {config.train.patience}, and there are no validation nodes")
        digest = alike.of_graph(config.data, self.graph)
        alike.require("graph", digest, peers)
        self.trainer, self.seed = make_trainer(self.graph, config), np.int32(config.train.seed)
        kept = workdir.file(plan_name(config))
        self.site = None
        if on_mesh:
            plan = make_plan(self.graph, config, peers, kept)
            alike.require("plan", alike.of_plan(plan), peers)
            self.site = make_site(self.graph, config, plan, peers)
        folder = workdir.file(f"tables_{peers.number}" if peers.number else "tables")
        self.features = make_features(self.graph, config, self.trainer, folder, self.site)
        self.engine = make_engine(self.trainer, self.graph, config, self.site, self.features)
        self.checkpoints = Checkpoints(workdir.file("checkpoints"))
        checkpoint, said = self.newest()
        self.progress = Progress(**said) if checkpoint else Progress(graph=digest)
        if self.progress.graph != digest:
            raise InputError(f"{workdir.path}: the graph of this run was another; give another --workdir")
        about = self.graph, config, self.trainer, self.progress.capacities
        self.batches = make_batches(*about, self.site, self.features)
        if checkpoint:
            check_step(said, checkpoint, self.batches.steps())
        self.evaluator = make_evaluator(self.engine, self.graph, config, self.site)
        jax.eval_shape(self.trainer.weights, self.seed)  # what does not fit is said before anything is written
        if self.site:
            self.graph = hollow(sizes(self.graph), self.graph.labels, self.graph.splits)  # the site has what it needs
        if peers.first:
            self.begin()
        self.state = self.initial_state(checkpoint)
        if self.features:
            fill_cache(self.features, self.batches, config, self.penalties(), not peers.first)
        self.resumed_seconds, self.reported, self.compiling = self.progress.seconds, self.progress.epoch, 0
        self.clock, self.rises = metrics.Clock(), metrics.Rises()

    def newest(self) -> tuple[Checkpoint | None, dict]:
        """The checkpoint to continue from, and its progress: process 0 decides, as it alone may delete what is damaged."""
        found = None
        if self.peers.first:
            found = self.checkpoints.newest_whole(tell, check_progress)
            found = found and [found[0].step, found[1]]
        step, said = self.peers.first_says("resume", found) or (None, {})
        return None if step is None else self.checkpoints.at(step), said

    def begin(self) -> None:
        """Write and print what process 0 does at the start; nothing was written before."""
        check_records(self.workdir.file("metrics.jsonl"), self.progress.metrics_bytes)
        self.workdir.claim()
        self.workdir.clear_tables(self.peers.count)
        self.checkpoints.settle()
        counts = f"{sum(self.graph.schema.nodes.values()):,} nodes of {len(self.graph.schema.nodes)} types"
        print(f"graph: {counts}, {self.graph.edges:,} edges of {len(self.graph.schema.relations)} relations; compiling")
        devices, cores = len(jax.local_devices()), runtime.cores()
        if self.site and jax.default_backend() == "cpu" and devices > cores:
            print(f"{devices} devices share {cores} core{'s' * (cores > 1)}: right for trying a mesh, not for speed")
        self.records = Records(self.workdir.file("metrics.jsonl"), self.progress.metrics_bytes)
        if self.site:
            keep_plan(self.site.plan, self.workdir.file(plan_name(self.config)), self.site.graphs.get(0))

    def initial_state(self, checkpoint: Checkpoint | None) -> Any:
        """The run's own newest checkpoint that is whole, or else a state from scratch; as the engine has it."""
        if not checkpoint:
            return self.engine.new(self.config.train.seed)
        if self.peers.first:
            print(f"continuing from {checkpoint.folder}", file=sys.stderr)
        elif not checkpoint.folder.exists():
            raise InputError(f"{checkpoint.folder}: not there; all processes must see the same --workdir")
        return self.engine.place(checkpoint.state(self.abstract()))

    def abstract(self) -> TrainState:
        """The shapes of a state."""
        return jax.eval_shape(self.trainer.init, self.seed)

    def penalties(self) -> Path:
        """Where the measured costs of missed rows are kept: beside the store, if the graph is of one that can be written."""
        data = self.config.data
        stored = data.format == "store" and os.access(data_path(data.path), os.W_OK)
        folder = data_path(data.path) if stored else self.workdir.path
        return folder / (f"penalties_{self.peers.number}.json" if self.peers.number else "penalties.json")

    def say(self, words: str, bar: tqdm) -> None:
        if self.peers.first and words:
            bar.write(words)

    def run(self) -> dict:
        """Train all epochs that are left, test once, and write the summary."""
        epochs, steps = self.config.train.epochs, self.batches.steps()
        done = self.progress.epoch * steps + self.progress.step
        hidden = None if self.peers.first else True
        with tqdm(total=epochs * steps, initial=done, unit="step", disable=hidden, desc="training") as bar:
            for epoch in range(self.progress.epoch, epochs):
                if self.out_of_patience():
                    self.say(
                        f"stopped after epoch {epoch}: none was better than epoch {self.progress.best['epoch']}", bar
                    )
                    break
                programs = self.programs.count
                self.train_epoch(epoch, bar)
                self.note_compiling(self.programs.count - programs, bar)
                self.end_epoch(epoch, bar)
        return self.finish()

    def train_epoch(self, epoch: int, bar: tqdm) -> None:
        progress, every = self.progress, self.config.train.checkpoint_steps
        self.clock.start()
        for drawn, following in ahead(self.batches.epoch(epoch, progress.step)):
            self.clock.lap("waiting for a batch")
            self.state, loss = self.engine.step(self.state, drawn.batch, following and following.batch)
            loss = float(loss)
            self.clock.lap("step")
            self.clock.note("sampling, in a thread ahead", drawn.seconds)
            if not math.isfinite(loss):
                raise FloatingPointError(
                    f"the loss is {loss} at step {progress.step} of epoch {epoch + 1}; a lower train.learning_rate may help"
                )
            self.say(self.rises.note(loss), bar)
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
            found = self.evaluate(self.state, "validation")
            record |= {f"validation_{name}": value for name, value in found.items()}
            best = progress.best
            if found["micro_f1"] is not None and (
                best is None or (found["micro_f1"], -found["loss"]) > (best["micro_f1"], -best["loss"])
            ):
                progress.best = {"step": record["step"], "epoch": epoch + 1} | found
        if self.peers.first:
            self.records.write(record | {"seconds": round(self.seconds(), 3)})
            progress.metrics_bytes = self.records.size
        if due:
            self.save(self.engine.whole(self.state))
            if epoch + 1 - self.reported >= options.epochs / 10 or epoch + 1 == options.epochs:
                self.say(_line(record), bar)
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
            self.say(
                f"{COMPILING} epochs needed new programs, because batches kept growing; for a small graph try --sampling.mode full",
                bar,
            )

    def evaluate(self, state: Any, split: str) -> dict[str, float]:
        """Quality on the nodes of a split, from full neighbourhoods; process 0 measures it, and tells the others.

        Args:
          state: as the engine has it.
        """
        ids = self.graph.splits[split]
        logits = self.evaluator(state, ids)
        found = None if logits is None else metrics.quality(logits, self.graph.labels[ids])
        found = self.peers.first_says("quality", found)
        if found["loss"] is not None and not math.isfinite(found["loss"]):
            raise FloatingPointError(f"the {split} loss is {found['loss']}; a lower train.learning_rate may help")
        return found

    def save(self, state: TrainState | None) -> None:
        self.progress.seconds = self.seconds()
        if self.peers.first:
            self.checkpoints.save(int(state.step), state, asdict(self.progress))
        else:
            self.checkpoints.attend(self.progress.epoch * self.batches.steps() + self.progress.step)
        self.peers.meet("saved")

    def seconds(self) -> float:
        """Time of this run, over all of its processes."""
        return self.resumed_seconds + time.perf_counter() - self.started

    def finish(self) -> dict:
        """Read the test nodes, once, with the checkpoint that validation chose."""
        best, cache = self.progress.best, self.cached()
        if best:
            chosen = self.checkpoints.at(best["step"])
            if self.peers.first:
                chosen.verify()
            self.state = None  # its tables make room for those of the checkpoint
            self.state = self.engine.place(chosen.state(self.abstract()))
        test = self.evaluate(self.state, "test")
        sent = together(self.peers.share("sent", [list(one) for one in self.traffic()]))
        if self.features:
            self.features.close()
        return self.summarise(test, sent, cache) if self.peers.first else {}

    def cached(self) -> list[dict]:
        """What the caches of all processes did."""
        shares = self.peers.share("cache", self.features.report() if self.features else [])
        several = self.peers.count > 1
        return [one | ({"process": n} if several else {}) for n, share in enumerate(shares) for one in share]

    def traffic(self) -> list[Sent]:
        """What this process sent in a step; nothing, and a word, if that cannot be read."""
        try:
            return self.engine.traffic()
        except ValueError as error:
            print(f"hetjax: the bytes sent in a step are not known: {error}", file=sys.stderr)
            return []

    def summarise(self, test: dict[str, float], sent: list[dict], cache: list[dict]) -> dict:
        """Write the summary and the curves."""
        best, state = self.progress.best, self.abstract()
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
            "compiled_programs": self.programs.count - self.programs.kept,
            "kept_programs": self.programs.kept,
            "weights": parameters(state.params),
            "learnable_features": sum(table.rows.size for table in state.tables.values()),
            "nodes": sum(self.graph.schema.nodes.values()),
            "edges": self.graph.edges,
            "seed": self.config.train.seed,
            "mesh": {key: value for key, value in asdict(self.config.mesh).items() if key != "plan"},
            "processes": self.peers.count,
            "sent_per_step": sent,
            "cache": cache,
            "device": jax.devices()[0].device_kind,
            "versions": metrics.versions(),
        }
        data = self.config.data
        name = f"a synthetic {data.schema}, scale {data.scale}" if data.format == "synthetic" else Path(data.path).name
        draw_run(self.records.all(tell), cache, self.workdir.path, f"{self.config.model.name} on {name}", tell)
        self.workdir.write("summary.json", json.dumps(summary, indent=1) + "\n")
        return summary


def tell(words: str) -> None:
    print(f"hetjax: {words}", file=sys.stderr)


def ahead(drawn: Iterable[Drawn]) -> Iterator[tuple[Drawn, Drawn | None]]:
    """Each with the one that follows it."""
    return itertools.pairwise(itertools.chain(drawn, [None]))


def together(shares: Sequence[Sequence]) -> list[dict]:
    """Bytes that all devices of all processes send in a step, by kind, collective and mesh axis."""
    total: Counter = Counter()
    for *about, count in itertools.chain.from_iterable(shares):
        total[tuple(about)] += count
    return [Sent(*about, count)._asdict() for about, count in sorted(total.items())]


def plan_name(config: Config) -> str:
    """Where a plan lies in the run's folder; a run that moves to another mesh keeps both."""
    mesh = config.mesh
    return f"cut_{mesh.partitioning}_{mesh.data}" if mesh.strategy == "vanilla" else f"plan_{mesh.relation}x{mesh.data}"


def keep_plan(plan: Plan | EdgeCut, folder: Path, graph: HetGraph) -> None:
    """Write a plan beside the run, with its report and picture, unless it is there; one of before gives way."""
    if folder.exists():
        if alike.of_plan(read(folder)) == alike.of_plan(plan):
            return
        shutil.rmtree(folder)
    save(plan, folder, graph)


def _line(record: dict) -> str:
    found = record["validation_accuracy"]
    return f"epoch {record['epoch']}: train loss {record['train_loss']:.4f}" + (
        f", validation accuracy {found:.4f}" if found is not None else ""
    )


if __name__ == "__main__":
    run_command(main)
