"""The bytes that members of a group exchange through the coordinator: subscriptions and assignments.

The coordinator passes these bytes on without reading them. The Java client, librdkafka, aiokafka and
kafka-python write the same formats, which is why they can share a group with us. Both formats are an int16
version and the fields of that version:

    version   subscription adds                                assignment
    0         topics, user data                                topics with partitions, user data
    1         the partitions that the member owns (KIP-429)    the same
    2         the generation in which it owned them (KIP-792)  the same
    3         the member's rack (KIP-881)                      the same

We write version 3, as Java does: every reader stops after the fields it knows. Likewise a version newer than
ours is read as ours, and the bytes that follow are ignored.

User data belongs to an assignor. `sticky` puts the member's last assignment there, and its generation, which
old clients leave out; `cooperative-sticky` puts the generation alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from struct import Struct
from struct import error as struct_error
from typing import Annotated, Any, Final

from ottla.model import NO_GENERATION, TopicPartition
from ottla.protocol.codec import Bytes, DecodeError, Int32, String, codec, record, since, struct

PROTOCOL_TYPE: Final = "consumer"

_VERSION: Final = 3
_INT16: Final = Struct(">h")
_INT32: Final = Struct(">i")


@struct
class OwnedTopicPartition:
    topic: String = ""
    partitions: list[Int32] = field(default_factory=list)


@record(key=0, versions=(0, _VERSION), flexible=None)
class ConsumerProtocolSubscription:
    topics: list[String] = field(default_factory=list)
    user_data: Bytes | None = None
    owned_partitions: Annotated[list[OwnedTopicPartition], since(1)] = field(default_factory=list)
    generation_id: Annotated[Int32, since(2)] = NO_GENERATION
    rack_id: Annotated[String | None, since(3)] = None


@record(key=1, versions=(0, _VERSION), flexible=None)
class ConsumerProtocolAssignment:
    assigned_partitions: list[OwnedTopicPartition] = field(default_factory=list)
    user_data: Bytes | None = None


@record(key=2, versions=(0, 1), flexible=None)
class StickyUserData:
    previous_assignment: list[OwnedTopicPartition] = field(default_factory=list)
    generation_id: Annotated[Int32, since(1)] = NO_GENERATION


@dataclass(frozen=True, slots=True)
class MemberSubscription:
    """The topics that a member reads, and the partitions that it owned when it joined."""

    topics: tuple[str, ...]
    owned: tuple[TopicPartition, ...] = ()
    generation_id: int = NO_GENERATION
    user_data: bytes | None = None


def encode_subscription(subscription: MemberSubscription) -> bytes:
    return _encoded(
        ConsumerProtocolSubscription(
            topics=sorted(subscription.topics),  # as Java does: the same topics are the same bytes
            user_data=subscription.user_data,
            owned_partitions=_by_topic(subscription.owned),
            generation_id=subscription.generation_id,
        )
    )


def decode_subscription(data: bytes | memoryview) -> MemberSubscription:
    """The subscription of a member; DecodeError if the bytes are none."""
    found = _decoded(ConsumerProtocolSubscription, data)
    return MemberSubscription(
        topics=tuple(found.topics),
        owned=_flat(found.owned_partitions),
        generation_id=found.generation_id,
        user_data=None if found.user_data is None else bytes(found.user_data),
    )


def encode_assignment(partitions: Iterable[TopicPartition]) -> bytes:
    return _encoded(ConsumerProtocolAssignment(assigned_partitions=_by_topic(partitions)))


def decode_assignment(data: bytes | memoryview) -> tuple[TopicPartition, ...]:
    """The partitions that a member was given; none if there are no bytes.

    Raises DecodeError for other bytes.
    """
    return _flat(_decoded(ConsumerProtocolAssignment, data).assigned_partitions) if len(data) else ()


def encode_assignments(assignments: Mapping[str, Iterable[TopicPartition]]) -> dict[str, bytes]:
    """The assignments of all members, as their leader sends them."""
    return {member_id: encode_assignment(partitions) for member_id, partitions in assignments.items()}


def encode_previous(partitions: Iterable[TopicPartition], generation_id: int) -> bytes | None:
    """The user data of `sticky` for a member with a last assignment; None for a new member."""
    if generation_id == NO_GENERATION:
        return None
    out = bytearray()
    codec(StickyUserData, 1).write(StickyUserData(_by_topic(partitions), generation_id), out)
    return bytes(out)


def decode_previous(user_data: bytes | None) -> tuple[tuple[TopicPartition, ...], int]:
    """The last assignment of a member and its generation; nothing if the user data is missing or invalid."""
    for version in (1, 0):
        try:
            found, _ = codec(StickyUserData, version).read(memoryview(user_data or b""), 0)
        except DecodeError:
            continue
        return _flat(found.previous_assignment), found.generation_id
    return (), NO_GENERATION


def encode_generation(generation_id: int) -> bytes:
    """The user data of `cooperative-sticky`."""
    return _INT32.pack(generation_id)


def decode_generation(user_data: bytes | None) -> int:
    """The generation in which a member owned its partitions; -1 if the user data does not say."""
    return (
        int(_INT32.unpack_from(user_data)[0])
        if user_data and len(user_data) >= _INT32.size
        else NO_GENERATION
    )


def _encoded(value: Any) -> bytes:
    out = bytearray(_INT16.pack(_VERSION))
    codec(type(value), _VERSION).write(value, out)
    return bytes(out)


def _decoded(cls: type[Any], data: bytes | memoryview) -> Any:
    try:
        (version,) = _INT16.unpack_from(data)
    except struct_error:
        raise DecodeError(f"{len(data)} bytes are no {cls.__name__}") from None
    if version < 0:
        raise DecodeError(f"a {cls.__name__} has the version {version}")
    return codec(cls, min(version, _VERSION)).read(memoryview(data), _INT16.size)[0]


def _by_topic(partitions: Iterable[TopicPartition]) -> list[OwnedTopicPartition]:
    topics: dict[str, OwnedTopicPartition] = {}
    for topic, partition in sorted(partitions):
        topics.setdefault(topic, OwnedTopicPartition(topic)).partitions.append(partition)
    return list(topics.values())


def _flat(topics: Iterable[OwnedTopicPartition]) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(each.topic, partition) for each in topics for partition in each.partitions)
