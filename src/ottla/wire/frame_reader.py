"""Bytes from a socket become whole response frames, each in memory of its own.

Rules:
- A frame owns its bytes, because a decoded response holds views of them for as long as its reader likes. With
  `reuse_memory`, the caller promises to be done with a frame before the next one comes: large frames then
  share one piece of memory, which saves the kernel from handing out and clearing new pages for each (half of
  the CPU of receiving 10 MiB).
- A frame larger than the staging buffer is received straight into its own memory: it is never copied a second
  time.
- A size that no response can have, or that is above the limit, ends the connection: no later byte can be
  trusted.
"""

from __future__ import annotations

from struct import Struct

# Most answers are small; larger ones are received in place, so a larger staging buffer would gain nothing.
STAGING_BYTES = 16 * 1024
# librdkafka accepts this much by default; it is twice the most that a Java consumer asks for.
MAX_FRAME_BYTES = 100_000_000

_SIZE = Struct(">i")
# How an alert of TLS begins.
_TLS_ALERT = 0x1503
# A correlation id: the least a response can have.
_LEAST_FRAME_BYTES = 4


class FrameSizeError(ValueError):
    """The peer announced a frame of a size that it cannot or must not have."""


class FrameReader:
    """`room()` is where the socket writes to; `received(n)` returns the frames that are complete then."""

    __slots__ = ("_end", "_filled", "_frame", "_max_frame_bytes", "_reuses_memory", "_spare", "_staging")

    def __init__(self, max_frame_bytes: int = MAX_FRAME_BYTES) -> None:
        self._max_frame_bytes = max_frame_bytes
        self._staging = memoryview(bytearray(STAGING_BYTES))
        self._end = 0
        self._frame: memoryview | None = None
        self._filled = 0
        self._spare = memoryview(bytearray())
        self._reuses_memory = False

    def reuse_memory(self) -> None:
        """Receive large frames into the same memory from now on.

        The caller has read a frame before the next one comes.
        """
        self._reuses_memory = True

    def room(self) -> memoryview:
        """A writable view for the next bytes. It is never empty."""
        if self._frame is not None:
            return self._frame[self._filled :]
        return self._staging[self._end :]

    def received(self, size_bytes: int) -> list[memoryview]:
        """Account for bytes in `room()`; returns every frame they complete, without its size prefix."""
        if self._frame is None:
            self._end += size_bytes
            return self._unstage()
        self._filled += size_bytes
        if self._filled < len(self._frame):
            return []
        frame, self._frame = self._frame, None
        return [frame]

    def _unstage(self) -> list[memoryview]:
        frames: list[memoryview] = []
        staging, position, end = self._staging, 0, self._end
        while end - position >= _SIZE.size:
            size = self._checked_size(position)
            position += _SIZE.size
            if end - position < size:
                self._begin_frame(size, staging[position:end])
                position = end
                break
            frames.append(memoryview(bytes(staging[position : position + size])))
            position += size
        # At most three bytes are left: the beginning of a size.
        staging[: end - position] = bytes(staging[position:end])
        self._end = end - position
        return frames

    def _checked_size(self, position: int) -> int:
        size: int = _SIZE.unpack_from(self._staging, position)[0]
        if size < _LEAST_FRAME_BYTES or size > self._max_frame_bytes:
            if size >> 16 == _TLS_ALERT:
                raise FrameSizeError("it answers with TLS: use protocol SSL or SASL_SSL, or another port")
            raise FrameSizeError(
                f"a frame of {size} bytes was announced; {_LEAST_FRAME_BYTES} to {self._max_frame_bytes} are accepted"
            )
        return size

    def _begin_frame(self, size: int, beginning: memoryview) -> None:
        self._frame = self._memory(size)
        self._filled = len(beginning)
        self._frame[: self._filled] = beginning

    def _memory(self, size: int) -> memoryview:
        if not self._reuses_memory:
            return memoryview(bytearray(size))
        if len(self._spare) < size:
            self._spare = memoryview(bytearray(size))
        return self._spare[:size]
