"""How processes talk and what they must have alike, in one process: slow links, ends that hang, digests, clusters."""

import dataclasses
import threading
import time

import jax
import numpy as np
import pytest

from hetjax.graph import store
from hetjax.options.config import Data, Processes
from hetjax.partition import partition
from hetjax.processes import digests, launch
from hetjax.processes import group as peers
from hetjax.processes.channel import Connection
from hetjax.processes.group import ConnectedGroup, Peer
from hetjax.system.errors import InputError
from tests.support.graphs import random_graph
from tests.support.links import group, pair


class ProcessGroup(peers.ProcessGroup):
    """A process that is told of another which has something else."""

    def __init__(self, other):
        self.other = other

    def all_gather(self, tag, value):
        return [value, self.other]


def test_what_takes_longer_than_silence_arrives(ends):
    zero, one, two = group(3, rate=1e6)
    rows = np.arange(750_000, dtype=np.float32)  # 3 s of a link on which 2 s of silence are the end
    sender = threading.Thread(target=one.gather, args=("state", {"rows": rows}), daemon=True)
    sender.start()
    threading.Thread(target=two.gather, args=("state", {}), daemon=True).start()
    np.testing.assert_array_equal(zero.gather("state", {})["rows"], rows)
    sender.join(60)
    assert not sender.is_alive() and not ends


def test_an_end_that_takes_nothing_is_gone(ends):
    near, _ = pair()
    peer = ConnectedGroup(1, [Peer(0, "here", 7), Peer(1, "here", 8)], {0: Connection(near)})
    threading.Thread(target=peer.gather, args=("state", {"rows": np.zeros(2**24, np.uint8)}), daemon=True).start()
    deadline = time.monotonic() + 60
    while not ends and time.monotonic() < deadline:
        time.sleep(0.05)
    assert ends and ends[0].startswith("process 0 (pid 7 on here) "), ends


def test_another_plan_code_or_graph_has_another_digest(tmp_path, monkeypatch):
    graph, changed = random_graph(), random_graph()
    first = graph.schema.relations[0]
    indices = graph.relations[first].indices.copy()
    indices[0] = (indices[0] + 1) % 38
    edge = dataclasses.replace(
        changed, relations=changed.relations | {first: changed.relations[first]._replace(indices=indices)}
    )
    feature = dataclasses.replace(changed, features=changed.features | {"paper": changed.features["paper"] * 2})
    stores = {"same": graph, "edge": edge, "feature": feature}
    for name, one in stores.items():
        store.save(one, tmp_path / name)
    read = {name: digests.of_graph(Data(format="synthetic"), one) for name, one in stores.items()}
    told = {
        name: digests.of_graph(Data(format="store", path=str(tmp_path / name)), store.open(tmp_path / name, (), ()))
        for name in stores
    }
    for found in read, told:
        assert found["same"] != found["edge"] != found["feature"] != found["same"]
    assert digests.of_graph(Data(format="synthetic"), random_graph()) == read["same"]

    plan = partition(graph, 2)
    swapped = dataclasses.replace(plan, owners=plan.owners[::-1])
    assert plan.digest == dataclasses.replace(plan, store="elsewhere").digest != swapped.digest

    monkeypatch.syspath_prepend(tmp_path)
    for words in "one = 1", "one = 2":
        (tmp_path / "mine.py").write_text(words)
        read[words] = digests.of_code("mine:one")
    assert len({read["one = 1"], read["one = 2"], digests.of_code("rgcn"), digests.of_code("nowhere:one")}) == 3
    with pytest.raises(InputError, match="process 1 has another plan, digest b != a of process 0"):
        digests.require("plan", "a", ProcessGroup("b"))


SLURM = {
    "SLURM_JOB_ID": "7",
    "SLURM_STEP_NODELIST": "node[3-4]",
    "SLURM_NTASKS": "2",
    "SLURM_PROCID": "1",
    "SLURM_LOCALID": "0",
}


def test_slurm_says_where_processes_meet(monkeypatch):
    for name, value in SLURM.items():
        monkeypatch.setenv(name, value)
    place = launch._place(Processes(cluster="slurm", start_seconds=5))
    assert place[0].startswith("node3:") and place[1:3] == (2, 1)
    monkeypatch.delenv("SLURM_PROCID")
    with pytest.raises(InputError, match="cluster slurm: SLURM_PROCID is not set"):
        launch._place(Processes(cluster="slurm", start_seconds=5))


@pytest.mark.parametrize(
    ("error", "line", "status"),
    [
        (InputError("no such graph"), "no such graph", 2),
        (FloatingPointError("the loss is nan"), "the loss is nan", 1),
        (OSError(28, "No space left on device", "/full"), "/full: No space left on device", 2),
        (MemoryError("4 GiB"), "out of memory: 4 GiB", 2),
        (ConnectionResetError("gone"), "failed: ConnectionResetError", 1),
        (RuntimeError("a fault"), "failed: RuntimeError", 1),
    ],
)
def test_an_error_of_a_process_is_one_line_that_its_group_is_told(monkeypatch, error, line, status):
    class Failing:
        def fail(self, *said):
            raise SystemExit(said)

    monkeypatch.setattr(launch, "_join", lambda *about: Failing())
    monkeypatch.setattr(launch, "PATIENCE", 0)
    with pytest.raises(SystemExit) as ended, launch.process_group(Processes("host:1", 2, 0), {}):
        raise error
    assert ended.value.args == ((line, status),)


LATE = "UNKNOWN: Gloo ReduceScatter failed: [external/gloo/gloo/transport/tcp/buffer.cc:72] Read timeout [::1]:38624"
UNMET = "Gloo context initialization failed:\n[gloo/unbound_buffer.cc:78] Timed out waiting 30000ms for recv operation"
NO_KEY = "DEADLINE_EXCEEDED: GetKeyValue() timed out with key: cpu:gloo/0/1 and duration: 30s"
CLOSED = "UNKNOWN: Gloo AllReduce failed: [gloo/transport/tcp/pair.cc:547] Connection closed by peer [::1]:2475"


@pytest.mark.parametrize(
    "raised, why",
    [
        (LATE, "over 30 s later"),
        (UNMET, "over 30 s later"),
        (NO_KEY, "over 30 s later"),
        (CLOSED, "a connection broke"),
    ],
)
def test_where_gloo_gives_up_one_line_says_why_and_what_to_do(monkeypatch, capsys, raised, why):
    class Failing:
        def fail(self, *said):
            raise SystemExit(said)

    monkeypatch.setattr(launch, "_join", lambda *about: Failing())
    monkeypatch.setattr(launch, "PATIENCE", 0)
    with pytest.raises(SystemExit) as ended, launch.process_group(Processes("host:1", 2, 0), {}):
        raise jax.errors.JaxRuntimeError(raised)
    (line, status), output = ended.value.args[0], capsys.readouterr()
    assert status == 1 and why in line and "the same commands continue from the last checkpoint" in line
    assert " ".join(raised.split()) in line and "\n" not in line and "Traceback" not in output.err
