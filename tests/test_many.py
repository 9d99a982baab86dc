"""Several processes on this computer that train one model: equal to one device, resumed, killed, started wrongly."""

import json
import secrets
import shutil
import time

import jax
import numpy as np
import pytest

from hetjax.graph import store
from hetjax.partition import partition, save
from hetjax.sharding import mesh as meshes
from hetjax.system import runtime
from hetjax.system.errors import InputError
from tests.support.commands import SMALL, train
from tests.support.graphs import random_graph
from tests.support.many import Case, compare_in, finish, free_port, run, start

EIGHT = (1, 8, "dependency")
CASES = {
    1: [  # of eight devices, more than the tests' own has
        ("homogeneous, weights", EIGHT, "minibatch", "GIN", True, {"options": {"partitioning": "metis"}}),
        (
            "four relations",
            EIGHT,
            "full",
            "R-GCN, dropout",
            True,
            {"options": {"mode": "communicate", "schedule": "overlap", "partitioning": "random"}},
        ),
        (
            "two relations",
            EIGHT,
            "full",
            "HGT, relation, dropout",
            True,
            {"options": {"mode": "hybrid", "cached": 0.5, "schedule": "ring", "partitioning": "metis"}},
        ),
    ],
    2: [
        (
            "few relations",
            (4, 1),
            "minibatch",
            "R-GCN, dropout",
            False,
            {"l2": 0.01, "gradient_clip": 0.05, "placement": ("author=host", "topic=host", "paper=host"), "threads": 4},
        ),
        (
            "two relations",
            (1, 4, "vanilla"),
            "minibatch",
            "R-GCN",
            False,
            {"l2": 0.01, "gradient_clip": 0.05, "placement": ("author=host", "paper=host"), "threads": 3},
        ),
        ("two relations", (1, 4, "dependency"), "minibatch", "R-GCN", True, {"options": {"mode": "communicate"}}),
        (
            "homogeneous",
            (1, 2, "dependency"),
            "full",
            "GCN",
            True,
            {"options": {"mode": "hybrid", "cached": 0.5, "schedule": "overlap"}},
        ),
        ("two relations", (1, 1, "tensor", 4), "full", "R-GCN", True, {}),
        (
            "two relations",
            (1, 1, "tests.test_tensor_chunks:Few", 4),
            "full",
            "R-GCN",
            True,
            {"l2": 0.01, "gradient_clip": 0.05},
        ),
        ("two relations", (2, 1, "raf"), "minibatch", "R-GAT", True, {"options": {"cut": ("writes=2",)}}),
        ("two relations", (1, 1, "tensor", 2), "minibatch", "R-GCN, no self term", True, {}),
        ("two relations", (2, 1, "raf", 2), "minibatch", "R-GCN", True, {}),
    ],
    4: [
        (
            "two relations",
            (1, 4, "dependency"),
            "full",
            "R-GCN",
            True,
            {"options": {"mode": "communicate", "schedule": "ring"}},
        ),
    ],
}
BOUNDS = {False: (1e-5, 1e-5, 1e-4), True: (1e-12, 1e-12, 1e-9)}


@pytest.mark.parametrize("count", CASES)
def test_processes_equal_one_device(tmp_path, count):
    """Loss, gradients, and the state after some steps; and replicas have the same bits.

    More models are in `experiments/equivalence/equivalence.py` and `dependency_equivalence.py`, with `--processes`.
    """
    found = compare_in(tmp_path, count, [Case(*case) for case in CASES[count]])
    for case, errors in zip(CASES[count], found, strict=True):
        assert all(error < bound for error, bound in zip(errors, BOUNDS[case[4]])), (case, errors)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """With two graphs in stores of one name."""
    path = tmp_path_factory.mktemp("many")
    for seed in (0, 1):
        store.save(random_graph(seed), path / f"data_{seed}" / "graph")
    (path / "secret").write_text(secrets.token_hex())
    (path / "secret").chmod(0o600)
    return path


SHARED = ["--data.format", "store", *SMALL]


def commands(workdir, *options) -> list[list]:
    """The command lines of two processes."""
    about = ["-m", "hetjax.train", "--workdir", workdir, *SHARED, *options, "--start_seconds", 60, "--num_processes", 2]
    about += ["--secret_file", workdir.parent / "secret", "--coordinator", f"localhost:{free_port()}"]
    return [[*about, "--process_id", number] for number in range(2)]


def records(run) -> list[dict]:
    """What was written of every epoch, but for the time it took."""
    found = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return [{name: value for name, value in record.items() if name != "seconds"} for record in found]


def errors_of(log: str) -> list[str]:
    return [
        line
        for line in log.splitlines()
        if not line.startswith(("graph: ", "labels of ", "no baselines: ", "no option ", "epoch "))
    ]


@pytest.fixture(scope="module")
def pruned(folder):
    """A plan of two partitions, and for each process a folder whose store has no file that its partition does not read."""
    plan = partition(folder / "data_0" / "graph", 2, copied=True)
    save(plan, folder / "plan", random_graph(0))
    for number in range(2):
        (folder / f"part_{number}").mkdir()
        shutil.move(folder / "plan" / f"part_{number}", folder / f"part_{number}" / "graph")
        assert len(list((folder / f"part_{number}" / "graph").iterdir())) < len(
            list((folder / "data_0" / "graph").iterdir())
        )
    return [{"HETJAX_DATA": str(folder / f"part_{number}")} for number in range(2)]


def test_a_killed_process_is_named_and_the_run_goes_on_as_if_nothing_had_happened(folder, pruned):
    """And no process opens a file that its partition does not read: it is not there."""
    options = ["--data.path", "graph", "--mesh.relation", "2", "--raf.plan", folder / "plan", "--train.epochs", "8"]
    done = finish(folder, start(folder, commands(folder / "whole", *options), pruned))
    assert [status for status, _ in done] == [0, 0]
    assert "test accuracy" in done[0][1] and not done[1][1] and "[Gloo]" not in done[0][1]
    hurt = commands(
        folder / "hurt", *options, "--cache.bytes_per_device", "700", "--cache.placement", "[paper=device,topic=device]"
    )
    processes = start(folder, hurt, pruned)
    while not (folder / "hurt" / "metrics.jsonl").exists() or len(records(folder / "hurt")) < 3:
        assert all(process.poll() is None for process in processes)
        time.sleep(0.05)
    processes[1].kill()
    (status, log), _ = finish(folder, processes, 60)
    (line,) = errors_of(log)
    assert status == 1 and line.startswith(f"hetjax: error: process 1 (pid {processes[1].pid} on "), log
    assert not (folder / "hurt" / "summary.json").exists()
    assert [status for status, _ in finish(folder, start(folder, hurt, pruned))] == [0, 0]
    assert records(folder / "hurt") == records(folder / "whole")
    summary = json.loads((folder / "hurt" / "summary.json").read_text())
    assert summary["processes"] == 2
    (told,) = (one for one in summary["sent_per_step"] if one["kind"] == "sampling")
    assert told["axis"] == "processes" and told["bytes"] > 0

    moved = shutil.copytree(folder / "whole", folder / "moved")  # onto one process and one device
    (moved / "summary.json").unlink()
    shutil.rmtree(max((moved / "checkpoints").iterdir()))
    single = [*SHARED, *options, "--mesh.relation", "1", "--raf.plan", ""]
    done = train(moved, *single, HETJAX_DATA=str(folder / "data_0"))
    assert done.returncode == 0 and "continuing from" in done.stdout
    np.testing.assert_allclose(records(moved)[-1]["test_loss"], records(folder / "whole")[-1]["test_loss"], rtol=1e-4)


def test_partitions_of_the_nodes_in_two_processes_write_one_checkpoint(folder):
    """Each its own rows, which lie on its disk; the run continues in one process, on one device."""
    options = ["--data.path", folder / "data_0" / "graph", "--mesh.data", "2", "--mesh.strategy", "dependency"]
    options += [
        "--dependency.mode",
        "communicate",
        "--train.epochs",
        "2",
        "--train.stacking",
        "true",
        "--cache.placement",
        "[author=disk,venue=host,paper=disk]",
    ]
    run_folder = folder / "nodes"
    assert [status for status, _ in finish(folder, start(folder, commands(run_folder, *options)))] == [0, 0]
    assert not [*run_folder.glob("tables*")]
    rows = [
        (one["node_type"], one["process"], one["rows"])
        for one in json.loads((run_folder / "summary.json").read_text())["cache"]
    ]
    for node_type, nodes in (("author", 25), ("venue", 6), ("paper", 40)):
        of = [count for name, _, count in rows if name == node_type]
        assert len(of) == 2 and sum(of) == nodes > max(of)
    moved = shutil.copytree(run_folder, folder / "nodes_moved")
    (moved / "summary.json").unlink()
    shutil.rmtree(max((moved / "checkpoints").iterdir()))
    again = ["--data.path", folder / "data_0" / "graph", "--train.epochs", "2", "--train.stacking", "true"]
    done = train(moved, *SHARED, *again)
    assert done.returncode == 0 and "continuing from" in done.stdout, done.stderr
    np.testing.assert_allclose(records(moved)[-1]["test_loss"], records(run_folder)[-1]["test_loss"], rtol=1e-4)
    one, two = (json.loads((run / "summary.json").read_text())["stacking"]["weights"] for run in (run_folder, moved))
    assert one == pytest.approx(two, rel=1e-3)


def test_what_was_started_wrongly_is_one_line_in_every_process(folder):
    path = ["--data.path", folder / "data_0" / "graph", "--mesh.relation", "2"]
    one, other = commands(folder / "none", *path)
    for status, log in run(folder, [one, [*other, "--train.seed", "3"]], 60):
        (line,) = errors_of(log)
        assert status == 2 and "with train.seed 3 != 0 of process 0" in line
    assert not (folder / "none").exists()


def test_a_mesh_that_processes_cannot_provide():
    with pytest.raises(InputError, match="1 x mesh.data 3 are 3 devices, which 2 processes cannot provide"):
        meshes.share_of({"relation": 1, "data": 3}, 2)


def test_a_core_is_made_into_few_devices(monkeypatch):
    """jax has started here, so it is not told; `make` says what is missing."""
    told = {}
    monkeypatch.setattr(jax.config, "update", told.__setitem__)
    monkeypatch.setattr(runtime, "cores", lambda: 2)
    for asked, given in (4, 4), (16, 16), (17, 16), (10**30, 16):
        meshes.provide_cpu_devices(asked)
        assert told == {"jax_num_cpu_devices": given, "jax_cpu_enable_async_dispatch": True}
    with pytest.raises(InputError, match=r"mesh.data 17 needs 17 devices != 4 \(cpu\) .* into 8 at most"):
        meshes.make(1, 17)


def test_different_graphs_are_noticed(folder):
    both = commands(folder / "none", "--data.path", "graph", "--mesh.relation", "2")
    folders = [{"HETJAX_DATA": str(folder / f"data_{seed}")} for seed in (0, 1)]
    for status, log in finish(folder, start(folder, both, folders), 60):
        (line,) = errors_of(log)
        assert status == 2 and "another graph" in line
    assert not (folder / "none").exists()
