"""JSON objects, one after the other, out of bytes that come in pieces.

Between two objects there may be white space, newlines and nothing else. Where an object ends is found by its braces
outside of texts; whether it is JSON is for the parser to say.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

OBJECT_BYTES: Final = 16 << 20
_OUTSIDE: Final = re.compile(rb'["{}]')
_INSIDE: Final = re.compile(rb'["\\]')
_SPACE: Final = b" \t\r\n"


class JsonStream:
    """Feed it bytes, and take whole objects."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._at = 0  # up to here it is known what the bytes mean
        self._depth = 0
        self._is_text = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The objects that are whole now. Raises ValueError with a sentence after those that come before the mistake."""
        self._bytes += data
        while (end := self._end()) is not None:
            found = bytes(self._bytes[:end])
            del self._bytes[:end]
            self._at = 0
            yield found
        if len(self._bytes) > OBJECT_BYTES:
            raise ValueError(f"a record may have {OBJECT_BYTES} bytes")

    def finish(self) -> None:
        """Raises ValueError if the bytes end within an object."""
        if self._bytes.strip(_SPACE):
            raise ValueError("the body ends within a record")

    def _end(self) -> int | None:
        """Where the first object ends; None if its end has not come."""
        if not self._at:
            del self._bytes[: len(self._bytes) - len(self._bytes.lstrip(_SPACE))]
            if self._bytes and self._bytes[0] != ord("{"):
                raise ValueError("the body must be JSON objects, one after the other")
        while True:
            token = (_INSIDE if self._is_text else _OUTSIDE).search(self._bytes, self._at)
            if token is None:
                self._at = len(self._bytes)
                return None
            if token[0] == b"\\":
                if token.end() == len(self._bytes):
                    self._at = token.start()  # what is escaped has not come yet
                    return None
                self._at = token.end() + 1
                continue
            self._at = token.end()
            if token[0] == b'"':
                self._is_text = not self._is_text
            else:
                self._depth += 1 if token[0] == b"{" else -1
                if not self._depth:
                    return self._at
