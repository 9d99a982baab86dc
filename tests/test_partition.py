"""Partitioning as it is used: the package, the command line, the report, and the largest graph."""

import os
import subprocess
import sys

import numpy as np
import pytest

import hetjax
from experiments import partitioning
from experiments.partitioning import hollow_store
from hetjax.datasets.schemas import SHAPES
from hetjax.graph import store
from hetjax.graph.sizes import sizes
from hetjax.partition import MetaPartitioning, open_part, partition, read
from hetjax.partition.reports import report
from tests.support.commands import call, refused
from tests.support.partitions import full


def test_the_package_can_be_called(graph):
    import hetjax.partition as package
    from hetjax.partition.meta_partitioning import MetaPartitioning as same

    assert hetjax.partition is package is sys.modules["hetjax.partition"] and same is MetaPartitioning
    assert hetjax.partition(graph, 2) == package.partition(graph, 2) == partition(graph, 2)
    assert "metapaths" in package.__call__.__doc__ and "partition" in hetjax.__all__


@pytest.mark.parametrize(
    "code",
    [
        "import hetjax.partition",
        "import hetjax; hetjax.partition",
        "import runpy\ntry: runpy.run_module('hetjax.partition', run_name='__main__')\nexcept SystemExit: pass",
    ],
)
def test_no_jax(code):
    check = f"import sys; sys.argv = ['x', '--help']\n{code}\nprint([m for m in sys.modules if m.split('.')[0] in ('jax', 'jaxlib', 'flax')])"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stdout.splitlines()[-1] == "[]", done.stdout + done.stderr


def test_report_of_a_meta_partitioning(stored):
    graph = store.open(stored)
    plan = partition(stored, 3)
    made = report(plan)
    for part, row in zip(plan.parts, made.rows):
        local = plan.take(graph, part)
        assert row["edges"] == sum(len(csc.indices) for csc in local.relations.values())
        assert row["topology_bytes"] == sum(csc.indptr.nbytes + csc.indices.nbytes for csc in local.relations.values())
        assert row["feature_bytes"] == sum(matrix.nbytes for matrix in local.features.values())
        learned = [name for name in part.local_model.reads if name not in graph.features]
        assert row["learnable_bytes"] == sum(graph.schema.nodes[name] * 64 * 4 * 3 for name in learned)
        touched = {name for r in local.relations for name in (r.source, r.target)} | {"paper"}
        assert row["nodes"] == sum(graph.schema.nodes[name] for name in touched)
        assert row["boundary_nodes"] == 40 and row["halo_nodes"] == 0
    reached = [r for r in graph.schema.relations if any(r in part.local_model.relations for part in plan.parts)]
    held = sum(graph.relations[r].edges for r in reached)
    assert made.summary["replication_edges"] == round(sum(row["edges"] for row in made.rows) / held, 4)
    stored_bytes = [row["topology_bytes"] + row["feature_bytes"] + row["learnable_bytes"] for row in made.rows]
    assert made.summary["balance_bytes"] == round(max(stored_bytes) / np.mean(stored_bytes), 4)
    assert made.summary["step_bytes"]["partial_aggregations"] == 2 * 2 * 1024 * 64 * 4
    every = report(partition(stored, 3, hops=3, exchange="every")).summary["step_bytes"]
    assert every["partial_aggregations"] == 5 * 2 * 2 * 1024 * 64 * 4
    assert report(partition(stored, 1)).summary["step_bytes"]["total"] == 0
    assert sum(made.summary["step_bytes"].values()) == 2 * made.summary["step_bytes"]["total"]


def command(path, out, *arguments):
    return call("hetjax.partition", "--graph", path, "--out", out, *arguments)


def test_command_line(stored, tmp_path):
    config = tmp_path / "config.yaml"
    config.write_text("parts: 4\nhops: 1\nfanout: [5]\n")
    done = command(stored, tmp_path / "plan", "--config", config, "--hops", 3, "--copy", "--assign", "lpt")
    assert done.returncode == 0, done.stderr
    plan, opened = open_part(tmp_path / "plan", 3)
    assert (plan.method, plan.tree.hops, len(plan.parts), plan.workload.fanout) == ("lpt", 3, 4, (5,))
    assert set(opened.relations) == plan.parts[3].local_model.relations
    assert "replication" in done.stdout and str(tmp_path / "plan") in done.stdout

    paths = tmp_path / "paths.yaml"
    paths.write_text("- [[author, writes, paper], [paper, written_by, author]]\n- [[topic, of, paper]]\n")
    done = command(stored, tmp_path / "paths", "--metapaths", paths, "--self_term", "false")
    assert done.returncode == 0, done.stderr
    assert {r.name for r in read(tmp_path / "paths").model.relations} == {"writes", "written_by", "of"}

    for method in ("metis-vol", "contiguous", "fennel"):
        done = command(stored, tmp_path / method, "--method", method, "--parts", 3)
        assert done.returncode == 0 and "edges are cut" in done.stdout, done.stderr
        assert "redundant edges" in done.stdout and read(tmp_path / method).method == method


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["--part", 2], "unknown option --part; the nearest known one is --parts"),
        (["--parts", "many"], "parts is many, and should be"),
        (["--parts", 0], "0 partitions"),
        (["--parts", 7], "7 partitions cannot be used: no number from 2 to 6"),
        (["--hops", -1], "hops is -1, and must be at least 0"),
        (["--hops", 99], "hops is 99, and should be a whole number in 1..64"),
        (["--method", "metis", "--hops", 99], "hops is 99, and should be"),
        (["--method", "metis", "--copy"], "copy is for method meta, and the method is metis"),
        (["--method", "metis", "--parts", 100], "100 partitions of"),
        (["--method", "fennel", "--parts", 65], "65 partitions of"),
        (["--method", "contiguous", "--copy"], "copy is for method meta, and the method is contiguous"),
        (["--method", "contiguous", "--seed", 1], "seed is for method random, metis, metis-vol, fennel, and the"),
        (["--seed", 1], "and the method is meta"),
        (["--method", "best"], "best"),
        (["--batch_size", 0], "batch_size is 0"),
        (["--fanout", "[0]"], "fanout is [0]"),
        (["--targets", "[ghoul]"], "ghoul"),
        (["--metapaths", "/nowhere.yaml"], "/nowhere.yaml: No such file"),
        (["--config", "/nowhere.yaml"], "/nowhere.yaml: No such file"),
        (["--graph", "/nowhere"], "/nowhere/schema.json: No such file"),
    ],
)
def test_command_line_errors(stored, tmp_path, capfd, arguments, words):
    given = ["--graph", stored, "--out", tmp_path / "plan", *arguments]
    done = refused(capfd, "hetjax.partition.__main__", *given)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.startswith("hetjax: error: ") and len(done.stderr.splitlines()) == 1 and words in done.stderr
    assert not list(tmp_path.iterdir())


def test_command_line_files_that_are_wrong(stored, tmp_path, capfd):
    file = tmp_path / "file.yaml"
    for option, text, words in [
        ("--metapaths", "a: 1", "a metapath a list of them"),
        ("--metapaths", "- [[author, writes]]", "['author', 'writes'], and a relation is"),
        ("--config", "prts: 3", "unknown key prts; the nearest known one is parts"),
        ("--config", "- 3", "list, and there should be keys"),
        ("--config", "parts:", "parts has no value"),
    ]:
        file.write_text(text)
        done = refused(capfd, "hetjax.partition.__main__", "--graph", stored, "--out", tmp_path / "plan", option, file)
        assert done.returncode == 2 and words in done.stderr, done.stderr
    done = command(stored, tmp_path)
    assert done.returncode == 2 and "exists already" in done.stderr and list(tmp_path.iterdir()) == [file]


NOTING = """import sys
def note(event, about):
    if event == "open": print(about[0], file=sys.__stderr__)
sys.addaudithook(note)
"""


def test_full_size_mag240m_reads_one_small_file_and_takes_300_mb(tmp_path, monkeypatch, capfd):
    """On a store with all counts and files of holes: the work does not grow with the graph."""
    hollow_store(SHAPES["mag240m"], tmp_path / "store")
    assert sizes(store.open(tmp_path / "store")) == full("mag240m")
    monkeypatch.setattr(partitioning, "MEASURED", NOTING + partitioning.MEASURED)
    found = partitioning.partition(tmp_path / "store", tmp_path / "plan0", 4, "meta")
    assert found["peak_mib"] * 2**20 < 300e6
    opened = capfd.readouterr().err.splitlines()
    assert {one for one in opened if one.startswith(f"{tmp_path / 'store'}")} == {f"{tmp_path / 'store'}/schema.json"}
    held = sum(os.stat(file).st_blocks * 512 for file in (tmp_path / "store").iterdir())
    assert held < 2**20, "the store takes no space"
    plan, opened = open_part(tmp_path / "plan0", 1)
    assert opened.edges == report(plan).rows[1]["edges"]
