"""A platform that jax cannot have is one line at every door: what was asked for, what there is, what to do."""

import os
import subprocess
import sys
from types import SimpleNamespace

import jax
import pytest

from hetjax.system import backend
from tests.support.commands import ROOT

NO_PLUGIN = RuntimeError("Unable to initialize backend 'tpu': INTERNAL: Failed to open\nlibtpu.so")
DOORS = """
import pathlib, sys, hetjax
from hetjax import predict, train
from hetjax.doctor import __main__ as doctor
from hetjax.options.command_line import run_command
from hetjax.doctor import system
from hetjax.objects.arrays import from_arrays

folder = pathlib.Path(sys.argv[1])
(folder / "run").mkdir()
(folder / "run" / "config.yaml").write_text("{}", encoding="utf-8")
graph = from_arrays({("a", "to", "a"): ([0, 1, 2], [1, 2, 3])}, labels={"a": [0, 1, 0, 1]})
commands = {
    train.main: ["--synthetic.scale", "0.001", "--workdir", str(folder / "new")],
    predict.main: ["--workdir", str(folder / "run"), "--out", str(folder / "out.csv")],
}
for main, arguments in commands.items():
    try:
        run_command(main, arguments)
    except SystemExit as end:
        print("status", end.code)
for call in (
    lambda: hetjax.train(graph, folder / "python", epochs=1),
    lambda: hetjax.predict(folder / "run"),
    lambda: hetjax.load(folder / "run"),
):
    try:
        call()
    except hetjax.system.errors.InputError as error:
        print("raised", error)
for finding in system.devices():
    print(finding)
print("there are", sorted(file.name for file in folder.iterdir() if file.name != "python"))
"""


@pytest.mark.parametrize("platforms", ["cuda", "nonsense"])
def test_a_platform_that_cannot_be_had_is_one_line_at_every_door(tmp_path, platforms):
    environment = os.environ | {"JAX_PLATFORMS": platforms, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", DOORS, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path)
    said = f"JAX_PLATFORMS is {platforms!r}, and jax "
    errors = done.stderr.splitlines()
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
    assert len(errors) == 2 and all(line.startswith(f"hetjax: error: {said}") for line in errors), done.stderr
    lines = done.stdout.splitlines()
    assert lines.count("status 2") == 2
    assert sum(line.startswith(f"raised {said}") for line in lines) == 3
    assert sum(line.startswith(f"wrong  {said}") for line in lines) == 1
    assert "installed here for cpu" in done.stdout and "unset JAX_PLATFORMS" in done.stdout
    assert lines[-1] == "there are ['run']"


@pytest.mark.parametrize(
    "platforms, error, words",
    [
        ("cuda", AssertionError(), r"'cuda', and jax finds no device of platform 'cuda' here: .*nvidia-smi"),
        ("gpu", NO_PLUGIN, r"'gpu', and jax finds no device of platform 'gpu' here: .*nvidia-smi"),
        ("tpu", NO_PLUGIN, r"'tpu' here: .* \(RuntimeError: Unable .*open libtpu.so\); unset .*jax\[tpu\]"),
        ("rocm", NO_PLUGIN, r"'rocm' here: .*rocm-smi"),
        ("cuda,cpu", None, r"'cuda,cpu', and jax finds no device of platform 'cuda' here"),
        ("CPU", NO_PLUGIN, r"no platform 'CPU' here: .*known"),
        ("cpu,none", NO_PLUGIN, r"no platform 'none' here"),
        ("", NO_PLUGIN, r"jax does not start \(RuntimeError: .*\); pip install"),
    ],
)
def test_every_platform_is_refused_in_one_line(monkeypatch, platforms, error, words):
    def local_devices():
        if error:
            raise error
        return [SimpleNamespace(platform="cpu")]

    monkeypatch.setattr(jax, "local_devices", local_devices)
    monkeypatch.setattr(backend, "asked_for", lambda: platforms)
    with pytest.raises(backend.Unavailable, match=words) as raised:
        backend.local_devices()
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("platforms, platform", [("", "cpu"), ("cpu", "cpu"), ("cpu,cuda", "cpu"), ("cuda", "gpu")])
def test_what_can_be_had_is_taken(monkeypatch, platforms, platform):
    monkeypatch.setattr(jax, "local_devices", lambda: [SimpleNamespace(platform=platform)])
    monkeypatch.setattr(backend, "asked_for", lambda: platforms)
    assert backend.local_devices()[0].platform == platform
