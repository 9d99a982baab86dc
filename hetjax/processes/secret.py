"""Proof that a process belongs to a group: it proves to process 0 that it has the group's secret, and process 0 to it.

Both answer a random challenge by HMAC-SHA256, which tells the secret to nobody. Processes that were given none have the
empty one: then the same exchange keeps out who came by mistake, and nobody else.
"""

import hmac
import json
import os
import secrets
import stat

from hetjax.processes.channel import Connection
from hetjax.system.errors import InputError, reading
from hetjax.system.files import open_regular

OTHERS = 0o077  # bits of a file's mode that are for anybody but its owner
LEAST, MOST = 16, 2**12  # bytes of a secret
WORDS = 2**10  # bytes that somebody who has proved nothing is listened to


def read_secret(file: str) -> bytes:
    """Return the secret in a file, without the white space around it; the empty one if there is no file.

    Raises:
      InputError: the file cannot be read, or has too few bytes to be a secret, or too many.
    """
    if not file:
        return b""
    with reading(f"secret_file {file}"), open_regular(file) as opened:
        mode = stat.S_IMODE(os.fstat(opened.fileno()).st_mode)
        secret = opened.read(MOST + 1).strip()
    if mode & OTHERS:
        raise InputError(f"secret_file {file}: mode {mode:o} lets others read it or write to it; chmod 600 {file}")
    if not LEAST <= len(secret) <= MOST:
        size = f"{len(secret)} bytes" if len(secret) <= MOST else f"more than {MOST} bytes"
        raise InputError(f"secret_file {file}: {size}, and a secret has {LEAST} to {MOST}")
    return secret


def challenge(connection: Connection, secret: bytes, until: float) -> None:
    """Check, in process 0, that a newcomer has the secret, and only then show that this process has it.

    Args:
      until: by `time.monotonic()`.

    Raises:
      ValueError: it has another, or is no process of hetjax's.
      OSError: it is gone, or takes too long.
    """
    nonce = secrets.token_hex()
    connection.send(nonce)
    (its_nonce, proof), _ = connection.receive(until, WORDS)
    if not hmac.compare_digest(proof, _proof(secret, "newcomer", nonce, its_nonce)):
        connection.send(["refused", "it has another secret (--secret_file) than this process"])
        raise ValueError("it has another secret (--secret_file)")
    connection.send(["welcome", _proof(secret, "process 0", its_nonce, nonce)])


def answer(connection: Connection, secret: bytes, until: float) -> None:
    """Answer process 0's challenge, in a newcomer, and check that process 0 has the secret itself. Arguments and errors are those of `challenge`."""
    its_nonce, _ = connection.receive(until, WORDS)
    nonce = secrets.token_hex()
    connection.send([nonce, _proof(secret, "newcomer", its_nonce, nonce)])
    (kind, reply), _ = connection.receive(until, WORDS)
    if kind == "refused":
        raise ValueError(reply)
    if not hmac.compare_digest(reply, _proof(secret, "process 0", nonce, its_nonce)):
        raise ValueError("it does not have the secret of --secret_file")


def _proof(secret: bytes, *message: str) -> str:
    """Return what only a holder of the secret can make. It depends on the role, lest an answer to one is an answer to the other."""
    return hmac.new(secret, json.dumps(message).encode(), "sha256").hexdigest()
