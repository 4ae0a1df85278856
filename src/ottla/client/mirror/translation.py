"""Offsets of the source as offsets of the target.

A copied record has its offset of the source in a header. Offsets of both sides rise together, so the place of an
offset is found by a binary search: some twenty records are looked at, and no table of pairs has to be kept.
"""

from __future__ import annotations

from typing import Final

from ottla.client.admin.admin import Admin
from ottla.client.fetching.plan.partition_reader import ConsumerRecord
from ottla.client.requests.group_offsets import CommittedOffset
from ottla.client.requests.offsets import OffsetSpec
from ottla.client.requests.outcomes import succeeded
from ottla.errors import KafkaError
from ottla.model import TopicPartition

SOURCE_OFFSET: Final = "ottla.mirror.offset"


def source_offset(record: ConsumerRecord) -> int | None:
    """The offset that a copied record has in the source; None for a record that was not copied."""
    value = dict(record.headers).get(SOURCE_OFFSET)
    return int(value) if value is not None and value.isdigit() else None


async def translated(target: Admin, partition: TopicPartition, offset: int) -> int:
    """The offset in the target of the first copied record at or after an offset of the source; the end if none is."""
    low = await _listed(target, partition, OffsetSpec.EARLIEST)
    end = high = await _listed(target, partition, OffsetSpec.LATEST)
    found = end
    while low < high:
        middle = (low + high) // 2
        record = succeeded(await target.peek({partition: middle}))[partition]
        if not isinstance(record, ConsumerRecord) or record.offset >= high:
            high = middle
            continue
        copied = source_offset(record)
        if copied is not None and copied >= offset:
            found, high = record.offset, middle
        else:
            low = record.offset + 1
    return found


async def mirror_groups(
    source: Admin, target: Admin, partitions: set[TopicPartition], groups: list[str]
) -> int:
    """Commit for each group in the target where it is in the source; the number of groups whose offsets were moved.

    A group that has members in the target is left alone: it has moved there.
    """
    names = groups or [each.group_id for each in await source.list_groups()]
    moved = 0
    for name in names:
        offsets = await source.list_group_offsets(name)
        wanted = {
            key: CommittedOffset(await translated(target, key, each.offset))
            for key, each in offsets.items()
            if key in partitions and isinstance(each, CommittedOffset)
        }
        outcomes = await target.alter_group_offsets(name, wanted) if wanted else {}
        moved += bool(outcomes) and not any(isinstance(each, KafkaError) for each in outcomes.values())
    return moved


async def _listed(admin: Admin, partition: TopicPartition, spec: OffsetSpec) -> int:
    return succeeded(await admin.list_offsets({partition: int(spec)}))[partition].offset
