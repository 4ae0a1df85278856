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
from collections.abc import Awaitable, Iterator, Sequence
from types import TracebackType
from typing import Final

from ottla.client.calls import arguments
from ottla.client.calls.lifetime import Lifetime
from ottla.client.cluster.background_tasks import Background
from ottla.client.cluster.connections import Connections
from ottla.client.cluster.machine.known_cluster import KnownCluster
from ottla.client.cluster.topology import Topology
from ottla.client.producer.broker_loads import BrokerLoads
from ottla.client.producer.buffer_room import BufferRoom
from ottla.client.producer.delivery import Delivery
from ottla.client.producer.delivery_outcomes import Outcomes, ended
from ottla.client.producer.machine.accumulator import Accumulator
from ottla.client.producer.machine.batch import RECORD_OVERHEAD_BYTES, OnDelivery, ProducerBatch, RecordBlock
from ottla.client.producer.machine.delivery_report import (
    BufferFullError,
    DeliveryError,
    DeliveryReport,
    Failure,
    ProducerRecord,
    SerializationError,
    final_failure,
)
from ottla.client.producer.machine.partitioners import Partitioner, chosen_partitioner, load_aware
from ottla.client.producer.machine.settings import (
    Acks,
    CompressionName,
    ProducerSettings,
    acks_of,
    checked,
    compression_named,
)
from ottla.client.producer.sender import Sender
from ottla.client.producer.serializers import Headers, Serializer, checked_headers, serialized
from ottla.client.producer.topic_metadata import ProducerTopics
from ottla.errors import ErrorCode, KafkaError
from ottla.model import ACKS_ALL
from ottla.runtime.clock import precise_ms
from ottla.runtime.runtime import Runtime

__all__ = [
    "BufferFullError",
    "Delivery",
    "DeliveryError",
    "DeliveryReport",
    "Producer",
    "ProducerRecord",
    "SerializationError",
]

# A program that ends by an exception or Ctrl-C should not wait long for a cluster that does not answer.
CLOSE_TIMEOUT_MS: Final = 5_000
# `drain` waits while more than this share of the buffer is full, so that `send_soon` always finds room
# afterwards.
_DRAIN_SHARE: Final = 0.5
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
        runtime: Runtime | None = None,
    ) -> None:
        self._runtime = runtime or Runtime()
        self._wall_s = self._runtime.clock.wall_s
        acks_number = acks_of(acks)
        self._settings = checked(
            ProducerSettings(
                acks=acks_number,
                enable_idempotence=acks_number == ACKS_ALL
                if enable_idempotence is None
                else enable_idempotence,
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
            )
        )
        known = KnownCluster(arguments.addresses("bootstrap_servers", bootstrap_servers))
        client_id = arguments.text("client_id", client_id)
        self._asking = Connections(known, client_id=client_id, timeout_ms=request_timeout_ms)
        self._assemble(partitioner, metadata_max_age_ms, allow_auto_create_topics)
        self._key_serializer = arguments.function("key_serializer", key_serializer)
        self._value_serializer = arguments.function("value_serializer", value_serializer)
        self._has_serializers = key_serializer is not None or value_serializer is not None

    def _assemble(
        self, partitioner: str | Partitioner, metadata_max_age_ms: int, may_create_topics: bool
    ) -> None:
        settings = self._settings
        self._sending = self._asking.sibling()
        self._topology = Topology(
            self._asking,
            max_age_ms=arguments.whole_number(
                "metadata_max_age_ms", metadata_max_age_ms, 1, arguments.MOST_INT32
            ),
            on_change=self._topology_changed,
            may_create_topics=arguments.flag("allow_auto_create_topics", may_create_topics),
        )
        chosen = chosen_partitioner(partitioner)
        self._wants_loads = chosen is load_aware
        self._accumulator = Accumulator(
            settings,
            chosen,
            clock=precise_ms,
            draw=self._runtime.random.random,
            on_due=self._wake_at,
        )
        self._topics = self._accumulator.topics
        self._ledger = self._accumulator.ledger
        self._directory = ProducerTopics(
            self._accumulator, self._topology, settings.max_block_ms, on_failure=self._pump
        )
        self._sender = Sender(
            self._accumulator,
            self._sending,
            self._topology,
            settings,
            on_done=self._tell,
            on_failure=self._fail,
        )
        self._background = Background(self._fail)
        self._outcomes = Outcomes()
        self._drain_bytes = int(settings.buffer_memory * _DRAIN_SHARE)
        self._room = BufferRoom()
        self._seen_turns = 0
        self._stamp_ms, self._stamp_from, self._stamp_until = 0, 0.0, 0.0
        self._turn_ms = 0
        self._nothing: asyncio.Future[None] | None = None
        self._failure: Failure | None = None
        self._lifetime = Lifetime("producer")

    async def __aenter__(self) -> Producer:
        self._lifetime.needs_new()
        await self._asking.reach()
        loop = self._lifetime.begin()
        self._accumulator.belong_to(loop)
        self._background.start(self._topology.run())
        if self._wants_loads:
            timeout_ms = self._settings.request_timeout_ms
            loads = BrokerLoads(self._asking, self._directory.leaders, self._weigh, timeout_ms=timeout_ms)
            self._background.start(loads.run())
        self._nothing = loop.create_future()
        self._nothing.set_result(None)
        self._sender.pump()
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
                if not await self._wait_for_room(give_up_ms - precise_ms()):
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
        if known is not None and type(value) is bytes and partition is None and not headers:
            size = len(value) + RECORD_OVERHEAD_BYTES
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
                and not self._has_serializers
            ):
                batch.size_bytes = size
                if batch.keys is not None:
                    batch.keys.append(key)  # type: ignore[arg-type]  # it is bytes, as was seen above
                values = batch.values
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
        known = self._topics.get(block.topic)
        if known is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f'nothing is known of "{block.topic}"')
        self._accumulator.append_block(known, block)

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
        with self._hurried():
            await ended(list(self._ledger.incomplete))
        self._outcomes.raise_unheard()

    async def partitions_for(self, topic: str) -> int:
        """The number of partitions of a topic; waits up to `max_block_ms` for it to exist.

        Raises KafkaError.
        """
        self._lifetime.needs_open()
        return await self._directory.partitions_count(arguments.name_of("topic", topic))

    async def close(self, *, timeout_ms: float | None = None) -> None:
        """Flush, then close all connections.

        With `timeout_ms`, records that are not delivered by then have failed. Raises DeliveryError like
        `flush`.
        """
        limit_ms = None if timeout_ms is None else arguments.duration_ms("timeout_ms", timeout_ms)
        self._lifetime.needs_own_loop()
        if not self._lifetime.is_open:
            return
        self._lifetime.end()
        self._nothing = None
        try:
            with self._hurried():
                async with asyncio.timeout(None if limit_ms is None else limit_ms / 1000):
                    await ended(list(self._ledger.incomplete))
        except TimeoutError:
            pass
        finally:
            await self._end()
        self._outcomes.raise_unheard()

    # ---- inside

    def _take(
        self,
        topic: str,
        value: object,
        key: object,
        partition: int | None,
        headers: Headers,
        timestamp_ms: int | None,
    ) -> tuple[ProducerBatch, int]:
        """Any record: its batch, and its index there. A wrong argument is refused before anything changes."""
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
            return self._accumulator.append(known, value_bytes, key_bytes, pairs, timestamp_ms, partition)
        return self._hold(ProducerRecord(topic, value_bytes, key_bytes, partition, pairs, timestamp_ms))

    def _hold(self, record: ProducerRecord) -> tuple[ProducerBatch, int]:
        """A record of a topic that is not known: to be waited for, if there is anything to wait for."""
        self._lifetime.needs_open()
        if self._failure is not None:
            raise DeliveryError(self._failure.code, self._failure.message, (record,))
        self._directory.want(record.topic)
        return self._accumulator.hold(record)

    async def _drain(self) -> None:
        self._lifetime.needs_open()
        self._seen_turns = self._accumulator.turns
        await asyncio.sleep(0)
        while self._ledger.buffered_bytes > self._drain_bytes:
            await self._wait_for_room(None)

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

    def _wake_at(self, due_ms: float) -> None:
        self._sender.wake_at(due_ms)

    def _pump(self) -> None:
        self._sender.pump()

    def _topology_changed(self) -> None:
        if self._failure is None:
            self._directory.learn()
            self._sender.pump()

    def _weigh(self, loads: dict[int, float]) -> None:
        self._directory.weigh(loads)

    def _tell(self, batches: list[ProducerBatch]) -> None:
        self._outcomes.tell(batches)
        self._room.wake()

    async def _wait_for_room(self, timeout_ms: float | None) -> bool:
        """Wait until something is delivered; False if the time is over before."""
        with self._hurried():
            return await self._room.wait(timeout_ms)

    @contextlib.contextmanager
    def _hurried(self) -> Iterator[None]:
        """No batch lingers inside of this context, because a caller waits."""
        self._accumulator.hurry()
        self._sender.pump()
        try:
            yield
        finally:
            self._accumulator.unhurry()

    def _fail(self) -> None:
        """Something broke for good: nothing can be sent any more."""
        self._failure = final_failure(self._sender.failure or self._background.failure)
        self._give_up(self._failure)

    def _give_up(self, failure: Failure) -> None:
        self._accumulator.fail_all(failure)
        self._tell(self._ledger.take_done())

    async def _end(self) -> None:
        # First the part that cannot be interrupted: every caller is woken, even if closing is cancelled.
        self._sender.stop()
        self._directory.close()
        self._give_up(
            Failure(ErrorCode.NETWORK_EXCEPTION, "the producer was closed before the record was delivered")
        )
        self._topics.clear()
        await self._sender.close()
        await self._background.close()
        await self._sending.close()
        await self._asking.close()
