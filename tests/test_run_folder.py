"""A run's folder that is damaged: the run continues from what is whole and says what it left out, or one line ends it; nothing is lost."""

import gc
import hashlib
import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import yaml

from hetjax import train
from hetjax.cache import penalty
from hetjax.checkpoints.checkpoint import Checkpoints, Damaged
from hetjax.checkpoints.progress import Progress, check_progress
from hetjax.graph import store
from hetjax.options.command_line import run_command
from hetjax.options.config import Config, as_dict
from hetjax.results import results
from hetjax.results.pictures import draw_run
from hetjax.system.errors import InputError
from hetjax.system.mapped import mapped
from hetjax.training.meters import Rises
from hetjax.training.records import Records
from hetjax.training.workdir import Workdir
from tests.support.graphs import random_graph

pytestmark = pytest.mark.filterwarnings("ignore:unclosed file")  # a run's lock, held until its process ends

NUMBERS = {"loss": 1.0, "accuracy": 0.5, "micro_f1": 0.5, "macro_f1": 0.5}
PROGRESS = {"epoch": 1, "step": 2, "nodes": 3, "metrics_bytes": 4, "loss_sum": 1.5, "seconds": 2.0, "graph": "a"}
PROGRESS |= {"capacities": {"b": 8}, "best": {"step": 1, "epoch": 1} | NUMBERS}


def start(folder, graph, capfd, *more) -> tuple[int, str]:
    """Train in this process; the exit status, and what was said in its errors."""
    options = ["--workdir", folder, "--data.format", "store", "--data.path", graph, "--sampling.mode", "full"]
    options += ["--model.hidden", 4, "--model.feature_width", 4, "--model.layers", 1, "--train.epochs", 3, *more]
    options += ["--sampling.fanout", "[3]", "--train.recipe", "none"]
    capfd.readouterr()
    try:
        run_command(train.main, list(map(str, options)))
        return 0, capfd.readouterr().err
    except SystemExit as stopped:
        return stopped.code, capfd.readouterr().err
    finally:
        gc.collect()  # what holds a lock as long as its process lives


@pytest.fixture(scope="module")
def graph_store(tmp_path_factory):
    path = tmp_path_factory.mktemp("stores") / "graph"
    store.save(random_graph(), path)
    return path


@pytest.fixture
def run(graph_store, tmp_path, capfd):
    """A copy of a run that is done, and its store."""
    done = graph_store.parent / "run"
    if not done.exists():
        status, said = start(done, graph_store, capfd)
        assert status == 0, said
    return shutil.copytree(done, tmp_path / "run"), graph_store


def contents(folder) -> dict[str, str]:
    files = (file for file in folder.rglob("*") if file.is_file() and file.name != ".lock")
    return {str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def rewrite(checkpoint, **changes):
    """Change a checkpoint's progress, and its digest with it."""
    file = checkpoint / "progress.json"
    text = json.dumps(json.loads(file.read_text()) | changes)
    file.write_text(text)
    digests = json.loads((checkpoint / "digests.json").read_text())
    digests["progress.json"] = [len(text), hashlib.blake2b(text.encode(), digest_size=16).hexdigest()]
    (checkpoint / "digests.json").write_text(json.dumps(digests))


def test_a_run_continues_from_what_is_whole(run, capfd):
    folder, graph = run
    before = [json.loads(line) | {"seconds": 0} for line in (folder / "metrics.jsonl").read_text().splitlines()]
    (folder / "summary.json").write_text('{"test_accuracy": 1}')
    (folder / "tables_9x").mkdir()
    (folder / "checkpoints" / "999999999999").write_text("precious")
    newest = max((folder / "checkpoints").glob("000*"))
    rewrite(newest, epoch="x")
    lines = (folder / "metrics.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "metrics.jsonl").write_bytes(b"?" * (len(lines[0]) - 1) + b"\n" + b"".join(lines[1:]))
    status, said = start(folder, graph, capfd)
    assert status == 0 and "Traceback" not in said, said
    for words in (
        "summary.json: lacks 'test_micro_f1'; this is no summary",
        f"checkpoint {folder / 'checkpoints' / '999999999999'} is damaged",
        f"checkpoint {newest} is damaged: ValueError: epoch is 'x', and should be a whole number",
        "metrics.jsonl: line 1: no record of this run",
    ):
        assert words in said, said
    assert (folder / "checkpoints" / "damaged_999999999999").read_text() == "precious"
    assert (folder / "checkpoints" / f"damaged_{newest.name}").is_dir() and (folder / "tables_9x").is_dir()
    after = (folder / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line) | {"seconds": 0} for line in after[1:]] == before[1:]
    assert json.loads((folder / "summary.json").read_text())["epoch"] in (1, 2, 3)


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("another step", "progress.json: step 2 of the run != 3, the checkpoint's; move this checkpoint away"),
        ("records cut", "metrics.jsonl: 40 bytes, and the checkpoint had seen"),
        ("records a folder", "metrics.jsonl: is no file, and should be one"),
    ],
)
def test_what_cannot_go_on_is_a_line_and_all_stays_as_it_was(run, capfd, what, words):
    folder, graph = run
    (folder / "checkpoints" / "999999999999").write_text("precious")
    if what == "another step":
        rewrite(folder / "checkpoints" / "000000000003", epoch=2)
        (folder / "summary.json").unlink()
    elif what == "records cut":
        (folder / "metrics.jsonl").write_bytes((folder / "metrics.jsonl").read_bytes()[:40])
    else:
        (folder / "metrics.jsonl").unlink()
        (folder / "metrics.jsonl").mkdir()
    before = contents(folder)
    status, said = start(folder, graph, capfd, "--train.epochs", 4)
    assert status == 2 and words in said.splitlines()[-1] and "Traceback" not in said, said
    assert contents(folder) == before


@pytest.mark.parametrize("name", ["curves.png", "cache.png", "summary.json", "config.yaml", "metrics.jsonl"])
def test_a_folder_in_a_files_place(tmp_path, name):
    (tmp_path / name).mkdir()
    with pytest.raises(InputError, match=f"{name}: is no file, and should be one"):
        Workdir(tmp_path, as_dict(Config()))


@pytest.mark.parametrize("name", ["tables", "tables_1", "checkpoints", "partition_raf_2x1"])
def test_a_file_in_a_folders_place(tmp_path, name):
    (tmp_path / name).write_text("")
    with pytest.raises(InputError, match=f"{name}: is no folder, and should be one"):
        Workdir(tmp_path, as_dict(Config()))
    if name == "tables":
        with pytest.raises(InputError, match=r"tables/a: .*; 24 bytes are needed"):
            mapped(tmp_path / "tables" / "a", (2, 3), np.float32)


@pytest.mark.parametrize("text", ["[1, 2]", "{", "[" * 10**3, "a: {b: 1}\nc: [1", "\x00"], ids=range(5))
def test_a_configuration_of_another_shape(tmp_path, text):
    (tmp_path / "config.yaml").write_text(text)
    with pytest.raises(InputError, match="config.yaml: .*give another --workdir"):
        Workdir(tmp_path, as_dict(Config()))


@pytest.mark.parametrize("text", ["[]", "5", "{}", '{"test_accuracy": "x"}', "[" * 10**5], ids=range(5))
def test_a_summary_of_another_shape_counts_for_nothing(tmp_path, caplog, text):
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(as_dict(Config())))
    (tmp_path / "summary.json").write_text(text)
    assert results.summary_of(Workdir(tmp_path, as_dict(Config())).summary_file()) is None
    assert "is made again from the checkpoint" in caplog.text


@pytest.mark.parametrize("text", ["5", "[]", '["a"]', '{"progress.json": 5}', "[" * 10**5, "null"], ids=range(6))
def test_digests_of_another_shape_are_damage(tmp_path, text):
    checkpoints = Checkpoints(tmp_path)
    folder = checkpoints.at(1).folder
    folder.mkdir()
    (folder / "progress.json").write_text('{"best": null}')
    (folder / "digests.json").write_text(text)
    with pytest.raises(Damaged, match=f"checkpoint {folder} is damaged: "):
        checkpoints.at(1).verify()


@pytest.mark.parametrize(
    "change",
    [
        {"epoch": -1},
        {"step": 1.5},
        {"nodes": True},
        {"metrics_bytes": 10**30},
        {"loss_sum": float("nan")},
        {"seconds": float("inf")},
        {"graph": None},
        {"capacities": []},
        {"capacities": {"a": -1}},
        {"capacities": {"a": 2**40}},
        {"best": {"step": "1", "epoch": 1} | NUMBERS},
        {"best": {"step": 1, "epoch": 1} | NUMBERS | {"loss": None}},
        {"best": {"step": 1, "epoch": 1} | NUMBERS | {"threshold": 1}},
        {"more": 1},
    ],
    ids=str,
)
def test_progress_that_no_run_writes(change):
    check_progress(PROGRESS)
    check_progress(PROGRESS | {"best": None})
    with pytest.raises(ValueError, match=r"should be|no text|no dictionary|not known"):
        check_progress(PROGRESS | change)


def test_records_leave_out_what_is_none(tmp_path):
    file, said = tmp_path / "metrics.jsonl", []
    text = b'{"epoch": 1, "train_loss": 2.0}\nnull\n{"epoch": "x"}\n\xff\n{"test_accuracy": 0.5}\n'
    file.write_bytes(text)
    with pytest.raises(InputError, match="no line ends at byte 5"):
        Records(file, 5)
    assert file.read_bytes() == text
    found = Records(file, len(text)).all(said.append)
    assert found == [{"epoch": 1, "train_loss": 2.0}, {"test_accuracy": 0.5}] and file.read_bytes() == text
    assert said == [f"{file}: line 2 and 2 more: no record of this run, and so not in curves.png"]


def test_penalties_of_another_shape_are_measured_again(tmp_path, monkeypatch):
    file = tmp_path / "penalties.json"
    monkeypatch.setattr(penalty, "measure", lambda *_: {})
    for text in ("[" * 10**5, "[]", "5"):
        file.write_text(text)
        assert penalty.read_or_measure(file, {}, {}, {}) == {} and "about" in json.loads(file.read_text())


CACHE = {"node_type": r"$\frac$", "place": "host", "hits": 0, "misses": 3, "kept": 0, "rows": 9}
CACHE |= {"sent_bytes": 0, "returned_bytes": 0}


def test_pictures_cost_no_results(tmp_path, caplog):
    records = [{"epoch": 1, "train_loss": 1.0, "validation_accuracy": 1.0}, {"test_accuracy": 1.0}]
    draw_run(records, [CACHE], tmp_path, r"rgcn on $\frac$")
    assert not caplog.messages and {file.name for file in tmp_path.iterdir()} == {"curves.png", "cache.png"}
    (tmp_path / "curves.png").unlink()
    (tmp_path / "curves.png").mkdir()
    draw_run(records, [], tmp_path, "")
    assert caplog.messages[-1].startswith("no curves.png: ")


@pytest.mark.parametrize(("accuracies", "panels"), [((None, None), 1), ((0.5, 1.0), 2)])
def test_curves_have_no_empty_panel_and_hide_no_line(tmp_path, monkeypatch, accuracies, panels):
    from matplotlib import pyplot

    kept = []
    monkeypatch.setattr(pyplot, "close", kept.append)
    records = [{"epoch": n, "train_loss": 1.0, "validation_accuracy": one} for n, one in enumerate(accuracies, start=1)]
    draw_run([*records, {"test_accuracy": 1.0}], [CACHE], tmp_path, "rgcn on aifb")
    monkeypatch.undo()
    curves, cache = kept
    assert len(curves.axes) == panels and curves.get_suptitle().startswith("rgcn on aifb")
    if panels == 2:
        assert curves.axes[1].get_ylim()[1] > 1 and len(curves.axes[1].lines) == 2
    else:
        assert "test accuracy 1.000" in curves.get_suptitle()
    assert len(cache.axes) == 4 and cache.get_suptitle() and all(axis.texts[0].get_text() == "0" for axis in cache.axes)
    for figure in kept:
        pyplot.close(figure)


@pytest.mark.parametrize(
    ("losses", "place"),
    [
        ([1.4, 30.0, 900.0], 1),
        ([1.4, 9.0, 40.0, 1000.0], 2),
        ([1.4, 5.0, 25.0, 90.0], None),
        ([1.4, 0.01, 0.0001, 0.4, 0.9], None),
        ([50.0, 40.0, 30.0], None),
    ],
)
def test_a_loss_that_rises_steeply_is_said_once(losses, place):
    rises = Rises()
    said = [bool(rises.note(loss)) for loss in losses]
    assert said == [number == place for number in range(len(losses))]
    words = Rises()
    words.note(1.4)
    assert "rose from 1.4 to 43 within two steps; a lower --train.learning_rate may help" in words.note(43)


def test_what_to_try_next_works_from_a_wheel(tmp_path):
    summary = dict.fromkeys(("seconds", "peak_memory_bytes", "compiled_programs", "epoch"), 1)
    summary |= dict.fromkeys(("validation_accuracy", "test_accuracy", "test_micro_f1", "test_macro_f1"), 0.5)
    lines = results.lines(summary | {"milliseconds_per_step": {}}, tmp_path, True)
    assert "try next" in "".join(lines) and "examples/" not in "".join(lines)


def test_the_best_epoch_is_by_the_metric_that_was_chosen():
    epochs = [
        NUMBERS | {"micro_f1": f1, "roc_auc": area} for f1, area in ((0.9, None), (0.8, 0.6), (0.7, 0.9), (0.9, 0.2))
    ]
    for metric, best in (("micro_f1", 1), ("roc_auc", 3)):
        progress = Progress()
        for number, quality in enumerate(epochs, start=1):
            progress.epoch = number
            progress.validated(quality, number, metric)
        assert progress.best["epoch"] == best
        check_progress(json.loads(json.dumps(vars(progress))))
    with pytest.raises(ValueError, match="best.roc_auc is 'x', and should be a number"):
        check_progress(PROGRESS | {"best": PROGRESS["best"] | {"roc_auc": "x"}})


@pytest.fixture
def two_classes(graph, tmp_path):
    """A store of the random graph with its third class as a second."""
    store.save(
        replace(graph, schema=replace(graph.schema, classes=2), labels=np.minimum(graph.labels, 1)), tmp_path / "two"
    )
    return tmp_path / "two"


def test_a_run_is_chosen_by_its_roc_auc(two_classes, tmp_path, capfd, monkeypatch):
    said = []
    monkeypatch.setattr("hetjax.system.logs.tqdm.write", lambda words, **_: said.append(words))
    assert start(tmp_path / "run", two_classes, capfd, "--train.metric", "roc_auc")[0] == 0
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["chosen_by"] == "roc_auc" and 0 <= summary["test_roc_auc"] <= 1
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    best = max(lines[:3], key=lambda line: (line["validation_roc_auc"], -line["validation_loss"]))
    assert summary["epoch"] == best["epoch"] and summary["validation_roc_auc"] == best["validation_roc_auc"]
    assert f"ROC AUC {100 * summary['test_roc_auc']:.2f} %" in "\n".join(said)
    assert f"(epoch {best['epoch']}, chosen by its validation ROC AUC" in "\n".join(said)


def test_roc_auc_needs_validation_nodes_of_two_classes(two_classes, tmp_path, capfd):
    labels = np.load(two_classes / "labels.npy")
    graph = store.open(two_classes)
    alike = {"validation": np.flatnonzero(labels == 1)[:2].astype(np.int32)}
    alike["train"] = np.setdiff1d(graph.splits["train"], alike["validation"])
    alike["test"] = np.setdiff1d(graph.splits["test"], alike["validation"])
    store.save(replace(graph, splits=alike), tmp_path / "alike")
    status, error = start(tmp_path / "run", tmp_path / "alike", capfd, "--train.metric", "roc_auc")
    assert status == 2 and error.endswith(
        "of the 2 validation nodes there is no class that some have and some have not\n"
    )


def test_a_run_that_is_done_says_where_its_graph_is_another_one_now(run, capfd):
    folder, path = run
    before = path.with_name("before")
    path.rename(before)
    try:
        store.save(random_graph(5), path)
        status, said = start(folder, path, capfd)
        assert status == 2 and "the graph of this run was another" in said
    finally:
        shutil.rmtree(path)
        before.rename(path)
    status, said = start(folder, path, capfd)
    assert status == 0, said
