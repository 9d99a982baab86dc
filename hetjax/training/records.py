"""The file `metrics.jsonl`, a JSON object a line."""

import json
import os
from collections.abc import Callable
from pathlib import Path

from hetjax.system import durable
from hetjax.system.errors import InputError, reading
from hetjax.system.files import open_regular
from hetjax.training.loggers import Loggers


def check_records(file: Path, size: int) -> None:
    """Raise an InputError where `file` does not begin with `size` bytes of whole lines, and so cannot be continued."""
    with reading(file):
        existing = file.stat().st_size if file.exists() else 0
        if existing < size:
            raise InputError(f"{file}: {existing} bytes, and the checkpoint had seen {size}; give another --workdir")
        if size:
            with open_regular(file) as stream:
                stream.seek(size - 1)
                if stream.read(1) != b"\n":
                    raise InputError(f"{file}: no line ends at byte {size}, where the checkpoint had seen one end")


class Records:
    """The file `metrics.jsonl`. A resumed run cuts it back to the records before its checkpoint.

    Args:
      file: is appended to behind its first `size` bytes; may be new.
      loggers: the loggers that get the records too.

    Raises:
      InputError: as `check_records`, or it cannot be written.
    """

    def __init__(self, file: Path, size: int, loggers: Loggers | None = None):
        check_records(file, size)
        self.file, self.loggers, self.step = file, loggers, 0
        with durable.writing(file):
            file.touch()
            os.truncate(file, size)

    def write(self, record: dict) -> None:
        with durable.writing(self.file, "the run continues from its last checkpoint"), open(self.file, "ab") as stream:
            stream.write(json.dumps(record).encode() + b"\n")
        self.step = record.get("step", self.step)
        if self.loggers:
            self.loggers.record(self.step, record)

    @property
    def size(self) -> int:
        return self.file.stat().st_size

    def all(self, say: Callable[[str], None]) -> list[dict]:
        """Return every record so far; a line that is no record is reported, left as it is, and left out."""
        with reading(self.file), open_regular(self.file) as stream:
            records = [_record(line) for line in stream]
        if odd := [number for number, record in enumerate(records, start=1) if record is None]:
            more = f" and {len(odd) - 1} more" if len(odd) > 1 else ""
            say(f"{self.file}: line {odd[0]}{more}: no record of this run, and so not in curves.png")
        return [record for record in records if record is not None]


def _record(line: bytes) -> dict | None:
    """Return the record of a line, if it is a JSON object of numbers."""
    try:
        record = json.loads(line)
        return record if all(type(value) in (int, float, type(None)) for value in record.values()) else None
    except Exception:
        return None
