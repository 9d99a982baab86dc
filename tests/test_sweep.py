"""A search over options: on the validation nodes alone, and continued where it stopped."""

import csv
import json
import shutil
import statistics
from pathlib import Path

import pytest
import yaml

from hetjax import sweep
from hetjax.system.errors import InputError
from tests.support.commands import here

OVER = ["--over", "model.hidden=4,6", "train.learning_rate=0.01", "--seeds", "2"]


@pytest.fixture
def search(stored, tmp_path, monkeypatch):
    """Run a search, whose runs are trained in this process; gives what was trained, and what was said."""
    keys = {"data": {"format": "store", "path": str(stored)}, "sampling": {"mode": "full", "fanout": [3]}}
    keys |= {"model": {"feature_width": 4, "layers": 1}, "train": {"epochs": 2, "recipe": "none"}}
    (tmp_path / "c.yaml").write_text(yaml.safe_dump(keys))
    started: list[Path] = []

    def train(command, **_):
        started.append(Path(command[command.index("--workdir") + 1]).relative_to(tmp_path / "out"))
        return here(command[2], *command[3:])

    def run(*arguments):
        started.clear()
        with monkeypatch.context() as patch:
            patch.setattr(sweep.subprocess, "run", train)
            done = here("hetjax.sweep", "--config", tmp_path / "c.yaml", "--out", tmp_path / "out", *arguments)
        return [str(folder) for folder in started], done

    return run


def test_a_search_compares_on_validation_alone_and_continues(search, tmp_path):
    started, done = search(*OVER)
    names = [f"hidden={hidden}_learning_rate=0.01/seed_{seed}" for hidden in (4, 6) for seed in (0, 1)]
    assert done.returncode == 0 and started == names, done.stderr
    found: dict[str, list[float]] = {"4": [], "6": []}
    for name in names:
        records = [json.loads(line) for line in (tmp_path / "out" / name / "metrics.jsonl").read_text().splitlines()]
        summary = json.loads((tmp_path / "out" / name / "summary.json").read_text())
        assert summary["test_accuracy"] is None and not any(key.startswith("test") for r in records for key in r)
        found[name[7]].append(max(record["validation_micro_f1"] for record in records))
    with open(tmp_path / "out" / "sweep.csv") as stream:
        table = {row["model.hidden"]: row for row in csv.DictReader(stream)}
    for hidden, values in found.items():
        assert float(table[hidden]["mean"]) == statistics.fmean(values) and table[hidden]["runs"] == "2"
        assert float(table[hidden]["deviation"]) == statistics.stdev(values)
    best = max(found, key=lambda hidden: statistics.fmean(found[hidden]))
    assert next(iter(table)) == best and f"--model.hidden={best}" in done.stdout
    assert (tmp_path / "out" / "sweep.png").read_bytes().startswith(b"\x89PNG")

    assert search(*OVER)[0] == []
    shutil.rmtree(tmp_path / "out" / names[2])
    started, done = search(*OVER[:-1], "3")
    assert started == ["hidden=4_learning_rate=0.01/seed_2", names[2], "hidden=6_learning_rate=0.01/seed_2"]
    assert done.returncode == 0


def test_runs_whose_options_the_graph_chose_are_not_trained_again(search, tmp_path):
    arguments = ["--over", "train.learning_rate=0.01", "--seeds", "1"]
    config = yaml.safe_load((tmp_path / "c.yaml").read_text())
    config["train"]["recipe"] = "graph"
    (tmp_path / "c.yaml").write_text(yaml.safe_dump(config))
    started, done = search(*arguments)
    kept = yaml.safe_load((tmp_path / "out" / started[0] / "config.yaml").read_text())
    assert (
        done.returncode == 0 and kept["model"]["norm"] == "layer" and kept["train"]["epochs"] == 2
    )  # chosen, and given
    assert search(*arguments)[0] == []
    config["train"]["epochs"] = 3
    (tmp_path / "c.yaml").write_text(yaml.safe_dump(config))
    assert search(*arguments)[0] == started


def test_a_run_that_diverged_comes_last_and_is_not_trained_again(search, tmp_path):
    arguments = ["--over", "train.learning_rate=1e38,0.01", "--seeds", "1"]
    started, done = search(*arguments)
    assert done.returncode == 0 and "a lower train.learning_rate may help" in done.stderr
    with open(tmp_path / "out" / "sweep.csv") as stream:
        table = list(csv.DictReader(stream))
    assert [(row["train.learning_rate"], row["diverged"]) for row in table] == [("0.01", "0"), ("1e38", "1")]
    assert len(started) == 2 and search(*arguments)[0] == []


@pytest.mark.parametrize(
    "arguments, message",
    [
        ([], "--over names no option to vary"),
        (["--over", "model.hidden"], "over: 'model.hidden', and should be SECTION.KEY=VALUE"),
        (["--over", "model.hidden=1", "model.hidden=2"], "each option once"),
        (["--over", "train.seed=1,2"], "each option once"),
        (["--over", "model.hiden=1,2"], "unknown option --model.hiden; the nearest known one is --model.hidden"),
        (["--over", "model.hidden=1,0"], "model.hidden is 0, and must be in 1..65536"),
        (["--over", "model.hidden=1", "--seeds", "0"], "seeds is 0, and must be in 1..10000"),
        (["--over", "model.hidden=1", "--seds", "0"], "unknown option --seds; the nearest known one is --seeds"),
    ],
)
def test_what_cannot_be_is_one_line_before_anything_is_trained(search, tmp_path, arguments, message):
    started, done = search(*arguments)
    assert done.returncode == 2 and message in done.stderr and done.stderr.count("\n") == 1
    assert not started and not (tmp_path / "out").exists()


def test_values_may_be_lists_and_folders_are_apart():
    given = sweep.Options("sampling.fanout=[5,4],[10,10] data.path=/a/b,/a-b", 1)
    runs = list(sweep.grid(given))
    assert [run.point["sampling.fanout"] for run in runs] == ["[5,4]", "[5,4]", "[10,10]", "[10,10]"]
    assert len({run.folder for run in runs}) == 4 and all(
        run.folder.parent.parent == Path("runs/sweep") for run in runs
    )
    with pytest.raises(InputError, match="over 10000 runs"):
        list(sweep.grid(sweep.Options("a.b=" + ",".join(map(str, range(6000))), 2)))


def test_the_lowest_is_first_where_less_is_better():
    rows = [
        {"model.hidden": value, "seed": 0, "metric": "rmse", "validation": score, "epoch": 1, "seconds": 1.0}
        for value, score in (("8", 9.0), ("16", 1.0))
    ]
    assert [one["model.hidden"] for one in sweep.ranked(rows, lower=True)] == ["16", "8"]
    assert [one["model.hidden"] for one in sweep.ranked(rows)] == ["8", "16"]
