"""The transactional producer against a broker that says what a test tells it to (EOS-1)."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from functools import partial
from typing import Any

import pytest
from tests.unit.client.transactional_cluster import (
    TransactionalCluster,
    not_added,
    offsets_refused,
    refused,
    with_transactions,
)
from tests.unit.wire.fake_broker import HANG_UP, SILENCE

from ottla.client.producer.delivery import Delivery
from ottla.client.producer.machine.delivery_report import DeliveryError
from ottla.client.producer.machine.transaction_errors import (
    ProducerFencedError,
    TransactionAbortedError,
    TransactionError,
    TransactionUncertainError,
)
from ottla.client.producer.producer import Producer
from ottla.client.requests.membership import GroupMetadata
from ottla.errors import ErrorCode
from ottla.model import TopicPartition
from ottla.protocol.apis import ApiKey
from ottla.protocol.messages.produce import ProduceRequest
from ottla.protocol.messages.producer_ids import InitProducerIdRequest, InitProducerIdResponse
from ottla.protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    EndTxnResponse,
    TxnOffsetCommitRequest,
)

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


async def committed(producer: Producer, *values: bytes, partition: int = 0) -> None:
    async with producer.transaction():
        for value in values:
            producer.send_soon("t", value, partition=partition)


async def aborted(producer: Producer, value: bytes) -> None:
    """A transaction whose application fails."""
    async with producer.transaction():
        await producer.send("t", value, partition=0)
        raise KeyError(value)


def test_up_to_version_1_partitions_and_groups_are_added_first() -> None:
    cluster = TransactionalCluster(version=1)

    async def body(producer: Producer) -> None:
        async with producer.transaction():
            await producer.send("t", b"a", partition=0)
            await producer.send("t", b"b", partition=1)
            await producer.send("t", b"c", partition=0)
            await producer.send_offsets(GroupMetadata("g", "m", 3), {T0: 5})
            await producer.send_offsets("g", {T1: 6})
        await committed(producer, b"d")

    with_transactions(cluster, body)
    assert cluster.events == [
        ("init", -1),
        ("add", [0]),
        (0, 0, 0, [b"a"]),
        ("add", [1]),
        (1, 0, 0, [b"b"]),
        (0, 0, 1, [b"c"]),
        ("add group", "g"),
        ("offsets", "g", 3, [5]),
        ("offsets", "g", -1, [6]),
        ("commit", 0),
        ("add", [0]),
        (0, 0, 2, [b"d"]),
        ("commit", 0),
    ]
    assert cluster.versions_of(ApiKey.PRODUCE) == {11}
    assert cluster.versions_of(ApiKey.END_TXN) == cluster.versions_of(ApiKey.TXN_OFFSET_COMMIT) == {4}
    assert cluster.versions_of(ApiKey.ADD_PARTITIONS_TO_TXN) == {3}


def test_from_version_2_on_each_end_raises_the_epoch_and_nothing_is_added() -> None:
    cluster = TransactionalCluster(version=2)

    async def body(producer: Producer) -> None:
        async with producer.transaction():
            await producer.send("t", b"a", partition=0)
            await producer.send_offsets("g", {T0: 5})
        with pytest.raises(KeyError):
            await aborted(producer, b"b")
        await committed(producer, b"c")

    with_transactions(cluster, body)
    assert cluster.events == [
        ("init", -1),
        (0, 0, 0, [b"a"]),
        ("offsets", "g", -1, [5]),
        ("commit", 0),
        (0, 1, 0, [b"b"]),
        ("abort", 1),
        (0, 2, 0, [b"c"]),
        ("commit", 2),
    ]
    assert min(cluster.versions_of(ApiKey.PRODUCE)) >= 12
    assert cluster.versions_of(ApiKey.END_TXN) == cluster.versions_of(ApiKey.TXN_OFFSET_COMMIT) == {5}


@pytest.mark.parametrize("version", [1, 2])
def test_a_transaction_without_records_is_not_told_to_the_coordinator(version: int) -> None:
    cluster = TransactionalCluster(version)

    async def body(producer: Producer) -> None:
        await committed(producer)
        with pytest.raises(KeyError):
            async with producer.transaction():
                raise KeyError
        async with producer.transaction():
            await producer.send_offsets("g", {})

    with_transactions(cluster, body)
    assert cluster.events == [("init", -1)]


def test_a_producer_with_a_transactional_id_writes_in_transactions_only() -> None:
    async def body(producer: Producer) -> None:
        for _ in range(2):
            with pytest.raises(RuntimeError, match=r"async with producer\.transaction"):
                await producer.send("t", b"a")
            with pytest.raises(RuntimeError, match=r"async with producer\.transaction"):
                producer.send_soon("t", b"a")
            with pytest.raises(RuntimeError, match=r"async with producer\.transaction"):
                await producer.send_offsets("g", {T0: 1})
            await committed(producer, b"v")
        async with producer.transaction():
            with pytest.raises(RuntimeError, match="one at a time"):
                await producer.transaction().__aenter__()

    with_transactions(TransactionalCluster(version=2), body)

    async def other(producer: Producer) -> None:
        with pytest.raises(ValueError, match="transactions need a transactional_id"):
            producer.transaction()
        with pytest.raises(ValueError, match="transactions need a transactional_id"):
            await producer.send_offsets("g", {T0: 1})

    with_transactions(TransactionalCluster(version=2), other, transactional_id=None)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"transactional_id": ""}, "transactional_id must not be empty"),
        ({"transactional_id": "a", "acks": 1}, "transactional_id needs idempotence"),
        ({"transactional_id": "a", "enable_idempotence": False}, "transactional_id needs idempotence"),
        ({"transactional_id": "a", "transaction_timeout_ms": 0}, "transaction_timeout_ms must be at least 1"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Producer("localhost:9092", **settings)


@pytest.mark.parametrize("version", [1, 2])
def test_a_record_that_is_refused_aborts_the_transaction_and_the_next_one_has_a_higher_epoch(
    version: int,
) -> None:
    cluster = TransactionalCluster(version)

    async def body(producer: Producer) -> None:
        await committed(producer, b"a")
        cluster.events.clear()
        cluster.faults[ProduceRequest] = [lambda asked: refused(asked, ErrorCode.INVALID_RECORD)]
        with pytest.raises(TransactionAbortedError, match="did not take the record") as caught:
            async with producer.transaction():
                producer.send_soon("t", b"b", partition=0)
        assert caught.value.code == ErrorCode.INVALID_RECORD
        assert isinstance(caught.value.__cause__, DeliveryError)
        cluster.faults[ProduceRequest] = [lambda asked: refused(asked, ErrorCode.INVALID_RECORD)]
        with pytest.raises(TransactionAbortedError) as caught:
            async with producer.transaction():
                await producer.send("t", b"c", partition=0)  # heard by its sender, and by the transaction
        assert isinstance(caught.value.__cause__, DeliveryError)

        async def carry_on() -> None:
            async with producer.transaction():
                cluster.faults[ProduceRequest] = [lambda asked: refused(asked, ErrorCode.INVALID_RECORD)]
                with pytest.raises(DeliveryError):
                    await producer.send("t", b"d", partition=0)
                with pytest.raises(TransactionAbortedError):  # what comes after is not taken at all
                    await producer.send("t", b"e", partition=1)

        with pytest.raises(TransactionAbortedError):
            await carry_on()
        await committed(producer, b"f")

    with_transactions(cluster, body)
    told = [event for event in cluster.events if event[0] != "add"]
    if version == 1:
        ends: list[tuple[Any, ...]] = [
            ("abort", 0),
            ("init", 0),
            ("abort", 1),
            ("init", 1),
            ("abort", 2),
            ("init", 2),
        ]
    else:
        ends = [("abort", 1), ("abort", 2), ("abort", 3)]
    epoch = 3 if version == 1 else 4
    assert told == [*ends, (0, epoch, 0, [b"f"]), ("commit", epoch)]


def test_records_that_wait_are_discarded_with_the_transaction() -> None:
    cluster = TransactionalCluster(version=2)

    async def body(producer: Producer) -> None:
        deliveries: list[Delivery] = []

        async def fail() -> None:
            async with producer.transaction():
                deliveries.append(producer.send_soon("t", b"a", partition=0))
                raise KeyError

        with pytest.raises(KeyError):
            await fail()
        with pytest.raises(DeliveryError, match="the transaction is aborted") as caught:
            await deliveries[0]
        assert not caught.value.is_uncertain
        await committed(producer, b"b")

    with_transactions(cluster, body, linger_ms=10_000)
    assert [event for event in cluster.events if event[0] == 0] == [(0, 0, 0, [b"b"])]


def test_requests_are_repeated_while_the_coordinator_is_busy_or_elsewhere() -> None:
    cluster = TransactionalCluster(version=1)
    for code in (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NOT_COORDINATOR):
        cluster.faults[InitProducerIdRequest].append(InitProducerIdResponse(error_code=code))
        cluster.faults[EndTxnRequest].append(EndTxnResponse(error_code=code))
    for code in (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
        cluster.faults[AddPartitionsToTxnRequest].append(partial(not_added, code=code))
    cluster.faults[TxnOffsetCommitRequest].append(
        lambda asked: offsets_refused(asked, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    )
    cluster.faults[ProduceRequest].append(lambda asked: refused(asked, ErrorCode.NOT_ENOUGH_REPLICAS))

    async def body(producer: Producer) -> None:
        async with producer.transaction():
            await producer.send("t", b"a", partition=0)
            await producer.send_offsets("g", {T0: 1})

    with_transactions(cluster, body)
    assert cluster.events == [
        ("init", -1),
        ("add", [0]),
        (0, 0, 0, [b"a"]),
        ("add group", "g"),
        ("offsets", "g", -1, [1]),
        ("commit", 0),
    ]


@pytest.mark.parametrize(
    "lost", [AddPartitionsToTxnRequest, AddOffsetsToTxnRequest, TxnOffsetCommitRequest, EndTxnRequest]
)
def test_after_a_lost_answer_the_next_transaction_has_a_higher_epoch(lost: type[Any]) -> None:
    """A request that is still somewhere in the network must not become part of a later transaction."""
    cluster = TransactionalCluster(version=1)

    async def body(producer: Producer) -> None:
        cluster.faults[lost].append(HANG_UP)
        async with producer.transaction():
            await producer.send("t", b"a", partition=0)
            await producer.send_offsets("g", {T0: 1})
        await committed(producer, b"b")

    with_transactions(cluster, body)
    commit = cluster.events.index(("commit", 0))
    rest = [event for event in cluster.events[commit:] if event != ("commit", 0)]
    assert rest == [("init", 0), ("add", [0]), (0, 1, 0, [b"b"]), ("commit", 1)]


@pytest.mark.parametrize("code", [None, ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE])
@pytest.mark.parametrize("version", [1, 2])
def test_a_commit_without_a_definite_answer_is_uncertain_and_decided_before_the_next_transaction(
    version: int, code: ErrorCode | None
) -> None:
    """A coordinator that lost its place while it wrote the commit does not know the outcome either."""
    cluster = TransactionalCluster(version)
    answer = SILENCE if code is None else lambda _: EndTxnResponse(error_code=code)

    async def body(producer: Producer) -> None:
        cluster.faults[EndTxnRequest] = [answer] * 99
        with pytest.raises(TransactionUncertainError, match="was not confirmed, and may have succeeded"):
            await committed(producer, b"a")
        cluster.faults[EndTxnRequest].clear()
        cluster.events.clear()
        await committed(producer, b"b")

    with_transactions(cluster, body, request_timeout_ms=500, max_block_ms=1_200)
    told = [event for event in cluster.events if event[0] != "add"]
    assert told[:2] == [("abort", 0), ("init", 0)]
    assert told[2:] == [(0, cluster.epoch - (version == 2), 0, [b"b"]), ("commit", told[2][1])]


def test_an_abort_without_an_answer_is_repeated_before_the_next_transaction() -> None:
    cluster = TransactionalCluster(version=1)

    async def body(producer: Producer) -> None:
        cluster.faults[EndTxnRequest] = [SILENCE] * 9
        with pytest.raises(KeyError):
            await aborted(producer, b"a")
        cluster.faults[EndTxnRequest].clear()
        cluster.events.clear()
        await committed(producer, b"b")

    with_transactions(cluster, body, request_timeout_ms=500, max_block_ms=1_200)
    assert cluster.events == [("abort", 0), ("init", 0), ("add", [0]), (0, 1, 0, [b"b"]), ("commit", 1)]


@pytest.mark.parametrize(
    "code",
    [ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_ID_MAPPING],
)
def test_a_fenced_producer_says_so_from_then_on(code: ErrorCode) -> None:
    cluster = TransactionalCluster(version=2)

    async def body(producer: Producer) -> None:
        cluster.faults[EndTxnRequest].append(EndTxnResponse(error_code=code))
        with pytest.raises(ProducerFencedError, match="another producer has the same transactional_id"):
            await committed(producer, b"a")
        with pytest.raises(ProducerFencedError):
            await committed(producer, b"b")

    with_transactions(cluster, body)
    assert [event for event in cluster.events if event[0] == 0] == [(0, 0, 0, [b"a"])]


def test_an_epoch_that_a_leader_finds_old_is_decided_by_the_coordinator() -> None:
    cluster = TransactionalCluster(version=2)

    async def body(producer: Producer) -> None:
        cluster.faults[ProduceRequest] = [lambda asked: refused(asked, ErrorCode.INVALID_PRODUCER_EPOCH)]
        with pytest.raises(TransactionAbortedError):
            await committed(producer, b"a")
        cluster.faults[ProduceRequest] = [lambda asked: refused(asked, ErrorCode.INVALID_PRODUCER_EPOCH)]
        cluster.faults[EndTxnRequest] = [EndTxnResponse(error_code=ErrorCode.PRODUCER_FENCED)]
        with pytest.raises(ProducerFencedError):
            await committed(producer, b"b")

    with_transactions(cluster, body)


def test_a_member_that_its_group_has_replaced_cannot_commit_offsets() -> None:
    cluster = TransactionalCluster(version=2)

    async def body(producer: Producer) -> None:
        cluster.faults[TxnOffsetCommitRequest].append(
            lambda asked: offsets_refused(asked, ErrorCode.ILLEGAL_GENERATION)
        )

        async def run() -> None:
            async with producer.transaction():
                await producer.send("t", b"a", partition=0)
                await producer.send_offsets(GroupMetadata("g", "m", 1), {T0: 1})

        with pytest.raises(TransactionAbortedError) as caught:
            await run()
        assert caught.value.code == ErrorCode.ILLEGAL_GENERATION
        await committed(producer, b"b")

    with_transactions(cluster, body)
    assert cluster.events[1:] == [(0, 0, 0, [b"a"]), ("abort", 0), (0, 1, 0, [b"b"]), ("commit", 1)]


def test_a_refusal_that_stays_ends_the_producer() -> None:
    async def opened(code: ErrorCode) -> None:
        cluster = TransactionalCluster(version=2)
        cluster.faults[InitProducerIdRequest].append(InitProducerIdResponse(error_code=code))
        async with cluster.broker:
            with pytest.raises(TransactionError) as caught:
                async with Producer(cluster.bootstrap, transactional_id="id"):
                    raise AssertionError("it must not open")
            assert caught.value.code == code
            assert type(caught.value) is TransactionError
            assert asyncio.all_tasks() - cluster.broker.tasks == {asyncio.current_task()}

    asyncio.run(opened(ErrorCode.INVALID_TRANSACTION_TIMEOUT))
    asyncio.run(opened(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))


async def cancelled_when(
    cluster: TransactionalCluster, work: Coroutine[Any, Any, None], asked: type[Any]
) -> None:
    """Cancel `work` when the broker has been asked something of this type once more."""
    before, task = len(cluster.broker.asked_for(asked)), asyncio.create_task(work)
    async with asyncio.timeout(10):
        while len(cluster.broker.asked_for(asked)) == before:  # noqa: ASYNC110 - the broker is a thread's business
            await asyncio.sleep(0.001)
    task.cancel()
    await asyncio.wait({task})
    assert task.cancelled()


def test_a_cancelled_transaction_is_aborted() -> None:
    cluster = TransactionalCluster(version=2)

    async def body(producer: Producer) -> None:
        async def sleepy() -> None:
            async with producer.transaction():
                producer.send_soon("t", b"a", partition=0)
                await asyncio.sleep(20)

        await cancelled_when(cluster, sleepy(), ProduceRequest)
        assert cluster.events[-2:] == [(0, 0, 0, [b"a"]), ("abort", 0)]
        cluster.faults[ProduceRequest].append(SILENCE)  # the records are still on their way
        await cancelled_when(cluster, committed(producer, b"b"), ProduceRequest)
        await committed(producer, b"c")
        assert cluster.events[-3:] == [("abort", 1), (0, 2, 0, [b"c"]), ("commit", 2)]

    with_transactions(cluster, body, request_timeout_ms=1_000)


def test_a_commit_goes_on_when_its_caller_is_cancelled() -> None:
    cluster = TransactionalCluster(version=2)

    async def body(producer: Producer) -> None:
        cluster.faults[EndTxnRequest].append(HANG_UP)
        await cancelled_when(cluster, committed(producer, b"a"), EndTxnRequest)
        await committed(producer, b"b")  # waits for the end of the first one
        ends = [event for event in cluster.events if event[0] in ("commit", "abort")]
        assert {event[0] for event in ends} == {"commit"}
        assert ends[-1] == ("commit", cluster.epoch - 1)

    with_transactions(cluster, body)


def test_closing_aborts_an_open_transaction() -> None:
    cluster = TransactionalCluster(version=2)

    async def body(producer: Producer) -> None:
        scope = producer.transaction()
        await scope.__aenter__()
        await producer.send("t", b"a", partition=0)

    with_transactions(cluster, body)
    assert cluster.events[-1] == ("abort", 0)


def test_a_batch_that_is_too_large_is_split_within_its_sequence_numbers() -> None:
    cluster = TransactionalCluster(version=1)

    async def body(producer: Producer) -> None:
        cluster.faults[ProduceRequest] = [lambda asked: refused(asked, ErrorCode.MESSAGE_TOO_LARGE)]
        await committed(producer, b"a", b"b", b"c")
        await committed(producer, b"d")

    with_transactions(cluster, body, linger_ms=20)
    written = [event for event in cluster.events if event[0] == 0]
    assert written == [(0, 0, 0, [b"a"]), (0, 0, 1, [b"b", b"c"]), (0, 0, 3, [b"d"])]
