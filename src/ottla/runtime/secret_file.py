"""Files with secrets in them: only their owner may read them."""

import os
import stat
from pathlib import Path
from typing import Final

_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


class ExposedSecretError(OSError):
    """A file of secrets that others may read."""


def read_secret_file(path: str) -> str:
    """The text of a file. OSError if it cannot be read, or is exposed to others than its owner."""
    with Path(path).open("rb") as file:
        mode = os.fstat(file.fileno()).st_mode
        if mode & _OTHERS:
            raise ExposedSecretError(
                f"others may read it (its mode is {stat.S_IMODE(mode):o}): chmod 600 {path}"
            )
        try:
            return file.read().decode()
        except UnicodeDecodeError:
            raise ExposedSecretError("it is not UTF-8") from None
