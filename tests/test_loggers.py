"""Records that also go elsewhere."""

import struct
import sys
from types import SimpleNamespace

import pytest

from hetjax.system.errors import InputError
from hetjax.training.loggers import Logger, Loggers, check, find
from hetjax.training.records import Records

OPTIONS = {"model.name": "rgcn", "train.epochs": 2}
EPOCHS = [{"epoch": 1, "step": 4, "train_loss": 2.0, "validation_accuracy": None}]
EPOCHS += [{"epoch": 2, "step": 8, "train_loss": 1.0, "validation_accuracy": 0.5}, {"test_accuracy": 0.25}]


def record(folder, *names, step=0) -> Records:
    records = Records(folder / "metrics.jsonl", 0, Loggers(names, folder, OPTIONS, step))
    for one in EPOCHS:
        records.write(one)
    return records


def test_tensorboard_reads_its_event_files(tmp_path):
    event_pb2 = pytest.importorskip("tensorboardX.proto.event_pb2", reason="tensorboardX is not installed")
    record(tmp_path, "tensorboard").loggers.close(None)
    (file,) = (tmp_path / "events").iterdir()
    data, found = file.read_bytes(), []
    while data:  # a record: its length, a checksum, itself, a checksum
        (length,) = struct.unpack("<Q", data[:8])
        event = event_pb2.Event.FromString(data[12 : 12 + length])
        found += [(value.tag, event.step, value.simple_value) for value in event.summary.value if value.simple_value]
        data = data[16 + length :]
    losses = [("loss/train", 4, 2.0), ("loss/train", 8, 1.0)]
    assert found == [*losses, ("accuracy/validation", 8, 0.5), ("accuracy/test", 8, 0.25)]


class Mine(Logger):
    """One of a user's own."""

    def __init__(self, folder, config, step):
        self.told = [(folder, config, step)]

    def record(self, step, values):
        self.told.append((step, values))

    def close(self, folder):
        self.told.append(folder)


def test_one_of_your_own_gets_every_number(tmp_path):
    loggers = record(tmp_path, "tests.test_loggers:Mine", step=3).loggers
    (mine,) = loggers.loggers
    loggers.close(tmp_path)
    assert mine.told == [
        (tmp_path, OPTIONS, 3),
        (4, {"train_loss": 2.0}),
        (8, {"train_loss": 1.0, "validation_accuracy": 0.5}),
        (8, {"test_accuracy": 0.25}),
        tmp_path,
    ]


class Broken(Mine):
    """Whose server is gone."""

    def record(self, step, values):
        raise ConnectionError("no\nserver")


def test_one_that_fails_is_said_once_and_costs_nothing(tmp_path, caplog):
    record(tmp_path, "tests.test_loggers:Broken", "tests.test_loggers:Mine").loggers.close(tmp_path)
    assert caplog.messages == ["train.loggers: Broken gets no more: ConnectionError: no server"]
    assert len((tmp_path / "metrics.jsonl").read_text().splitlines()) == 3


@pytest.mark.parametrize(
    "name, message",
    [
        ("tensorbord", "train.loggers: 'tensorbord', and there are tensorboard, mlflow, wandb, or MODULE:NAME"),
        ("tests.test_loggers:OPTIONS", "should be a class that inherits from hetjax.training.loggers.Logger"),
        ("no_such_module:Logger", "train.loggers: no_such_module:Logger: ModuleNotFoundError"),
    ],
)
def test_what_is_no_logger_is_one_line(name, message):
    with pytest.raises(InputError, match=message):
        find(name)


def test_a_package_that_is_missing_is_named(monkeypatch):
    monkeypatch.setattr("hetjax.training.loggers.find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"wandb needs wandb: pip install 'hetjax\[wandb\]'"):
        check(["wandb"])


@pytest.fixture
def calls(monkeypatch):
    """Stand-ins for the two libraries that need a server: they note how they are called."""
    calls = []

    def note(name, result=None):
        return lambda *args, **kwargs: calls.append((name, args, kwargs)) or result

    run = SimpleNamespace(id="n1", log=note("log"), finish=note("finish"), info=SimpleNamespace(run_id="n1"))
    names = "log_params", "log_metrics", "log_artifact", "end_run"
    mlflow = SimpleNamespace(start_run=note("start_run", run), **{name: note(name) for name in names})
    monkeypatch.setattr("hetjax.training.loggers.find_spec", lambda name: True)
    for name, module in (("mlflow", mlflow), ("wandb", SimpleNamespace(init=note("init", run)))):
        monkeypatch.setitem(sys.modules, name, module)
        monkeypatch.delitem(sys.modules, f"hetjax.training.loggers.{name}", raising=False)
    yield calls
    for name in ("mlflow", "wandb"):
        sys.modules.pop(f"hetjax.training.loggers.{name}", None)


def test_mlflow_continues_its_run(tmp_path, calls):
    record(tmp_path, "mlflow").loggers.close(tmp_path)
    made = " ".join(name for name, _, _ in calls)
    assert made == f"start_run log_params {'log_metrics ' * 3}log_artifact log_artifact end_run"
    assert calls[3][1:] == (({"train_loss": 1.0, "validation_accuracy": 0.5},), {"step": 8})
    calls.clear()
    Loggers(["mlflow"], tmp_path, OPTIONS, 8).close(None)
    assert [name for name, _, _ in calls] == ["start_run", "end_run"] and calls[0][2]["run_id"] == "n1"


def test_wandb_continues_its_run(tmp_path, calls):
    record(tmp_path, "wandb").loggers.close(tmp_path)
    assert [name for name, _, _ in calls] == ["init", "log", "log", "log", "finish"]
    assert calls[0][2]["id"] is None and calls[-1][2] == {"exit_code": 0}
    Loggers(["wandb"], tmp_path, OPTIONS, 8).close(None)
    assert calls[5][2]["id"] == "n1" and calls[6][2] == {"exit_code": 1}


def test_where_the_second_cannot_start_the_first_ends(tmp_path, monkeypatch):
    ended = []
    monkeypatch.setattr(Mine, "close", lambda self, folder: ended.append(folder))
    with pytest.raises(InputError):
        Loggers(["tests.test_loggers:Mine", "tests.test_loggers:Nothing"], tmp_path, OPTIONS, 0)
    assert ended == [None]
