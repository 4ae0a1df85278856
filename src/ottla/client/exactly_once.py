"""Records in, records out, and the offsets of the input, all in one transaction.

    async with (
        Consumer(group_id="billing", isolation_level="read_committed", enable_auto_commit=False) as consumer,
        Producer(transactional_id="billing-1") as producer,
    ):
        consumer.subscribe(["orders"])
        await exactly_once(consumer, producer, handle)

Each poll's records are one transaction: the handler sees each of them, the records that it returns (or sends with
`producer`) are written, and the offsets are committed with them. Readers of committed records see all of that or
nothing. `exactly_once` runs until it is cancelled, the consumer is closed, or a record fails.

Rules
- A transaction that was aborted is run again with the same records, if it may succeed then. After a commit without
  an answer, the committed offsets say where to go on.
- The offsets are committed as a member of the group: a member whose partitions went to another one is refused, its
  transaction is aborted, and it goes on with the partitions that it has then.
- A handler may be called several times for a record, until its transaction is committed. What it does besides
  producing is done as often.
- A handler that raises ends the processing with ProcessingError, after the abort. With `on_error(record, error)` the
  transaction is run again, and that function is called for the record instead of the handler: it may return records
  too, for a topic of records that were put aside.
- Order and workers are those of `at_least_once`. A rebalance waits for the end of the transaction.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias, get_args

from ottla.client.calls import arguments
from ottla.client.cluster.backoff import backoff_ms
from ottla.client.consumer.consumer import Consumer, ConsumerRecord
from ottla.client.consumer.plan.processing_plan import Order, ProcessingPlan, Work
from ottla.client.consumer.processing import ProcessingError, call
from ottla.client.producer.machine.delivery_report import ProducerRecord
from ottla.client.producer.machine.transaction_errors import (
    TransactionAbortedError,
    TransactionError,
    TransactionUncertainError,
)
from ottla.client.producer.producer import Producer
from ottla.client.requests.group_offsets import CommittedOffset
from ottla.errors import ErrorCode, KafkaError
from ottla.model import TopicPartition

Produced: TypeAlias = ProducerRecord | Iterable[ProducerRecord] | None
Handler: TypeAlias = Callable[[ConsumerRecord], Awaitable[Produced] | Produced]
OnError: TypeAlias = Callable[[ConsumerRecord, Exception], Awaitable[Produced] | Produced]

# The group has given the partitions to other members, or is about to.
_NOT_A_MEMBER: Final = frozenset(
    {
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.STALE_MEMBER_EPOCH,
    }
)
# Failures of one transaction that the next one need not have.
_PASSING: Final = frozenset(
    {
        ErrorCode.TRANSACTION_ABORTABLE,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.OPERATION_NOT_ATTEMPTED,
    }
)


async def exactly_once(
    consumer: Consumer,
    producer: Producer,
    handle: Handler,
    *,
    max_records: int = 500,
    order: Order = "partition",
    workers: int = 1,
    on_error: OnError | None = None,
) -> None:
    """Process records in transactions of up to `max_records`, each with what its handlers produce."""
    if not isinstance(consumer, Consumer):
        raise TypeError(f"consumer must be an ottla.Consumer, not a {type(consumer).__name__}")
    if not isinstance(producer, Producer):
        raise TypeError(f"producer must be an ottla.Producer, not a {type(producer).__name__}")
    if not callable(handle):
        raise TypeError(f"handle must be a function of one record, not {handle!r}")
    arguments.whole_number("max_records", max_records, 1)
    arguments.one_of("order", order, get_args(Order))
    arguments.whole_number("workers", workers, 1)
    arguments.function("on_error", on_error)
    if not consumer.is_open:
        raise RuntimeError("consumer is not open: use it in `async with`")
    if consumer.group_id is None:
        raise ValueError("exactly_once commits offsets, and for that consumer needs a group_id")
    if consumer.isolation_level != "read_committed":
        raise ValueError('consumer would read aborted records: set isolation_level="read_committed"')
    with contextlib.suppress(KafkaError):  # it need not be a member yet
        _ = consumer.group_metadata  # raises ValueError if the consumer commits by itself
    if producer.transactional_id is None:
        raise ValueError("producer needs a transactional_id")
    processing = _Processing(consumer, producer, _Handling(producer, handle, on_error, order, workers))
    await processing.run(max_records)


class _Place(NamedTuple):
    topic: str
    partition: int
    offset: int


class _Handling:
    """Calls the handler for the records of one transaction, and sends what it returns."""

    def __init__(
        self, producer: Producer, handle: Handler, on_error: OnError | None, order: Order, workers: int
    ) -> None:
        self._producer = producer
        self._handle = handle
        self._on_error = on_error
        self._order = order
        self._workers = workers
        self._poisonous: dict[_Place, Exception] = {}
        self.failed: tuple[ConsumerRecord, Exception] | None = None

    async def process(self, records: Iterable[ConsumerRecord]) -> None:
        """Process all of these; the first failure ends the others, and is raised."""
        self.failed = None
        plan = ProcessingPlan(self._order, most_running=self._workers)
        plan.add(records)
        tasks: dict[asyncio.Task[None], Work] = {}
        try:
            while True:
                for work in plan.begin():
                    tasks[asyncio.get_running_loop().create_task(self._process(work.record))] = work
                if not tasks:
                    return
                done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
                    plan.finish(tasks.pop(task))
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def puts_aside(self) -> bool:
        """Whether the record that failed is for `on_error` when the transaction is run again."""
        if self.failed is None or self._on_error is None:
            return False
        record, error = self.failed
        place = _Place(record.topic, record.partition, record.offset)
        if place in self._poisonous:
            return False  # `on_error` itself has failed
        self._poisonous[place] = error
        return True

    def forget(self) -> None:
        """The transaction is committed."""
        self._poisonous.clear()

    async def _process(self, record: ConsumerRecord) -> None:
        error = self._poisonous.get(_Place(record.topic, record.partition, record.offset))
        try:
            if error is None:
                produced = await call(self._handle, record)
            else:
                assert self._on_error is not None
                produced = await call(self._on_error, record, error)
            for each in _several(produced):
                self._send(each)
                await self._producer.drain()
        except TransactionError:
            raise
        except Exception as failure:
            self.failed = self.failed or (record, failure)
            raise

    def _send(self, record: ProducerRecord) -> None:
        self._producer.send_soon(
            record.topic,
            record.value,
            record.key,
            partition=record.partition,
            headers=record.headers,
            timestamp_ms=record.timestamp_ms,
        )


class _Processing:
    """One run: transaction after transaction."""

    def __init__(self, consumer: Consumer, producer: Producer, handling: _Handling) -> None:
        self._consumer = consumer
        self._producer = producer
        self._handling = handling

    async def run(self, max_records: int) -> None:
        while self._consumer.is_open:
            records = await self._consumer.poll(max_records=max_records)
            if records:
                offsets = self._consumer.offsets_done()
                try:
                    await self._carry_out(records, offsets)
                except BaseException:
                    self._go_back(_first_offsets(records))
                    raise

    async def _carry_out(
        self, records: list[ConsumerRecord], offsets: Mapping[TopicPartition, CommittedOffset]
    ) -> None:
        """One transaction for these records, which is run again until it is committed."""
        for failures in itertools.count(1):
            try:
                async with self._producer.transaction():
                    await self._handling.process(records)
                    await self._producer.send_offsets(self._consumer, offsets)
            except TransactionUncertainError:
                await self._go_on_where_committed(records)
                return
            except TransactionAbortedError as error:
                if error.code in _NOT_A_MEMBER:
                    self._go_back(_first_offsets(records))
                    return
                if not (error.code.retriable or error.code in _PASSING):
                    raise
                await asyncio.sleep(backoff_ms(failures) / 1000)
            except TransactionError:
                raise
            except Exception as error:
                if self._handling.failed is None or self._handling.failed[1] is not error:
                    raise
                if not self._handling.puts_aside():
                    raise ProcessingError(self._handling.failed[0], error) from error
            else:
                self._handling.forget()
                return

    async def _go_on_where_committed(self, records: list[ConsumerRecord]) -> None:
        """The answer to a commit was lost: the group's offsets say whether the records are done."""
        async with self._producer.transaction():
            pass  # its beginning has the coordinator decide about the one before
        first_offsets = _first_offsets(records)
        committed = await self._consumer.committed(first_offsets)
        self._go_back(
            {
                each: committed[each].offset if each in committed else first
                for each, first in first_offsets.items()
            }
        )

    def _go_back(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Read the records of these partitions again that are not committed, as far as they are still ours."""
        if self._consumer.is_open:
            for partition in self._consumer.assignment.intersection(offsets):
                self._consumer.seek(partition, offsets[partition])


def _first_offsets(records: Iterable[ConsumerRecord]) -> dict[TopicPartition, int]:
    first_offsets: dict[TopicPartition, int] = {}
    for record in records:
        first_offsets.setdefault(TopicPartition(record.topic, record.partition), record.offset)
    return first_offsets


def _several(produced: Any) -> list[ProducerRecord]:
    """The records that a handler returned."""
    several = [produced] if isinstance(produced, ProducerRecord) else list(produced or ())
    for each in several:
        if not isinstance(each, ProducerRecord):
            raise TypeError(f"a handler returns ProducerRecords, or nothing, not {each!r}")
    return several
