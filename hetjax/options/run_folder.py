"""The name and the configuration of a run's folder, as every command that uses one checks them."""

import re
from pathlib import Path

from hetjax.system import files
from hetjax.system.errors import InputError, short

TRUST = "--trust (in Python: trust=True)"  # by which commands that use a run's folder trust it
BUCKET = re.compile(r"^/(gs|s3|az|hf)/|gs:/")  # in a path, what Orbax takes for the address of a bucket


def check_folder(path: Path) -> None:
    """Raise an InputError where a file is in a folder's place, or checkpoints could not be written under such a name."""
    where = path.absolute()
    files.check_name(where, utf8=True)
    if "\\" in str(where):  # tensorstore, by which Orbax writes, takes it for a slash
        raise InputError(f"{where}: has a backslash, and a run's folder may not; give another --workdir")
    if taken := BUCKET.search(f"{where}/"):
        raise InputError(
            f"{where}: Orbax, which writes checkpoints, takes {taken[0]!r} for a bucket of a cloud; give another --workdir"
        )
    if path.exists() and not path.is_dir():
        raise InputError(f"{path}: is a file, and should be a folder")


def config_file(folder: Path) -> Path:
    """The configuration that a run has left.

    Raises:
      InputError: there is none.
    """
    file = folder / "config.yaml"
    files.check_name(file)
    if not file.exists():
        raise InputError(f"{file}: no such file, and the folder of a run has one")
    return file


def check_trusted(file: Path, model: str, trust: bool | str, how: str = TRUST) -> None:
    """Raise an InputError where a run's folder names a module that the user has not named.

    A folder may come from anybody, and to import a module runs its code.

    Args:
      file: the configuration in the folder.
      model: its `model.name`.
      trust: whether the user trusts the folder, or the model of a user's own, `MODULE:NAME`, that this command names.
      how: what the user gives to trust it.
    """
    if ":" in model and trust is not True and trust != model:
        raise InputError(
            f"{file}: model.name is {short(repr(model))}, a module whose code would run; "
            f"if you trust this folder, give {how}"
        )
