"""Reads a partition of `__consumer_offsets` into its group coordinator.

Requests are served in between, however long the log is. A record that cannot be decoded is logged and
skipped: one damaged record must not keep the groups of a whole partition from their offsets. A read that
fails is tried again.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator

from ottla.errors import KafkaError
from ottla.group.coordinator import GroupCoordinator
from ottla.model import NO_PRODUCER_ID
from ottla.protocol.codec import DecodeError
from ottla.records.batch import BatchView, CorruptRecord, iter_batches
from ottla.records.control import marker_of
from ottla.server.partitions.hosted_partition import HostedPartition

logger = logging.getLogger(__name__)

_READ_BYTES = 1 << 20
# A record takes some 10 µs, so a request waits for some milliseconds at most.
_RECORDS_PER_TURN = 256
_RETRY_S = 1.0


async def replay_log(
    partition: HostedPartition, machine: GroupCoordinator, is_wanted: Callable[[], bool]
) -> None:
    """Replay the whole log, including records that are appended meanwhile; ends early when it is not
    wanted.
    """
    log = partition.log
    offset = log.log_start_offset
    while is_wanted() and offset < log.log_end_offset:
        try:
            # Records before the start may have been deleted since the last turn.
            offset = max(offset, log.log_start_offset)
            found = log.read(offset, _READ_BYTES, upper_offset=log.log_end_offset, at_least_one=True)
            if found is None:
                return
            data = found.file.read(found.position, found.size)
        except (KafkaError, OSError) as problem:
            logger.error("%s cannot be read, its groups have to wait: %s", partition.name, problem)
            await asyncio.sleep(_RETRY_S)
            continue
        for _ in _replay(partition.name, data, machine):
            await asyncio.sleep(0)
            if not is_wanted():
                return
        offset = found.next_offset


def _replay(name: str, data: bytes, machine: GroupCoordinator) -> Iterator[None]:
    """Replay some batches, with a stop now and then."""
    count = 0
    for batch in iter_batches(data):
        try:
            if batch.is_control:
                _replay_marker(batch, machine)
                continue
            producer_id = batch.producer_id if batch.is_transactional else NO_PRODUCER_ID
            for record in batch.records():
                try:
                    machine.replay(record.key, record.value, producer_id)
                except DecodeError as problem:
                    logger.error("record %d of %s is passed over: %s", record.offset, name, problem)
                count += 1
                if count % _RECORDS_PER_TURN == 0:
                    yield
        except CorruptRecord as problem:
            logger.error("the batch at %d of %s is passed over: %s", batch.base_offset, name, problem)


def _replay_marker(batch: BatchView, machine: GroupCoordinator) -> None:
    marker = marker_of(batch)
    if marker is not None:
        machine.replay_end_of_transaction(batch.producer_id, is_commit=marker.is_commit)
