"""One client's connection as handlers see it: client id, address, software.

A session begins with its connection and ends with it. Handlers find it in their `RequestContext`; the
connection finds there what to call when it ends.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from ottla.runtime.clock import monotonic_ms
from ottla.security.principal import ANONYMOUS, Principal
from ottla.server.gate.login import Login, Reply


class ClientSoftware(NamedTuple):
    """The name and version of a client library, as ApiVersions tells them from version 3 on (KIP-511)."""

    name: str
    version: str


# As in Kafka: a client that did not say who it is.
UNKNOWN_SOFTWARE: Final = ClientSoftware("unknown", "unknown")


@dataclass(slots=True, eq=False)
class Session:
    """The state of one connection that outlives its requests. Each field is changed by a method here and
    nowhere else.
    """

    listener: str
    host: str
    port: int
    # As the latest decoded request has it: clients may change it, and some send none.
    client_id: str | None = None
    software: ClientSoftware = UNKNOWN_SOFTWARE
    # On whose behalf the client asks: as a certificate or SASL said, with the time until which that counts
    # (KIP-368), by the monotonic clock. With a quota that was exceeded, the time until which requests are not
    # handled.
    principal: Principal = ANONYMOUS
    authenticated_until_ms: int | None = None
    # Whether the client logged in with a delegation token: it cannot have further tokens then.
    is_by_token: bool = False
    throttled_until_ms: int | None = None
    # Whether the latest request was one of another node, for which no quota counts.
    is_of_node: bool = False
    # The security protocol of the listener, and the listener whose addresses this client is told.
    protocol: str = "PLAINTEXT"
    advertised_listener: str = ""
    # The login that clients of this listener begin with; None if the listener has no logins.
    login: Login | None = None
    peer: str = field(init=False)
    _when_unmuted: Callable[[], None] | None = field(init=False, default=None)
    _when_closed: dict[str, Callable[[], None]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.peer = f"{self.host}:{self.port}"
        self.advertised_listener = self.advertised_listener or self.listener
        if self.login is not None:
            self.call_when_closed("login", self.login.close)

    def is_called(self, client_id: str | None) -> None:
        """Take over the client id of the latest request."""
        self.client_id = client_id

    def speaks_for_node(self, is_of_node: bool) -> None:
        """Take over whether the latest request was one of another node."""
        self.is_of_node = is_of_node

    def runs(self, software: ClientSoftware) -> None:
        """Take over which client library the client says it is."""
        self.software = software

    def authenticated_as(
        self, principal: Principal, until_ms: int | None = None, *, is_by_token: bool = False
    ) -> None:
        """Take over whom the client has proved to be, and until when that counts; None is without end."""
        self.principal = principal
        self.is_by_token = is_by_token
        self.authenticated_until_ms = until_ms

    @property
    def must_log_in(self) -> bool:
        """Whether nothing but a login is answered now: there was none, or the last one does not count any more."""
        if self.login is None:
            return False
        until_ms = self.authenticated_until_ms
        return not self.login.is_done or (until_ms is not None and monotonic_ms() >= until_ms)

    async def authenticate(self, token: bytes) -> Reply:
        """Hand the client's next token to its login; after the last one, the session is the user's.

        Raises AuthenticationError.
        """
        assert self.login is not None, "the listener has no logins"
        reply = await self.login.respond(token)
        if reply.user is not None:
            until_ms = monotonic_ms() + reply.lifetime_ms if reply.lifetime_ms else None
            self.authenticated_as(Principal("User", reply.user), until_ms, is_by_token=reply.is_by_token)
        return reply

    def is_throttled_until(self, until_ms: int) -> None:
        """Have no further request handled until then: the client has exceeded a quota."""
        self.throttled_until_ms = until_ms

    def unmute(self, until_ms: int) -> None:
        """Have requests handled again, unless the client is throttled for longer by now."""
        if self.throttled_until_ms == until_ms:
            self.throttled_until_ms = None
            if self._when_unmuted is not None:
                self._when_unmuted()

    def call_when_unmuted(self, callback: Callable[[], None]) -> None:
        """Have `callback` called when requests are handled again."""
        self._when_unmuted = callback

    def call_when_closed(self, name: str, callback: Callable[[], None]) -> None:
        """Have `callback` called once the connection is closed; a second callback of the same name replaces
        the first.
        """
        self._when_closed[name] = callback

    def close(self) -> None:
        """End the session: its connection is closed."""
        callbacks, self._when_closed = self._when_closed, {}
        for callback in callbacks.values():
            callback()
