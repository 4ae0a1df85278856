"""The log as JSON objects, one on a line, for programs that collect logs.

    {"time": "2026-01-31T08:30:00.123Z", "level": "INFO", "logger": "ottla.server.broker", "message": "stopping"}

A log call that knows them adds `topic`, `partition`, `offset`, `epoch`, `group` or `correlation_id` (as `extra`).
A failure has its traceback in `exception`.

A line that repeats the one before is counted, not written: the number stands as `repeated` in the next object, which
comes with the next other line, or after some seconds with the next repetition.
"""

from __future__ import annotations

import json
import logging
import time
from typing import IO, Any, Final

FIELDS: Final = ("topic", "partition", "offset", "epoch", "group", "correlation_id")
_QUIET_S: Final = 10.0

_Line = tuple[str, int, str]


class JsonLines(logging.StreamHandler[IO[str]]):
    """Writes JSON objects to a stream. (`logging` asks for a subclass.)"""

    def __init__(self, stream: IO[str]) -> None:
        super().__init__(stream)
        self._last: _Line | None = None
        self._last_object: dict[str, Any] = {}
        self._written_s = 0.0
        self._repeated = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record, unless it repeats the last one."""
        try:
            line = (record.name, record.levelno, record.getMessage())
            is_same = line == self._last and record.exc_info is None
            if is_same and record.created - self._written_s < _QUIET_S:
                self._repeated += 1
                self._last_object["time"] = _time(record)
                return
            self._tell_repetitions()
            self._last, self._last_object = line, _object(record, line[2])
            self._written_s = record.created
            self._write(self._last_object)
        except Exception:
            self.handleError(record)

    def close(self) -> None:
        """Write what was only counted."""
        self._tell_repetitions()
        super().close()

    def _tell_repetitions(self) -> None:
        if self._repeated:
            self._write({**self._last_object, "repeated": self._repeated})
            self._repeated = 0

    def _write(self, content: dict[str, Any]) -> None:
        self.stream.write(json.dumps(content, ensure_ascii=False, default=str) + "\n")
        self.flush()


def _object(record: logging.LogRecord, message: str) -> dict[str, Any]:
    content: dict[str, Any] = {
        "time": _time(record),
        "level": record.levelname,
        "logger": record.name,
        "message": message,
    }
    content |= {name: getattr(record, name) for name in FIELDS if hasattr(record, name)}
    if record.exc_info:
        content["exception"] = logging.Formatter().formatException(record.exc_info)
    return content


def _time(record: logging.LogRecord) -> str:
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
    return f"{whole}.{int(record.msecs):03d}Z"
