"""The topic `_schemas`, read by a broker that has to know which schemas are registered.

Nothing is read before the first record is checked. From then on the topic is read every few seconds, and at once when
a record names a schema that is not known: a producer may have registered it a moment ago. When nothing was checked for
a minute the reading ends, and the next check waits for it. A topic that another broker leads is read by Fetch, as a
consumer of committed records reads it, over the connection between brokers.

While the topic cannot be read, schemas that are known stay known. A record that names another one is answered with
NOT_ENOUGH_REPLICAS, which every client repeats.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple
from uuid import UUID

from ottla.errors import ErrorCode, KafkaError
from ottla.model import ACKS_LEADER, NO_LEADER
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ottla.records.aborted_transactions import Aborted, AbortedTransactions
from ottla.records.batch import CorruptRecord, iter_batches
from ottla.records.compression import Readable
from ottla.records.record import Record
from ottla.replication.partition import READ_COMMITTED
from ottla.server.partitions.hosted_partition import HostedPartition
from ottla.server.partitions.partition_table import Partitions
from ottla.server.quorum.quorum import Quorum

if TYPE_CHECKING:
    from ottla.schemas.registry.registered import RegisteredSchemas
    from ottla.server.schemas.plan.named_schemas import NamedSchemas

logger = logging.getLogger(__name__)

TOPIC: Final = "_schemas"
_PURPOSE: Final = "schemas"
_READ_BYTES: Final = 1 << 20
_REQUEST_TIMEOUT_MS: Final = 5_000
# A check waits for the topic at most this long: longer than most elections take. The producer tries again.
_PATIENCE_S: Final = 2.0
_RETRY_S: Final = 0.1
_REFRESH_S: Final = 5.0
_FORGET_S: Final = 60.0
_RECORDS_PER_TURN: Final = 256


# A record set: a partition, and the place in what a read brought for it. And what its records name.
RecordSet = tuple[HostedPartition, int]
SchemaChecks = dict[RecordSet, "NamedSchemas"]


def schemas_demanded(partition: HostedPartition, records: memoryview) -> NamedSchemas | None:
    """The schemas that records name, where their topic demands it. Raises KafkaError if some name none."""
    if not partition.checks_schemas:
        return None
    # Imported here, as below: most brokers check no schemas.
    from ottla.server.schemas.plan.named_schemas import named_schemas

    return named_schemas(records, partition.topic, partition.config)


class _Piece(NamedTuple):
    """What one read of the topic brought, and where readers of committed records stop."""

    records: Readable
    aborted: Sequence[Aborted]
    last_stable_offset: int


class SchemasTopic:
    """Which schemas are registered in this cluster."""

    def __init__(self, quorum: Quorum, partitions: Partitions) -> None:
        self._quorum = quorum
        self._partitions = partitions
        self._topic_id: UUID | None = None
        self._offset = 0
        self._schemas: RegisteredSchemas | None = None
        self._reading = asyncio.Lock()
        # Reads are numbered: a caller waits for one that began after its question.
        self._begun = self._completed = 0
        self._following: asyncio.Task[None] | None = None
        self._checked_s = 0.0

    def knows(self, named: NamedSchemas) -> bool:
        """Whether all these schemas are registered, as far as is known without a look at the topic."""
        from ottla.server.schemas.plan.named_schemas import are_registered

        self._checked_s = asyncio.get_running_loop().time()
        is_followed = self._following is not None and not self._following.done()
        return is_followed and self._schemas is not None and are_registered(named, self._schemas)

    async def refused(self, checks: SchemaChecks) -> dict[RecordSet, KafkaError]:
        """Read the topic to its end; the record sets that must not be appended then, and why."""
        from ottla.server.schemas.plan.named_schemas import refusal

        failure: Exception | None = None
        try:
            async with asyncio.timeout(_PATIENCE_S):
                await self._catch_up_patiently()
        except (OSError, KafkaError) as error:
            failure = error
        self._follow()
        known = self._known()
        found = {
            at: refused for at, named in checks.items() if (refused := refusal(named, known)) is not None
        }
        if failure is None:
            return dict(found)
        logger.warning("%s cannot be read to check records: %s", TOPIC, failure)
        reason = f"{TOPIC} cannot be read now: {failure}"
        return dict.fromkeys(found, KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, reason))

    async def stop(self) -> None:
        """Read no more."""
        if self._following is not None:
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)

    def _known(self) -> RegisteredSchemas:
        if self._schemas is None:
            from ottla.schemas.registry.registered import RegisteredSchemas

            self._schemas = RegisteredSchemas()
        return self._schemas

    def _follow(self) -> None:
        if self._following is None or self._following.done():
            self._following = asyncio.get_running_loop().create_task(self._refresh())

    async def _refresh(self) -> None:
        loop = asyncio.get_running_loop()
        while loop.time() - self._checked_s < _FORGET_S:
            await asyncio.sleep(_REFRESH_S)
            try:
                await self._catch_up()
            except (OSError, KafkaError) as error:
                logger.debug("%s cannot be read now: %s", TOPIC, error)
        self._following = None

    async def _catch_up_patiently(self) -> None:
        """As `_catch_up`, again and again until it succeeds: the topic may be getting another leader."""
        while True:
            try:
                return await self._catch_up()
            except (OSError, KafkaError) as error:
                if isinstance(error, KafkaError) and not error.code.retriable:
                    raise
            await asyncio.sleep(_RETRY_S)

    async def _catch_up(self) -> None:
        """Have everything that was committed to the topic before this call."""
        wanted = self._begun + 1
        async with self._reading:
            if self._completed >= wanted:
                return
            self._begun += 1
            number = self._begun
            await self._read_to_end()
            self._completed = number

    async def _read_to_end(self) -> None:
        while True:
            topic = self._quorum.image.topics_by_name.get(TOPIC)
            if topic is None or topic.topic_id != self._topic_id:
                self._begin(None if topic is None else topic.topic_id)
            if topic is None:
                return  # no registry has written to this cluster
            placed = topic.partition(0)
            if placed is None or placed.leader == NO_LEADER:
                raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{TOPIC} has no leader")
            before = self._offset
            try:
                if placed.leader == self._quorum.node_id:
                    piece = self._read_here()
                else:
                    piece = await self._fetched(topic.topic_id, placed.leader)
            except KafkaError as error:
                if error.code is not ErrorCode.OFFSET_OUT_OF_RANGE or not before:
                    raise
                self._begin(topic.topic_id)
                continue
            await self._take(piece)
            if self._offset in (before, piece.last_stable_offset):
                return

    def _begin(self, topic_id: UUID | None) -> None:
        """Read the topic, which may be another one of this name, from its beginning."""
        self._topic_id, self._offset, self._schemas = topic_id, 0, None

    def _read_here(self) -> _Piece:
        partition = self._partitions.by_name(TOPIC, 0)
        if error := partition.append_error(ACKS_LEADER):  # what a leader of the past has is not the newest
            raise KafkaError(error)
        offset = max(self._offset, partition.log_start_offset)
        found = partition.read(offset, _READ_BYTES, READ_COMMITTED, True)
        if found is None or not found.size:
            return _Piece(b"", (), partition.last_stable_offset)
        aborted = partition.log.aborted_transactions(offset, found.next_offset)
        records = found.file.read(found.position, found.size)
        return _Piece(records, aborted, partition.last_stable_offset)

    async def _fetched(self, topic_id: UUID, leader: int) -> _Piece:
        wanted = FetchPartition(0, fetch_offset=self._offset, partition_max_bytes=_READ_BYTES)
        request = FetchRequest(
            isolation_level=READ_COMMITTED,
            max_bytes=_READ_BYTES,
            topics=[FetchTopic(topic_id=topic_id, partitions=[wanted])],
        )
        response: FetchResponse = await self._quorum.peers.ask(
            leader, request, purpose=_PURPOSE, timeout_ms=_REQUEST_TIMEOUT_MS
        )
        for topic in response.responses:
            data = topic.partitions[0]
            if data.error_code:
                raise KafkaError(ErrorCode(data.error_code))
            return _Piece(data.records or b"", data.aborted_transactions or (), data.last_stable_offset)
        raise KafkaError(ErrorCode(response.error_code or ErrorCode.UNKNOWN_SERVER_ERROR))

    async def _take(self, piece: _Piece) -> None:
        """Replay the records; others of the loop have their turns in between."""
        aborted = AbortedTransactions(piece.aborted)
        count = 0
        try:
            for batch in iter_batches(piece.records, allow_partial_end=True):
                hides = aborted.hides(batch) or batch.is_control
                for record in () if hides else batch.records():
                    if record.offset >= self._offset:
                        self._replay(record)
                    count += 1
                    if count % _RECORDS_PER_TURN == 0:
                        await asyncio.sleep(0)
                self._offset = max(self._offset, batch.next_offset)
        except CorruptRecord as problem:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, str(problem)) from None

    def _replay(self, record: Record) -> None:
        from ottla.schemas.registry.records import RegistryRecord, change_of

        try:
            change = change_of(RegistryRecord(record.key or b"", record.value))
        except ValueError as problem:
            logger.warning("record %d of %s is passed over: %s", record.offset, TOPIC, problem)
        else:
            if change is not None:
                self._known().replay(change)
