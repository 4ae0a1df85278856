"""The part of members' metadata that the coordinator reads: the topics that a consumer subscribes to.

Groups may speak any protocol; the coordinator passes their metadata on as bytes. Only of the type "consumer"
it looks inside, to know which offsets a group still needs. A subscription begins with its version (int16) and
the topics (an array of strings), in versions 0 to 3 and, so clients agreed, in all later ones; what follows
differs, and some clients leave it out, so nothing behind the topics is read.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from struct import error as struct_error
from typing import Final

CONSUMER_PROTOCOL_TYPE: Final = "consumer"

_VERSION_AND_COUNT: Final = Struct(">hi")
_LENGTH: Final = Struct(">h")


def subscribed_topics(subscription: bytes) -> frozenset[str] | None:
    """The topics of one member's subscription; None if it cannot be read."""
    try:
        version, count = _VERSION_AND_COUNT.unpack_from(subscription)
        if version < 0 or not 0 <= count * _LENGTH.size <= len(subscription):
            return None
        position = _VERSION_AND_COUNT.size
        topics = []
        for _ in range(count):
            (length,) = _LENGTH.unpack_from(subscription, position)
            position += _LENGTH.size
            if not 0 <= length <= len(subscription) - position:
                return None
            topics.append(subscription[position : position + length].decode())
            position += length
    except (struct_error, UnicodeDecodeError):
        return None
    return frozenset(topics)


def all_subscribed_topics(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """The topics of all of a group's subscriptions; None if one of them cannot be read."""
    found: set[str] = set()
    for subscription in subscriptions:
        topics = subscribed_topics(subscription)
        if topics is None:
            return None
        found |= topics
    return frozenset(found)
