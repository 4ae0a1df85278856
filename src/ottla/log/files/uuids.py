"""Uuids as Kafka writes them: 22 characters of base64url without padding."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from uuid import UUID


def uuid_text(uuid: UUID) -> str:
    """The uuid as Kafka writes it."""
    return urlsafe_b64encode(uuid.bytes).decode("ascii").rstrip("=")


def parse_uuid(text: str) -> UUID | None:
    """The uuid in Kafka's notation, or None if the text is none."""
    try:
        return UUID(bytes=urlsafe_b64decode(text + "=="))
    except ValueError:
        return None
