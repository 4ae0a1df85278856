"""What a caller says over a WebSocket: JSON objects with a `type`, parsed and checked.

| type | fields |
|---|---|
| auth | username and password, or token |
| subscribe | topics; group_id; offset_reset; offsets (without a group); credits; decode ("schema") |
| ack | topic, partition, offset; up_to: all before it as well |
| credit | count |
| seek | topic, partition, and offset (a number, "earliest" or "latest") |
| pause, resume, unsubscribe | |
| produce | topic; key, value, partition, headers, timestamp; key_encoding, value_encoding |
| ping | |

Every message may have an `id`, which comes back in its answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal, cast

from ottla.gateway.http.machine.credentials import Login
from ottla.gateway.http.machine.http_error import HttpError, unprocessable
from ottla.gateway.http.machine.json_bodies import kind_of, parse_json
from ottla.gateway.records.machine.described import header_pairs, part_bytes
from ottla.gateway.records.machine.produced import RecordToSend, whole_number
from ottla.gateway.subscriptions.machine.wanted import Seek, Wanted
from ottla.model import TopicPartition

_MOST_INT32: Final = 2**31 - 1
MOST_CREDITS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Auth:
    """Who the caller is, for browsers, which cannot send an Authorization header."""

    login: Login


@dataclass(frozen=True, slots=True)
class Ack:
    """A record is done; with `up_to`, all records of its partition before it, too."""

    partition: TopicPartition
    offset: int
    up_to: bool = False


@dataclass(frozen=True, slots=True)
class Credit:
    """So many records more may be pushed."""

    count: int


@dataclass(frozen=True, slots=True)
class Produce:
    """Write a record."""

    topic: str
    record: RecordToSend


@dataclass(frozen=True, slots=True)
class Command:
    """A message that has only a type."""

    type: Literal["pause", "resume", "unsubscribe", "ping"]


Message = Auth | Wanted | Ack | Credit | Seek | Produce | Command
_FIELDS: Final = {
    "auth": {"username", "password", "token"},
    "subscribe": {"topics", "group_id", "offset_reset", "offsets", "credits", "decode"},
    "ack": {"topic", "partition", "offset", "up_to"},
    "credit": {"count"},
    "seek": {"topic", "partition", "offset"},
    "pause": set(),
    "resume": set(),
    "unsubscribe": set(),
    "ping": set(),
    "produce": {
        *("topic", "key", "value", "partition", "headers", "timestamp", "key_encoding", "value_encoding"),
    },
}


def parse_object(text: str) -> dict[str, Any]:
    """The JSON object of a message. Raises HttpError."""
    try:
        given = parse_json(text)
    except ValueError as error:
        raise HttpError(400, f"the message is not JSON: {error}") from error
    if not isinstance(given, dict):
        raise unprocessable(f"a message must be a JSON object, not {kind_of(given)}")
    return given


def parse_message(given: dict[str, Any], most_topics: int) -> Message:
    """A message. Raises HttpError with a sentence."""
    kind = given.get("type")
    if not isinstance(kind, str) or kind not in _FIELDS:
        raise unprocessable(f"a message must have a type: one of {', '.join(_FIELDS)}")
    if unknown := sorted(given.keys() - _FIELDS[kind] - {"type", "id"}):
        raise unprocessable(f"a message of type {kind} has no field {unknown[0][:50]!r}")
    match kind:
        case "auth":
            return Auth(_login(given))
        case "subscribe":
            return _subscribe(given, most_topics)
        case "ack":
            return Ack(_place(given), whole_number("offset", given.get("offset")), _flag(given, "up_to"))
        case "credit":
            return Credit(_credits("count", given.get("count"), 1))
        case "seek":
            return _seek(given)
        case "produce":
            return _produce(given)
    return Command(cast(Any, kind))


def _login(given: dict[str, Any]) -> Login:
    token, user, password = (given.get(name) for name in ("token", "username", "password"))
    if isinstance(token, str) and token and user is None and password is None:
        return Login(token=token)
    if token is None and isinstance(user, str) and user and isinstance(password, str):
        return Login(user, password)
    raise unprocessable("auth needs username and password, or token")


def _subscribe(given: dict[str, Any], most_topics: int) -> Wanted:
    topics = given.get("topics")
    if (
        not isinstance(topics, list)
        or not topics
        or not all(isinstance(each, str) and each for each in topics)
    ):
        raise unprocessable('subscribe needs "topics": a list of names of topics')
    if len(topics) > most_topics:
        raise unprocessable(f"a subscription may name {most_topics} topics (ottla.gateway.max.topics)")
    group, reset = given.get("group_id"), given.get("offset_reset", "latest")
    if group is not None and (not isinstance(group, str) or not group):
        raise unprocessable("group_id must be the name of a group")
    if reset not in ("earliest", "latest"):
        raise unprocessable(f"offset_reset must be earliest or latest, not {str(reset)[:50]!r}")
    offsets = given.get("offsets")
    if offsets is not None and group is not None:
        raise unprocessable(
            "offsets are for subscriptions without a group: a group goes on at its committed offsets"
        )
    credit, decode = given.get("credits"), given.get("decode", "bytes")
    if decode not in ("bytes", "schema"):
        raise unprocessable(f"decode must be bytes or schema, not {str(decode)[:50]!r}")
    return Wanted(
        tuple(dict.fromkeys(topics)),
        group,
        cast(Any, reset),
        () if offsets is None else _offsets(offsets),
        None if credit is None else _credits("credits", credit, 0),
        by_schema=decode == "schema",
    )


def _offsets(given: Any) -> tuple[tuple[TopicPartition, int], ...]:
    """A list of places to begin at."""
    if not isinstance(given, list) or not all(isinstance(each, dict) for each in given):
        raise unprocessable("offsets must be a list of objects with topic, partition and offset")
    return tuple((_place(each), whole_number("offset", each.get("offset"))) for each in given)


def _seek(given: dict[str, Any]) -> Seek:
    offset = given.get("offset")
    if offset in ("earliest", "latest"):
        return Seek(_place(given), cast(Any, offset))
    return Seek(_place(given), whole_number("offset", offset))


def _produce(given: dict[str, Any]) -> Produce:
    topic = _topic(given)
    if "value" not in given and "key" not in given:
        raise unprocessable('produce needs a "value"; to delete a key, write "value": null')
    partition, stamp = given.get("partition"), given.get("timestamp")
    try:
        record = RecordToSend(
            part_bytes("value", given.get("value"), given.get("value_encoding")),
            part_bytes("key", given.get("key"), given.get("key_encoding")),
            None if partition is None else whole_number("partition", partition, _MOST_INT32),
            tuple(header_pairs(given.get("headers"))),
            None if stamp is None else whole_number("timestamp", stamp),
        )
    except ValueError as error:
        raise unprocessable(str(error)) from error
    return Produce(topic, record)


def _place(given: dict[str, Any]) -> TopicPartition:
    return TopicPartition(_topic(given), whole_number("partition", given.get("partition"), _MOST_INT32))


def _topic(given: dict[str, Any]) -> str:
    topic = given.get("topic")
    if not isinstance(topic, str) or not topic:
        raise unprocessable("topic must be the name of a topic")
    return topic


def _credits(name: str, given: Any, least: int) -> int:
    count = whole_number(name, given, MOST_CREDITS)
    if count < least:
        raise unprocessable(f"{name} must be at least {least}")
    return count


def _flag(given: dict[str, Any], name: str) -> bool:
    value = given.get(name, False)
    if not isinstance(value, bool):
        raise unprocessable(f"{name} must be true or false")
    return value
