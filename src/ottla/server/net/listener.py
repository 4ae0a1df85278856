"""Accepts connections, keeps their number in bounds, and lets them go.

`localhost` is bound on every address it resolves to, with one port: a client that tries ::1 first must not
have to wait for a refusal. Port 0 asks the kernel for a free one.
"""

import asyncio
import errno
import logging
from collections import Counter

from ottla.config import ConnectionConfig
from ottla.config.listeners import Listener as ListenerAddress
from ottla.runtime.network import ListeningSocket, Network, Socket
from ottla.runtime.ordered_set import OrderedSet
from ottla.server.gate.dispatch import Gate
from ottla.server.gate.session import Session
from ottla.server.load_metrics import Traffic
from ottla.server.net.connection import Connection

logger = logging.getLogger(__name__)

# New connections taken in one turn of the loop, so that a storm does not starve those that are there.
_ACCEPTS_PER_TURN = 64
# When descriptors run out, accepting again at once would spin.
_OUT_OF_DESCRIPTORS_PAUSE_S = 0.5
_OUT_OF_DESCRIPTORS = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Listener:
    """One host and port, and the connections that came in through it. Where it listens is named as in
    `listeners`.
    """

    def __init__(
        self, address: ListenerAddress, gate: Gate, limits: ConnectionConfig, network: Network
    ) -> None:
        self._network = network
        self.name = address.name
        self.host = address.host
        self.port = address.port
        self._gate = gate
        self._limits = limits
        self._sockets: list[ListeningSocket] = []
        self._connections: OrderedSet[Connection] = OrderedSet()
        self._per_ip: Counter[str] = Counter()
        self._ip_of: dict[Connection, str] = {}
        self._past = Traffic(0, 0)

    @property
    def connection_count(self) -> int:
        """How many connections are open."""
        return len(self._connections)

    @property
    def traffic(self) -> Traffic:
        """The bytes received and sent since the start."""
        received = sum(connection.received_bytes for connection in self._connections)
        sent = sum(connection.sent_bytes for connection in self._connections)
        return Traffic(self._past.received_bytes + received, self._past.sent_bytes + sent)

    def bind(self) -> None:
        """Have the address, and let clients queue at it. Raises OSError when it cannot be had."""
        asked_port = self.port
        failure: OSError | None = None
        for family, address in self._network.resolve(self.host, self.port):
            try:
                self._sockets.append(
                    self._network.listen(family, address, self.port, self._limits.listen_backlog_size)
                )
            except OSError as error:
                failure = error
                if error.errno == errno.EADDRINUSE and asked_port:
                    self._close_sockets()
                    raise
                continue
            self.port = self._sockets[-1].getsockname()[1]
        # ::1 may be switched off on this machine; one of localhost's addresses is enough.
        if not self._sockets and failure is not None:
            raise failure

    def start_accepting(self) -> None:
        """Accept connections of other nodes; clients can connect, and wait until the gate opens."""
        loop = asyncio.get_running_loop()
        for listening in self._sockets:
            loop.add_reader(listening.fileno(), self._accept, listening)

    def open_gate(self) -> None:
        """Let clients in, not only other nodes."""
        self._gate.open()
        for connection in tuple(self._connections):
            connection.resume()

    def stop_accepting(self) -> None:
        """Close the door; connections that are in stay."""
        loop = asyncio.get_running_loop()
        for listening in self._sockets:
            loop.remove_reader(listening.fileno())
        self._close_sockets()

    async def drain(self, timeout_s: float) -> None:
        """Let owed answers leave for a while, then close every connection."""
        owed = [asyncio.ensure_future(connection.settled()) for connection in self._connections]
        if owed:
            _, late = await asyncio.wait(owed, timeout=timeout_s)
            for wait in late:
                wait.cancel()
        for connection in tuple(self._connections):
            connection.close()

    def reap(self) -> None:
        """Close connections that were idle too long; take large buffers back from silent ones."""
        now = asyncio.get_running_loop().time()
        max_idle_s = self._limits.max_idle_ms / 1000
        for connection in tuple(self._connections):
            silent_s = now - connection.last_active
            if max_idle_s >= 0 and silent_s > max_idle_s and not connection.is_owed_an_answer:
                logger.info(
                    "closing the connection from %s: idle for %d s", connection.session.peer, silent_s
                )
                connection.close()
            elif silent_s > self._limits.idle_buffer_release_ms / 1000:
                connection.release_memory()
            else:
                connection.trim_memory()

    def _accept(self, listening: ListeningSocket) -> None:
        for _ in range(_ACCEPTS_PER_TURN):
            try:
                accepted, address = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._pause_accepting(listening, error)
                return
            self._welcome(accepted, address)

    def _pause_accepting(self, listening: ListeningSocket, error: OSError) -> None:
        if error.errno not in _OUT_OF_DESCRIPTORS:
            logger.error("accepting a connection failed: %s", error)
            return
        logger.error(
            "cannot accept connections: %s. Raise the limit of open files (ulimit -n) or lower max.connections.",
            error.strerror,
        )
        loop = asyncio.get_running_loop()
        loop.remove_reader(listening.fileno())
        loop.call_later(_OUT_OF_DESCRIPTORS_PAUSE_S, self._resume_accepting, listening)

    def _resume_accepting(self, listening: ListeningSocket) -> None:
        if listening in self._sockets:
            asyncio.get_running_loop().add_reader(listening.fileno(), self._accept, listening)

    def _welcome(self, accepted: Socket, address: tuple[str, int]) -> None:
        ip = address[0]
        refusal = self._refusal(ip)
        if refusal is not None:
            logger.warning("refusing a connection from %s: %s", ip, refusal)
            accepted.close()
            return
        self._network.configure(accepted, self._limits.send_buffer_bytes, self._limits.receive_buffer_bytes)
        connection = Connection(
            accepted,
            Session(self.name, ip, address[1]),
            self._gate,
            self._network,
            self._limits,
            self._forget,
        )
        self._connections.add(connection)
        self._ip_of[connection] = ip
        self._per_ip[ip] += 1

    def _refusal(self, ip: str) -> str | None:
        if len(self._connections) >= self._limits.max_connections:
            return f"{len(self._connections)} connections are open, the limit is max.connections"
        if self._per_ip[ip] >= self._limits.max_connections_per_ip:
            return f"{self._per_ip[ip]} connections from there are open, the limit is max.connections.per.ip"
        return None

    def _forget(self, connection: Connection) -> None:
        self._connections.discard(connection)
        received, sent = connection.received_bytes, connection.sent_bytes
        self._past = Traffic(self._past.received_bytes + received, self._past.sent_bytes + sent)
        ip = self._ip_of.pop(connection, None)
        if ip is not None:
            self._per_ip[ip] -= 1
            if not self._per_ip[ip]:
                del self._per_ip[ip]

    def _close_sockets(self) -> None:
        for listening in self._sockets:
            listening.close()
        self._sockets = []
