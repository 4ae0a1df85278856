"""Markers end transactions, and readers of committed records see what is committed (EOS-2)."""

from itertools import count

import pytest
from tests.integration.in_process import BrokerThread
from tests.integration.peer import (
    Peer,
    batch,
    create_topic,
    fetch,
    fetch_request,
    list_offset,
    now_ms,
    produce,
    values_of,
)
from tests.integration.transactional_peer import (
    committed_values,
    describe_producers,
    open_transaction,
    write_marker,
)

from ottla.errors import ErrorCode
from ottla.localcluster.waiting import wait_until
from ottla.protocol.apis import APIS, ApiKey

FETCH_VERSIONS = range(APIS[ApiKey.FETCH].min_version, 13)
LONG_MS = 30_000
_ids = count(9000)


@pytest.fixture
def producer_id() -> int:
    return next(_ids)


def test_aborted_records_are_named_and_committed_ones_are_not(
    served: BrokerThread, peer: Peer, topic: str, producer_id: int
) -> None:
    create_topic(peer, topic)
    open_transaction(served, topic, b"aborted", producer_id=producer_id)
    assert write_marker(peer, topic, producer_id=producer_id, transaction_result=False) == ErrorCode.NONE
    open_transaction(served, topic, b"committed", producer_id=producer_id, sequence=1)
    assert write_marker(peer, topic, producer_id=producer_id, coordinator_epoch=1) == ErrorCode.NONE
    for version in FETCH_VERSIONS:
        found = fetch(peer, topic, version=version, isolation_level=1)
        assert found.aborted_transactions is not None
        assert [(each.producer_id, each.first_offset) for each in found.aborted_transactions] == [
            (producer_id, 0)
        ]
        # The first transaction's marker ends it: the second one is not skipped.
        assert (found.high_watermark, found.last_stable_offset) == (4, 4)
    everything = fetch(peer, topic, isolation_level=0)
    assert everything.aborted_transactions is None
    assert {b"aborted", b"committed"} <= set(values_of(everything))
    # From beyond the aborted transaction on there is none to be named.
    assert fetch(peer, topic, 2, isolation_level=1).aborted_transactions == []


def test_readers_of_committed_records_are_bounded_by_the_last_stable_offset(
    served: BrokerThread, peer: Peer, topic: str, producer_id: int
) -> None:
    create_topic(peer, topic)
    produce(peer, topic, batch(b"before"))
    open_transaction(served, topic, producer_id=producer_id)
    produce(peer, topic, batch(b"behind", timestamp=now_ms() + 1000))
    held = fetch(peer, topic, isolation_level=1)
    assert (committed_values(held), held.last_stable_offset) == ([b"before"], 1)
    assert list_offset(peer, topic, -1, isolation_level=1).offset == 1
    assert list_offset(peer, topic, -1, isolation_level=0).offset == 3
    assert list_offset(peer, topic, now_ms() + 500, isolation_level=1).offset == -1
    assert write_marker(peer, topic, producer_id=producer_id) == ErrorCode.NONE
    found = fetch(peer, topic, isolation_level=1)
    assert (committed_values(found), found.last_stable_offset) == ([b"before", b"open", b"behind"], 4)
    assert list_offset(peer, topic, -1, isolation_level=1).offset == 4


def test_a_marker_wakes_readers_however_much_they_wait_for(
    served: BrokerThread, peer: Peer, topic: str, producer_id: int
) -> None:
    create_topic(peer, topic)
    open_transaction(served, topic, b"x" * 50_000, producer_id=producer_id)
    waiters = served.partition(topic).waiters
    with Peer(served.port) as reader:
        request = fetch_request((topic, 0, 0), isolation_level=1, max_wait_ms=LONG_MS, min_bytes=10_000)
        reader.send(ApiKey.FETCH, 12, request)
        wait_until(lambda: len(waiters.readers) == 1, "the fetch waits")
        assert write_marker(peer, topic, producer_id=producer_id) == ErrorCode.NONE
        _, answer = reader.receive(ApiKey.FETCH, 12)
    assert committed_values(answer.responses[0].partitions[0]) == [b"x" * 50_000]


def test_markers_are_written_once_and_fenced(
    served: BrokerThread, peer: Peer, topic: str, producer_id: int
) -> None:
    create_topic(peer, topic)
    open_transaction(served, topic, producer_id=producer_id, epoch=4)
    log = served.log(topic)

    def outcome(epoch: int, coordinator_epoch: int = 2, transaction_version: int = 0) -> ErrorCode:
        return write_marker(
            peer,
            topic,
            producer_id=producer_id,
            producer_epoch=epoch,
            coordinator_epoch=coordinator_epoch,
            transaction_version=transaction_version,
        )

    assert outcome(3) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert outcome(4, transaction_version=2) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert outcome(5, transaction_version=2) == ErrorCode.NONE
    assert outcome(5, transaction_version=2) == ErrorCode.NONE
    assert outcome(5, coordinator_epoch=1) == ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert log.log_end_offset == 2


def test_a_marker_of_an_unknown_producer_is_written(peer: Peer, topic: str, producer_id: int) -> None:
    create_topic(peer, topic)
    assert write_marker(peer, topic, version=1, producer_id=producer_id, producer_epoch=7) == ErrorCode.NONE
    found = fetch(peer, topic, isolation_level=1)
    assert (found.high_watermark, found.last_stable_offset, found.aborted_transactions) == (1, 1, [])


def test_a_partition_that_is_not_here_is_told(peer: Peer, topic: str) -> None:
    assert write_marker(peer, topic, producer_id=1) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert describe_producers(peer, topic).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_producers_are_described_with_their_open_transactions(
    served: BrokerThread, peer: Peer, topic: str, producer_id: int
) -> None:
    create_topic(peer, topic)
    produce(peer, topic, batch(b"a", b"b", producer_id=1, producer_epoch=3, base_sequence=0))
    open_transaction(served, topic, producer_id=producer_id)
    found = describe_producers(peer, topic)
    assert found.error_code == ErrorCode.NONE
    states = {each.producer_id: each for each in found.active_producers}
    first, second = states[1], states[producer_id]
    assert (first.producer_epoch, first.last_sequence, first.current_txn_start_offset) == (3, 1, -1)
    assert (second.last_sequence, second.coordinator_epoch, second.current_txn_start_offset) == (0, -1, 2)
    assert abs(first.last_timestamp - now_ms()) < LONG_MS
    # An administrator aborts what hangs with what is described.
    aborted = write_marker(
        peer, topic, producer_id=producer_id, producer_epoch=second.producer_epoch, transaction_result=False
    )
    assert aborted == ErrorCode.NONE
    assert {each.current_txn_start_offset for each in describe_producers(peer, topic).active_producers} == {
        -1
    }
