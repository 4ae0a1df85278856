"""On whose behalf a session asks, in Kafka's form `User:alice`."""

from typing import Final, NamedTuple


class Principal(NamedTuple):
    """The kind and the name of a principal. Kafka's clients and ours know the kind `User` only."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


# The kind of all principals that log in.
USER: Final = "User"

# As in Kafka: a client of a listener that does not ask for authentication.
ANONYMOUS: Final = Principal(USER, "ANONYMOUS")


def principal_of(text: str) -> Principal:
    """The principal that a text like `User:alice` names; a text without a kind names a user."""
    kind, colon, name = text.partition(":")
    return Principal(kind, name) if colon else Principal(USER, text)
