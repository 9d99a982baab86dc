"""The fuzzer's cases and some of its mutants; `python tests/support/fuzz.py --mutants 5000` runs more."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

FUZZER = Path(__file__).parent / "support" / "fuzz.py"
HEEDS_INTERRUPTS = """import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)  # which what runs in the background ignores
os.execv(sys.argv[1], sys.argv[1:])
"""


def test_no_mutant_ends_in_a_traceback(tmp_path):
    command = [sys.executable, FUZZER, "--mutants", "40", "--folder", tmp_path / "fuzz"]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_mutant_at_a_python_door_ends_in_a_traceback():
    pytest.importorskip("pandas")
    command = [sys.executable, FUZZER.with_name("fuzz_doors.py"), "--mutants", "200", "--seed", "1"]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="what a process has imported is read in /proc")
@pytest.mark.parametrize(
    ("module", "about", "signal_sent"),
    [
        ("train", ["--workdir=run"], signal.SIGINT),
        ("train", ["--workdir=run"], signal.SIGTERM),
        ("partition", [], signal.SIGINT),
    ],
)
def test_an_interrupt_while_modules_are_imported_is_one_line(module, about, signal_sent, tmp_path):
    """Sent as soon as numpy is there: jax, or networkx, is imported then."""
    command = [sys.executable, "-c", HEEDS_INTERRUPTS, sys.executable, "-m", f"hetjax.{module}", *about]
    environment = os.environ | {"GLIBC_TUNABLES": "", "PYTHONPATH": str(FUZZER.parent.parent)}
    started = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True, cwd=tmp_path)
    while started.poll() is None and "_multiarray_umath" not in Path(f"/proc/{started.pid}/maps").read_text():
        time.sleep(0.001)
    assert ending_by(started, signal_sent) == (128 + signal_sent, "hetjax: stopped\n")


@pytest.mark.parametrize("signal_sent", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_while_training_is_one_line(signal_sent, tmp_path):
    """Sent as soon as the first epoch was trained."""
    options = ["--workdir=run", "--synthetic.scale=0.001", "--train.epochs=100000", "--train.accuracy_nodes=0"]
    command = [sys.executable, "-c", HEEDS_INTERRUPTS, sys.executable, "-m", "hetjax.train", *options]
    environment = os.environ | {"GLIBC_TUNABLES": "", "PYTHONPATH": str(FUZZER.parent.parent)}
    started = subprocess.Popen(
        command, env=environment, stderr=subprocess.PIPE, text=True, cwd=tmp_path, stdout=subprocess.DEVNULL
    )
    records = tmp_path / "run" / "metrics.jsonl"
    while started.poll() is None and not (records.exists() and records.read_text()):
        time.sleep(0.01)
    words = "hetjax: stopped; the same command continues from the last checkpoint, if there is one\n"
    assert ending_by(started, signal_sent) == (128 + signal_sent, words)


LOST = """import gc, signal, sys, time
import hetjax.system.runtime
from hetjax.options.command_line import run_command

def main(given):
    def callback(*_):
        gc.callbacks.remove(callback)
        signal.raise_signal(int(sys.argv[1]))
    gc.callbacks.append(callback)
    gc.collect()
    time.sleep(50)

hetjax.system.runtime.hush()
run_command(main)
"""


@pytest.mark.parametrize("signal_sent", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_in_a_callback_is_not_lost(signal_sent):
    """Python passes over what is raised there; jax has a callback that the garbage collector calls."""
    command = [sys.executable, "-c", HEEDS_INTERRUPTS, sys.executable, "-c", LOST, str(int(signal_sent))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=40, check=False)
    words = "hetjax: stopped; the same command continues from the last checkpoint, if there is one\n"
    assert (done.returncode, done.stderr) == (128 + signal_sent, words)


def ending_by(started: subprocess.Popen, signal_sent: signal.Signals) -> tuple[int, str]:
    """A process's exit status and what it said, once it was sent a signal; it does not outlive the test."""
    try:
        started.send_signal(signal_sent)
        error = started.communicate(timeout=60)[1]
    finally:
        started.kill()
        started.wait()
    return started.returncode, error
