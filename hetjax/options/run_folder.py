"""The name and the configuration of a run's folder, as every command that uses one checks them."""

import re
from collections.abc import Collection
from pathlib import Path

from hetjax.options.config import Config
from hetjax.options.owners import task_names
from hetjax.system import files
from hetjax.system.errors import InputError, short

TRUST = "--trust (in Python: trust=True)"  # by which commands that use a run's folder trust it
Trust = bool | str | Collection[str]  # whether a folder is trusted; or the modules of a user's own that are
BUCKET = re.compile(r"^/(gs|s3|az|hf)/|gs:/")  # in a path, what Orbax takes for the address of a bucket


def check_folder(path: Path) -> None:
    """Raise an InputError if a file is in a folder's place, or checkpoints could not be written under such a name."""
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
    """Return the configuration of a run's folder.

    Raises:
      InputError: there is none.
    """
    file = folder / "config.yaml"
    files.check_name(file)
    if not file.exists():
        raise InputError(f"{file}: no such file, and the folder of a run has one")
    return file


def check_trusted(file: Path, config: Config, trust: Trust, how: str = TRUST) -> None:
    """Raise an InputError if a run's folder names a module that the user has not named.

    A folder may come from anybody, and to import a module runs its code.

    Args:
      file: the configuration in the folder.
      config: what it says.
      trust: whether the user trusts the folder; or the names of the user's own, `MODULE:NAME`, that this command gives.
      how: what the user gives to trust it; `{}` stands for the option and the name.
    """
    known = {trust} if isinstance(trust, str) else set() if isinstance(trust, bool) else trust
    names = [("model.name", config.model.name), *(("task.name", name) for name in task_names(config.task))]
    for option, name in names:
        if ":" in name and trust is not True and name not in known:
            words = f"{file}: {option} is {short(repr(name))}, a module whose code would run"
            raise InputError(f"{words}; if you trust this folder, give {how.format(f'--{option} {name}')}")
