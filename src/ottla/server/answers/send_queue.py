"""The data that still has to leave through a socket: bytes, and ranges of files (by sendfile).

Rules
- Parts leave in the order in which they were added. One small response is one `send`; a large range is
  `sendfile` from the page cache.
- A range shorter than SENDFILE_BYTES is read and joined with its neighbours: below that size the extra system
  call costs more than the copy.
- The queue never blocks: when the kernel takes no more, the owner calls `pump` once the socket is writable.
- A range that cannot be read ends the connection, because its size has been promised; the log of the range hears
  of it.
"""

import errno
from collections import deque
from collections.abc import Sequence

from ottla.log.reading.reader import FileRange
from ottla.runtime.network import CAN_SENDFILE, Network, Socket

# Measured: from here on sendfile takes 18 to 35 % less CPU than reading and sending.
SENDFILE_BYTES = 64 * 1024

Part = bytes | bytearray | memoryview | FileRange


def part_bytes(part: Part) -> int:
    """How many bytes of it will leave."""
    return part.size if isinstance(part, FileRange) else len(part)


class _FileCursor:
    """How far a range has been sent. It holds the file open, so that a deleted segment is read to its end."""

    __slots__ = ("position", "range", "size")

    def __init__(self, found: FileRange) -> None:
        self.range = found
        self.position = found.position
        self.size = found.size


class SendQueue:
    """The outgoing half of one connection."""

    __slots__ = ("_network", "_parts", "_send", "_socket", "queued_bytes", "sent_bytes")

    def __init__(self, sock: Socket, network: Network) -> None:
        self._socket = sock
        self._network = network
        self._send = sock.send
        self._parts: deque[memoryview | _FileCursor] = deque()
        self.queued_bytes = 0
        self.sent_bytes = 0

    def send(self, parts: Sequence[Part]) -> bool:
        """Send what the kernel takes and keep the rest.

        True when nothing is left. OSError if the peer is gone.
        """
        if not self._parts and not any(type(part) is FileRange for part in parts):
            # The usual turn: small responses only, joined into one call.
            joined = parts[0] if len(parts) == 1 else b"".join(parts)  # type: ignore[arg-type]
            try:
                sent = self._send(joined)
            except BlockingIOError:
                sent = 0
            self.sent_bytes += sent
            if sent == len(joined):
                return True
            self._enqueue_bytes(memoryview(joined)[sent:])  # type: ignore[arg-type]
            return False
        self._enqueue(parts)
        return self.pump()

    def pump(self) -> bool:
        """Go on sending; True when nothing is left."""
        parts = self._parts
        try:
            while parts:
                part = parts[0]
                if type(part) is _FileCursor:
                    self._send_file(part)
                else:
                    self._send_bytes(part)  # type: ignore[arg-type]
        except BlockingIOError:
            return False
        return True

    def _enqueue(self, parts: Sequence[Part]) -> None:
        small: list[bytes | bytearray | memoryview] = []
        for part in parts:
            if type(part) is not FileRange:
                small.append(part)  # type: ignore[arg-type]
            elif CAN_SENDFILE and part.size >= SENDFILE_BYTES and part.file.fileno() is not None:
                self._enqueue_joined(small)
                self._parts.append(_FileCursor(part))
                self.queued_bytes += part.size
            else:
                small.append(_bytes_of(part))
        self._enqueue_joined(small)

    def _enqueue_joined(self, small: list[bytes | bytearray | memoryview]) -> None:
        if small:
            self._enqueue_bytes(memoryview(b"".join(small)))
            small.clear()

    def _enqueue_bytes(self, data: memoryview) -> None:
        self._parts.append(data)
        self.queued_bytes += len(data)

    def _send_bytes(self, data: memoryview) -> None:
        sent = self._send(data)
        self.sent_bytes += sent
        self.queued_bytes -= sent
        if sent == len(data):
            self._parts.popleft()
        else:
            self._parts[0] = data[sent:]

    def _send_file(self, cursor: _FileCursor) -> None:
        descriptor = cursor.range.file.fileno()
        assert descriptor is not None
        while cursor.size:
            try:
                sent = self._network.sendfile(self._socket, descriptor, cursor.position, cursor.size)
            except OSError as problem:
                if problem.errno == errno.EIO:  # of the file: a socket has other errors
                    cursor.range.note_unread()
                raise
            if not sent:
                raise _ended_early(cursor.range)
            cursor.position += sent
            cursor.size -= sent
            self.sent_bytes += sent
            self.queued_bytes -= sent
        self._parts.popleft()


def _bytes_of(part: FileRange) -> bytes:
    try:
        data = part.file.read(part.position, part.size)
    except OSError:
        part.note_unread()
        raise
    if len(data) < part.size:
        raise _ended_early(part)
    return data


def _ended_early(part: FileRange) -> ConnectionAbortedError:
    part.note_unread()
    return ConnectionAbortedError("a segment file ended before the range that was promised")
