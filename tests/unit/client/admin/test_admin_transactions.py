"""Transactions through the administrator's client: at coordinators, and in partitions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from tests.unit.client.admin.test_admin import asked
from tests.unit.client.admin.test_admin_groups import coordinating
from tests.unit.wire.fake_broker import FakeBroker

from ottla.client.requests.transactions import (
    ActiveProducer,
    FencedProducer,
    HangingTransaction,
    TransactionDescription,
    TransactionListing,
)
from ottla.errors import ErrorCode, KafkaError
from ottla.model import TopicPartition
from ottla.protocol.apis import DECLARED_APIS, ApiKey
from ottla.protocol.frame import RequestHeader
from ottla.protocol.messages import cluster, coordinator, transaction_admin, transactions
from ottla.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from ottla.protocol.messages.producer_ids import InitProducerIdRequest, InitProducerIdResponse

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
OPEN = ActiveProducer(40, 2, 7, 1_000, -1, 15)
IDLE = ActiveProducer(41, 0, 3, 2_000, 5, None)


def serving(newest_list: int = 2) -> FakeBroker:
    """Broker 1 is the cluster, coordinates every transactional id, and serves what is asked of transactions."""
    offered = ApiVersionsResponse(
        api_keys=[ApiVersion(api.key, api.min_version, api.max_version) for api in DECLARED_APIS.values()]
    )
    for each in offered.api_keys:
        if each.api_key == ApiKey.LIST_TRANSACTIONS:
            each.max_version = newest_list
    broker = coordinating(FakeBroker()).on(ApiVersionsRequest, offered)

    def described(*_: object) -> cluster.DescribeClusterResponse:
        itself = cluster.DescribeClusterBroker(broker_id=1, host="127.0.0.1", port=broker.port)
        return cluster.DescribeClusterResponse(brokers=[itself])

    return broker.on(cluster.DescribeClusterRequest, described)


def listing(*states: tuple[str, int, str]) -> transaction_admin.ListTransactionsResponse:
    listed = [transaction_admin.ListedTransactionState(*each) for each in states]
    return transaction_admin.ListTransactionsResponse(transaction_states=listed)


def description(name: str, *partitions: int, code: int = 0) -> transaction_admin.DescribedTransactionState:
    topics = [transaction_admin.TopicData("t", list(partitions))] if partitions else []
    return transaction_admin.DescribedTransactionState(code, name, "Ongoing", 60_000, 900, 40, 2, topics)


def producers(found: dict[int, Iterable[ActiveProducer]]) -> transaction_admin.DescribeProducersResponse:
    partitions = [
        transaction_admin.PartitionResponse(
            index,
            active_producers=[
                transaction_admin.ProducerState(
                    each.producer_id,
                    each.producer_epoch,
                    each.last_sequence,
                    each.last_timestamp_ms,
                    each.coordinator_epoch,
                    -1 if each.open_since_offset is None else each.open_since_offset,
                )
                for each in some
            ],
        )
        for index, some in found.items()
    ]
    return transaction_admin.DescribeProducersResponse(
        topics=[transaction_admin.TopicResponse("t", partitions)]
    )


def test_transactions_are_listed_by_name_with_every_filter_passed_on() -> None:
    broker = serving()
    answer = listing(("b", 41, "Empty"), ("a", 40, "Ongoing"))
    broker.on(transaction_admin.ListTransactionsRequest, answer)
    found = asked(
        broker,
        lambda admin: admin.list_transactions(
            states=["Ongoing"], producer_ids=[40], open_for_ms=5, pattern="a.*"
        ),
    )
    assert found == [TransactionListing("a", 40, "Ongoing", 1), TransactionListing("b", 41, "Empty", 1)]
    assert broker.asked_for(transaction_admin.ListTransactionsRequest) == [
        transaction_admin.ListTransactionsRequest(["Ongoing"], [40], 5, "a.*")
    ]


@pytest.mark.parametrize("filters", [{"pattern": "a"}, {"open_for_ms": 5}])
def test_a_filter_that_the_broker_does_not_know_is_not_left_out(filters: dict[str, Any]) -> None:
    broker = serving(newest_list=0)
    broker.on(transaction_admin.ListTransactionsRequest, listing(("a", 40, "Ongoing")))
    with pytest.raises(KafkaError) as caught:
        asked(broker, lambda admin: admin.list_transactions(**filters))
    assert caught.value.code is ErrorCode.UNSUPPORTED_VERSION
    assert len(asked(broker, lambda admin: admin.list_transactions())) == 1


def test_a_transaction_is_described_by_its_coordinator() -> None:
    missing = transaction_admin.DescribedTransactionState(105, "none")
    idle = transaction_admin.DescribedTransactionState(0, "idle", "Empty", 60_000, -1, 41, 0)
    broker = serving().on(
        transaction_admin.DescribeTransactionsRequest,
        transaction_admin.DescribeTransactionsResponse(
            transaction_states=[description("a", 0, 1), idle, missing]
        ),
    )
    found = asked(broker, lambda admin: admin.describe_transactions(["a", "idle", "none"]))
    assert found["a"] == TransactionDescription("a", 1, "Ongoing", 40, 2, 60_000, 900, frozenset({T0, T1}))
    assert isinstance(found["idle"], TransactionDescription)
    assert found["idle"].started_ms is None
    assert "there is no transactional id" in str(found["none"])
    (request,) = broker.asked_for(coordinator.FindCoordinatorRequest)
    assert (request.key_type, request.coordinator_keys) == (1, ["a", "idle", "none"])


def test_fencing_is_repeated_while_the_transaction_ends() -> None:
    answers = iter(
        [
            InitProducerIdResponse(error_code=ErrorCode.CONCURRENT_TRANSACTIONS),
            InitProducerIdResponse(producer_id=40, producer_epoch=3),
        ]
    )
    broker = serving().on(InitProducerIdRequest, lambda *_: next(answers))
    found = asked(broker, lambda admin: admin.fence_producers(["a"]))
    assert found == {"a": FencedProducer(40, 3)}
    assert [
        (each.transactional_id, each.producer_id) for each in broker.asked_for(InitProducerIdRequest)
    ] == [("a", -1)] * 2


def test_the_producers_of_partitions_are_those_that_their_leaders_know() -> None:
    broker = serving().on(transaction_admin.DescribeProducersRequest, producers({0: [OPEN, IDLE], 1: []}))
    found = asked(broker, lambda admin: admin.describe_producers([T1, T0]))
    assert found == {T0: (OPEN, IDLE), T1: ()}
    (request,) = broker.asked_for(transaction_admin.DescribeProducersRequest)
    assert request.topics == [transaction_admin.TopicRequest("t", [0, 1])]


@pytest.mark.parametrize(("known", "sent"), [(-1, 0), (5, 5)])
def test_a_hanging_transaction_is_aborted_in_the_name_of_the_last_coordinator(known: int, sent: int) -> None:
    results = [
        transactions.WritableTxnMarkerTopicResult("t", [transactions.WritableTxnMarkerPartitionResult(0)])
    ]
    broker = serving().on(
        transactions.WriteTxnMarkersRequest,
        transactions.WriteTxnMarkersResponse([transactions.WritableTxnMarkerResult(40, results)]),
    )
    producer = ActiveProducer(40, 2, 7, 1_000, known, 15)
    asked(broker, lambda admin: admin.abort_transaction(T0, producer))
    (request,) = broker.asked_for(transactions.WriteTxnMarkersRequest)
    topics = [transactions.WritableTxnMarkerTopic("t", [0])]
    assert request.markers == [transactions.WritableTxnMarker(40, 2, False, topics, sent, 0)]


def test_a_refused_abort_is_raised() -> None:
    refused = [transactions.WritableTxnMarkerPartitionResult(0, ErrorCode.TRANSACTION_COORDINATOR_FENCED)]
    broker = serving().on(
        transactions.WriteTxnMarkersRequest,
        transactions.WriteTxnMarkersResponse(
            [
                transactions.WritableTxnMarkerResult(
                    40, [transactions.WritableTxnMarkerTopicResult("t", refused)]
                )
            ]
        ),
    )
    with pytest.raises(KafkaError) as caught:
        asked(broker, lambda admin: admin.abort_transaction(T0, OPEN))
    assert caught.value.code is ErrorCode.TRANSACTION_COORDINATOR_FENCED


def hanging_of(
    described: transaction_admin.DescribedTransactionState | None, silent_since_ms: int = 1_000
) -> list[HangingTransaction]:
    """What hangs if producer 40 has a transaction open in partition 0, and its coordinator says this of it."""
    broker = serving().on(transaction_admin.DescribeProducersRequest, producers({0: [IDLE, OPEN], 1: [IDLE]}))

    def listed(request: Any, _: RequestHeader) -> transaction_admin.ListTransactionsResponse:
        assert request.producer_id_filters == [40]
        return listing() if described is None else listing(("a", 40, "Ongoing"))

    broker.on(transaction_admin.ListTransactionsRequest, listed)
    if described is not None:
        answer = transaction_admin.DescribeTransactionsResponse(transaction_states=[described])
        broker.on(transaction_admin.DescribeTransactionsRequest, answer)
    return asked(
        broker,
        lambda admin: admin.find_hanging_transactions([T0, T1], silent_since_ms=silent_since_ms),
        timeout_ms=500,
    )


def test_a_transaction_hangs_if_no_coordinator_has_its_partition() -> None:
    assert hanging_of(None) == [HangingTransaction(T0, OPEN, None)]
    assert hanging_of(description("a", 1)) == [HangingTransaction(T0, OPEN, "a")]
    missing = description("a", code=ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
    assert hanging_of(missing) == [HangingTransaction(T0, OPEN, "a")]


def test_a_transaction_that_its_coordinator_knows_does_not_hang() -> None:
    assert hanging_of(description("a", 0)) == []


def test_a_producer_that_wrote_lately_does_not_hang() -> None:
    assert hanging_of(None, silent_since_ms=999) == []


def test_nothing_is_said_to_hang_if_its_coordinator_cannot_be_asked() -> None:
    with pytest.raises(KafkaError) as caught:
        hanging_of(description("a", code=ErrorCode.COORDINATOR_NOT_AVAILABLE))
    assert caught.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
