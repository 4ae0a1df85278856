"""Lines of standard input, without blocking the event loop.

A thread reads, because the event loop cannot wait for a file. The thread is a daemon and reads the bare
descriptor, so that an interrupted program ends at once, even if the next line is never typed.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator
from typing import Final

_CHUNK_BYTES: Final = 256 << 10
# How many chunks the thread may be ahead.
_AHEAD: Final = 4


class LineReader:
    """`async for lines in LineReader(descriptor)`: lists of lines, without their ends, as they come."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._loop = asyncio.get_running_loop()
        self._chunks: asyncio.Queue[bytes | OSError] = asyncio.Queue()
        self._permits = threading.Semaphore(_AHEAD)
        threading.Thread(target=self._read, name="stdin", daemon=True).start()

    async def __aiter__(self) -> AsyncIterator[list[bytes]]:
        rest = b""
        while True:
            chunk = await self._chunks.get()
            self._permits.release()
            if isinstance(chunk, OSError):
                raise chunk
            if not chunk:
                break
            *lines, rest = (rest + chunk).split(b"\n")
            if lines:
                yield [line.removesuffix(b"\r") for line in lines]
        if rest:
            yield [rest]

    def _read(self) -> None:
        chunk: bytes | OSError = b"?"
        while chunk and not isinstance(chunk, OSError):
            self._permits.acquire()
            try:
                chunk = os.read(self._descriptor, _CHUNK_BYTES)
            except OSError as error:
                chunk = error
            try:
                self._loop.call_soon_threadsafe(self._chunks.put_nowait, chunk)
            except RuntimeError:  # the loop is closed: the lines have no reader any more
                return
