"""The ends of connections: what `ottla.runtime.network` promises a listener, and a transport for the asking side."""

from __future__ import annotations

import asyncio
import errno
from collections import deque
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from tests.simulation.world.network import Network
    from tests.simulation.world.process import ProcessLoop

# What the kernels of both sides keep of one way before the sender has to wait.
WINDOW_BYTES: Final = 256 * 1024
_HIGH_WATER_BYTES: Final = 64 * 1024
_SPLIT_ODDS: Final = 0.03


class Readable(Protocol):
    """What an event loop watches."""

    @property
    def is_readable(self) -> bool: ...

    @property
    def is_writable(self) -> bool: ...


class Socket:
    """One end. `_way` holds the pieces that travel to the peer: bytes, or the end of the connection."""

    peer: Socket

    def __init__(self, network: Network, process: ProcessLoop) -> None:
        self.network = network
        self.process = process
        self.host = process.host
        self.held_until = 0.0
        self.is_reset = False
        self.is_closed = False
        self._is_gone = False  # the kernel of this side knows nothing of the connection any more
        self._inbox = bytearray()
        self._has_ended = False
        self._way: deque[tuple[float, bytes | None]] = deque()
        self._way_bytes = 0
        self._is_travelling = False
        self._descriptor = network.descriptor()
        network.sockets[self._descriptor] = self
        process.sockets[self._descriptor] = self

    # ---- what `socket.socket` has

    def fileno(self) -> int:
        return self._descriptor

    def recv_into(self, buffer: Any, nbytes: int = 0, /) -> int:
        if self.is_reset:
            raise ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")
        if not self._inbox:
            if self._has_ended:
                return 0
            raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
        was_full = self.peer_is_blocked
        size = min(len(buffer), len(self._inbox))
        buffer[:size] = self._inbox[:size]
        del self._inbox[:size]
        if was_full and not self.peer.is_closed:
            self.peer.process.wake(self.peer.fileno())
        return size

    def send(self, data: Any, /) -> int:
        if self.is_reset or self.is_closed:
            raise BrokenPipeError(errno.EPIPE, "Broken pipe")
        room = WINDOW_BYTES - self.unread_bytes
        if room <= 0:
            raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
        taken = bytes(data[:room])
        self._put(taken)
        return len(taken)

    def close(self) -> None:
        if self.is_closed:
            return
        self.is_closed = True
        self.process.sockets.pop(self._descriptor, None)
        self._leave()

    # ---- what the event loop and the other end ask

    @property
    def is_readable(self) -> bool:
        return bool(self._inbox) or self._has_ended or self.is_reset

    @property
    def is_writable(self) -> bool:
        return self.is_reset or self.unread_bytes < WINDOW_BYTES

    @property
    def unread_bytes(self) -> int:
        """What this side has sent and the other has not read."""
        return self._way_bytes + len(self.peer._inbox)

    @property
    def peer_is_blocked(self) -> bool:
        return self.peer._way_bytes + len(self._inbox) >= WINDOW_BYTES

    def reset(self) -> None:
        """The connection is broken for both ends, and what travelled is lost."""
        for end in (self, self.peer):
            end._way.clear()
            end._way_bytes = 0
            end._break()

    def abandon(self) -> None:
        """The process was killed; its kernel sends the rest and ends the connection."""
        if not self.is_closed:
            self.is_closed = True
            self._leave()

    def vanish(self) -> None:
        """The machine is gone; the other end is told nothing."""
        self.is_closed = self._is_gone = True
        self._way.clear()
        self._way_bytes = 0
        self.network.sockets.pop(self._descriptor, None)

    def _leave(self) -> None:
        # Data that nobody read makes the kernel reset the connection instead of ending it.
        if self._inbox and not self.is_reset:
            self.peer._break_later(self)
        self._put(None)

    def _put(self, piece: bytes | None) -> None:
        network, dice = self.network, self.network.world.dice
        at = network.world.now + network.latency_s(self.host, self.peer.host)
        if piece is not None:
            self._way_bytes += len(piece)
            if len(piece) > 1 and dice.random() < _SPLIT_ODDS:
                middle = dice.randrange(1, len(piece))
                self._way.append((at, piece[:middle]))
                at, piece = at + dice.random() * 0.002, piece[middle:]
        self._way.append((at, piece))
        if not self._is_travelling:
            self._is_travelling = True
            network.world.at(self._way[0][0], self._arrive)

    def _arrive(self) -> None:
        self._is_travelling = False
        world, peer = self.network.world, self.peer
        if not self._way:
            return
        if self.network.is_cut(self.host, peer.host) or self.held_until > world.now:
            from tests.simulation.world.network import RETRANSMIT_S

            self._travel_on(max(world.now + RETRANSMIT_S, self.held_until))
            return
        _, piece = self._way.popleft()
        if peer._is_gone:
            # The other host was restarted: it resets what it does not know.
            self._way.clear()
            self._break()
            return
        world.note(peer.process.number, piece or b"")
        if piece is None:
            peer._has_ended = True
            self.network.sockets.pop(self._descriptor, None)
        else:
            self._way_bytes -= len(piece)
            if not peer.is_closed:
                peer._inbox += piece
        peer.process.wake(peer.fileno())
        if self._way:
            self._travel_on(max(world.now, self._way[0][0]))

    def _travel_on(self, at: float) -> None:
        self._is_travelling = True
        self.network.world.at(at, self._arrive)

    def _break_later(self, by: Socket) -> None:
        delay_s = self.network.latency_s(by.host, self.host)
        self.network.world.later(delay_s, self._break)

    def _break(self) -> None:
        if not self.is_reset:
            self.is_reset = True
            self.network.sockets.pop(self._descriptor, None)
            if not self.is_closed:
                self.process.wake(self._descriptor)


class Door:
    """A listening socket."""

    is_writable = False

    def __init__(self, network: Network, process: ProcessLoop, port: int) -> None:
        if port in network.doors:
            raise OSError(errno.EADDRINUSE, "Address already in use")
        self.network = network
        self.process = process
        self.port = port
        self._queue: deque[Socket] = deque()
        self._descriptor = network.descriptor()
        network.doors[port] = self
        process.sockets[self._descriptor] = self

    def fileno(self) -> int:
        return self._descriptor

    def getsockname(self) -> tuple[str, int]:
        return "127.0.0.1", self.port

    @property
    def is_readable(self) -> bool:
        return bool(self._queue)

    def arrived(self, socket: Socket) -> None:
        """The kernel took a connection; the process may accept it."""
        self._queue.append(socket)
        self.process.wake(self._descriptor)

    def accept(self) -> tuple[Socket, tuple[str, int]]:
        if not self._queue:
            raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
        return self._queue.popleft(), ("127.0.0.1", 40_000)

    def close(self) -> None:
        self.network.doors.pop(self.port, None)
        self.process.sockets.pop(self._descriptor, None)


class Transport(asyncio.Transport):
    """The asking side of a connection, as asyncio's selector transport behaves."""

    def __init__(self, socket: Socket, protocol: Any, process: ProcessLoop) -> None:
        super().__init__()
        self._socket = socket
        self._protocol = protocol
        self._process = process
        self._unsent = bytearray()
        self._is_paused = False
        self._is_closing = False
        process.add_reader(socket.fileno(), self._on_readable)

    def write(self, data: Any) -> None:
        if self._is_closing:
            return
        self._unsent += data
        self._pump()

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        self._end(None)

    def abort(self) -> None:
        self._end(None)

    def _pump(self) -> None:
        try:
            while self._unsent:
                del self._unsent[: self._socket.send(self._unsent)]
        except BlockingIOError:
            self._process.add_writer(self._socket.fileno(), self._pump)
        except OSError as error:
            self._end(error)
        else:
            self._process.remove_writer(self._socket.fileno())
        if len(self._unsent) > _HIGH_WATER_BYTES and not self._is_paused:
            self._is_paused = True
            self._protocol.pause_writing()
        elif self._is_paused and not self._unsent:
            self._is_paused = False
            self._protocol.resume_writing()

    def _on_readable(self) -> None:
        if self._is_closing:
            return
        try:
            size = self._socket.recv_into(self._protocol.get_buffer(-1))
        except BlockingIOError:
            return
        except OSError as error:
            self._end(error)
            return
        if size:
            self._protocol.buffer_updated(size)
        else:
            self._protocol.eof_received()
            self._end(None)

    def _end(self, error: OSError | None) -> None:
        if not self._is_closing:
            self._is_closing = True
            self._process.remove_reader(self._socket.fileno())
            self._process.remove_writer(self._socket.fileno())
            self._socket.close()
            self._process.call_soon(self._protocol.connection_lost, error)
