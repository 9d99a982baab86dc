"""`python -m hetjax.train` and `python -m hetjax.convert` as a person runs them."""

import dataclasses
import gc
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import fields
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

import jax
import numpy as np
import pytest
import yaml

from examples import loop
from hetjax.graph import store
from hetjax.graph.columns import UNLABELLED
from hetjax.graph.csc import edges_of
from hetjax.graph.hetgraph import build
from hetjax.inference import predicting, restored
from hetjax.options import reference
from hetjax.options.command_line import parse, run_command
from hetjax.options.config import SECTIONS, Bytes, Cache, Config, Processes, Train, as_dict
from hetjax.sharding import registry
from hetjax.system import runtime
from hetjax.system.errors import InputError
from hetjax.tasks import metrics
from hetjax.training.workdir import Workdir
from tests.support.commands import ROOT, SMALL, call, here, rdf_data, refused, source, train, train_anew
from tests.support.graphs import random_graph, smaller_graph
from tests.support.reader_files import FILES, TRAINING, TRIPLES


@pytest.fixture(scope="module")
def graph_store(tmp_path_factory):
    path = tmp_path_factory.mktemp("stores") / "graph"
    store.save(smaller_graph(), path)
    return path


def on(path, *more):
    return ["--data.format", "store", "--data.path", path, *SMALL, *more]


def test_a_second_start_compiles_nothing(graph_store, tmp_path, monkeypatch):
    """Programs are kept in the user's folder; a test that is run with programs kept elsewhere takes that away."""
    for name in list(os.environ):
        if name.startswith(("JAX_COMPILATION_CACHE", "JAX_PERSISTENT_CACHE")):
            monkeypatch.delenv(name)
    quick = {"XDG_CACHE_HOME": str(tmp_path), "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
    found = []
    for number in range(2):
        done = train_anew(tmp_path / f"run_{number}", *on(graph_store), "--train.order_costs", "usual", **quick)
        assert done.returncode == 0, done.stderr
        found.append(json.loads((tmp_path / f"run_{number}" / "summary.json").read_text()))
    first, second = found
    assert first["compiled_programs"] > 0 and second["compiled_programs"] == 0
    assert second["kept_programs"] == first["compiled_programs"] + first["kept_programs"]
    kept = [path.name for path in (tmp_path / "hetjax" / "compiled").iterdir()]
    # jax, told a limit, notes beside each program when it was used, and looks at all of them to write one
    assert kept and all(name.endswith("-cache") for name in kept)


def test_of_kept_programs_those_used_least_lately_are_deleted(tmp_path):
    (tmp_path / "folder-cache").mkdir()
    (tmp_path / "notes").write_bytes(bytes(100))
    for number, (size, read, written) in enumerate([(40, 100, 900), (40, 700, 100), (40, 200, 100), (40, 50, 50)]):
        (tmp_path / f"{number}-cache").write_bytes(bytes(size))
        os.utime(tmp_path / f"{number}-cache", (read, written))

    def left(most):
        runtime.keep_used(str(tmp_path), most)
        return sorted(path.name.partition("-")[0] for path in tmp_path.iterdir() if path.name[0].isdigit())

    assert left(160) == ["0", "1", "2", "3"]
    assert left(159) == ["0", "1", "2"]
    assert left(80) == ["0", "1"]
    assert left(0) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder-cache", "notes"]
    runtime.keep_used(str(tmp_path / "missing"), 0)


@pytest.mark.parametrize(
    ("given", "kept", "left_to_jax"),
    [
        ({}, 2**31, None),
        ({"JAX_COMPILATION_CACHE_MAX_SIZE": "1000"}, 1000, None),
        ({"JAX_COMPILATION_CACHE_MAX_SIZE": " 1_000"}, 1000, None),
        ({"JAX_COMPILATION_CACHE_MAX_SIZE": "-1"}, None, None),
        ({"JAX_COMPILATION_CACHE_MAX_SIZE": "0"}, 0, None),
        ({"JAX_COMPILATION_CACHE_DIR": "/theirs"}, None, None),
        ({"JAX_COMPILATION_CACHE_DIR": "/theirs", "JAX_COMPILATION_CACHE_MAX_SIZE": "1000"}, None, "1000"),
    ],
)
def test_programs_are_deleted_in_no_folder_of_the_users_own(given, kept, left_to_jax, tmp_path, monkeypatch):
    own, asked = str(tmp_path / "hetjax" / "compiled"), []
    plain = {name: value for name, value in os.environ.items() if "COMPILATION_CACHE" not in name}
    monkeypatch.setattr(os, "environ", plain | given | {"XDG_CACHE_HOME": str(tmp_path), "GLIBC_TUNABLES": ""})
    monkeypatch.setattr(runtime, "keep_used", lambda *about: asked.append(about))
    runtime.prepare()
    assert asked == ([] if kept is None else [(own, kept)])
    assert os.environ.get("JAX_ENABLE_COMPILATION_CACHE") == ("false" if kept == 0 else None)
    assert os.environ["JAX_COMPILATION_CACHE_DIR"] == given.get("JAX_COMPILATION_CACHE_DIR", own)
    assert os.environ.get("JAX_COMPILATION_CACHE_MAX_SIZE") == left_to_jax


def test_a_limit_of_kept_programs_that_is_no_number_ends_in_one_line(monkeypatch, capsys):
    monkeypatch.setattr(os, "environ", {"XDG_CACHE_HOME": "/caches", "JAX_COMPILATION_CACHE_MAX_SIZE": "2GB"})
    with pytest.raises(SystemExit) as ended:
        runtime.prepare()
    assert ended.value.code == 2
    words = "hetjax: error: JAX_COMPILATION_CACHE_MAX_SIZE is '2GB', and should be a number of bytes\n"
    assert capsys.readouterr().err == words


def test_a_process_is_started_anew_to_keep_its_buffers_unless_told_otherwise(monkeypatch):
    started = []
    monkeypatch.setattr(os, "execv", lambda *about: started.append(about))
    monkeypatch.setattr(runtime.platform, "libc_ver", lambda: ("glibc", "2.36"))
    monkeypatch.setattr(sys, "orig_argv", ["python", "-m", "hetjax.train", "--workdir", "run"])
    monkeypatch.setenv("GLIBC_TUNABLES", "")
    runtime.prepare()
    assert not started
    monkeypatch.delenv("GLIBC_TUNABLES")
    runtime.prepare()
    assert started == [(sys.executable, [sys.executable, "-m", "hetjax.train", "--workdir", "run"])]
    assert os.environ["GLIBC_TUNABLES"] == runtime.MALLOC
    monkeypatch.undo()


@pytest.mark.parametrize(("given", "expected"), [({}, "4"), ({"OPENBLAS_THREAD_TIMEOUT": "20"}, "20")])
def test_threads_of_openblas_sleep_while_they_wait_unless_told_otherwise(given, expected, monkeypatch):
    plain = {name: value for name, value in os.environ.items() if name != runtime.AWAKE} | {"GLIBC_TUNABLES": ""}
    monkeypatch.setattr(os, "environ", plain | given)
    runtime.prepare()
    assert os.environ[runtime.AWAKE] == expected


@pytest.mark.parametrize(
    ("version", "given", "expected"),
    [("0.11.2", None, "2"), ("0.11.2", "1", "2"), ("0.11.2", "0", "0"), ("0.10.2", None, None), ("0.12.0", None, None)],
)
def test_the_jaxlib_that_warns_of_what_is_done_for_it_prints_errors_alone(version, given, expected, monkeypatch):
    plain = {name: value for name, value in os.environ.items() if name != runtime.LEVEL} | {"GLIBC_TUNABLES": ""}
    monkeypatch.setattr(os, "environ", plain | ({} if given is None else {runtime.LEVEL: given}))
    monkeypatch.setattr(runtime, "jaxlib_version", lambda: version)
    runtime.prepare()
    assert os.environ.get(runtime.LEVEL) == expected


LOOPS = "--xla_backend_extra_options=xla_cpu_disable_new_fusion_emitters"
PRODUCTS = "--xla_gpu_enable_triton_gemm=false"


@pytest.mark.parametrize(
    "given, on_cpus, on_gpus",
    [
        ("", LOOPS, f"{PRODUCTS} {LOOPS}"),
        (
            "--xla_gpu_enable_triton_gemm_int4=1",
            *(f"--xla_gpu_enable_triton_gemm_int4=1 {rest}" for rest in (LOOPS, f"{PRODUCTS} {LOOPS}")),
        ),
        ("--xla_gpu_enable_triton_gemm=true", *[f"--xla_gpu_enable_triton_gemm=true {LOOPS}"] * 2),
        ("--xla_backend_extra_options=", "--xla_backend_extra_options=", f"--xla_backend_extra_options= {PRODUCTS}"),
        ("flags.txt", "flags.txt", "flags.txt"),
    ],
)
def test_xla_is_told_how_to_write_loops_and_products_unless_it_is_told_already(
    monkeypatch, tmp_path, given, on_cpus, on_gpus
):
    for name in ("GLIBC_TUNABLES", "JAX_COMPILATION_CACHE_DIR"):  # which are set already
        monkeypatch.setenv(name, "")
    monkeypatch.setattr(runtime, "CUDA", ("no_such_plugin", "such_a_plugin"))
    monkeypatch.setattr(runtime, "jaxlib_version", lambda: "0.11.2")
    for found in (on_cpus, on_gpus):
        monkeypatch.setenv("XLA_FLAGS", given)
        runtime.prepare()
        assert os.environ["XLA_FLAGS"] == found
        (tmp_path / "such_a_plugin").mkdir(exist_ok=True)
        monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.parametrize(
    "platform, flags, jaxlib, told",
    [
        ("gpu", "", "0.11.2", True),
        ("gpu", LOOPS, "0.10.2", True),
        ("gpu", "--xla_gpu_enable_command_buffer=FUSION", "0.11.2", False),
        ("gpu", "flags.txt", "0.11.2", False),
        ("gpu", "", "0.12.0", False),
        ("cpu", "", "0.11.2", False),
    ],
)
def test_kernels_of_a_whole_graph_are_started_apart_on_a_gpu(monkeypatch, platform, flags, jaxlib, told):
    monkeypatch.setattr(runtime, "CUDA", ("no_such_plugin", "numpy"))
    monkeypatch.setenv("XLA_FLAGS", flags)
    options = runtime.whole_graph_options(platform, jaxlib)
    assert bool(options) == told
    if version("jaxlib").startswith(runtime.KNOWING):  # then XLA knows the option, whatever it compiles for
        assert jax.jit(lambda x: x + 1, compiler_options=options)(1) == 2
    monkeypatch.setattr(runtime, "CUDA", ("no_such_plugin",))
    assert not runtime.whole_graph_options(platform, jaxlib)


@pytest.mark.parametrize(
    "told, packages, found",
    [(None, (), True), (None, ("plugin",), False), ("cpu", ("plugin",), True), ("cuda,cpu", (), False)],
)
def test_what_jax_will_run_on_is_known_before_it_starts(monkeypatch, tmp_path, told, packages, found):
    monkeypatch.setattr(runtime, "ACCELERATORS", ("no_such_plugin", "plugin"))
    monkeypatch.syspath_prepend(tmp_path)
    for package in packages:
        (tmp_path / package).mkdir()
    if told is None:
        monkeypatch.delenv("JAX_PLATFORMS", raising=False)
    else:
        monkeypatch.setenv("JAX_PLATFORMS", told)
    assert runtime.on_cpus() == found


def test_garbage_is_looked_for_again_once_a_command_runs(monkeypatch):
    monkeypatch.setattr(runtime.signal, "signal", lambda *_: None)
    try:
        runtime.hush()
        assert not gc.isenabled()
        runtime.listen()
        assert gc.isenabled() and gc.get_freeze_count()
    finally:
        gc.enable()
        gc.unfreeze()


@pytest.mark.parametrize("mode", ["minibatch", "full"])
def test_a_run_writes_all_that_it_promises(graph_store, tmp_path, mode):
    """On a graph with an empty relation, a type that is only a source and one without nodes."""
    as_users = {"JAX_DISABLE_MOST_OPTIMIZATIONS": "0", "XLA_FLAGS": ""}
    done = train_anew(tmp_path / "run", *on(graph_store, "--sampling.mode", mode), **as_users)
    assert done.returncode == 0, done.stderr
    files = {file.name for file in (tmp_path / "run").iterdir()}
    assert files == {
        ".lock",
        "config.yaml",
        "metrics.jsonl",
        "summary.json",
        "curves.png",
        "report.html",
        "checkpoints",
    }
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    for name in ("test_accuracy", "validation_accuracy", "test_macro_f1", "test_micro_f1"):
        assert 0 <= summary[name] <= 1
    assert summary["seconds"] > 0 and summary["peak_memory_bytes"] > 0
    assert summary["compiled_programs"] + summary["kept_programs"] > 0
    assert summary["seed"] == 0 and {"jax", "python", "hetjax"} <= set(summary["versions"])
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [line.get("epoch") for line in lines] == [1, 2, 3, None]
    best = max(lines[:3], key=lambda line: (line["validation_accuracy"], -line["validation_loss"]))
    assert summary["validation_accuracy"] == best["validation_accuracy"] and summary["epoch"] == best["epoch"]
    assert lines[3]["test_accuracy"] == summary["test_accuracy"]
    config = yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())
    assert config["sampling"] == {
        "mode": mode,
        "fanout": [3, 2],
        "batch_size": 8,
        "threads": 0,
        "evaluation_edges": 500_000,
    }
    assert (tmp_path / "run" / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert (
        f"test accuracy {100 * summary['test_accuracy']:.2f} %" in done.stdout and str(tmp_path / "run") in done.stdout
    )

    again = train(tmp_path / "run", *on(graph_store, "--sampling.mode", mode))
    assert again.returncode == 0 and "this run is done" in again.stdout
    assert json.loads((tmp_path / "run" / "summary.json").read_text()) == summary


def hgb_data(folder: Path, **changes) -> Path:
    folder.mkdir()
    for name, text in (FILES | {name.replace("_", "."): text for name, text in changes.items()}).items():
        (folder / name).write_text(text)
    return folder


def broken_store(folder: Path, file: str, change) -> Path:
    """A store of the random graph with one array changed after it was built."""
    store.save(random_graph(), folder)
    array = np.load(folder / file)
    changed = change(array)
    np.save(folder / file, array if changed is None else changed)
    return folder


def put(place, value):
    def change(array):
        array[place] = value

    return change


BAD_DATA = {
    "missing": (lambda d: source("rdf", d / "none"), "none: no such file or folder\n"),
    "missing, relative": (lambda d: source("rdf", "none"), "data.path: none: no such file or folder; HETJAX_DATA"),
    "no path": (lambda d: ["--data.format", "hgb"], "data.path is empty"),
    "unreadable": (
        lambda d: source("hgb", (rdf_data(d / "g") / "g.nt").rename(d / "graph")),
        "graph: BadZipFile: File is not a zip file",
    ),
    "of another format": (
        lambda d: source("hgb", rdf_data(d / "g") / "g.nt"),
        "g.nt: data.format is hgb, and it looks like rdf (g.nt): give that as --data.format",
    ),
    "malformed triple": (
        lambda d: source("rdf", rdf_data(d / "g", **{"g.nt": TRIPLES + "<a> <b> c\n"})),
        "g.nt: line 10: ",
    ),
    "edge to nowhere": (
        lambda d: source("hgb", hgb_data(d / "g", link_dat="0\t9\t0\t1\n")),
        "line 1: relation writes: node 9, and there are 5",
    ),
    "edge to nowhere in a store": (
        lambda d: source("store", broken_store(d / "g", "relation_2.indices.npy", put(7, 25))),
        "relation author -writes-> paper: source of edge 7 is node 25, but type 'author' has 25 nodes",
    ),
    "feature rows": (
        lambda d: source("store", broken_store(d / "g", "features_0.npy", lambda a: a[:-1])),
        "feature rows 39 != 40 nodes of type 'paper'",
    ),
    "feature rows in text": (
        lambda d: source("hgb", hgb_data(d / "g", node_dat=FILES["node.dat"] + "5\tR\t1\n")),
        "feature rows 2 != 3 nodes of type 'paper'",
    ),
    "nan": (
        lambda d: source("store", broken_store(d / "g", "features_0.npy", put((3, 2), np.nan))),
        "feature 2 of 'paper' node 3 is nan",
    ),
    "infinity": (
        lambda d: source("store", broken_store(d / "g", "features_0.npy", put((3, 2), np.inf))),
        "feature 2 of 'paper' node 3 is inf",
    ),
    "label": (
        lambda d: source("store", broken_store(d / "g", "labels.npy", put(4, 3))),
        "label 3 of 'paper' node 4 is outside 0..2",
    ),
    "split unlabelled": (
        lambda d: source("store", broken_store(d / "g", "labels.npy", lambda a: np.full_like(a, -1))),
        "which has no label",
    ),
    "splits overlap": (
        lambda d: [*source("rdf", rdf_data(d / "g", **{"testSet.tsv": TRAINING})), "--rdf.validation_fraction", "0"],
        "is in both split 'train' and split 'test'",
    ),
    "edge to nowhere, unchecked, full graph": (
        lambda d: [
            *source("store", broken_store(d / "g", "relation_2.indices.npy", put(7, 25))),
            *("--data.check", "false", "--sampling.mode", "full"),
        ],
        "relation author -writes-> paper: source of edge 7 is node 25, but type 'author' has 25 nodes",
    ),
    "edge to nowhere, unchecked, mini-batch": (
        lambda d: [
            *source("store", broken_store(d / "g", "relation_2.indices.npy", lambda a: a * 0 + 255)),
            "--data.check",
            "false",
        ],
        "is node 255, but type 'author' has 25 nodes",
    ),
    "split out of range, unchecked": (
        lambda d: [*source("store", broken_store(d / "g", "split_test.npy", put(0, 2**30))), "--data.check", "false"],
        "split 'test': entry 0 is node 1073741824, but type 'paper' has 40 nodes",
    ),
    "no training nodes": (
        lambda d: [
            *source("store", broken_store(d / "g", "split_train.npy", lambda a: a[:0])),
            "--data.check",
            "false",
        ],
        "g: 0 training nodes among the 40 of type 'paper'",
    ),
    "fewer training nodes": (
        lambda d: source("store", broken_store(d / "g", "split_train.npy", lambda a: a[:-1])),
        "split_train.npy: checksum ",
    ),
    "a work directory whose name is too long": (
        lambda d: ["--workdir", d / ("x" * 300)],
        "File name too long",
    ),
    "features of a type without any": (
        lambda d: [*source("hgb", hgb_data(d / "g")), "--data.without_features", "[writer]"],
        "data.without_features: type 'writer' is not among ['paper'], which have some",
    ),
    "unknown shape": (lambda d: ["--synthetic.schema", "ogbn-mga"], "the nearest is 'ogbn-mag'"),
}


@pytest.mark.parametrize("name", BAD_DATA)
def test_bad_data_is_one_line_and_status_2_and_nothing_written(tmp_path, capfd, name):
    arguments, message = BAD_DATA[name]
    arguments = ["--workdir", tmp_path / "run", "--train.recipe=none", *arguments(tmp_path)]
    assert_one_line_and_nothing_written(refused(capfd, "hetjax.train", *arguments), message, tmp_path / "run")
    if name == "nan":
        assert_one_line_and_nothing_written(call("hetjax.train", *arguments), message, tmp_path / "run")


def assert_one_line_and_nothing_written(done, message: str, workdir: Path):
    assert done.returncode == 2, done.stderr
    assert done.stderr.count("\n") == 1 and done.stderr.startswith("hetjax: error: ") and message in done.stderr, (
        done.stderr
    )
    assert not done.stdout and not workdir.exists()


UNICODE_ERROR = "UnicodeEncodeError" if sys.version_info >= (3, 13) else "UnicodeError"  # of a host's name


def one_of_two(coordinator: str = "localhost:5000", **options) -> list:
    """The options of a process that another would wait for."""
    given = {"coordinator": coordinator, "num_processes": 2, "process_id": 1, "start_seconds": 1} | options
    return [word for name, value in given.items() for word in (f"--{name}", value)]


BAD_OPTIONS = {
    "unknown key": (
        ["--train.epoch", "3"],
        None,
        "unknown option --train.epoch; the nearest known one is --train.epochs",
    ),
    "unknown key in the file": (
        [],
        "train: {learning_rat: 1}",
        "unknown key train.learning_rat; the nearest known one is train.learning_rate",
    ),
    "tables": (
        [],
        "{version: gconstruct-v0.1, nodes: []}",
        "'version'; this is a description of tables: python -m hetjax.ingest",
    ),
    "unknown section": ([], "trian: {epochs: 1}", "unknown section 'trian'; the nearest known one is train"),
    "not a mapping": ([], "3", "int, and there should be sections"),
    "not YAML": ([], "a: [", "c.yaml: line 1, column 5: while parsing"),
    "no file": (["--config", "none.yaml"], None, "none.yaml: No such file"),
    "fanout": (["--model.layers", "3"], None, "sampling.fanout [25, 20] has 2 numbers != 3 of model.layers"),
    "fanout of zero": (["--sampling.fanout", "[0, 3]"], None, "sampling.fanout is [0, 3], and must be"),
    "not a number": (["--train.epochs", "many"], None, "train.epochs is many, and should be a whole number"),
    "not a number in the file": (
        [],
        "train: {epochs: two}",
        "c.yaml: train.epochs is two, and should be a whole number",
    ),
    "negative in the file": ([], "train: {epochs: -1}", "c.yaml: train.epochs is -1, and must be at least 1"),
    "negative, over the file": (["--train.epochs=-2"], "train: {epochs: -1}", "error: train.epochs is -2, and must be"),
    "no size": (
        ["--cache.bytes_per_device", "2e6"],
        None,
        "cache.bytes_per_device is 2e6, and should be a whole number",
    ),
    "no size in the file": ([], "cache: {host_bytes: 2Gb}", "c.yaml: cache.host_bytes is 2Gb, and should be a whole"),
    "not a list": (["--sampling.fanout", "25"], None, "sampling.fanout is 25, and should be a list such as [25,20]"),
    "negative": (["--train.epochs", "-1"], None, "train.epochs is -1, and must be at least 1"),
    "not a choice": (["--sampling.mode", "half"], None, "sampling.mode"),
    "no value": (["--train.epochs"], None, "train.epochs"),
    "stray word": (["everything"], None, "everything"),
    "a path and nothing to read it": (
        ["--data.path", "aifb"],
        None,
        "data.path is aifb, and data.format synthetic reads",
    ),
    "heads": (["--model.name", "rgat", "--model.hidden", "6"], None, "model.hidden is 6, and must be a multiple of"),
    "no model": (
        ["--model.name", "kernels"],
        None,
        "model.name is 'kernels', and must be gat, gatv2, gcn, gin, hgt, rgat, rgcn, sage, sehgnn, or MODULE:NAME",
    ),
    "heads of the last layer": (
        ["--model.name", "rgat", "--model.head", "false", "--synthetic.classes", "7", "--synthetic.scale", "0.001"],
        None,
        "embeddings of width 7 do not split into 4 heads",
    ),
    "waits for centuries": (
        one_of_two(start_seconds=10**10),
        None,
        "start_seconds is 10000000000, and must be in 1..604800",
    ),
    "too many": (one_of_two(num_processes=10**30), None, f"num_processes is 1{'0' * 30}, and must be in 1..65536"),
    "nobody there": (one_of_two("localhost:1"), None, "coordinator localhost:1 does not answer within 1 s: "),
    "no port": (one_of_two("localhost"), None, "coordinator 'localhost', and should be HOST:PORT"),
    "no digit": (one_of_two("localhost:²"), None, "coordinator 'localhost:²', and should be HOST:PORT"),
    "no port that there is": (one_of_two("localhost:65536"), None, "coordinator 'localhost:65536', and should be"),
    "a port of 5000 digits": (one_of_two("localhost:" + "1" * 5000), None, "1111', and should be HOST:PORT"),
    "no host": (one_of_two("[]:5000"), None, "coordinator '[]:5000', and should be HOST:PORT"),
    "two lines for a host": (one_of_two("a\nb:5000"), None, "coordinator 'a\\nb:5000', and should be HOST:PORT"),
    "no name of a host": (one_of_two("é" * 64 + ":5000"), None, f"é:5000: {UNICODE_ERROR}: "),
    "a host of nothing but dots": (one_of_two("..:5000"), None, f"coordinator ..:5000: {UNICODE_ERROR}: "),
    "no secret": (one_of_two(secret_file="none"), None, "secret_file none: No such file"),
    "a secret of one": (["--secret_file", "none"], None, "secret_file is none, and is for several processes"),
}


@pytest.mark.parametrize(
    "given, size",
    [(70, 70), ("-1", -1), ("12kB", None), ("2MB", 2 * 10**6), ("1.5GiB", 3 * 2**29), ("3 KiB", 3 * 2**10)],
)
def test_sizes_may_have_units(given, size):
    if size is None:
        with pytest.raises(ValueError):
            Bytes(given)
    else:
        assert Cache(bytes_per_device=given).bytes_per_device == size
        made, _ = parse({"cache": Cache}, [f"--cache.bytes_per_device={given}"], "x", "", {})
        assert as_dict(made["cache"])["bytes_per_device"] == size


@pytest.mark.parametrize(
    "module, words",
    [("hetjax.train", "--workdir is required"), ("hetjax.predict", "--workdir is required, --out is required")],
)
def test_options_that_must_be_given_are_named(capfd, module, words):
    assert f"hetjax: error: {words}\n" in refused(capfd, module).stderr


@pytest.mark.parametrize("name", BAD_OPTIONS)
def test_bad_options_are_one_line_and_status_2_and_nothing_written(tmp_path, capfd, name):
    arguments, text, message = BAD_OPTIONS[name]
    if text is not None:
        (tmp_path / "c.yaml").write_text(text)
        arguments = ["--config", tmp_path / "c.yaml", *arguments]
    arguments = ["--workdir", tmp_path / "run", *arguments]
    assert_one_line_and_nothing_written(refused(capfd, "hetjax.train", *arguments), message, tmp_path / "run")
    if name == "unknown key":
        assert_one_line_and_nothing_written(call("hetjax.train", *arguments), message, tmp_path / "run")


def test_workdir_is_needed(capfd):
    done = refused(capfd, "hetjax.train")
    assert done.returncode == 2 and "workdir" in done.stderr and done.stderr.count("\n") == 1


def test_a_work_directory_of_another_configuration(full_run, tmp_path, capfd):
    whole, options = full_run
    shutil.copytree(whole, tmp_path / "run")
    before = {file: file.read_bytes() for file in (tmp_path / "run").rglob("*") if file.is_file()}
    given = ["--workdir", tmp_path / "run", *options]
    done = refused(capfd, "hetjax.train", *given, "--train.learning_rate", "0.5")
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert "train.learning_rate is 0.01 there != 0.5" in done.stderr
    assert before == {file: file.read_bytes() for file in (tmp_path / "run").rglob("*") if file.is_file()}
    (tmp_path / "run" / "config.yaml").unlink()
    done = refused(capfd, "hetjax.train", *given)
    assert done.returncode == 2 and "holds metrics.jsonl but no config.yaml" in done.stderr
    (tmp_path / "pictures").mkdir()
    (tmp_path / "pictures" / "curves.png").write_text("mine")
    done = refused(capfd, "hetjax.train", "--workdir", tmp_path / "pictures", *options)
    assert done.returncode == 2 and "holds curves.png but no config.yaml" in done.stderr
    assert [file.name for file in (tmp_path / "pictures").iterdir()] == ["curves.png"]


def test_relative_paths_lie_in_the_data_folder(graph_store, tmp_path):
    done = train(tmp_path / "run", *on(graph_store.name), HETJAX_DATA=str(graph_store.parent))
    assert done.returncode == 0, done.stderr


def test_features_that_are_left_out_are_learned(graph_store, tmp_path):
    done = train(tmp_path / "run", *on(graph_store, "--data.without_features", "[topic]"))
    assert done.returncode == 0, done.stderr
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["learnable_features"] == 8 * (25 + 11)  # authors, and now topics


def test_options_override_the_file(graph_store, tmp_path):
    (tmp_path / "c.yaml").write_text(yaml.safe_dump({"train": {"epochs": 7, "seed": 5}, "model": {"hidden": 3}}))
    done = train(tmp_path / "run", *on(graph_store), "--config", tmp_path / "c.yaml")
    assert done.returncode == 0, done.stderr
    config = yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())
    assert (config["train"]["epochs"], config["train"]["seed"], config["model"]["hidden"]) == (3, 5, 8)


MODULES = "train", "partition.__main__", "convert", "predict", "ingest.__main__", "doctor.__main__", "sweep"


@pytest.mark.parametrize("module", [f"hetjax.{name}" for name in MODULES])
def test_help_has_every_option_once_in_words(module):
    text = here(module, "--help").stdout
    given = re.findall(r"^  (?:-h, )?--(\S+)(?: (\S+))?(.*(?:\n {6,}.*)*)", text, re.M)
    names = [name for name, _, _ in given]
    assert len(set(names)) == len(names) == text.count("\n  --") + 1
    for name, values, words in given:
        assert len(words.split()) >= 3 and "CONFIG" not in values and "(type" not in words, name
    if module == "hetjax.train":
        sections, _ = reference.shown(SECTIONS | registry.sections(None) | {"": Processes}, {})
        keys = {f"{name}.{key.name}".lstrip(".") for name, section in sections.items() for key in fields(section)}
        assert set(names) == keys | {"help", "config", "print_config", "verbose", "workdir"}
        assert re.search(r"^Synthetic: .*\n(  .*\n)*?  --synthetic.schema ", text, re.M)
        chosen = here(module, "--data.format=rdf", "--help").stdout
        assert re.search(r"^RDF: .*\n(  .*\n)*?  --rdf.literals ", chosen, re.M) and "--synthetic" not in chosen


def test_a_loss_that_is_not_finite_stops_the_run(graph_store, tmp_path):
    done = train(tmp_path / "run", *on(graph_store, "--train.learning_rate", "1e30"))
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert re.search(r"the loss is (nan|inf) at step \d+ of epoch \d+; a lower train.learning_rate", done.stderr)


@pytest.fixture(scope="module")
def full_run(graph_store, tmp_path_factory):
    """A finished run, and the options it was run with."""
    workdir, options = tmp_path_factory.mktemp("runs") / "whole", on(graph_store, "--sampling.mode", "full")
    assert train(workdir, *options).returncode == 0
    return workdir, options


def test_predictions_are_those_that_the_summary_counts(full_run, graph_store, tmp_path, capfd):
    workdir, _ = full_run
    done = call("hetjax.predict", "--workdir", workdir, "--out", tmp_path / "classes.npy")
    assert done.returncode == 0 and "int32 [40], in the order of the graph's nodes of type 'paper'" in done.stdout, (
        done.stderr
    )
    assert list(restored.restore(workdir).model.costs.orders) == restored.best_checkpoint(workdir)[1]["costs"]
    graph, summary = store.open(graph_store), json.loads((workdir / "summary.json").read_text())
    found, test = np.load(tmp_path / "classes.npy"), graph.splits["test"]
    assert np.mean(found[test] == graph.labels[test]) == summary["test_accuracy"]
    run_command(
        import_module("hetjax.predict").main, ["--workdir", f"{workdir}", "--out", f"{tmp_path}/l.npy", "--logits"]
    )
    logits = np.load(tmp_path / "l.npy")
    np.testing.assert_array_equal(logits, predicting.predict(workdir).logits)
    quality = metrics.quality(logits[test], graph.labels[test])
    last = json.loads((workdir / "metrics.jsonl").read_text().splitlines()[-1])
    assert last == {f"test_{name}": pytest.approx(value, rel=1e-6) for name, value in quality.items()}  # the trainer's
    assert logits.shape == (40, 3) and np.array_equal(logits.argmax(axis=1), found)
    (tmp_path / "l.csv").write_text("to be replaced")
    for name, *more in (("l.csv", "--logits", "--overwrite"), ("classes.csv",)):
        run_command(
            import_module("hetjax.predict").main, ["--workdir", f"{workdir}", "--out", f"{tmp_path}/{name}", *more]
        )
    header, *lines = (tmp_path / "l.csv").read_text().splitlines()
    rows = np.array([line.split(",") for line in lines])
    assert header == "node,class,probability,split,logit_0,logit_1,logit_2"
    assert rows[:, 0].tolist() == list(map(str, range(40)))
    np.testing.assert_array_equal(rows[:, 4:].astype(np.float32), logits)  # every digit that it takes
    most = predicting.predict(workdir).probabilities.max(axis=1)
    split = {int(n): name for name, ids in graph.splits.items() for n in ids}
    rows = (f"{n},{one},{p!s},{split.get(n, '')}\n" for n, (one, p) in enumerate(zip(found, most)))
    expected = "node,class,probability,split\n" + "".join(rows)
    assert (tmp_path / "classes.csv").read_text() == expected
    assert sorted(file.name for file in tmp_path.iterdir()) == ["classes.csv", "classes.npy", "l.csv", "l.npy"]

    def fails(run, message, out="x.npy", *more):
        done = refused(capfd, "hetjax.predict", "--workdir", run, "--out", tmp_path / out, *more)
        assert done.returncode == 2 and done.stderr.count("\n") == 1 and message in done.stderr, done.stderr

    fails(tmp_path / "none", "none/config.yaml: no such file, and the folder of a run has one")
    fails(workdir, "nowhere: no such folder", "nowhere/x.npy")
    fails(workdir, "x.txt: is to end in .parquet, .csv or .npy, which says what is written", "x.txt")
    fails(workdir, "x.npy: logits and embeddings, and a .npy holds one array", "x.npy", "--logits", "--embeddings")
    fails(workdir, "l.npy: exists already; --overwrite replaces it", "l.npy")
    (tmp_path / "pipe.npy").symlink_to("/dev/null")
    fails(workdir, "pipe.npy: is no regular file, and is left as it is", "pipe.npy", "--overwrite")
    fails(workdir, "File name too long", f"{'x' * 300}.npy")
    fails(tmp_path / ("x" * 300), "File name too long")
    hurt = shutil.copytree(workdir, tmp_path / "hurt")
    store.save(smaller_graph(1), tmp_path / "other")
    config = yaml.safe_load((hurt / "config.yaml").read_text())
    changed = config | {"data": config["data"] | {"path": str(tmp_path / "other")}}
    (hurt / "config.yaml").write_text(yaml.safe_dump(changed))
    fails(hurt, "was trained on another graph")
    (hurt / "config.yaml").write_text(yaml.safe_dump(config))
    for file in (hurt / "checkpoints").glob("*/progress.json"):
        file.write_text("{}")
    fails(hurt, "is damaged: ")
    shutil.rmtree(hurt / "checkpoints")
    fails(hurt, "checkpoints: no checkpoint yet")


def test_another_graph_is_predicted(full_run, graph_store, tmp_path, capfd):
    workdir, _ = full_run
    expected, graph = predicting.predict(workdir).logits, smaller_graph()
    np.testing.assert_array_equal(predicting.predict(workdir, graph_store).logits, expected)

    def saved(name, edges, nodes=graph.schema.nodes, features=graph.features, **schema):
        schema = dataclasses.replace(graph.schema, nodes=nodes, relations=tuple(edges), **schema)
        labels = np.full(nodes["paper"], UNLABELLED)
        labels[0] = 0  # of a graph without any the classes do not count
        store.save(build(schema, edges, features, labels, {}), tmp_path / name)
        return tmp_path / name

    nodes, edges = graph.schema.nodes, {relation: edges_of(csc) for relation, csc in graph.relations.items()}
    wide = graph.features | {"paper": np.concatenate([graph.features["paper"]] * 2)}
    more = saved("more", edges, nodes | {"paper": 80}, wide)  # papers that nobody writes or cites
    np.testing.assert_allclose(predicting.predict(workdir, more).logits[:40], expected, rtol=1e-6, atol=1e-6)
    first, *others = edges
    for name, message, *given in [
        ("fewer", f"only the graph that was trained on has relation {first}", {one: edges[one] for one in others}),
        ("classes", "classes 4 != 3", edges, nodes, graph.features, 4),
        (
            "narrow",
            "features of type 'paper' are 6 wide != 7",
            edges,
            nodes,
            graph.features | {"paper": wide["paper"][:40, :6]},
        ),
        (
            "bare",
            "type 'paper' has no features, and in training they were given",
            edges,
            nodes,
            {"topic": wide["topic"]},
        ),
        ("authors", "type 'author' has 30 nodes != 25, whose features were learned", edges, nodes | {"author": 30}),
    ]:
        path = saved(name, *given[:3], **({"classes": given[3]} if given[3:] else {}))
        done = refused(capfd, "hetjax.predict", "--workdir", workdir, "--out", tmp_path / "x.npy", "--graph", path)
        assert done.returncode == 2 and done.stderr.startswith(f"hetjax: error: {path}: {message}"), done.stderr


def test_who_reads_the_output_may_end_before_the_work():
    """As `head` does: not a word of it, and the work goes on."""
    code = "import sys\nfrom hetjax.system.logs import log, shown\nwith shown():\n    for _ in range(20_000):\n        log.info(80 * 'x')\n"
    code += "print('done', file=sys.stderr)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b"done\n"
    assert process.returncode == 0


def test_a_loop_of_your_own_gives_the_same_losses(full_run, capsys):
    config, _ = restored.run_of(full_run[0])
    expected = [json.loads(line) for line in (full_run[0] / "metrics.jsonl").read_text().splitlines()]
    expected = [record["train_loss"] for record in expected if "train_loss" in record]
    np.testing.assert_allclose(loop.train(config), expected, rtol=1e-6)
    assert len(expected) == 3 == capsys.readouterr().out.count("validation accuracy")


@pytest.mark.parametrize("file", ["progress.json", "largest", "digests.json"])
def test_a_damaged_checkpoint_is_named_and_the_one_before_is_used(full_run, tmp_path, file):
    whole, options = full_run
    hurt = shutil.copytree(whole, tmp_path / "hurt")
    (hurt / "summary.json").unlink()
    last = max((hurt / "checkpoints").glob("[0-9]*"))
    victim = (
        max(last.rglob("*"), key=lambda path: path.stat().st_size * path.is_file())
        if file == "largest"
        else last / file
    )
    victim.write_bytes(victim.read_bytes()[:-3])
    done = train(hurt, *options)
    assert done.returncode == 0, done.stderr
    assert f"checkpoint {last} is damaged" in done.stderr and "the one before it is used" in done.stderr
    strip = lambda path: re.sub(r'"seconds": [\d.]+', "", (path / "metrics.jsonl").read_text())  # noqa: E731
    assert strip(whole) == strip(hurt)


def test_where_every_checkpoint_is_damaged_the_run_starts_anew(full_run, tmp_path):
    whole, options = full_run
    hurt = shutil.copytree(whole, tmp_path / "hurt")
    (hurt / "summary.json").unlink()
    found = sorted((hurt / "checkpoints").glob("[0-9]*"))
    for folder in found:
        file = folder / "progress.json"
        file.write_bytes(bytes([file.read_bytes()[0] ^ 1]) + file.read_bytes()[1:])
    done = train(hurt, *options)
    assert done.returncode == 0 and done.stderr.count("has another content than was written") == len(found), done.stderr
    assert (hurt / "summary.json").exists()


def test_a_killed_run_continues_as_if_nothing_had_happened(tmp_path):
    """At a random moment, with tables on disk; `experiments/operation/kill_resume.py` tries twenty of every model and way."""
    script = [
        sys.executable,
        ROOT / "experiments" / "operation" / "kill_resume.py",
        "--kills",
        "1",
        "--epochs",
        "2",
        "--out",
        tmp_path / "out.csv",
    ]
    quick = os.environ | {"JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
    command = [*script, "--models", "rgcn", "--modes", "disk"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, env=quick)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 runs killed, 1 identical" in done.stdout


def test_a_run_that_is_done_goes_on_for_more_epochs(full_run, tmp_path, capfd):
    (done, options), whole = full_run, tmp_path / "whole"
    assert train(whole, *options, "--train.epochs", "5").returncode == 0
    shutil.copytree(done, tmp_path / "run")
    longer = train(tmp_path / "run", *options, "--train.epochs", "5")
    assert longer.returncode == 0 and "continuing from" in longer.stdout, longer.stderr
    found = [
        [json.loads(line) | {"seconds": 0} for line in (path / "metrics.jsonl").read_text().splitlines()]
        for path in (whole, tmp_path / "run")
    ]
    assert found[0] == found[1] and len(found[0]) == 6
    done = refused(capfd, "hetjax.train", "--workdir", whole, *options)
    assert "train.epochs is 5 there != 3; give another" in done.stderr and (whole / "summary.json").exists()
    done = refused(capfd, "hetjax.train", "--workdir", whole, *options, "--train.seed", "9")
    assert all(f"train.{key}" in done.stderr for key in ("seed", "epochs")) and " (and 1 more: train." in done.stderr
    assert "s of them before it was continued" in longer.stdout


def test_a_schedule_that_ends_with_the_epochs_is_not_given_more(tmp_path):
    three, five = (as_dict(Config(train=Train(epochs=epochs, schedule="cosine"))) for epochs in (3, 5))
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(three))
    with pytest.raises(InputError, match="train.epochs is 3 there != 5"):
        Workdir(tmp_path, five)


def test_patience_stops_a_run_and_a_continued_one_alike(graph_store, tmp_path):
    options = on(graph_store, "--sampling.mode", "full", "--train.epochs", "400", "--train.patience", "6")
    options += ["--train.evaluate_every", "2"]
    done = train(tmp_path / "run", *options)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert lines[-2]["epoch"] == summary["epoch"] + 6 < 400
    (tmp_path / "run" / "summary.json").unlink()
    again = train(tmp_path / "run", *options)
    assert again.returncode == 0, again.stderr
    assert f"stopped after epoch {lines[-2]['epoch']}" in again.stdout + again.stderr
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["test_accuracy"] == summary["test_accuracy"]


def test_patience_needs_validation_nodes(tmp_path):
    data = rdf_data(tmp_path / "g")
    done = train(tmp_path / "run", *source("rdf", data), "--rdf.validation_fraction", "0", "--train.patience", "3")
    message = "train.patience is 3, and there are no validation nodes"
    assert_one_line_and_nothing_written(done, message, tmp_path / "run")


def test_convert_writes_a_store_that_trains_alike(tmp_path):
    data = rdf_data(tmp_path / "g")
    done = call("hetjax.convert", "--data.format", "rdf", "--data.path", data, "--out", tmp_path / "store")
    assert done.returncode == 0 and "8 nodes" in done.stdout, done.stderr
    again = here("hetjax.convert", "--data.format", "rdf", "--data.path", data, "--out", tmp_path / "store")
    assert again.returncode == 2 and "exists already" in again.stderr
    losses = []
    none_held_out = "--rdf.validation_fraction", "0"
    for name, where in (("a", [*source("rdf", data), *none_held_out]), ("b", source("store", tmp_path / "store"))):
        done = train(tmp_path / name, *where, *SMALL)
        assert done.returncode == 0, done.stderr
        losses.append(
            [
                json.loads(line)["train_loss"]
                for line in (tmp_path / name / "metrics.jsonl").read_text().splitlines()[:3]
            ]
        )
    assert losses[0] == losses[1]
