"""Where a client gets its tokens for OAUTHBEARER: an identity provider that it asks as itself (client credentials,
RFC 6749 section 4.4), or a file that somebody else keeps fresh.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

_FILE: Final = "file:///"
# A token is not shown any more after this part of its life: its successor is fetched while it still counts.
_KEPT_FOR: Final = 0.8


class KeptToken:
    """The latest token of an endpoint, and until when it is shown to brokers. It is not copied into pickles."""

    __slots__ = ("_text", "_until_ms")

    def __init__(self) -> None:
        self._text: str | None = None
        self._until_ms = 0

    def at(self, now_ms: int) -> str | None:
        """The token, if it is fresh enough to be shown at this time (milliseconds since 1970)."""
        return self._text if now_ms < self._until_ms else None

    def keep(self, text: str, now_ms: int, lifetime_s: float) -> None:
        """Take over a token that is valid for so long."""
        self._text, self._until_ms = text, now_ms + int(lifetime_s * 1000 * _KEPT_FOR)

    def __reduce__(self) -> tuple[type[KeptToken], tuple[()]]:
        return KeptToken, ()


@dataclass(frozen=True, slots=True)
class TokenEndpoint:
    """The token endpoint of an identity provider, and who the client is there.

        TokenEndpoint("https://id.example.org/token", "billing", os.environ["CLIENT_SECRET"], scope="kafka")

    A token is used for most of its life, by all connections. With a `file://` URL the token is the text of that
    file, read for each login.
    """

    url: str
    client_id: str | None = None
    client_secret: str | None = field(default=None, repr=False)
    scope: str | None = None
    kept: KeptToken = field(default_factory=KeptToken, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.is_file:
            if self.client_id is not None or self.client_secret is not None or self.scope is not None:
                raise ValueError("client_id, client_secret and scope have no use with a file: URL")
            return
        if not self.url.startswith(("https://", "http://")):
            raise ValueError("the URL of a token endpoint must begin with https://, http:// or file:///")
        if not self.client_id or not self.client_secret:
            raise ValueError("a token endpoint needs client_id and client_secret")

    @property
    def is_file(self) -> bool:
        """Whether the token stands in a file, and there is no endpoint to ask."""
        return self.url.startswith(_FILE)
