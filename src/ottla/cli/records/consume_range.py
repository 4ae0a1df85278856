"""Where `ottla consume` begins and ends: an end of the log, an offset, or a moment.

Ends are worked out before the first record is read, as one offset for each partition, so that reading ends
also where the last offsets are no records. A moment that has not come yet is waited for.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from ottla.cli.time_text import parse_moment
from ottla.client.admin.admin import Admin
from ottla.client.consumer.consumer import OffsetReset
from ottla.client.requests.offsets import OffsetSpec
from ottla.client.requests.outcomes import succeeded
from ottla.model import NO_OFFSET, TopicPartition


@dataclass(frozen=True, slots=True)
class Start:
    """Where to begin: at an end of the log, at an offset, or at a time."""

    reset: OffsetReset = "earliest"
    offset: int | None = None
    time_ms: int | None = None

    @property
    def is_exact(self) -> bool:
        return self.offset is not None or self.time_ms is not None


@dataclass(frozen=True, slots=True)
class Until:
    """Where to end: nowhere, at the end as it is now, before an offset, or before a time."""

    is_open: bool = False
    offset: int | None = None
    time_ms: int | None = None

    def is_still_coming(self) -> bool:
        """Whether the time at which to end lies ahead."""
        return self.time_ms is not None and self.time_ms > time.time() * 1000


@dataclass(slots=True)
class Bounds:
    """The first offset of each partition that there is, and the first that is not to be read."""

    first: Mapping[TopicPartition, int]
    last: dict[TopicPartition, int] = field(default_factory=dict)


def parse_start(text: str) -> Start:
    """Raises ValueError with a sentence."""
    if text == "earliest":
        return Start("earliest")
    if text == "latest":
        return Start("latest")
    if _is_offset(text):
        return Start(offset=int(text))
    try:
        return Start(time_ms=parse_moment(text))
    except ValueError as error:
        raise ValueError(f"--from: neither earliest nor latest nor an offset, and {error}") from error


def parse_until(text: str) -> Until:
    """Raises ValueError with a sentence."""
    if text == "end":
        return Until()
    if _is_offset(text):
        return Until(offset=int(text))
    try:
        return Until(time_ms=parse_moment(text))
    except ValueError as error:
        raise ValueError(f"--until: neither end nor an offset, and {error}") from error


async def bounds_of(
    admin: Admin, topic_name: str, partitions: tuple[int, ...], until: Until, *, read_committed: bool
) -> Bounds:
    """Where the partitions begin and end; raises KafkaError if the topic or a partition is not there.

    A reader of committed records is at the end where the first open transaction begins.
    """
    topic = succeeded(await admin.describe_topics([topic_name]))[topic_name]
    indexes = dict.fromkeys(partitions or [each.index for each in topic.partitions])
    keys = [TopicPartition(topic_name, index) for index in indexes]
    first = succeeded(await admin.list_offsets(dict.fromkeys(keys, int(OffsetSpec.EARLIEST))))
    latest = dict.fromkeys(keys, int(OffsetSpec.LATEST))
    ends = succeeded(await admin.list_offsets(latest, read_committed=read_committed))
    last = {key: ends[key].offset for key in keys}
    if until.offset is not None:
        last = dict.fromkeys(keys, until.offset)
    elif until.time_ms is not None and not until.is_still_coming():
        moment = dict.fromkeys(keys, until.time_ms)
        found = succeeded(await admin.list_offsets(moment, read_committed=read_committed))
        last |= {key: each.offset for key, each in found.items() if each.offset != NO_OFFSET}
    return Bounds({key: first[key].offset for key in keys}, last)


def _is_offset(text: str) -> bool:
    return text.isascii() and text.isdigit() and int(text) < 2**63
