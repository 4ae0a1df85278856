"""Records of transactions: verified with the coordinator, appended in order, read when committed (EOS-1)."""

import time
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
from tests.integration.in_process import BrokerThread
from tests.integration.peer import Peer, batch, create_topic, fetch, produce, produce_request
from tests.integration.transactional_peer import committed_values, describe_producers, transactional

from ottla.errors import ErrorCode
from ottla.protocol.apis import ApiKey
from ottla.protocol.messages.coordinator import FindCoordinatorRequest
from ottla.protocol.messages.producer_ids import InitProducerIdRequest
from ottla.protocol.messages.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    EndTxnRequest,
)

ORIGINAL, ABORTABLE, IMPLICIT = 9, 11, 12
DEADLINE_S = 30.0
_names = count()


class Transactions:
    """One transactional id, over one connection: requests are repeated as clients repeat them."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self.id = f"mine-{next(_names)}"
        self.producer_id = self.epoch = -1

    def init(self) -> None:
        find = FindCoordinatorRequest(key_type=1, coordinator_keys=[self.id])
        self._ask(ApiKey.FIND_COORDINATOR, 4, find, lambda answer: int(answer.coordinators[0].error_code))
        answer = self._ask(ApiKey.INIT_PRODUCER_ID, 5, InitProducerIdRequest(self.id, 60_000))
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch

    def add(self, topic: str, *partitions: int) -> None:
        topics = [AddPartitionsToTxnTopic(topic, list(partitions or (0,)))]
        request = AddPartitionsToTxnRequest([], self.id, self.producer_id, self.epoch, topics)

        def error_of(answer: Any) -> int:
            found = answer.results_by_topic_v3_and_below[0].results_by_partition[0]
            return int(found.partition_error_code)

        self._ask(ApiKey.ADD_PARTITIONS_TO_TXN, 3, request, error_of)

    def end(self, *, commit: bool, version: int = 4) -> None:
        request = EndTxnRequest(self.id, self.producer_id, self.epoch, commit)
        answer = self._ask(ApiKey.END_TXN, version, request)
        if version >= 5:
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch

    def records(self, *values: bytes, sequence: int = 0, epoch: int | None = None) -> bytearray:
        return transactional(
            *values,
            producer_id=self.producer_id,
            epoch=self.epoch if epoch is None else epoch,
            sequence=sequence,
        )

    def produce(self, topic: str, *values: bytes, sequence: int = 0, version: int = ORIGINAL) -> ErrorCode:
        """The outcome, once it is not that the coordinator must be asked again."""
        records = self.records(*values, sequence=sequence)
        deadline = time.monotonic() + DEADLINE_S
        while True:
            answer = produce(self._peer, topic, records, version=version, transactional_id=self.id)
            error = ErrorCode(answer.error_code)
            again = (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.CONCURRENT_TRANSACTIONS)
            if error not in again or time.monotonic() > deadline:
                return error

    def _ask(
        self,
        key: ApiKey,
        version: int,
        request: object,
        error_of: Callable[[Any], int] = lambda answer: int(answer.error_code),
    ) -> Any:
        again = {
            ErrorCode.CONCURRENT_TRANSACTIONS,
            ErrorCode.NOT_COORDINATOR,
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
        }
        deadline = time.monotonic() + DEADLINE_S
        while True:
            answer = self._peer.ask(key, version, request)
            error = error_of(answer)
            if error not in again or time.monotonic() > deadline:
                assert error == ErrorCode.NONE, ErrorCode(error)
                return answer
            time.sleep(0.01)


@pytest.fixture
def mine(served: BrokerThread, peer: Peer) -> Transactions:
    mine = Transactions(peer)
    mine.init()
    return mine


def committed(peer: Peer, topic: str) -> list[bytes | None]:
    """The records that a reader of committed records gets, all of them that are stable."""
    return committed_values(fetch(peer, topic, isolation_level=1))


def until_stable(peer: Peer, topic: str) -> None:
    """Wait for the marker."""
    deadline = time.monotonic() + DEADLINE_S
    while any(
        each.current_txn_start_offset >= 0 for each in describe_producers(peer, topic).active_producers
    ):
        assert time.monotonic() < deadline, "the transaction is still open"
        time.sleep(0.005)


def test_a_partition_that_was_added_takes_records_and_gives_them_when_they_are_committed(
    peer: Peer, topic: str, mine: Transactions
) -> None:
    create_topic(peer, topic)
    mine.add(topic)
    assert mine.produce(topic, b"a", b"b") == ErrorCode.NONE
    assert mine.produce(topic, b"c", sequence=2) == ErrorCode.NONE
    assert committed(peer, topic) == []
    mine.end(commit=True)
    until_stable(peer, topic)
    assert committed(peer, topic) == [b"a", b"b", b"c"]
    mine.add(topic)
    assert mine.produce(topic, b"d", sequence=3) == ErrorCode.NONE
    mine.end(commit=False)
    until_stable(peer, topic)
    assert committed(peer, topic) == [b"a", b"b", b"c"]


@pytest.mark.parametrize(
    ("version", "error"),
    [(ORIGINAL, ErrorCode.INVALID_TXN_STATE), (ABORTABLE, ErrorCode.TRANSACTION_ABORTABLE)],
)
def test_a_partition_that_was_not_added_takes_none(
    peer: Peer, topic: str, mine: Transactions, version: int, error: ErrorCode
) -> None:
    create_topic(peer, topic, partitions=2)
    assert mine.produce(topic, b"lost", version=version) == error
    mine.add(topic, 1)
    assert mine.produce(topic, b"lost", version=version) == error
    assert committed(peer, topic) == []


def test_from_version_12_on_a_partition_joins_with_its_first_records(
    peer: Peer, topic: str, mine: Transactions
) -> None:
    create_topic(peer, topic)
    for number in range(3):
        assert mine.produce(topic, b"%d" % number, version=IMPLICIT) == ErrorCode.NONE
        mine.end(commit=number != 1, version=5)
    until_stable(peer, topic)
    assert committed(peer, topic) == [b"0", b"2"]


def test_requests_that_come_while_the_first_is_verified_are_appended_in_order(
    peer: Peer, topic: str, mine: Transactions
) -> None:
    create_topic(peer, topic)
    mine.produce(topic, b"0", version=IMPLICIT)
    mine.end(commit=True, version=5)
    until_stable(peer, topic)
    frames = b""
    for sequence in range(5):
        records = mine.records(b"%d" % sequence, sequence=sequence)
        request = produce_request(topic, records, transactional_id=mine.id)
        frames += peer.frame(ApiKey.PRODUCE, IMPLICIT, request)
    half = len(frames) // 2
    peer.socket.sendall(frames[:half])
    peer.socket.sendall(frames[half:])
    errors = []
    for _ in range(5):
        _, answer = peer.receive(ApiKey.PRODUCE, IMPLICIT)
        errors.append(answer.responses[0].partition_responses[0].error_code)
    assert errors == [ErrorCode.NONE] * 5
    mine.end(commit=True, version=5)
    until_stable(peer, topic)
    assert committed(peer, topic) == [b"0", b"0", b"1", b"2", b"3", b"4"]


def test_a_fenced_producer_writes_nothing(peer: Peer, topic: str, mine: Transactions) -> None:
    create_topic(peer, topic)
    old = mine.epoch
    mine.init()
    records = mine.records(b"zombie", epoch=old)
    answer = produce(peer, topic, records, version=IMPLICIT, transactional_id=mine.id)
    assert answer.error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert committed(peer, topic) == []


def test_records_of_no_transaction_or_of_two_are_refused(peer: Peer, topic: str, mine: Transactions) -> None:
    create_topic(peer, topic, partitions=2)
    answer = produce(peer, topic, mine.records(b"v"), version=ORIGINAL)
    assert answer.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    of_another = transactional(b"v", producer_id=mine.producer_id + 1)
    request = produce_request(topic, mine.records(b"v"), of_another, transactional_id=mine.id)
    answers = peer.ask(ApiKey.PRODUCE, IMPLICIT, request).responses[0].partition_responses
    assert {each.error_code for each in answers} == {ErrorCode.INVALID_PRODUCER_ID_MAPPING}


def test_a_producer_writes_nothing_outside_of_its_open_transaction(
    peer: Peer, topic: str, mine: Transactions
) -> None:
    create_topic(peer, topic)
    assert mine.produce(topic, b"inside", version=IMPLICIT) == ErrorCode.NONE
    outside = batch(b"outside", producer_id=mine.producer_id, producer_epoch=mine.epoch, base_sequence=1)
    answer = produce(peer, topic, outside, version=IMPLICIT, transactional_id=mine.id)
    assert answer.error_code == ErrorCode.INVALID_TXN_STATE
    mine.end(commit=False, version=5)
