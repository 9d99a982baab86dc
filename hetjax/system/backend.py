"""The devices that jax starts with. One line says so where the requested platform is not available."""

import importlib.util

import jax

from hetjax.system.errors import InputError, nearest, reason
from hetjax.system.runtime import CUDA

ROCM = "jax_rocm7_plugin", "jax_rocm60_plugin"
PACKAGES = {"cuda": CUDA, "rocm": ROCM, "tpu": ("libtpu",)}  # any of which lets jax use a platform
KNOWN = "cpu", "cuda", "gpu", "rocm", "tpu"  # values of JAX_PLATFORMS
REMEDIES = {
    "cuda": "pip install 'jax[cuda12]' or 'jax[cuda13]', as the driver is, and see that nvidia-smi shows the GPU",
    "rocm": "install jax's plugin for ROCm, and see that rocm-smi shows the GPU",
    "tpu": "pip install 'jax[tpu]' on a host that has TPUs",
}


class Unavailable(InputError):
    """Error raised where jax has no device of the requested platform.

    Attributes:
      found: what was asked for, and what there is.
      remedy: what to do.
    """

    def __init__(self, found: str, remedy: str):
        super().__init__(f"{found}; {remedy}")
        self.found, self.remedy = found, remedy


def local_devices() -> list[jax.Device]:
    """Start jax's devices, if they have not started, and return those of this process.

    Raises:
      Unavailable: jax does not start, or computes on CPUs although `JAX_PLATFORMS` names another platform first.
    """
    platforms = asked_for()
    first = platforms.split(",")[0]
    on_cpus = first in ("", "cpu")
    try:
        devices = jax.local_devices()
    except Exception as error:
        if on_cpus and jax.distributed.is_initialized():  # another process may be gone, which the group says
            raise
        raise _unavailable(platforms, error) from error
    if not on_cpus and devices[0].platform == "cpu":  # jax passes over a platform that it has no package for
        raise _unavailable(platforms)
    return devices


def asked_for() -> str:
    """Return the platforms that `JAX_PLATFORMS`, or the program by jax's configuration, names; empty: none."""
    return jax.config.jax_platforms or ""  # type: ignore[attr-defined]


def _unavailable(platforms: str, error: Exception | None = None) -> Unavailable:
    why = f" ({reason(error)})" if error and str(error) else ""
    if not platforms:
        return Unavailable(f"jax does not start{why}", "pip install --upgrade jax, with its extra for your device")
    packages = [name for name, needed in PACKAGES.items() if any(map(importlib.util.find_spec, needed))]
    installed = f"jax is installed here for {', '.join(['cpu', *packages])}{'' if packages else ' alone'}"
    unknown = [name for name in platforms.split(",") if name not in KNOWN]
    use_cpu = "unset JAX_PLATFORMS, or set JAX_PLATFORMS=cpu to compute on CPUs"
    if unknown:
        found = f"JAX_PLATFORMS is {platforms!r:.100}, and jax has no platform {unknown[0]!r:.100} here: {installed}"
        return Unavailable(f"{found}{nearest(unknown[0][:100], KNOWN)}", use_cpu)
    first = next((name for name in platforms.split(",") if name != "cpu"), "cpu")
    remedy = REMEDIES.get("cuda" if first == "gpu" else first, "see python -m hetjax.doctor")
    found = f"JAX_PLATFORMS is {platforms!r:.100}, and jax finds no device of platform {first!r} here: {installed}{why}"
    return Unavailable(found, f"{use_cpu}; or {remedy}")
