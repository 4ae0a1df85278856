"""The error output of a JVM, but for one line.

Spark starts every JVM with an option that makes Java say `WARNING: Using incubator modules:
jdk.incubator.vector`, before anything can be configured. It means nothing to a user, and stands before a
command's answer. Everything else that the JVM and what it starts have to say is passed on as it comes.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Final

_STDERR: Final = 2
_CHUNK_BYTES: Final = 65_536
_LEFT_OUT: Final = b"WARNING: Using incubator modules: "


@contextmanager
def without_incubator_warning() -> Iterator[None]:
    """Processes that are started meanwhile have their stderr read here, for as long as they live."""
    reading, writing = os.pipe()
    sys.stderr.flush()
    kept = os.dup(_STDERR)
    os.dup2(writing, _STDERR)
    os.close(writing)
    Thread(target=_pass_on, args=(reading, kept), name="jvm-errors", daemon=True).start()
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(kept, _STDERR)


def _pass_on(reading: int, to: int) -> None:
    """Until the last process that could write has ended. A line is passed on when it is whole."""
    rest = b""
    while chunk := os.read(reading, _CHUNK_BYTES):
        *lines, rest = (rest + chunk).split(b"\n")
        _write(to, b"".join(line + b"\n" for line in lines if not line.startswith(_LEFT_OUT)))
    _write(to, rest)
    os.close(reading)
    os.close(to)


def _write(to: int, content: bytes) -> None:
    while content:
        content = content[os.write(to, content) :]
