"""TLS handshakes of accepted connections, none of which keeps another one waiting.

A connection that is accepted at a listener with TLS is here until its handshake is complete, or fails, or takes
too long. It counts against the limits on connections from the beginning.
"""

import asyncio
from collections.abc import Callable
from functools import partial

from ottla.runtime.network import Socket
from ottla.runtime.ordered_set import OrderedSet
from ottla.runtime.tls_socket import TlsSocket
from ottla.server.gate.session import Session
from ottla.server.net.certificates import Certificates
from ottla.server.net.refusal_log import RefusalLog

OnComplete = Callable[[TlsSocket, Session], None]
OnFailed = Callable[[Session], None]


class Handshakes:
    """The handshakes of one listener that are under way.

    `on_complete` takes over the socket of each that succeeds; `on_failed` is called for each other, whose socket
    is closed then.
    """

    def __init__(
        self,
        certificates: Certificates,
        refusals: RefusalLog,
        timeout_ms: int,
        on_complete: OnComplete,
        on_failed: OnFailed,
    ) -> None:
        self._certificates = certificates
        self._refusals = refusals
        self._timeout_ms = timeout_ms
        self._on_complete = on_complete
        self._on_failed = on_failed
        self._under_way: OrderedSet[_Handshake] = OrderedSet()

    def begin(self, sock: Socket, session: Session) -> None:
        """Begin the handshake of a connection that was just accepted."""
        handshake = _Handshake(
            self._certificates.wrapped(sock, session.protocol),
            session,
            self._timeout_ms / 1000,
            self._finished,
        )
        self._under_way.add(handshake)

    def close(self) -> None:
        """Break off all that are under way."""
        for handshake in tuple(self._under_way):
            handshake.end()
            self._give_up(handshake)

    def _finished(self, handshake: "_Handshake", problem: str | None) -> None:
        session, sock = handshake.session, handshake.socket
        if problem is None and session.protocol == "SSL":
            try:
                session.authenticated_as(self._certificates.principal(sock.peer_certificate))
            except ValueError as error:
                problem = f"its certificate is nobody's: {error}"
        if problem is None:
            self._under_way.discard(handshake)
            self._on_complete(sock, session)
            return
        if problem:
            now_s, place = asyncio.get_running_loop().time(), session.listener
            self._refusals.note(session.peer, f"the TLS handshake at {place} failed: {problem}", now_s)
        self._give_up(handshake)

    def _give_up(self, handshake: "_Handshake") -> None:
        self._under_way.discard(handshake)
        handshake.socket.close()
        self._on_failed(handshake.session)


class _Handshake:
    """One handshake, driven by the event loop. `on_finished` gets the reason if there is no TLS; an empty one if
    the peer went away.
    """

    __slots__ = ("_deadline", "_descriptor", "_is_writing", "_loop", "_on_finished", "session", "socket")

    def __init__(
        self,
        sock: TlsSocket,
        session: Session,
        timeout_s: float,
        on_finished: Callable[["_Handshake", str | None], None],
    ) -> None:
        self.socket = sock
        self.session = session
        self._on_finished = on_finished
        self._loop = asyncio.get_running_loop()
        self._descriptor = sock.fileno()
        self._is_writing = False
        late = f"it is not complete after {timeout_s:g} s (ottla.ssl.handshake.timeout.ms)"
        self._deadline = self._loop.call_later(timeout_s, partial(self._finish, late))
        self._loop.add_reader(self._descriptor, self._step)

    def end(self) -> None:
        """Do nothing more."""
        self._deadline.cancel()
        self._loop.remove_reader(self._descriptor)
        self._loop.remove_writer(self._descriptor)

    def _step(self) -> None:
        try:
            is_complete = self.socket.handshake()
        except (ConnectionResetError, BrokenPipeError):
            self._finish("")  # as probes of a port do: no news
            return
        except OSError as error:
            self._finish(error.strerror or str(error) or type(error).__name__)
            return
        if is_complete:
            self._finish(None)
        else:
            self._await(self.socket.has_unsent)

    def _await(self, is_writing: bool) -> None:
        """Go on when the peer has taken what it was sent, or else when it answers."""
        if is_writing == self._is_writing:
            return
        self._is_writing = is_writing
        if is_writing:
            self._loop.remove_reader(self._descriptor)
            self._loop.add_writer(self._descriptor, self._step)
        else:
            self._loop.remove_writer(self._descriptor)
            self._loop.add_reader(self._descriptor, self._step)

    def _finish(self, problem: str | None) -> None:
        self.end()
        self._on_finished(self, problem)
