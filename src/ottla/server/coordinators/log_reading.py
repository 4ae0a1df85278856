"""Reads a whole partition into the machine that is rebuilt from it.

Requests are served in between, however long the log is. A read that fails is tried again: what the partition
coordinates has to wait. Damaged records are waited for as well, for a while, where there are other in-sync replicas:
a replica that is found damaged hands over to one that is whole (server/replicas/damaged_replicas.py). Records that
cannot be had or decoded are logged and skipped: they must not keep everybody else of the partition from what is
coordinated there.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator

from ottla.errors import KafkaError
from ottla.protocol.codec import DecodeError
from ottla.records.batch import BatchView, CorruptRecord, iter_batches
from ottla.server.partitions.hosted_partition import HostedPartition

logger = logging.getLogger(__name__)

_READ_BYTES = 1 << 20
_RETRY_S = 1.0
# After so many reads nobody has taken over, and nobody will.
_DAMAGED_READS = 30
# A record takes some 10 µs, so a request waits for some milliseconds at most.
_RECORDS_PER_TURN = 256

ReplayRecord = Callable[[bytes | memoryview | None, bytes | memoryview | None], None]
ReplayOfBatch = Callable[[BatchView], ReplayRecord | None]


async def replay_log(
    partition: HostedPartition, replay_of: ReplayOfBatch, is_wanted: Callable[[], bool]
) -> None:
    """Replay the whole log, including records that are appended meanwhile; ends early when it is not wanted.

    `replay_of` is asked for each batch: it returns what takes over the batch's records, or None if they are not
    records of the machine.
    """
    log = WholeLog(partition, is_wanted)
    while (data := await log.read()) is not None:
        for _ in _replay(partition.name, data, replay_of):
            await asyncio.sleep(0)
            if not is_wanted():
                return


def _replay(name: str, data: bytes, replay_of: ReplayOfBatch) -> Iterator[None]:
    """Replay some batches, with a stop now and then."""
    count = 0
    for batch in iter_batches(data):
        if not batch.crc_is_valid():
            logger.error("the batch at %d of %s is damaged and passed over", batch.base_offset, name)
            continue
        try:
            replay = replay_of(batch)
            if replay is None:
                continue
            for record in batch.records():
                try:
                    replay(record.key, record.value)
                except DecodeError as problem:
                    logger.error("record %d of %s is passed over: %s", record.offset, name, problem)
                count += 1
                if count % _RECORDS_PER_TURN == 0:
                    yield
        except CorruptRecord as problem:
            logger.error("the batch at %d of %s is passed over: %s", batch.base_offset, name, problem)


class WholeLog:
    """The batches of a log, including those that are appended meanwhile."""

    def __init__(self, partition: HostedPartition, is_wanted: Callable[[], bool]) -> None:
        self._partition = partition
        self._is_wanted = is_wanted
        self._offset = partition.log.log_start_offset
        # Reads in a row that found the records at `_offset` damaged.
        self._damaged_reads = 0

    async def read(self) -> bytes | None:
        """The next batches; None when there are no more, or they are not wanted any more."""
        log = self._partition.log
        while self._is_wanted() and self._offset < log.log_end_offset:
            try:
                # Records before the start may have been deleted since the last turn.
                offset = max(self._offset, log.log_start_offset)
                found = log.read(offset, _READ_BYTES, upper_offset=log.log_end_offset, at_least_one=True)
                if found is None:
                    return None
                data = found.file.read(found.position, found.size)
            except (KafkaError, OSError) as problem:
                logger.error("%s cannot be read, its clients have to wait: %s", self._partition.name, problem)
                log.status.note_unread(offset)
                await asyncio.sleep(_RETRY_S)
                continue
            if self._waits_for_another_replica(offset, data):
                await asyncio.sleep(_RETRY_S)
                continue
            self._offset, self._damaged_reads = found.next_offset, 0
            return data
        return None

    def _waits_for_another_replica(self, offset: int, data: bytes) -> bool:
        """Whether records are damaged that another replica may have whole: this one is about to step aside."""
        if not _is_damaged(data) or len(self._partition.replica.isr) == 1:
            return False
        self._damaged_reads += 1
        if self._damaged_reads > _DAMAGED_READS:
            return False
        name = self._partition.name
        logger.error("%s is damaged after offset %d, another replica is waited for", name, offset)
        self._partition.log.status.note_unread(offset)
        return True


def _is_damaged(data: bytes) -> bool:
    try:
        return not all(batch.crc_is_valid() for batch in iter_batches(data))
    except CorruptRecord:
        return True
