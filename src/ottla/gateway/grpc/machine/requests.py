"""What callers ask for, checked. Protobuf has checked the types; what is left are the values."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Literal

from ottla.client.requests.group_offsets import CommittedOffset
from ottla.client.requests.topics import NewTopic
from ottla.gateway.http.machine.http_error import HttpError, unprocessable
from ottla.gateway.records.machine.produced import RecordToSend
from ottla.gateway.subscriptions.machine.wanted import Seek, Wanted
from ottla.model import BROKER_DEFAULT, TopicPartition

_EARLIEST: Final = 2
_RESETS: Final[dict[int, Literal["earliest", "latest"]]] = {0: "latest", 1: "latest", _EARLIEST: "earliest"}
_MOST_CREDITS: Final = 1_000_000
_MOST_INT16: Final = 2**15 - 1
_METADATA_CHARACTERS: Final = 4096


def records_in(request: Any) -> list[RecordToSend]:
    """The records of a ProduceRequest. Raises HttpError(422)."""
    _named(request.topic, "topic")
    if not request.records:
        raise unprocessable("records must have one record at least")
    return [_record(index, each) for index, each in enumerate(request.records)]


def _record(index: int, given: Any) -> RecordToSend:
    if not given.HasField("value") and not given.HasField("key"):
        raise unprocessable(f"record {index} has neither a key nor a value")
    return RecordToSend(
        given.value if given.HasField("value") else None,
        given.key if given.HasField("key") else None,
        _whole(f"the partition of record {index}", given.partition) if given.HasField("partition") else None,
        tuple((each.name, each.value if each.HasField("value") else None) for each in given.headers),
        _whole(f"timestamp_ms of record {index}", given.timestamp_ms)
        if given.HasField("timestamp_ms")
        else None,
    )


def wanted(request: Any, most_topics: int, *, is_acknowledged: bool) -> Wanted:
    """What a SubscribeRequest asks for. Raises HttpError(422)."""
    if not request.topics:
        raise unprocessable("topics must name one topic at least")
    for topic in request.topics:
        _named(topic, "topics")
    if len(request.topics) > most_topics:
        raise unprocessable(f"a subscription may name {most_topics} topics (ottla.gateway.max.topics)")
    if request.offsets and request.group_id:
        raise unprocessable(
            "offsets are for subscriptions without a group: a group goes on at its committed offsets"
        )
    if request.HasField("credits") and not is_acknowledged:
        raise unprocessable("credits are for Consume: Subscribe has no way to give more of them")
    return Wanted(
        tuple(dict.fromkeys(request.topics)),
        request.group_id or None,
        reset(request.offset_reset),
        tuple((place(each), _whole("offset", each.offset)) for each in request.offsets),
        credit_in(request.credits, 0) if request.HasField("credits") else None,
        is_acknowledged,
    )


def reset(given: int) -> Literal["earliest", "latest"]:
    """Raises HttpError(422)."""
    if given not in _RESETS:
        raise unprocessable(f"OffsetReset has no value {given}")
    return _RESETS[given]


def seek(request: Any) -> Seek:
    """Raises HttpError(422)."""
    chosen = request.WhichOneof("place")
    if chosen is None or (chosen == "end" and not request.end):
        raise unprocessable("seek needs an offset, or an end")
    return Seek(place(request), reset(request.end) if chosen == "end" else _whole("offset", request.offset))


def credit_in(count: int, least: int = 1) -> int:
    """Raises HttpError(422)."""
    if not least <= count <= _MOST_CREDITS:
        raise unprocessable(f"credits must be {least} to {_MOST_CREDITS}, not {count}")
    return count


def offsets_to_commit(request: Any) -> dict[TopicPartition, CommittedOffset]:
    """The offsets of a CommitRequest. Raises HttpError(422)."""
    group_in(request)
    if not request.offsets:
        raise unprocessable("offsets must have one offset at least")
    for each in request.offsets:
        if len(each.metadata) > _METADATA_CHARACTERS:
            raise unprocessable(f"metadata may have {_METADATA_CHARACTERS} characters")
    return {
        place(each): CommittedOffset(_whole("offset", each.offset), metadata=each.metadata)
        for each in request.offsets
    }


def places(given: Iterable[Any]) -> list[TopicPartition]:
    """Raises HttpError(422)."""
    return list(dict.fromkeys(map(place, given)))


def place(given: Any) -> TopicPartition:
    """Raises HttpError(422)."""
    return TopicPartition(_named(given.topic, "topic"), _whole("partition", given.partition))


def group_in(request: Any) -> str:
    """Raises HttpError(422)."""
    return _named(request.group_id, "group_id")


def new_topic(request: Any) -> NewTopic:
    """Raises HttpError(422)."""
    for name, most in (("partitions", 2**31 - 1), ("replication_factor", _MOST_INT16)):
        if not 0 <= getattr(request, name) <= most:
            raise unprocessable(f"{name} must be 1 to {most}, or 0 for the broker's default")
    return NewTopic(
        _named(request.name, "name"),
        request.partitions or BROKER_DEFAULT,
        request.replication_factor or BROKER_DEFAULT,
        dict(request.configs),
    )


def _named(text: str, field: str) -> str:
    if not text:
        raise HttpError(422, f"{field} must be a name, and it is empty")
    return text


def _whole(name: str, value: int) -> int:
    if value < 0:
        raise unprocessable(f"{name} must be a whole number from 0 on, not {value}")
    return value
