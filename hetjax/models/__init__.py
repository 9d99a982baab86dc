"""Models as folds: what one relation contributes to a node, and how contributions combine. They never know where they run."""

import importlib
from pathlib import Path

from hetjax.errors import InputError, reading, short


def find(name: str):
    """The layer or `HGNN` of a name: the `MODEL` of a file in this folder by its name, or one of your own as `MODULE:NAME`.

    Raises:
      InputError: there is none.
    """
    known = sorted(file.stem for file in Path(__file__).parent.glob("*.py") if "\nMODEL = " in file.read_text())
    module, _, attribute = name.partition(":")
    if not attribute and name not in known:
        raise InputError(f"model.name is {short(name)!r}, and must be {', '.join(known)}, or MODULE:NAME of one of your own")
    with reading(f"model.name is {short(name)!r}"):
        found = getattr(importlib.import_module(module if attribute else f"{__name__}.{name}"), attribute or "MODEL")
        from hetjax.models.hgnn import HGNN, Layer  # which import this module

        if not (isinstance(found, HGNN) or (isinstance(found, type) and issubclass(found, Layer))):
            raise TypeError(f"a {type(found).__name__}, and there should be a `hetjax.HGNN` or a layer's class")
        return found
