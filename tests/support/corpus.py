"""What once crashed, hung, did damage or was taken without a word: a case each, which the fuzzer meets before all mutants."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tests.support.mutants import BOMB, Command, refit, train_on
from tests.support.reader_files import FILES, INFO, TRAINING, TRIPLES


class Case(NamedTuple):
    """What is run.

    Attributes:
      make: of the seeds and a folder of its own, the arguments.
      module: whose command.
      refused: whether it must end with exit 2; if not, exit 0 is as well.
      whole: whether it is run to its end, with what is trained.
    """

    make: Callable[[Path, Path], list[str]]
    module: str
    refused: bool = True
    whole: bool = False

    def command(self, seeds: Path, folder: Path) -> Command:
        return self.module, self.make(seeds, folder)


def _options(module: str, *given: str, refused: bool = True, whole: bool = False) -> Case:
    about = {
        "train": lambda seeds: [*train_on(seeds), "--workdir=out", "--start_seconds=1"],
        "convert": lambda seeds: ["--synthetic.scale=0.0001", "--out=out"],
        "partition": lambda seeds: [f"--graph={seeds / 'store'}", "--out=out"],
        "predict": lambda seeds: [f"--workdir={seeds / 'run'}", "--out=out.npy"],
    }
    return Case(lambda seeds, folder: [*about[module](seeds), *given], f"hetjax.{module}", refused, whole)


def _yaml(text: str) -> Case:
    def make(seeds: Path, folder: Path) -> list[str]:
        (folder / "c.yaml").write_text(text)
        return [f"--config={folder / 'c.yaml'}", "--workdir=out", *train_on(seeds)]

    return Case(make, "hetjax.train")


def _files(kind: str, *given: str, **texts: str) -> Case:
    """A graph in text, with some files replaced; `__` in a name stands for a dot."""

    def make(seeds: Path, folder: Path) -> list[str]:
        shutil.copytree(seeds / kind, folder / "in")
        for name, text in texts.items():
            (folder / "in" / name.replace("__", ".")).write_text(text, newline="")
        return [f"--data.format={kind}", f"--data.path={folder / 'in'}", "--out=out", *given]

    return Case(make, "hetjax.convert")


def _changed(
    kind: str, change: Callable[[Path], None], arguments: Callable, module: str, refused=True, whole=False
) -> Case:
    """A folder of a kind, changed by a function."""

    def make(seeds: Path, folder: Path) -> list[str]:
        shutil.copytree(seeds / kind, folder / "in")
        change(folder / "in")
        return arguments(seeds, folder / "in")

    return Case(make, module, refused, whole)


def _store(change: Callable[[Path], None], refused: bool = True) -> Case:
    about = ["--data.format=store", "--out=out"]
    return _changed("store", change, lambda seeds, path: [*about, f"--data.path={path}"], "hetjax.convert", refused)


def _named(name: str, refused: bool = False) -> Case:
    """A node type of another name, divided, with its picture."""

    def arguments(seeds: Path, path: Path) -> list[str]:
        return [f"--graph={path}", "--out=out", "--parts=2"]

    return _changed("store", lambda path: _rename(path, name), arguments, "hetjax.partition", refused)


def _rename(folder: Path, name: str) -> None:
    file = folder / "schema.json"
    file.write_text(file.read_text().replace('"author"', json.dumps(name)))


def _cached(name: str) -> Case:
    """A type's features off the device, which are drawn at the end of a training."""

    def arguments(seeds: Path, path: Path) -> list[str]:
        return [*train_on(seeds), "--workdir=out", f"--data.path={path}", "--cache.bytes_per_device=0"]

    return _changed("store", lambda path: _rename(path, name), arguments, "hetjax.train", False, True)


def _run(change: Callable[[Path], None], *more: str, refused: bool = False, whole: bool = False) -> Case:
    """A run that goes on."""

    def arguments(seeds: Path, path: Path) -> list[str]:
        return [*train_on(seeds, "--sampling.mode=full", "--train.epochs=3", *more), f"--workdir={path}"]

    return _changed("run", change, arguments, "hetjax.train", refused, whole)


def _predicted(change: Callable[[Path], None], refused: bool = True) -> Case:
    return _changed(
        "run", change, lambda seeds, path: [f"--workdir={path}", "--out=out.npy"], "hetjax.predict", refused
    )


def _plan(change: Callable[[dict], None]) -> Case:
    def edit(folder: Path) -> None:
        about = json.loads((folder / "manifest.json").read_text())
        change(about)
        (folder / "manifest.json").write_text(json.dumps(about))

    return _changed("plan", edit, lambda seeds, path: [str(path)], "read")


def _write(name: str, text: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        for file in folder.glob(name):
            file.unlink()
            file.write_text(text)
        if "*" not in name:
            (folder / name).write_text(text)

    return change


def _folder(name: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        (folder / name).unlink(missing_ok=True)
        (folder / name).mkdir()

    return change


def _again(name: str, text: str) -> Callable[[Path], None]:
    """A file of a checkpoint changed together with its digest."""

    def change(folder: Path) -> None:
        _write(f"checkpoints/*/{name}", text)(folder)
        refit(folder)

    return change


def _permuted(folder: Path) -> None:
    file = folder / "relation_0.indices.npy"
    np.save(file, np.load(file)[::-1])


def _file_count(folder: Path) -> None:
    file = folder / "schema.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"files": 5}))


def _header(folder: Path) -> None:
    (folder / "labels.npy").write_bytes(b"\x93NUMPY\x01\x00\x04\x00((((")


def _done(text: str) -> Case:
    """A run that is done, with another summary."""

    def arguments(seeds: Path, path: Path) -> list[str]:
        return [*train_on(seeds, "--sampling.mode=full"), f"--workdir={path}"]

    return _changed("run", _write("summary.json", text), arguments, "hetjax.train", False, True)


def _pipe(seeds: Path, folder: Path) -> list[str]:
    os.mkfifo(folder / "pipe.npy")
    return [f"--workdir={seeds / 'run'}", "--out=pipe.npy"]


def _there(seeds: Path, folder: Path) -> list[str]:
    (folder / "there.npy").write_text("mine")
    return [f"--workdir={seeds / 'run'}", "--out=there.npy"]


NINES, LONG = 400 * "9", 300 * "x"
EXCLUDED = "--rdf.exclude=[knows,name,type]"
START = json.dumps(INFO).replace('"start": "0"', '"start": 1e400', 1)
LARGE = f'<http://x/a> <http://p#name> "{"y" * (17 * 2**20)}" .\n'
PROGRESS = {"epoch": "x", "step": 10**30, "best": 7, "metrics_bytes": -1, "graph": [], "capacities": 3}

CASES = {
    "yaml bomb": _yaml(BOMB),
    "yaml nested": _yaml(1000 * "["),
    "yaml digits": _yaml("train: {epochs: " + 5000 * "9" + "}"),
    "yaml key twice": _yaml("train: {epochs: 1, epochs: 2}"),
    "yaml section twice": _yaml("train: {epochs: 1}\ntrain: {seed: 1}"),
    "bytes of 400 digits": _options("train", f"--cache.bytes_per_device={NINES}"),
    "model that is none": _options("train", "--model.name=os:path"),
    "model relative": _options("train", "--model.name=..a:b"),
    "processes 1e30": _options("train", f"--num_processes={10**30}", "--process_id=0", "--coordinator=localhost:1"),
    "fanout 1e30": _options("train", f"--sampling.fanout=[{10**30},2]"),
    "partition batch 1e400": _options("partition", f"--batch_size={10**400}"),
    "scale 1e308": _options("convert", "--synthetic.scale=1e308"),
    "start seconds": _options(
        "train", "--coordinator=localhost:1", "--num_processes=2", "--process_id=0", "--start_seconds=10000000000"
    ),
    "port superscript": _options("train", "--coordinator=localhost:²", "--num_processes=2", "--process_id=0"),
    "host no name": _options("train", f"--coordinator={LONG}.y:70", "--num_processes=2", "--process_id=1"),
    "workdir long": _options("train", f"--workdir={LONG}"),
    "predict out long": _options("predict", f"--out={LONG}.npy", whole=True),
    "convert out long": _options("convert", f"--out={LONG}"),
    "partition out long": _options("partition", f"--out={LONG}"),
    "mesh of 17": _options("train", "--mesh.strategy=vanilla", "--mesh.data=17", refused=False),
    "predict to a pipe": Case(_pipe, "hetjax.predict"),
    "predict over a file": Case(_there, "hetjax.predict"),
    "predict to txt": _options("predict", "--out=pred.txt"),
    "rdf literal of 17 MiB": _files("rdf", g__nt=TRIPLES + LARGE),
    "rdf all excluded": _files("rdf", EXCLUDED),
    "rdf no training rows": _files("rdf", trainingSet__tsv=TRAINING.splitlines()[0] + "\r\n"),
    "hgb start 1e400": _files("hgb", info__dat=START),
    "hgb id underscore": _files("hgb", link__dat=FILES["link.dat"].replace("0\t2", "0_0\t2", 1)),
    "hgb id arabic": _files("hgb", link__dat=FILES["link.dat"].replace("0\t2", "٠\t2", 1)),
    "store permuted": _store(_permuted),
    "store files 5": _store(_file_count),
    "npy header": _store(_header),
    "name surrogate": _named("\ud800", refused=True),
    "name formula": _named("$\\frac$"),
    "name of 10000": _named(10_000 * "n"),
    "formula in the cache": _cached("$\\frac$"),
    "plan workload": _plan(lambda about: about["workload"].update(batch_size=10**400)),
    "plan network": _plan(lambda about: about["workload"].update(network=10**400)),
    "plan edges": _plan(lambda about: about["graph"]["relations"][0].update(edges=10**400)),
    "plan width": _plan(lambda about: about["graph"]["nodes"][0]["features"].update(width=10**400)),
    "metrics junk": _run(_write("metrics.jsonl", "junk\n{" * 200), whole=True),
    "metrics a folder": _run(_folder("metrics.jsonl"), whole=True, refused=True),
    "curves a folder": _run(_folder("curves.png"), whole=True),
    "summary of another shape": _done('{"test_accuracy": [1], "seconds": {}}'),
    "summary short": _done('{"test_accuracy": 1}'),
    "digests a list": _run(_write("checkpoints/*/digests.json", "[1, 2]")),
    "digests numbers": _run(_write("checkpoints/*/digests.json", '{"progress.json": 5}')),
    "progress of another shape": _run(_again("progress.json", json.dumps(PROGRESS))),
    "progress empty": _run(_again("progress.json", "{}")),
    "predict by another progress": _predicted(_again("progress.json", json.dumps(PROGRESS))),
    "predict by digests": _predicted(_write("checkpoints/*/digests.json", "[1, 2]")),
    "tables a file": _run(
        _write("tables", "x"), "--sampling.mode=minibatch", "--cache.bytes_per_device=0", "--cache.host_bytes=0"
    ),
    "tables 9x": _run(_write("tables_9x", "x")),
    "checkpoint a file": _run(_write("checkpoints/999999999999", "x")),
    "predict by a file": _predicted(_write("checkpoints/999999999999", "x"), refused=False),
    "config a bomb": _predicted(_write("config.yaml", BOMB)),
}
