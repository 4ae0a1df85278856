"""The doctor's findings about open transactions that hold readers back."""

from __future__ import annotations

import time
from typing import Any

from tests.unit.client.admin.test_admin import asked
from tests.unit.client.admin.test_admin_transactions import listing, producers, serving
from tests.unit.wire.fake_broker import FakeBroker

from ottla.client.admin.checks.findings import Examination, Severity
from ottla.client.admin.checks.transaction_check import check_transactions
from ottla.client.requests.transactions import NO_TIMEOUT_MS, ActiveProducer
from ottla.model import TopicPartition
from ottla.protocol.frame import RequestHeader
from ottla.protocol.messages import transaction_admin
from ottla.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

T0 = TopicPartition("t", 0)
MINUTE_MS = 60_000


def offsets(request: ListOffsetsRequest, _: RequestHeader) -> ListOffsetsResponse:
    """The partition ends at 20; readers of committed records stop at 15."""
    found = [ListOffsetsPartitionResponse(partition_index=0, offset=15 if request.isolation_level else 20)]
    return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=found)])


def holding(age_ms: int, *, described: bool, timeout_ms: int = 15 * MINUTE_MS) -> FakeBroker:
    """A broker with a transaction that began, and was written last, so long ago."""
    begun_ms = int(time.time() * 1000) - age_ms
    producer = ActiveProducer(40, 2, 7, begun_ms, -1, 15)
    topics = [transaction_admin.TopicData("t", [0])]
    state: Any = transaction_admin.DescribedTransactionState(
        0, "billing-7", "Ongoing", timeout_ms, begun_ms, 40, 2, topics
    )
    broker = serving().on(ListOffsetsRequest, offsets)
    broker.on(transaction_admin.DescribeProducersRequest, producers({0: [producer]}))
    listed = listing(("billing-7", 40, "Ongoing")) if described else listing()
    broker.on(transaction_admin.ListTransactionsRequest, listed)
    answer = transaction_admin.DescribeTransactionsResponse(transaction_states=[state])
    return broker.on(transaction_admin.DescribeTransactionsRequest, answer)


def examined(broker: FakeBroker) -> Examination:
    report = Examination("localhost:9092")
    asked(broker, lambda admin: check_transactions(admin, [T0], report, int(time.time() * 1000)))
    return report


def test_an_open_transaction_is_named_with_holder_age_and_command() -> None:
    (finding,) = examined(holding(5 * MINUTE_MS, described=True)).findings
    assert (finding.severity, finding.place) == (Severity.NOTE, "t-0")
    assert "readers of committed records wait at offset 15, 5 records are held back" in finding.problem
    assert "the transaction of 'billing-7'" in finding.problem
    assert "5 min 0 s" in finding.problem
    assert "ottla transactions abort billing-7 --bootstrap localhost:9092" in finding.advice


def test_a_transaction_that_outlives_its_timeout_is_a_warning() -> None:
    (finding,) = examined(holding(5 * MINUTE_MS, described=True, timeout_ms=MINUTE_MS)).findings
    assert finding.severity is Severity.WARNING
    assert "Its timeout is over: look at broker 1" in finding.advice


def test_a_transaction_of_two_phase_commit_has_no_timeout_to_wait_for() -> None:
    (finding,) = examined(holding(5 * MINUTE_MS, described=True, timeout_ms=NO_TIMEOUT_MS)).findings
    assert finding.severity is Severity.WARNING
    assert "no timeout (two-phase commit)" in finding.problem
    assert "start its application, or decide for it and abort: ottla transactions abort" in finding.advice


def test_a_transaction_that_no_coordinator_knows_is_a_warning() -> None:
    (finding,) = examined(holding(5 * MINUTE_MS, described=False)).findings
    assert finding.severity is Severity.WARNING
    assert "producer 40 began it at offset 15" in finding.problem
    assert "--partition t:0 --producer-id 40" in finding.advice


def test_a_young_transaction_is_no_finding() -> None:
    assert examined(holding(1_000, described=True)).findings == []
    assert examined(holding(1_000, described=False)).findings == []


def test_nothing_is_asked_about_partitions_that_are_read_to_their_end() -> None:
    found = ListOffsetsPartitionResponse(partition_index=0, offset=20)
    answer = ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[found])])
    broker = serving().on(ListOffsetsRequest, answer)
    assert examined(broker).findings == []
    assert broker.asked_for(transaction_admin.DescribeProducersRequest) == []
