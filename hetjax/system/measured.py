"""Costs that were measured on this machine and are kept in the user's cache folder, until what they depend on changes."""

import contextlib
import hashlib
import json
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from hetjax.system import durable, files, runtime
from hetjax.system.errors import InputError


def read(name: str, conditions: Mapping[str, Any]) -> Any:
    """Return costs in lists and dictionaries, all above zero; None if there are none of this name, or they are damaged.

    Args:
      conditions: what they depend on, in JSON's types.
    """
    with contextlib.suppress(Exception):
        saved = json.loads(files.read_text(_file(name, conditions)))
        same = saved["about"] == json.loads(json.dumps(conditions))
        if same and all(0 < number < math.inf for number in _numbers(saved["costs"])):
            return saved["costs"]
    return None


def write(name: str, conditions: Mapping[str, Any], costs: Any) -> None:
    """Write costs in place of others; a folder that can only be read is left as it is."""
    with contextlib.suppress(InputError, OSError):
        durable.write(_new(name, conditions), _text(conditions, costs))


def write_first(name: str, conditions: Mapping[str, Any], costs: Any) -> Any:
    """Write costs, unless another process was faster. Return those that are kept, or these where none can be."""
    with contextlib.suppress(InputError, OSError):
        file = _new(name, conditions)
        temporary = file.with_name(f".{file.name}.{os.getpid()}")
        durable.write(temporary, _text(conditions, costs))
        try:
            os.link(temporary, file)
        except OSError:  # it is there already, or the file system has no links
            if read(name, conditions) is None:
                os.replace(temporary, file)
        finally:
            temporary.unlink(missing_ok=True)
    kept = read(name, conditions)
    return costs if kept is None else kept


def _file(name: str, conditions: Mapping[str, Any]) -> Path:
    digest = hashlib.sha256(json.dumps(conditions).encode()).hexdigest()[:16]
    return Path(runtime.caches(), "hetjax", "costs", f"{name}_{digest}.json")


def _new(name: str, conditions: Mapping[str, Any]) -> Path:
    file = _file(name, conditions)
    file.parent.mkdir(parents=True, exist_ok=True)
    return file


def _text(conditions: Mapping[str, Any], costs: Any) -> str:
    return json.dumps({"about": conditions, "costs": costs}, indent=1) + "\n"


def _numbers(costs: Any) -> Iterator[float]:
    if isinstance(costs, (list, dict)):
        for part in costs.values() if isinstance(costs, dict) else costs:
            yield from _numbers(part)
    else:
        yield costs
