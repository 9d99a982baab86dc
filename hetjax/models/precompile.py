"""Operations that a run on CPUs is to call, compiled while it does what comes before: they take longer than reading a small graph."""

import jax

from hetjax import native, runtime
from hetjax.cache import kernels as rows
from hetjax.models import kernels
from hetjax.models.products import multiply_turned

MEASURED = kernels.attend, kernels.sums, kernels.group, rows.read  # what `calibration.measure` calls


def before_measuring() -> None:
    """Compile what costs are measured with. All else waits: it would be measured too."""
    if runtime.on_cpus() and native.usable():
        native.expect(*MEASURED)


def after_measuring(attention: bool) -> None:
    """Compile what most models call in training, and what draws neighbours.

    Args:
      attention: whether the model is one of attention, that goes back along the edges too.
    """
    if jax.default_backend() == "cpu" and native.usable():
        native.expect(*((kernels.attend_back, kernels.to_sources) if attention else ()), multiply_turned, rows.update)
        native.expect_calls("hetjax.sampling.rehearsal.rehearse")
