"""What a run compiles before it is asked for, in threads: kernels while the graph is read, evaluation's programs beside the first step's."""

import contextlib
import copy
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import jax
import numpy as np

from hetjax import models, native
from hetjax.arrays import Array
from hetjax.compiled import modules
from hetjax.config import Config
from hetjax.errors import InputError
from hetjax.evaluate import Evaluator
from hetjax.kept import Kept, Rows
from hetjax.models import additive_kernels, kernels


def operations(model: str) -> list[native.Operation]:
    """The kernels by which a model is likely to fold, in the order in which a step calls them."""
    reached = modules(models.find(model).__module__)
    attention = {"attention": kernels, "additive": additive_kernels}
    used = [own for name, own in attention.items() if f"{models.__name__}.{name}" in reached][-1:]
    folds = [operation for own in used for operation in (own.attend, own.attend_back, own.to_sources)]
    return [kernels.sums, *folds]


@contextlib.contextmanager
def kernels_compiled(config: Config) -> Iterator[None]:
    """Inside, kernels are compiled in a thread, unless they are kept from before. A program that needs one waits for it."""
    ended = threading.Event()

    def compile_all() -> None:
        with contextlib.suppress(InputError):  # which whoever asks for a kernel meets again
            for operation in operations(config.model.name):
                if not ended.is_set():
                    operation.compile()
                    time.sleep(0.01)  # for who waits for numba, which compiles one thing at a time

    if not native.usable() or jax.default_backend() != "cpu":
        yield
        return
    with ThreadPoolExecutor(1, "kernels") as thread:
        thread.submit(compile_all)
        try:
            yield
        finally:
            ended.set()


def compile_program(program: Any, *arguments: Any, **named: Any) -> None:
    """Compile what `jax.jit` gave for such arguments, and then its kernels, if they are not there yet; its calls find it."""
    with native.postponed() as asked:
        program.lower(*arguments, **named).compile()
    for operation, floats in asked:
        operation.compile(floats)


class _Nothing(Rows):
    """Rows that are zeros, whatever is put there."""

    def __init__(self, shape: tuple[int, int]):
        self.array = np.zeros(shape, np.float32)

    def put(self, start: int, rows: np.ndarray) -> None:
        pass


class _First(Kept):
    """Nothing is kept; of the pieces of work the first is this process's."""

    def rows(self, shape: tuple[int, int]) -> Rows:
        return _Nothing(shape)

    def share(self, count: int) -> range:
        return range(min(count, 1))


def compile_evaluation(evaluator: Evaluator, params: Any, features: Mapping[str, Array], ids: np.ndarray) -> None:
    """Compile the programs that `Evaluator.logits` runs, and run none; arguments as there.

    All chunks of a type have the same shapes, so the first is drawn. What a layer makes is taken to be zeros.
    """
    ahead, embed = cast(Any, copy.copy(evaluator)), evaluator.embed

    def compiled(*arguments: Any, **named: Any) -> np.ndarray:
        compile_program(embed, *arguments, **named)
        return np.zeros((0, 0), np.float32)

    ahead.kept, ahead.embed = _First(), compiled
    ahead.logits(params, features, ids)


def as_here(run: Callable[[], Any]) -> Callable[[], Any]:
    """What another thread is to call with the floats and the precision of this one: jax keeps both by thread."""
    wide: bool = jax.config.jax_enable_x64  # type: ignore[attr-defined]
    precision = jax.config.jax_default_matmul_precision  # type: ignore[attr-defined]

    def called() -> Any:
        with jax.enable_x64(wide), jax.default_matmul_precision(precision):
            return run()

    return called


@contextlib.contextmanager
def beside(work: Callable[[], None]) -> Iterator[None]:
    """Inside, something is done in a thread; what it raises is raised at the end."""
    with ThreadPoolExecutor(1, "beside") as thread:
        done = thread.submit(as_here(work))
        yield
        done.result()
