"""The first positions in partitions that have none.

A position is the group's committed offset. Without one, or where reading went out of range, the reset policy
decides: the earliest record, only new records, or an error, because the application wants to decide. A
failure that passes by itself is waited for; any other is kept for the application (`take_error`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from typing import Final, TypeAlias

from ottla.client.cluster.backoff import waits_ms
from ottla.client.cluster.connections import Connections
from ottla.client.cluster.coordinator import Coordinator
from ottla.client.cluster.machine import topic_inquiries
from ottla.client.consumer.plan.settings import ConsumerSettings
from ottla.client.fetching.plan.partition_reader import PartitionReader
from ottla.client.requests.group_offsets import CommittedOffset
from ottla.client.requests.offsets import ListedOffset, OffsetSpec
from ottla.client.requests.outcomes import succeeded
from ottla.errors import ErrorCode, KafkaError
from ottla.model import NO_OFFSET, TopicPartition

Place: TypeAlias = CommittedOffset | ListedOffset | KafkaError

_SPECS: Final[Mapping[str, OffsetSpec]] = {"earliest": OffsetSpec.EARLIEST, "latest": OffsetSpec.LATEST}


class Positions:
    """Finds a position for readers that have none."""

    def __init__(
        self,
        connections: Connections,
        coordinator: Coordinator | None,
        settings: ConsumerSettings,
    ) -> None:
        self._connections = connections
        self._coordinator = coordinator
        self._settings = settings
        self._error: KafkaError | None = None

    async def look_up(
        self, wanted: Callable[[], Collection[PartitionReader]], *, wait_for_topics: bool
    ) -> None:
        """Give a position to each reader that `wanted()` names, until none is left or one cannot have any."""
        waits = waits_ms()
        while readers := wanted():
            try:
                places = await self._places(readers)
            except (ConnectionError, TimeoutError) as failure:
                places = dict.fromkeys(
                    (reader.partition for reader in readers),
                    KafkaError(ErrorCode.NETWORK_EXCEPTION, str(failure)),
                )
            still_wanted = set(wanted())
            for reader in readers:
                if reader in still_wanted:  # else the application has moved it, or given it up
                    self._place(reader, places[reader.partition], wait_for_topics)
            if self._error is not None:
                return
            if wanted():
                await asyncio.sleep(next(waits) / 1000)

    def take_error(self) -> KafkaError | None:
        """The error that keeps a reader from having a position, once, for the application."""
        error, self._error = self._error, None
        return error

    def _place(self, reader: PartitionReader, place: Place, wait_for_topics: bool) -> None:
        if not isinstance(place, KafkaError):
            reader.seek(place.offset, place.leader_epoch)
            if isinstance(place, CommittedOffset):
                reader.note_commit(place.offset)
            return
        is_absent = place.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if not place.code.retriable or (is_absent and not wait_for_topics):
            self._error = place

    async def _places(self, readers: Collection[PartitionReader]) -> dict[TopicPartition, Place]:
        places: dict[TopicPartition, Place] = {}
        if self._coordinator is not None:
            fresh = [reader.partition for reader in readers if not reader.is_out_of_range]
            places |= await _committed(self._coordinator, fresh)
        rest = [reader.partition for reader in readers if reader.partition not in places]
        spec = _SPECS.get(self._settings.auto_offset_reset)
        if spec is None:
            return places | {partition: self._no_position(partition) for partition in rest}
        wanted = dict.fromkeys(rest, int(spec))
        return places | await list_offsets(self._connections, wanted, self._settings)

    def _no_position(self, partition: TopicPartition) -> KafkaError:
        return KafkaError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"{partition} has no position: nothing is committed, or it is out of range, "
            "and auto_offset_reset is none: seek to begin",
        )


async def _committed(
    coordinator: Coordinator, partitions: Collection[TopicPartition]
) -> Mapping[TopicPartition, Place]:
    if not partitions:
        return {}
    try:
        return await coordinator.committed(partitions)
    except KafkaError as error:
        return dict.fromkeys(partitions, error)


async def list_offsets(
    connections: Connections, wanted: Mapping[TopicPartition, int], settings: ConsumerSettings
) -> dict[TopicPartition, ListedOffset | KafkaError]:
    """Offsets by `OffsetSpec` or timestamp, from the leaders."""
    inquiry = topic_inquiries.list_offsets(
        connections.known,
        wanted,
        read_committed=settings.is_read_committed,
        request_timeout_ms=settings.request_timeout_ms,
    )
    return await connections.settle(inquiry, settings.default_api_timeout_ms)


async def offsets_at(
    connections: Connections, wanted: Mapping[TopicPartition, int], settings: ConsumerSettings
) -> dict[TopicPartition, ListedOffset | KafkaError]:
    """Like `list_offsets`; where no record is as late as the timestamp, the end of the partition."""
    listed = await list_offsets(connections, wanted, settings)
    beyond = [
        partition
        for partition, found in listed.items()
        if isinstance(found, ListedOffset) and found.offset == NO_OFFSET
    ]
    if beyond:
        latest = dict.fromkeys(beyond, int(OffsetSpec.LATEST))
        listed |= await list_offsets(connections, latest, settings)
    return listed


async def lags(
    connections: Connections, readers: Mapping[TopicPartition, PartitionReader], settings: ConsumerSettings
) -> dict[TopicPartition, int]:
    """How many offsets lie between the position of each reader and the end of its partition."""
    wanted = dict.fromkeys(readers, int(OffsetSpec.LATEST))
    ends = succeeded(await list_offsets(connections, wanted, settings))
    positions = {each: reader.position for each, reader in readers.items()}
    return {
        each: max(0, ends[each].offset - position)
        for each, position in positions.items()
        if position is not None and each in ends
    }
