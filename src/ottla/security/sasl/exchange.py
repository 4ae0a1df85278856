"""What the machines of all SASL mechanisms have in common.

A server's machine takes the client's tokens one by one; the step that has a `login` is the last one. A
client's machine gives its first token, and then one for each challenge; None ends the exchange. Each machine
serves one exchange.
"""

from typing import NamedTuple, Protocol


class AuthenticationError(Exception):
    """The exchange failed. The message is for the log of the side that noticed, and never holds a secret.

    A client gets the same sentence for every reason: which users exist is nobody's business.
    """


class UnknownKeyError(Exception):
    """A token is signed with a key that is not known. Newer keys may have it: the same question can be asked again."""


class Login(NamedTuple):
    """Who has logged in, and until when the credential itself is valid (milliseconds since 1970)."""

    user: str
    expires_ms: int | None = None
    is_token: bool = False


class Step(NamedTuple):
    """The server's next token. With a `login`, the exchange is over; with a `refusal`, it has failed for this
    reason, and the mechanism lets the client answer once more.
    """

    token: bytes
    login: Login | None = None
    refusal: str | None = None


class ServerExchange(Protocol):
    """The server's side of one exchange."""

    def respond(self, token: bytes) -> Step:
        """Take the client's next token. Raises AuthenticationError."""


class ClientExchange(Protocol):
    """The client's side of one exchange."""

    def first(self) -> bytes:
        """The token that begins the exchange."""

    def respond(self, challenge: bytes) -> bytes | None:
        """The answer to a challenge; None if the exchange is over. Raises AuthenticationError."""
