"""Accepts connections at one address, and lets them go.

`localhost` is bound on every address it resolves to, with one port: a client that tries ::1 first must not
have to wait for a refusal. Port 0 asks the kernel for a free one.
"""

import asyncio
import errno
import logging

from ottla.config.listeners import Listener as ListenerAddress
from ottla.runtime.clock import monotonic_ms
from ottla.runtime.network import ListeningSocket, Socket
from ottla.runtime.ordered_set import OrderedSet
from ottla.security.quota.entities import CONNECTION_CREATION_RATE
from ottla.server.gate.dispatch import Gate
from ottla.server.gate.session import Session
from ottla.server.load_metrics import Traffic
from ottla.server.net.admission import Admission
from ottla.server.net.connection import Connection
from ottla.server.net.entrance import Entrance
from ottla.server.net.throttled_sockets import ThrottledSockets

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
        self,
        address: ListenerAddress,
        advertised_name: str,
        gate: Gate,
        admission: Admission,
        entrance: Entrance,
    ) -> None:
        tls = entrance.tls
        self._network = entrance.network if tls is None else tls.network
        self._handshakes = None if tls is None else tls.handshakes(self._greeted, self._dismissed)
        self._logins = entrance.logins
        self._protocol = address.protocol
        self._advertised_name = advertised_name
        self.name = address.name
        self.host = address.host
        self.port = address.port
        self._gate = gate
        self._admission = admission
        self._refusals = entrance.refusals
        self._throttled = ThrottledSockets()
        self._sockets: list[ListeningSocket] = []
        self._connections: OrderedSet[Connection] = OrderedSet()
        self._past = Traffic(0, 0)
        # Since the start: connections that came in, and those that were closed because there were too many.
        self.accepted = 0
        self.refused = 0

    @property
    def traffic(self) -> Traffic:
        """The bytes received and sent since the start."""
        received = sum(connection.received_bytes for connection in self._connections)
        sent = sum(connection.sent_bytes for connection in self._connections)
        return Traffic(self._past.received_bytes + received, self._past.sent_bytes + sent)

    @property
    def connection_count(self) -> int:
        """How many connections that came in through it are open."""
        return len(self._connections)

    def bind(self) -> None:
        """Have the address, and let clients queue at it. Raises OSError when it cannot be had."""
        asked_port, backlog = self.port, self._admission.limits.listen_backlog_size
        failure: OSError | None = None
        for family, address in self._network.resolve(self.host, self.port):
            try:
                self._sockets.append(self._network.listen(family, address, self.port, backlog))
            except OSError as error:
                failure = error
                if error.errno == errno.EADDRINUSE and asked_port:
                    self.close_sockets()
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

    def resume(self) -> None:
        """Handle the requests that waited for the gate to open."""
        for connection in tuple(self._connections):
            connection.resume()

    def stop_accepting(self) -> None:
        """Close the door; connections that are in stay."""
        loop = asyncio.get_running_loop()
        for listening in self._sockets:
            loop.remove_reader(listening.fileno())
        self.close_sockets()

    async def drain(self, timeout_s: float) -> None:
        """Let owed answers leave for a while, then close every connection."""
        owed = [asyncio.ensure_future(connection.settled()) for connection in self._connections]
        if owed:
            _, late = await asyncio.wait(owed, timeout=timeout_s)
            for wait in late:
                wait.cancel()
        for connection in tuple(self._connections):
            connection.close()
        if self._handshakes is not None:
            self._handshakes.close()
        self._throttled.close()

    def reap(self) -> None:
        """Close connections that were idle too long; take large buffers back from silent ones."""
        now = asyncio.get_running_loop().time()
        limits = self._admission.limits
        max_idle_s = limits.max_idle_ms / 1000
        for connection in tuple(self._connections):
            silent_s = now - connection.last_active
            if max_idle_s >= 0 and silent_s > max_idle_s and not connection.is_owed_an_answer:
                logger.info(
                    "closing the connection from %s: idle for %d s", connection.session.peer, silent_s
                )
                connection.close()
            elif silent_s > limits.idle_buffer_release_ms / 1000:
                connection.release_memory()
            else:
                connection.trim_memory()

    def _accept(self, listening: ListeningSocket) -> None:
        for _ in range(_ACCEPTS_PER_TURN):
            delay_ms = self._admission.rates.accept_delay_ms(self.name, monotonic_ms())
            if delay_ms:
                self._stop_for(listening, delay_ms / 1000)
                return
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
        self._stop_for(listening, _OUT_OF_DESCRIPTORS_PAUSE_S)

    def _stop_for(self, listening: ListeningSocket, pause_s: float) -> None:
        """Accept nothing for a while: new connections wait in the kernel."""
        loop = asyncio.get_running_loop()
        loop.remove_reader(listening.fileno())
        loop.call_later(pause_s, self._resume_accepting, listening)

    def _resume_accepting(self, listening: ListeningSocket) -> None:
        if listening in self._sockets:
            asyncio.get_running_loop().add_reader(listening.fileno(), self._accept, listening)

    def _welcome(self, accepted: Socket, address: tuple[str, int]) -> None:
        ip = address[0]
        refusal, limits = self._admission.refusal(self.name, ip), self._admission.limits
        if refusal is None and self._logins is not None:
            refusal = self._logins.refusal(ip)
        if refusal is not None:
            self.refused += 1
            self._refuse(ip, refusal)
            accepted.close()
            return
        delay_ms = self._admission.rates.connected(self.name, ip, monotonic_ms())
        if delay_ms:
            self.refused += 1
            self._refuse(ip, f"it makes more connections than the quota {CONNECTION_CREATION_RATE} allows")
            self._throttled.close_later(accepted, delay_ms)
            return
        self._network.configure(accepted, limits.send_buffer_bytes, limits.receive_buffer_bytes)
        self._admission.opened(self.name, ip)
        self.accepted += 1
        session = self._session(address)
        if self._handshakes is None:
            self._connect(accepted, session)
        else:
            self._handshakes.begin(accepted, session)

    def _refuse(self, peer: str, reason: str) -> None:
        self._refusals.note(peer, reason, asyncio.get_running_loop().time())

    def _greeted(self, sock: Socket, session: Session) -> None:
        """A TLS handshake is complete. Requests may have come with it, which the kernel does not announce."""
        self._connect(sock, session).read()

    def _dismissed(self, session: Session) -> None:
        """A TLS handshake failed, and its socket is closed."""
        self._admission.closed(self.name, session.host)
        session.close()

    def _session(self, address: tuple[str, int]) -> Session:
        return Session(
            self.name,
            address[0],
            address[1],
            protocol=self._protocol,
            advertised_listener=self._advertised_name,
            login=None if self._logins is None else self._logins.begin(address[0], self.name),
        )

    def _connect(self, sock: Socket, session: Session) -> Connection:
        limits = self._admission.limits
        connection = Connection(sock, session, self._gate, self._network, limits, self._forget)
        self._connections.add(connection)
        return connection

    def _forget(self, connection: Connection) -> None:
        self._connections.discard(connection)
        received, sent = connection.received_bytes, connection.sent_bytes
        self._past = Traffic(self._past.received_bytes + received, self._past.sent_bytes + sent)
        self._admission.closed(self.name, connection.session.host)
        if connection.closed_because is not None:
            self._refuse(connection.session.peer, connection.closed_because)

    def close_sockets(self) -> None:
        """Give the addresses back."""
        for listening in self._sockets:
            listening.close()
        self._sockets = []
