"""Writes the markers that end transactions into partitions that this broker leads.

A marker is written when all in-sync replicas have it: only then may its coordinator forget the partition. The
outcome is an error code, as WriteTxnMarkers answers it; the coordinator repeats what may succeed later. A marker
for `__consumer_offsets` goes through the group coordinator of the partition, which takes the pending offsets of the
transaction over.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from ottla.errors import ErrorCode, KafkaError
from ottla.model import ACKS_ALL
from ottla.records.control import TransactionMarker
from ottla.server.coordinators.coordinators import OFFSETS_TOPIC, Coordinators
from ottla.server.partitions.acknowledgement import Acknowledgements
from ottla.server.partitions.flushing import Flusher
from ottla.server.partitions.hosted_partition import HostedPartition
from ottla.server.partitions.partition_table import Partitions

# As request.timeout.ms in Kafka; the coordinator tries again after it.
_TIMEOUT_S: Final = 30.0


class MarkerWriter:
    """Writes markers, for coordinators here and on other brokers."""

    def __init__(
        self, partitions: Partitions, groups: Coordinators, flusher: Flusher, now_ms: Callable[[], int]
    ) -> None:
        self._partitions = partitions
        self._groups = groups
        self._acknowledgements = Acknowledgements(flusher)
        self._now_ms = now_ms
        self._is_held = False

    def hold(self, is_held: bool) -> None:
        """Refuse markers, which coordinators then send again, or take them. For tests of applications."""
        self._is_held = is_held

    def write(self, topic: str, index: int, marker: TransactionMarker) -> asyncio.Future[ErrorCode]:
        """Append a marker to a partition. The future has the outcome once the marker is replicated."""
        written: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
        try:
            if self._is_held:
                raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            partition = self._partitions.by_name(topic, index)
            if topic == OFFSETS_TOPIC:
                self._groups.end_transaction(index, marker)
            else:
                partition.append_marker(marker, self._now_ms())
        except KafkaError as refused:
            written.set_result(refused.code)
            return written
        missing = self._acknowledgements.missing((partition,), ACKS_ALL)
        if not missing:
            written.set_result(ErrorCode.NONE)
            return written

        def settle(_: HostedPartition, failure: KafkaError | None) -> None:
            if not written.done():
                written.set_result(ErrorCode.NONE if failure is None else failure.code)

        self._acknowledgements.wait(missing[0], ACKS_ALL, _TIMEOUT_S, settle)
        return written
