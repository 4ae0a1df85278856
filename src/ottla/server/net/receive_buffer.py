"""The bytes a connection has received and not yet handled.

Rules:
- The buffer grows only as bytes arrive: a frame that claims 100 MiB costs nothing until the bytes are there.
- It starts small, because most connections are idle, and stays large while a connection is busy, because a
  large buffer that is mapped and unmapped for each read costs more than the read.
- Frames are views of the buffer. They are valid until the next `writable()`; code that keeps bytes
  copies them.
"""

from struct import Struct

from ottla.errors import ErrorCode, KafkaError

# An idle connection's share. 500 idle connections then cost 8 MiB.
INITIAL_BYTES = 16 * 1024
# Reads of this size are where the copy out of the kernel, and not the call, decides the speed.
BUSY_BYTES = 1024 * 1024
# The least room worth a system call.
_LEAST_ROOM_BYTES = 4 * 1024
# How TLS begins, seen as the size of a frame.
_TLS_SIZES = range(0x16030000, 0x16040000)

_SIZE = Struct(">i")
_SIZE_BYTES = 4
# api key, api version, correlation id: the least a request can have.
_LEAST_FRAME_BYTES = 8


class ReceiveBuffer:
    """Room for the socket at one end, whole frames at the other."""

    __slots__ = (
        "_full_bytes",
        "_least_room_bytes",
        "_peak",
        "data",
        "end",
        "max_frame_bytes",
        "start",
        "view",
    )

    def __init__(self, max_frame_bytes: int, least_room_bytes: int = _LEAST_ROOM_BYTES) -> None:
        self.max_frame_bytes = max_frame_bytes
        self._least_room_bytes = least_room_bytes
        # A socket that wants more room than that never fills it to the end (TLS: records have an overhead).
        self._full_bytes = 1 if least_room_bytes <= _LEAST_ROOM_BYTES else least_room_bytes // 2
        self.data = bytearray(max(INITIAL_BYTES, least_room_bytes))
        self.view = memoryview(self.data)
        self.start = 0
        self.end = 0
        # How far it was filled since the last `trim`.
        self._peak = 0

    def writable(self) -> memoryview:
        """A view to receive into. Moves or grows the buffer when there is too little room at its end."""
        if self.start == self.end:
            self.start = self.end = 0
        elif len(self.data) - self.end < self._least_room_bytes or self._frame_overhangs():
            self._move_to_front()
        if len(self.data) - self.end < self._least_room_bytes:
            self._resize(max(len(self.data) * 2, self.end - self.start + self._least_room_bytes))
        return self.view[self.end :]

    def received(self, size_bytes: int) -> None:
        """Count what the socket put into `writable()`."""
        self.end += size_bytes
        if self.end > self._peak:
            self._peak = self.end
        if len(self.data) - self.end < self._full_bytes and len(self.data) < BUSY_BYTES:
            # The kernel had more than fitted. Take more at a time from now on.
            self._resize(min(len(self.data) * 4, BUSY_BYTES))

    def check_frame_size(self) -> None:
        """Raise when the frame at `start` claims a size that no request can have."""
        if self.end - self.start < _SIZE_BYTES:
            return
        (size,) = _SIZE.unpack_from(self.data, self.start)
        if not _LEAST_FRAME_BYTES <= size <= self.max_frame_bytes:
            if size in _TLS_SIZES:
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST,
                    "it looks like TLS, and this listener is without: use the port of a listener with SSL, or "
                    "set the client's security.protocol to PLAINTEXT",
                )
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"a frame of {size} bytes (allowed: {_LEAST_FRAME_BYTES} to {self.max_frame_bytes}, "
                "socket.request.max.bytes)",
            )

    def take_frame(self, most_bytes: int) -> bytes | None:
        """The frame at `start`, without its size, whatever is in it; None if it is not there to its end.

        Raises KafkaError for a frame of a size that is not allowed.
        """
        if self.end - self.start < _SIZE_BYTES:
            return None
        (size,) = _SIZE.unpack_from(self.data, self.start)
        if not 0 <= size <= most_bytes:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"a frame of {size} bytes (at most {most_bytes})")
        frame_end = self.start + _SIZE_BYTES + size
        if frame_end > self.end:
            return None
        frame = bytes(self.view[self.start + _SIZE_BYTES : frame_end])
        self.start = frame_end
        return frame

    @property
    def has_whole_frame(self) -> bool:
        """Whether the frame at `start` is there to its end."""
        if self.end - self.start < _SIZE_BYTES:
            return False
        (size,) = _SIZE.unpack_from(self.data, self.start)
        is_whole: bool = self.start + _SIZE_BYTES + size <= self.end
        return is_whole

    def shrink(self) -> None:
        """Give a large buffer back when nothing is in it; called for connections that fell silent."""
        if self.start == self.end and len(self.data) > INITIAL_BYTES:
            self.start = self.end = 0
            self._resize(INITIAL_BYTES)

    def trim(self) -> None:
        """Give back what was not needed since the last call: one huge request is not paid for by all later
        ones.
        """
        needed_bytes = max(self._peak, BUSY_BYTES)
        self._peak = self.end - self.start
        if len(self.data) > 2 * needed_bytes:
            self._resize(needed_bytes)

    def _frame_overhangs(self) -> bool:
        """Whether the unfinished frame at `start` reaches beyond the end of the buffer."""
        if self.end - self.start < _SIZE_BYTES:
            return False
        (size,) = _SIZE.unpack_from(self.data, self.start)
        overhangs: bool = self.start + _SIZE_BYTES + size > len(self.data)
        return overhangs

    def _move_to_front(self) -> None:
        size = self.end - self.start
        if self.start:
            self.view[:size] = self.view[self.start : self.end]
            self.start, self.end = 0, size

    def _resize(self, capacity_bytes: int) -> None:
        grown = bytearray(capacity_bytes)
        size = self.end - self.start
        grown[:size] = self.view[self.start : self.end]
        self.data = grown
        self.view = memoryview(grown)
        self.start, self.end = 0, size
