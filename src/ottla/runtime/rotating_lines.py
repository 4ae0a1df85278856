"""A file of lines that does not grow without end: when it is full, it is renamed to `<name>.1`, and so on."""

import logging
from contextlib import suppress
from logging.handlers import RotatingFileHandler
from typing import Final

# Five files of 20 MiB: weeks of an everyday cluster, and nothing that fills a disk.
_MAX_BYTES: Final = 20 * 1024 * 1024
_OLD_FILES: Final = 4

logger = logging.getLogger(__name__)


class RotatingLines:
    """Appends lines to a file. Raises OSError if the file cannot be opened; a line that cannot be written later is
    lost, and the first of them is reported.
    """

    def __init__(self, path: str, max_bytes: int = _MAX_BYTES) -> None:
        self._path = path
        self._has_failed = False
        self._file = _Quiet(path, maxBytes=max_bytes, backupCount=_OLD_FILES, encoding="utf-8")
        self._file.setFormatter(logging.Formatter("%(message)s"))

    def write(self, line: str) -> None:
        """Append a line."""
        try:
            self._file.emit(logging.makeLogRecord({"msg": line}))
        except (OSError, ValueError) as error:
            if not self._has_failed:
                logger.error("%s cannot be written: %s", self._path, error)
            self._has_failed = True
        else:
            self._has_failed = False

    def close(self) -> None:
        """Close the file; what could not be written was reported already."""
        with suppress(OSError):
            self._file.close()


class _Quiet(RotatingFileHandler):
    """Raises instead of printing a traceback. (The handler asks for a subclass.)"""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the name that handlers call
        raise
