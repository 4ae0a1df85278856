"""One client's connection as handlers see it: client id, address, software.

A session begins with its connection and ends with it. Handlers find it in their `RequestContext`; the
connection finds there what to call when it ends.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple


class ClientSoftware(NamedTuple):
    """The name and version of a client library, as ApiVersions tells them from version 3 on (KIP-511)."""

    name: str
    version: str


class Principal(NamedTuple):
    """On whose behalf a session asks, in Kafka's form `User:alice`."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


# As in Kafka: a client that did not say who it is.
UNKNOWN_SOFTWARE: Final = ClientSoftware("unknown", "unknown")
# As in Kafka: a client of a listener that does not ask for authentication.
ANONYMOUS: Final = Principal("User", "ANONYMOUS")


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
    # Listeners do not authenticate yet, so these three keep their defaults. With SASL a session has its
    # principal, and the time until which it counts as authenticated (KIP-368); with quotas the time until
    # which its requests are not read.
    principal: Principal = ANONYMOUS
    authenticated_until_ms: int | None = None
    throttled_until_ms: int | None = None
    peer: str = field(init=False)
    _when_closed: dict[str, Callable[[], None]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.peer = f"{self.host}:{self.port}"

    def is_called(self, client_id: str | None) -> None:
        """Take over the client id of the latest request."""
        self.client_id = client_id

    def runs(self, software: ClientSoftware) -> None:
        """Take over which client library the client says it is."""
        self.software = software

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
