"""Files with secrets in them: only their owner may read them."""

import os
import secrets
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


def write_secret_file(path: Path, text: str) -> None:
    """Write a file that only its owner may read, in place of one that is there: never half of it."""
    new = path.with_name(f"{path.name}.{secrets.token_hex(4)}.new")
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
    new.replace(path)
