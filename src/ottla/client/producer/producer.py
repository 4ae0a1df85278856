"""The producer: records into topics, in batches, each delivered once and in order.

    async with Producer("localhost:9092") as producer:
        report = await producer.send("orders", "one coffee", key="table 4")
        print(report.partition, report.offset)

Rules
- `send` waits until the record is acknowledged. `send_soon` does not: it returns a Delivery, which can be
  awaited later, or never. Followed by `drain` it is the way to send many records: nothing is made per record
  but its bytes.
- Records of one partition are written in the order in which they were given, each once, whatever is sent
  again on the way (idempotence). Without idempotence the order holds, but a record may be written twice.
- Every record has an outcome: a report, or an error that carries the record. An error that no caller has seen
  (not awaited, no callback) is raised by `flush`, and at the end of `async with`.
- Leaving `async with` waits until all records are delivered or failed. Leaving it by an exception waits for a
  few seconds only.
- A producer belongs to the event loop that it was opened in.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from types import TracebackType
from typing import Final

from ottla.client.calls import arguments
from ottla.client.cluster.connections import Connections, connections_to
from ottla.client.producer.delivery import Delivery
from ottla.client.producer.machine.batch import (
    RECORD_OVERHEAD_BYTES,
    OnDelivery,
    ProducerBatch,
    RecordBlock,
    headers_bytes,
)
from ottla.client.producer.machine.delivery_report import (
    BufferFullError,
    DeliveryError,
    DeliveryReport,
    ProducerRecord,
)
from ottla.client.producer.machine.partitioners import Partitioner, chosen_partitioner
from ottla.client.producer.machine.prepared_transaction import PreparedTransaction, decided
from ottla.client.producer.machine.settings import (
    Acks,
    CompressionName,
    ProducerSettings,
    acks_of,
    checked,
    compression_named,
    is_idempotent,
)
from ottla.client.producer.offset_sources import OffsetSource, check_offsets
from ottla.client.producer.serializers import Headers, Serializer, checked_headers, serialized
from ottla.client.producer.transactions import Transactions
from ottla.client.producer.writing import Writing
from ottla.client.requests.group_offsets import CommittedOffset
from ottla.client.requests.membership import GroupMetadata
from ottla.errors import ErrorCode, KafkaError
from ottla.model import TopicPartition
from ottla.runtime.clock import precise_ms
from ottla.runtime.runtime import Runtime
from ottla.security.settings import Security

# A program that ends by an exception or Ctrl-C should not wait long for a cluster that does not answer.
CLOSE_TIMEOUT_MS: Final = 5_000
# How often a program that sends without a pause lets lingering batches, answers and other tasks run.
_TURN_MS: Final = 5


class Producer:
    """Writes records to topics, in batches, each once and in order.

    It connects in `async with`, which raises CannotConnectError if no bootstrap server can be reached.
    Settings have Kafka's names:

    - `acks`: a record counts as delivered when "all" in-sync replicas have it, when the leader has it (1), or
      when it is sent (0: no errors, no offsets).
    - `enable_idempotence`: each record is written once; on with acks="all".
    - `batch_size`, `linger_ms`: a batch goes out when it has this many bytes or this age. A batch that `send`
      waits for lingers only while other batches are under way.
    - `compression`, `compression_threshold`: the codec for batches of at least this many bytes.
    - `buffer_memory`: the most bytes of records that are not delivered; `max_request_size`: the most bytes of
      one request, and so of one record.
    - `delivery_timeout_ms`: a record that is not delivered within this time, retries included, has failed.
    - `max_block_ms`: how long `send` waits for room in the buffer, and any record for its topic to exist.
    - `transactional_id`: records are written in transactions (see `transaction`). The id names the producer
      across restarts: a producer that connects with the same id fences this one, and aborts its transaction.
      `transaction_timeout_ms`: the coordinator aborts a transaction that takes longer. `two_phase_commit`: a
      transaction can be prepared, and has no timeout (see `prepare`).
    - `tracing`: a span of OpenTelemetry for each record, and its context in the headers (`ottla.traced`).
    - `security`: how to reach a secured cluster (`ottla.Security`).
    - `partitioner`: a name or a function (see `ottla.partitioners`).
    - `key_serializer`, `value_serializer`: functions to bytes; without them, keys and values are bytes or
      text.
    """

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str] = "localhost:9092",
        *,
        client_id: str = "ottla-producer",
        acks: Acks = "all",
        enable_idempotence: bool | None = None,
        key_serializer: Serializer | None = None,
        value_serializer: Serializer | None = None,
        partitioner: str | Partitioner = "by_key",
        batch_size: int = 512 << 10,
        linger_ms: float = 5,
        buffer_memory: int = 32 << 20,
        max_request_size: int = 1 << 20,
        max_in_flight_requests_per_connection: int = 5,
        compression: CompressionName = "none",
        compression_level: int | None = None,
        compression_threshold: int = 1024,
        delivery_timeout_ms: int = 120_000,
        request_timeout_ms: int = 30_000,
        max_block_ms: int = 60_000,
        retries: int = 2**31 - 1,
        retry_backoff_ms: int = 100,
        retry_backoff_max_ms: int = 1_000,
        metadata_max_age_ms: int = 300_000,
        allow_auto_create_topics: bool = True,
        transactional_id: str | None = None,
        transaction_timeout_ms: int = 60_000,
        two_phase_commit: bool = False,
        tracing: bool = False,
        security: Security | None = None,
        runtime: Runtime | None = None,
    ) -> None:
        settings = ProducerSettings(
            acks=acks_of(acks),
            enable_idempotence=is_idempotent(enable_idempotence, acks),
            batch_size=batch_size,
            linger_ms=linger_ms,
            buffer_memory=buffer_memory,
            max_request_size=max_request_size,
            max_in_flight=max_in_flight_requests_per_connection,
            compression=compression_named(compression),
            compression_level=compression_level,
            compression_threshold=compression_threshold,
            delivery_timeout_ms=delivery_timeout_ms,
            request_timeout_ms=request_timeout_ms,
            max_block_ms=max_block_ms,
            retries=retries,
            retry_backoff_ms=retry_backoff_ms,
            retry_backoff_max_ms=retry_backoff_max_ms,
            transactional_id=transactional_id,
            transaction_timeout_ms=transaction_timeout_ms,
            two_phase_commit=two_phase_commit,
        )
        self._settings = checked(settings)
        reached = bootstrap_servers, client_id, security, request_timeout_ms, self._settings.is_transactional
        connections = connections_to(*reached)
        self._assemble(connections, partitioner, metadata_max_age_ms, allow_auto_create_topics, runtime)
        traced_as = client_id if arguments.flag("tracing", tracing) else None
        self._take_by(key_serializer, value_serializer, traced_as)

    def _take_by(
        self, key_serializer: Serializer | None, value_serializer: Serializer | None, traced_as: str | None
    ) -> None:
        self._key_serializer = arguments.function("key_serializer", key_serializer)
        self._value_serializer = arguments.function("value_serializer", value_serializer)
        self._is_dense = key_serializer is None and value_serializer is None
        self._take: Callable[..., tuple[ProducerBatch, int]] = self._take_record
        if traced_as is not None:
            # Imported here: most producers trace nothing.
            from ottla.client.producer.tracing import SendSpans

            self._take, self._is_dense = partial(SendSpans(traced_as).take, self._take_record), False

    def _assemble(
        self,
        connections: Connections,
        partitioner: str | Partitioner,
        metadata_max_age_ms: int,
        may_create_topics: bool,
        runtime: Runtime | None,
    ) -> None:
        self._runtime = runtime or Runtime()
        self._writing = Writing(
            connections,
            self._settings,
            chosen_partitioner(partitioner),
            self._runtime.random.random,
            metadata_max_age_ms=metadata_max_age_ms,
            may_create_topics=may_create_topics,
        )
        self._accumulator = self._writing.accumulator
        self._topics = self._accumulator.topics
        self._transactions = self._writing.transactions
        self._lifetime = self._writing.lifetime
        self._wall_s = self._runtime.clock.wall_s
        self._seen_turns = 0
        self._stamp_ms, self._stamp_from, self._stamp_until = 0, 0.0, 0.0
        self._turn_ms = 0
        self._nothing: asyncio.Future[None] | None = None

    async def __aenter__(self) -> Producer:
        await self._writing.open()
        self._nothing = asyncio.get_running_loop().create_future()
        self._nothing.set_result(None)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            await self.close()
        else:
            # An exception is being raised; failed records must not hide it.
            with contextlib.suppress(DeliveryError):
                await self.close(timeout_ms=CLOSE_TIMEOUT_MS)

    # ---- records

    async def send(
        self,
        topic: str,
        value: object = None,
        key: object = None,
        *,
        partition: int | None = None,
        headers: Headers = (),
        timestamp_ms: int | None = None,
    ) -> DeliveryReport:
        """Send one record, and wait until it is delivered; raises DeliveryError if it is not.

        While the buffer is full it waits for room, `max_block_ms` at most. Cancelling it does not take the
        record back.
        """
        give_up_ms = precise_ms() + self._settings.max_block_ms
        while True:
            try:
                batch, index = self._take(topic, value, key, partition, headers, timestamp_ms)
            except BufferFullError:
                if not await self._writing.room.wait(give_up_ms - precise_ms()):
                    raise
            else:
                self._accumulator.hasten(batch)
                return await Delivery(batch, index)

    def send_soon(
        self,
        topic: str,
        value: object = None,
        key: object = None,
        *,
        partition: int | None = None,
        headers: Headers = (),
        timestamp_ms: int | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> Delivery:
        """Take one record to be sent with others, and return at once; await the Delivery for its report.

        `on_delivery` is called with the DeliveryReport or the DeliveryError. Raises DeliveryError if the
        record cannot be taken, above all BufferFullError: it does not occur if `await producer.drain()` is
        called between records.
        """
        # Dense: this is the way of most records (bytes, to a batch that is open). `_take` is that of all
        # others.
        known = self._topics.get(topic) if type(topic) is str else None
        if known is not None and type(value) is bytes and partition is None:
            size = len(value) + RECORD_OVERHEAD_BYTES
            if headers:
                headers = checked_headers(headers)
                size += headers_bytes(headers)
            if key is None:
                batch = known.sticky
            elif type(key) is bytes and (queue := known.places.get(key)) is not None:
                batch = queue.open
                size += len(key)
            else:
                batch = None
            if (
                batch is not None
                and batch.last_stamp == self._stamp_ms
                and self._stamp_from <= self._wall_s() < self._stamp_until
                and (size := size + batch.size_bytes) <= batch.limit_bytes
                and (batch.keys is None) is (key is None)
                and timestamp_ms is None
                and on_delivery is None
                and self._is_dense
            ):
                batch.size_bytes = size
                if batch.keys is not None:
                    batch.keys.append(key)  # type: ignore[arg-type]  # it is bytes, as was seen above
                values = batch.values
                if headers:
                    batch.headers[len(values)] = headers  # type: ignore[assignment]  # checked above
                values.append(value)
                return Delivery(batch, len(values) - 1)
        if on_delivery is not None:
            arguments.function("on_delivery", on_delivery)
        batch, index = self._take(topic, value, key, partition, headers, timestamp_ms)
        if on_delivery is not None:
            batch.call_back(index, on_delivery)
        return Delivery(batch, index)

    def send_block(self, block: RecordBlock) -> None:
        """Take records that are encoded already, and return at once.

        `partitions_for` has to be called for their topic before.
        """
        self._lifetime.needs_open()
        if self._transactions is not None:
            self._transactions.needs_begun()
        known = self._topics.get(block.topic)
        if known is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f'nothing is known of "{block.topic}"')
        self._accumulator.append_block(known, block)

    def transaction(self) -> AbstractAsyncContextManager[None]:
        """Write records and offsets all together or not at all: `async with producer.transaction():`.

        At the end of the block the transaction is committed; an exception, or a cancellation, aborts it. Readers
        of committed records see nothing of it before the commit, and nothing of an aborted one. Raises
        TransactionAbortedError if the transaction can be run again, TransactionUncertainError if the answer to
        the commit was lost, ProducerFencedError if another producer is needed, and TransactionError if no other
        attempt would help. One transaction is open at a time.
        """
        return self._needs_transactions().transaction()

    async def send_offsets(
        self,
        group: OffsetSource | GroupMetadata | str,
        offsets: Mapping[TopicPartition, int | CommittedOffset] | None = None,
    ) -> None:
        """Commit offsets of a consumer group with the open transaction.

        `group` is a Consumer, which must not commit by itself (`enable_auto_commit=False`), its `group_metadata`,
        or the name of a group that has no members. Without `offsets`, all records that the consumer has returned
        are committed. Raises TransactionError.
        """
        self._lifetime.needs_open()
        checked_group, checked_offsets = check_offsets(group, offsets)
        transactions = self._needs_transactions()
        transactions.needs_begun()
        await transactions.send_offsets(checked_group, checked_offsets)

    async def prepare(self) -> PreparedTransaction:
        """The first phase of two-phase commit: all records of the open transaction are delivered, and it takes no
        more. Needs `two_phase_commit=True`.

        The application stores the returned transaction with its own decision, then leaves the block of
        `transaction()`, which commits. From here on no exception and no `close` aborts the transaction, and it has
        no timeout: after a restart, or an exception, `complete` ends it. Raises TransactionError.
        """
        transactions = self._needs_two_phases()
        return await transactions.prepare()

    async def hand_over(self) -> PreparedTransaction:
        """Deliver all records of the open transaction, which takes no more, and leave its end to another process.

        The other process has to commit within `transaction_timeout_ms`. Leave the block of `transaction()` by an
        exception: its regular end commits. Raises TransactionError.
        """
        return await self._needs_transactions().prepare()

    async def complete(self, stored: PreparedTransaction | str | None) -> bool:
        """End the prepared transaction: commit it if it is the one that was stored, else abort it.

        Call this first after a start, with the transaction that the application stored last, or None. Returns
        whether a transaction was committed; if none is prepared, there is nothing to do. Raises
        TransactionUncertainError if there was no answer, and then has to be called again, and ProducerFencedError if
        another producer, or an administrator, has ended the transaction.
        """
        checked_transaction = decided(stored)
        return await self._needs_two_phases().complete(checked_transaction)

    @property
    def prepared_transaction(self) -> PreparedTransaction | None:
        """The prepared transaction that waits for its end, also one that the producer before has left."""
        return None if self._transactions is None else self._transactions.prepared

    @property
    def transactional_id(self) -> str | None:
        return self._settings.transactional_id

    def drain(self) -> Awaitable[None]:
        """Let other tasks run: waits while the buffer is more than half full, and briefly now and then."""
        # Nearly always there is nothing to wait for: awaiting a finished future is faster than making a
        # coroutine.
        if self._accumulator.turns == self._seen_turns and self._nothing is not None:
            return self._nothing
        return self._drain()

    async def flush(self) -> None:
        """Send all waiting records, and wait until they are delivered or failed.

        Raises DeliveryError with all records that failed since the last call and whose errors no caller has
        seen.
        """
        self._lifetime.needs_open()
        await self._writing.flush()

    async def partitions_for(self, topic: str) -> int:
        """The number of partitions of a topic; waits up to `max_block_ms` for it to exist.

        Raises KafkaError.
        """
        self._lifetime.needs_open()
        return await self._writing.directory.partitions_count(arguments.name_of("topic", topic))

    async def close(self, *, timeout_ms: float | None = None) -> None:
        """Flush, then close all connections.

        With `timeout_ms`, records that are not delivered by then have failed. Raises DeliveryError like
        `flush`.
        """
        limit_ms = None if timeout_ms is None else arguments.duration_ms("timeout_ms", timeout_ms)
        self._lifetime.needs_own_loop()
        if not self._lifetime.is_open:
            return
        self._nothing = None
        await self._writing.close(limit_ms, CLOSE_TIMEOUT_MS)

    # ---- inside

    def _take_record(
        self,
        topic: str,
        value: object,
        key: object,
        partition: int | None,
        headers: Headers,
        timestamp_ms: int | None,
    ) -> tuple[ProducerBatch, int]:
        """Any record: its batch, and its index there. A wrong argument is refused before anything changes."""
        if self._transactions is not None:
            self._lifetime.needs_open()
            self._transactions.needs_begun()
        known = self._topics.get(topic) if type(topic) is str else None
        if known is None:
            topic = arguments.name_of("topic", topic)
        record = (topic, value, key)
        value_bytes = serialized("value", self._value_serializer, value, record)
        key_bytes = serialized("key", self._key_serializer, key, record)
        pairs = checked_headers(headers) if headers else ()
        now_ms = self._tick()
        if timestamp_ms is None:
            timestamp_ms = now_ms
        elif type(timestamp_ms) is not int or not 0 <= timestamp_ms <= arguments.MOST_INT64:
            timestamp_ms = arguments.timestamp_ms("timestamp_ms", timestamp_ms)
        if partition is not None and (type(partition) is not int or partition < 0):
            partition = arguments.whole_number("partition", partition, most=arguments.MOST_INT32)
        if known is not None:
            if partition is None or partition < known.partitions.count:
                return self._accumulator.append(known, value_bytes, key_bytes, pairs, timestamp_ms, partition)
            self._writing.topology.request_refresh()  # the partition may have been added since the last one
        return self._hold(ProducerRecord(topic, value_bytes, key_bytes, partition, pairs, timestamp_ms))

    def _hold(self, record: ProducerRecord) -> tuple[ProducerBatch, int]:
        """A record of a topic or partition that is not known: it waits for metadata, if any can come."""
        self._lifetime.needs_open()
        if (failure := self._writing.failure) is not None:
            raise DeliveryError(failure.code, failure.message, (record,))
        self._writing.directory.want(record.topic)
        return self._accumulator.hold(record)

    async def _drain(self) -> None:
        self._lifetime.needs_open()
        self._seen_turns = self._accumulator.turns
        await asyncio.sleep(0)
        await self._writing.room.drained()

    def _tick(self) -> int:
        """The time of day, kept for the rest of the millisecond.

        Once in a millisecond the event loop is checked: asking for it costs as much as taking a record. Now
        and then `drain` is given something to do.
        """
        now = self._wall_s()
        if not self._stamp_from <= now < self._stamp_until:
            self._lifetime.needs_open()
            self._stamp_ms = stamp_ms = int(now * 1000)
            self._stamp_from, self._stamp_until = stamp_ms / 1000, (stamp_ms + 1) / 1000
            if not 0 < self._turn_ms - stamp_ms <= _TURN_MS:
                self._turn_ms = stamp_ms + _TURN_MS
                self._accumulator.next_turn()
        return self._stamp_ms

    def _needs_two_phases(self) -> Transactions:
        transactions = self._needs_transactions()
        if not self._settings.two_phase_commit:
            raise ValueError("prepared transactions need two_phase_commit=True")
        return transactions

    def _needs_transactions(self) -> Transactions:
        self._lifetime.needs_open()
        if self._transactions is None:
            raise ValueError("transactions need a transactional_id")
        return self._transactions
