"""The fuzzer: `python tests/support/fuzz.py --mutants 5000` meets every reader, command, plan, store and run folder with mutants.

A mutant passes if its command ends with exit 0, or with exit 2 and one line that begins `hetjax: error:`; without a
traceback, within 20 seconds of the processor, under 2.5 GB, and with nothing written outside of its folder and the caches.
Each runs in a child of a process that has imported everything; what is accepted stops before it is trained.
"""

import argparse
import functools
import multiprocessing
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))

import jax

from hetjax import partition, train
from hetjax.options.command_line import run_command
from hetjax.sharding.evaluate import Evaluator
from tests.support import corpus, mutants
from tests.support.mutants import Command

SECONDS, PATIENCE = 20, 90  # of the processor, and by the clock
MEMORY = 2_500_000_000
ERROR = "hetjax: error:"
SAID = "hetjax: ", "continuing from "


class Outcome(NamedTuple):
    """How a command ended.

    Attributes:
      status: its exit status; negative: a signal.
      error: what it printed as errors.
      memory: the most that it held.
      outside: what it wrote outside of its folder.
      taken: whether it took what it should have refused.
      left: what a refused command left in its folder.
    """

    status: int
    error: str
    memory: int
    outside: str
    taken: bool = False
    left: str = ""

    @property
    def fault(self) -> str:
        """Why a mutant does not pass; empty if it does."""
        lines = self.error.splitlines()
        last = lines[-1][:200] if lines else ""
        if self.memory > MEMORY:
            return f"memory {self.memory:,}"
        if self.status in (-signal.SIGXCPU, -signal.SIGALRM):
            return "hang"
        if self.taken:
            return "taken without a word"
        if self.status == 2 and self.left:
            return f"refused, and left {self.left}"
        if self.outside:
            return f"wrote {self.outside}"
        if "Traceback (most" in self.error:
            return f"traceback: {last}"
        one = sum(line.startswith(ERROR) for line in lines) == 1 and all(line.startswith(SAID) for line in lines)
        return (
            "" if self.status == 0 or (self.status == 2 and one) else f"exit {self.status}: {len(lines)} lines: {last}"
        )


def forked(work: Callable[[], object], folder: Path, allowed: Sequence[Path] = (), patience: int = PATIENCE) -> Outcome:
    """What becomes of a function in a child of this process, in `folder`, where alone it may write, and in `allowed`."""
    folder.mkdir(parents=True, exist_ok=True)
    child = os.fork()
    if not child:
        _live(work, folder, [folder, *allowed])
    started, peak = time.monotonic(), 0
    while True:
        pid, status, used = os.wait4(child, os.WNOHANG)
        if pid:
            break
        peak = max(peak, _resident(child))
        if peak > MEMORY or time.monotonic() - started > patience:
            os.kill(child, signal.SIGKILL if peak > MEMORY else signal.SIGALRM)
            _, status, used = os.wait4(child, 0)
            break
        time.sleep(0.01)
    error, outside = folder / ".stderr", folder / ".outside"
    peak = max(peak, used.ru_maxrss * (1 if sys.platform == "darwin" else 1024))
    return Outcome(
        os.waitstatus_to_exitcode(status),
        error.read_text(errors="replace"),
        peak,
        outside.read_text() if outside.exists() else "",
    )


def _resident(process: int) -> int:
    try:
        return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0


def _live(work: Callable[[], object], folder: Path, allowed: Sequence[Path]) -> None:
    """The child: its output goes to files, it is bounded, and tells where it opens, makes or moves what it should not."""
    status = 1
    try:
        os.chdir(folder)
        out, err, told = (
            os.open(name, os.O_CREAT | os.O_WRONLY | os.O_APPEND) for name in (".stdout", ".stderr", ".outside")
        )
        os.dup2(out, 1), os.dup2(err, 2)
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 5))
        sys.addaudithook(_watch(told, tuple(f"{os.path.realpath(one)}{os.sep}" for one in allowed)))
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        work()
        status = 0
    except SystemExit as stopped:
        status = stopped.code or 0
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(status if isinstance(status, int) else 1)


def _watch(told: int, allowed: tuple[str, ...]) -> Callable:
    def hook(event: str, given: tuple) -> None:
        if event == "open" and not (given[2] or 0) & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            return
        if event in ("open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.symlink", "os.truncate"):
            for path in given[: 2 if event == "os.rename" else 1]:
                if isinstance(path, str | bytes | os.PathLike) and not isinstance(given[-1], int) | (
                    event != "os.remove"
                ):
                    continue
                if isinstance(path, str | bytes | os.PathLike):
                    where = os.path.abspath(os.fsdecode(path))
                    inside = any(
                        f"{os.path.realpath(one)}{os.sep}".startswith(allowed)
                        for one in (where, os.path.dirname(where))
                    )
                    if not inside and where != os.devnull:
                        os.write(told, f"{event} {where}\n".encode(errors="backslashreplace"))

    return hook


class Fuzzer:
    """Seeds that every mutant starts from, in a folder of their own."""

    def __init__(self, folder: Path):
        self.folder, self.seeds = folder, folder / "seeds"
        jax.config.update("jax_disable_most_optimizations", True)
        caches = os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(folder / "programs"))
        self.caches = [Path(caches), Path.home() / ".cache", Path(tempfile.gettempdir(), "hetjax-metis")]
        self.caches += [Path(import_module(name).__file__).parent for name in ("hetjax", "matplotlib", "jax")]
        mutants.plant(self.seeds)
        self.made(
            "hetjax.train", [*mutants.train_on(self.seeds, "--sampling.mode=full"), f"--workdir={self.seeds / 'run'}"]
        )
        for name, more in (("plan", []), ("cut", ["--method=random"])):
            about = [f"--graph={self.seeds / 'store'}", "--parts=2", *more, f"--out={self.seeds / name}"]
            self.made("hetjax.partition", about)

    def made(self, module: str, arguments: list[str]) -> None:
        """Run a command of which a seed is made."""
        done = forked(
            lambda: _call((module, arguments), whole=True),
            self.folder / "making" / str(len(arguments)),
            [self.seeds, *self.caches],
            600,  # on a busy machine compiling takes that
        )
        assert not done.fault and done.status == 0, done

    def run(self, command: Command, folder: Path, whole: bool = False) -> Outcome:
        return forked(lambda: _call(command, whole), folder, self.caches)

    def mutant(self, seed: int, kinds: Sequence[str], number: int) -> tuple[str, Command, Outcome]:
        """Make and run one mutant."""
        folder = self.folder / f"mutant_{number}"
        kind, command = mutants.mutant(seed, number, self.seeds, folder, kinds)
        found = self.run(command, folder)
        if command[0] == "hetjax.ingest":
            own = {"in", ".stdout", ".stderr", ".outside"}
            found = found._replace(left=", ".join(sorted({entry.name for entry in folder.iterdir()} - own)))
        if not found.fault:
            shutil.rmtree(folder)
        return kind, command, found

    def case(self, name: str) -> tuple[Command, Outcome]:
        """Make and run one case of the corpus."""
        folder = self.folder / name.replace(" ", "_")
        folder.mkdir()
        case = corpus.CASES[name]
        command = case.command(self.seeds, folder)
        found = self.run(command, folder, case.whole)
        taken = case.refused and not found.fault and found.status == 0
        return command, found._replace(taken=taken)


MAINS = {
    name: import_module(f"hetjax.{module}").main
    for name, module in (
        ("train", "train"),
        ("predict", "predict"),
        ("convert", "convert"),
        ("ingest", "ingest.__main__"),
        ("partition", "partition.__main__"),
    )
} | {"read": lambda given: partition.read(given[0])}


def _call(command: Command, whole: bool) -> None:
    """Run a command; unless `whole`, no further than to where it is accepted, and something would be compiled."""
    module, arguments = command
    if not whole:
        train.loop = Evaluator.below = _accepted
    run_command(MAINS[module.removeprefix("hetjax.")], arguments)


def _accepted(*_, **__):
    raise SystemExit(0)


def table(rows: Sequence[tuple[str, Outcome]]) -> str:
    """Counts by kind: refused in one line, accepted, and faults."""
    counts = {kind: Counter() for kind, _ in rows}
    for kind, found in rows:
        counts[kind]["fault" if found.fault else "refused" if found.status else "accepted"] += 1
    counts["all"] = sum(counts.values(), Counter())
    lines = [f"{'':10}{'mutants':>9}{'refused':>9}{'accepted':>9}{'faults':>9}"]
    for kind, of in counts.items():
        lines.append(f"{kind:10}{of.total():9}{of['refused']:9}{of['accepted']:9}{of['fault']:9}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mutants", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--first", type=int, default=0, help="number of the first mutant; each is a function of seed and number"
    )
    parser.add_argument("--jobs", type=int, default=2, help="mutants that run at a time")
    known = ["options", *mutants.KINDS]
    parser.add_argument("--kinds", nargs="+", default=[], choices=known, help="which inputs are changed, if not all")
    parser.add_argument("--corpus", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--folder", type=Path, help="where mutants that do not pass are kept")
    given = parser.parse_args()
    folder = (given.folder or Path(tempfile.mkdtemp(prefix="fuzz_"))).absolute()
    fuzzer, rows = Fuzzer(folder), []
    for name in corpus.CASES if given.corpus else ():
        command, found = fuzzer.case(name)
        rows.append(("corpus", found))
        _say(name, command, found)
    with multiprocessing.get_context("fork").Pool(given.jobs) as pool:
        numbers = range(given.first, given.first + given.mutants)
        for number, (kind, command, found) in zip(
            numbers, pool.imap(functools.partial(fuzzer.mutant, given.seed, given.kinds), numbers)
        ):
            rows.append((kind, found))
            _say(f"mutant {number} ({kind})", command, found)
            if number % 500 == 499:
                print(f"{number + 1} mutants, {sum(bool(one.fault) for _, one in rows)} faults", flush=True)
    print(table(rows))
    sys.exit(any(found.fault for _, found in rows))


def _say(name: str, command: Command, found: Outcome) -> None:
    if found.fault:
        shown = " ".join(one[:120] for one in command[1]).encode("ascii", "backslashreplace").decode()
        print(f"{name}: {found.fault.strip()}\n    {command[0]} {shown}", flush=True)


if __name__ == "__main__":
    main()
