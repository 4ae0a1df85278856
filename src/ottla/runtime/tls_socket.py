"""TLS over an accepted, non-blocking socket, with the methods of `runtime.network.Socket`.

The connection above works as it does without TLS: it reads when the descriptor is readable and sends until the
kernel takes no more. Rules
- `recv_into` never leaves decrypted bytes inside: it takes no more encrypted bytes from the kernel than fit into
  the caller's room when they are decrypted. Whatever is left is the beginning of a record, whose rest makes the
  descriptor readable. This needs LEAST_ROOM_BYTES of room.
- `send` answers a number of bytes when their encrypted form has left. Bytes whose encrypted form is still here
  are not answered: BlockingIOError. The caller offers them again, as it must for every refused byte; they are
  not encrypted twice.
- A large answer is encrypted in pieces. After TURN_BYTES `send` refuses once, so that other connections get
  their turn of the event loop.
"""

from __future__ import annotations

import contextlib
import os
import ssl
from collections.abc import Callable
from typing import Any, Final

from ottla.runtime.network import ListeningSocket, Network, Socket
from ottla.runtime.tls_failures import why_asked_failed
from ottla.security.tls.first_bytes import NOT_TLS_ALERT, is_tls, looks_like

# Twice the largest record, so that there is room for a part of one and as many bytes again.
LEAST_ROOM_BYTES: Final = 40 * 1024
# Encrypted bytes that are taken from the kernel with one call.
READ_BYTES: Final = 64 * 1024
# The same during a handshake: requests that came with its end fit into LEAST_ROOM_BYTES, too.
_HANDSHAKE_READ_BYTES: Final = 16 * 1024
# Plain bytes that become records with one call: eight records.
PIECE_BYTES: Final = 128 * 1024
TURN_BYTES: Final = 256 * 1024

_NOTHING: Final = memoryview(b"")


class TlsError(ConnectionAbortedError):
    """TLS ended the connection; the message says why."""


class TlsSocket:
    """One accepted connection. `handshake` first, until it is complete."""

    __slots__ = (
        "_incoming",
        "_new_tls",
        "_outgoing",
        "_promised",
        "_socket",
        "_staging",
        "_tls",
        "_turn_bytes",
        "_unsent",
    )

    def __init__(self, sock: Socket, context: ssl.SSLContext, staging: memoryview) -> None:
        """`staging` is READ_BYTES of memory that sockets of one event loop share."""
        self._socket = sock
        self._staging = staging
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        # OpenSSL's part of a connection takes memory: a peer that sends nothing does not get one.
        self._new_tls: Callable[..., ssl.SSLObject] = context.wrap_bio
        self._tls: ssl.SSLObject | None = None
        self._unsent = _NOTHING
        # Plain bytes whose encrypted form is in `_unsent`, and which the caller has not been told to forget.
        self._promised = 0
        self._turn_bytes = TURN_BYTES

    @property
    def has_unsent(self) -> bool:
        """Whether encrypted bytes wait until the socket is writable."""
        return bool(self._unsent)

    @property
    def peer_certificate(self) -> bytes | None:
        """The certificate that the peer proved to have, in DER form."""
        assert self._tls is not None
        return self._tls.getpeercert(binary_form=True)

    @property
    def version(self) -> str:
        """The version of TLS that is spoken."""
        assert self._tls is not None
        return self._tls.version() or ""

    def fileno(self) -> int:
        return self._socket.fileno()

    def handshake(self) -> bool:
        """Go on with the handshake; whether it is complete. TlsError if there can be no TLS, OSError if the peer
        is gone.
        """
        if not self._unsent and not self._take():
            if self._tls is None:
                raise ConnectionResetError("it went away without a word")
            raise TlsError("it went away in the middle")
        if self._tls is None:
            if not self._incoming.pending:
                return False
            self._tls = self._new_tls(self._incoming, self._outgoing, server_side=True)
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._flush_quietly()
            return False
        except ssl.SSLError as error:
            self._flush_quietly()
            raise TlsError(why_asked_failed(error)) from error
        self._flush_quietly()
        return True

    def _take(self) -> bool:
        """Take encrypted bytes of the handshake from the kernel; False if there will be no more."""
        try:
            size = self._socket.recv_into(self._staging, _HANDSHAKE_READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return True
        received = self._staging[:size]
        if size and self._tls is None and not self._incoming.pending and not is_tls(received):
            with contextlib.suppress(OSError):
                self._socket.send(NOT_TLS_ALERT)
            raise TlsError(f"its bytes are not TLS; it looks like {looks_like(received)}")
        self._incoming.write(received)
        return bool(size)

    def recv_into(self, buffer: Any, nbytes: int = 0, /) -> int:
        room = memoryview(buffer)
        pending = self._incoming.pending
        assert len(room) > pending, "too little room for what was received"
        has_ended = False
        try:
            size = self._socket.recv_into(self._staging, min(len(room) - pending, READ_BYTES))
        except BlockingIOError:
            if not pending:
                raise
        else:
            has_ended = not size
            self._incoming.write(self._staging[:size])
        taken = self._decrypted(room, has_ended)
        if self._outgoing.pending and not self._unsent:
            self._flush_quietly()  # what the protocol itself has to say
        return taken

    def _decrypted(self, room: memoryview, has_ended: bool) -> int:
        assert self._tls is not None
        taken = 0
        try:
            while taken < len(room):
                size = self._tls.read(len(room) - taken, room[taken:])
                if not size:
                    break
                taken += int(size)
        except ssl.SSLWantReadError:
            if not taken and not has_ended:
                raise BlockingIOError from None
        except ssl.SSLError as error:
            self._flush_quietly()
            raise TlsError(f"TLS failed: {why_asked_failed(error)}") from error
        return taken

    def send(self, data: Any, /) -> int:
        resent = self._resent()
        if resent:
            return resent
        return self._send_piece(data if len(data) <= PIECE_BYTES else memoryview(data)[:PIECE_BYTES])

    def send_range(self, descriptor: int, position: int, size: int) -> int:
        """Send the beginning of a range of a file; the number of bytes sent, 0 at the end of the file."""
        resent = self._resent()
        if resent:
            return resent
        return self._send_piece(os.pread(descriptor, min(size, PIECE_BYTES), position))

    def _resent(self) -> int:
        """Send what is still here of an earlier call; the number of plain bytes that have left with it."""
        if self._unsent:
            self._flush()
        promised, self._promised = self._promised, 0
        if not promised and self._turn_bytes <= 0:
            self._turn_bytes = TURN_BYTES
            raise BlockingIOError
        return promised

    def _send_piece(self, data: Any) -> int:
        assert self._tls is not None
        size = len(data)
        if not size:
            return 0
        try:
            written = self._tls.write(data)
        except ssl.SSLError as error:
            raise TlsError(f"TLS failed: {why_asked_failed(error)}") from error
        assert written == size, "OpenSSL takes all when it writes to memory"
        self._turn_bytes -= size
        try:
            self._flush()
        except BlockingIOError:
            self._promised = size
            raise
        return size

    def _flush(self) -> None:
        """Send all encrypted bytes; BlockingIOError if the kernel does not take all of them."""
        while True:
            if not self._unsent:
                if not self._outgoing.pending:
                    return
                self._unsent = memoryview(self._outgoing.read())
            sent = self._socket.send(self._unsent)
            self._unsent = self._unsent[sent:]

    def _flush_quietly(self) -> None:
        # A peer that is gone is noticed by the next read.
        with contextlib.suppress(OSError):
            self._flush()

    def close(self) -> None:
        if self._tls is not None and not self._unsent:
            # Tells the peer that nothing was cut off; its own word is not waited for.
            with contextlib.suppress(ssl.SSLError, OSError):
                self._tls.unwrap()
            self._flush_quietly()
        self._socket.close()


class TlsNetwork:
    """A network whose accepted sockets are `TlsSocket`s: ranges of files are encrypted on their way."""

    least_room_bytes = LEAST_ROOM_BYTES

    def __init__(self, network: Network) -> None:
        self._network = network

    def host_name(self) -> str:
        return self._network.host_name()

    def resolve(self, host: str, port: int) -> list[tuple[Any, str]]:
        return self._network.resolve(host, port)

    def listen(self, family: Any, address: str, port: int, backlog: int) -> ListeningSocket:
        return self._network.listen(family, address, port, backlog)

    def configure(self, accepted: Socket, send_buffer_bytes: int, receive_buffer_bytes: int) -> None:
        self._network.configure(accepted, send_buffer_bytes, receive_buffer_bytes)

    def sendfile(self, to: Socket, descriptor: int, position: int, size: int) -> int:
        assert isinstance(to, TlsSocket)
        return to.send_range(descriptor, position, size)
