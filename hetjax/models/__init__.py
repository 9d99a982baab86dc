"""Models as folds: what one relation contributes to a node, and how contributions combine. They never know where they run."""

import importlib
from pathlib import Path

from hetjax.errors import InputError


def find(name: str):
    """The layer or `HGNN` of a name: the `MODEL` of a file in this folder by its name, or one of your own as `MODULE:NAME`.

    Raises:
      InputError: there is none.
    """
    known = sorted(file.stem for file in Path(__file__).parent.glob("*.py") if "\nMODEL = " in file.read_text())
    module, _, attribute = name.partition(":")
    if not attribute and name not in known:
        raise InputError(f"model.name is {name!r}, and must be {', '.join(known)}, or MODULE:NAME of one of your own")
    try:
        return getattr(importlib.import_module(module if attribute else f"{__name__}.{name}"), attribute or "MODEL")
    except (ImportError, AttributeError, ValueError) as error:
        raise InputError(f"model.name is {name!r}: {error}") from None
