"""The two phases of a producer's commit, against a broker that says what a test tells it to (EOS-1, EOS-4)."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.client.transactional_cluster import (
    PRODUCER_ID,
    TransactionalCluster,
    refused,
    with_transactions,
)
from tests.unit.wire.fake_broker import HANG_UP, SILENCE

from ottla.client.producer.machine.prepared_transaction import PreparedTransaction
from ottla.client.producer.machine.transaction_errors import (
    ProducerFencedError,
    TransactionAbortedError,
    TransactionUncertainError,
)
from ottla.client.producer.producer import Producer
from ottla.errors import ErrorCode
from ottla.protocol.messages.produce import ProduceRequest
from ottla.protocol.messages.producer_ids import InitProducerIdRequest, InitProducerIdResponse
from ottla.protocol.messages.transactions import EndTxnRequest, EndTxnResponse

BRIEFLY: dict[str, Any] = {"request_timeout_ms": 500, "max_block_ms": 1_200}


def kept(request: InitProducerIdRequest) -> InitProducerIdResponse:
    """A coordinator that has a transaction of epoch 4 open."""
    assert request.enable2_pc
    assert request.keep_prepared_txn
    return InitProducerIdResponse(
        producer_id=PRODUCER_ID,
        producer_epoch=5,
        ongoing_txn_producer_id=PRODUCER_ID,
        ongoing_txn_producer_epoch=4,
    )


def test_a_kept_transaction_is_ended_under_the_new_epoch() -> None:
    cluster = TransactionalCluster(version=2)
    cluster.faults[InitProducerIdRequest] = [kept]

    async def body(producer: Producer) -> None:
        assert producer.prepared_transaction == PreparedTransaction(PRODUCER_ID, 4)
        assert await producer.complete(f"{PRODUCER_ID}:4") is True
        async with producer.transaction():
            await producer.send("t", b"a", partition=0)

    with_transactions(cluster, body, two_phase_commit=True)
    assert cluster.events == [("commit", 5), (0, 6, 0, [b"a"]), ("commit", 6)]


@pytest.mark.parametrize("lost", [HANG_UP, SILENCE])
def test_a_decision_without_an_answer_is_told_again_and_never_aborted(lost: Any) -> None:
    cluster = TransactionalCluster(version=2)

    async def body(producer: Producer) -> None:
        async with producer.transaction():
            await producer.send("t", b"a", partition=0)
            stored = await producer.prepare()
            cluster.faults[EndTxnRequest] = [lost] * 99
            with pytest.raises(TransactionUncertainError, match="told again"):
                await producer.complete(stored)
            cluster.faults[EndTxnRequest].clear()
            assert producer.prepared_transaction == stored
            cluster.events.clear()
            assert await producer.complete(stored) is True

    with_transactions(cluster, body, two_phase_commit=True, **BRIEFLY)
    assert cluster.events == [("commit", 0)]


async def prepare_and_fail(producer: Producer) -> None:
    async with producer.transaction():
        producer.send_soon("t", b"a", partition=0)
        await producer.prepare()
        raise KeyError("a")


def test_closing_leaves_a_prepared_transaction_alone() -> None:
    cluster = TransactionalCluster(version=2)

    async def body(producer: Producer) -> None:
        with pytest.raises(KeyError):
            await prepare_and_fail(producer)

    with_transactions(cluster, body, two_phase_commit=True)
    assert [event for event in cluster.events if event[0] in ("commit", "abort")] == []


def test_what_was_not_delivered_cannot_be_prepared() -> None:
    cluster = TransactionalCluster(version=2)
    cluster.faults[ProduceRequest] = [lambda request: refused(request, ErrorCode.MESSAGE_TOO_LARGE)]

    async def body(producer: Producer) -> None:
        with pytest.raises(TransactionAbortedError):
            await prepare_and_fail(producer)

    with_transactions(cluster, body, two_phase_commit=True)
    assert cluster.events[-1] == ("abort", 0)


def test_a_producer_whose_prepared_transaction_was_ended_by_another_is_fenced() -> None:
    cluster = TransactionalCluster(version=2)
    cluster.faults[InitProducerIdRequest] = [kept]
    cluster.faults[EndTxnRequest] = [EndTxnResponse(error_code=ErrorCode.PRODUCER_FENCED)]

    async def body(producer: Producer) -> None:
        for _ in range(2):
            with pytest.raises(ProducerFencedError):
                await producer.complete(PreparedTransaction(PRODUCER_ID, 4))

    with_transactions(cluster, body, two_phase_commit=True)


@pytest.mark.parametrize("text", ["", "7", "7:", ":7", "7:x", "-1:-1"])
def test_a_text_that_is_no_prepared_transaction_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="PRODUCER_ID:EPOCH"):
        PreparedTransaction.parse(text)
