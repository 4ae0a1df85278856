"""The subject under which a schema is registered, by Confluent's three strategies.

A strategy is any function of the topic, of the part ("key" or "value") and of the full name of the record's type.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from ottla.serializers.errors import SchemaDataError

SubjectName: TypeAlias = Callable[[str | None, str, str | None], str]


def topic_name(topic: str | None, part: str, record: str | None) -> str:
    """One type for a topic: `orders-value`."""
    return f"{_needed(topic, 'a topic')}-{part}"


def record_name(topic: str | None, part: str, record: str | None) -> str:
    """The same type in any topic: `shop.Order`."""
    return _needed(record, "a schema with a name")


def topic_record_name(topic: str | None, part: str, record: str | None) -> str:
    """Several types in a topic: `orders-shop.Order`."""
    return f"{_needed(topic, 'a topic')}-{_needed(record, 'a schema with a name')}"


def _needed(value: str | None, what: str) -> str:
    if not value:
        raise SchemaDataError(f"the name of the subject needs {what}: give it to the serializer")
    return value
