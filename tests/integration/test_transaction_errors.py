"""Bad input of transactions gets Kafka's error, and nothing is lost (EOS-1, WIRE-2).

The same table is asked of Ottla and, under `make compat`, of Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any, Final, NamedTuple

import pytest
from tests.conftest import start
from tests.integration.peer import Peer, batch, fetch, produce_request
from tests.integration.transactional_peer import committed_values, marker_request, transactional

from ottla import succeeded
from ottla.blocking import Admin
from ottla.client.requests.topics import NewTopic
from ottla.errors import ErrorCode
from ottla.localcluster.broker_process import running
from ottla.localcluster.waiting import wait_until
from ottla.protocol.apis import ApiKey
from ottla.protocol.messages.coordinator import FindCoordinatorRequest
from ottla.protocol.messages.produce import ProduceRequest
from ottla.protocol.messages.producer_ids import InitProducerIdRequest
from ottla.protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    EndTxnRequest,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

# Answers after which a client asks again by itself.
PASSING: Final = {
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
}
SMALL: Final = {"transaction.state.log.num.partitions": "2", "offsets.topic.num.partitions": "2"}
OLD, NEW = 4, 5  # EndTxn without, and with an epoch for each transaction
_numbers = count(1)


class Identity(NamedTuple):
    producer_id: int
    epoch: int


class Wire:
    """One connection; every answer is the first error that does not pass by itself."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer

    def ask(self, key: ApiKey, version: int, request: object, read: Callable[[Any], int]) -> ErrorCode:
        found: list[ErrorCode] = []

        def is_answered() -> bool:
            found.append(ErrorCode(read(self.peer.ask(key, version, request))))
            return found[-1] not in PASSING

        wait_until(is_answered, f"{key.name} is answered")
        return found[-1]

    def find(self, transactional_id: str, key_type: int = 1) -> None:
        request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[transactional_id])
        self.ask(ApiKey.FIND_COORDINATOR, 4, request, lambda answer: answer.coordinators[0].error_code)

    def init(
        self, transactional_id: str, *identity: int, timeout_ms: int = 60_000, version: int = 5
    ) -> tuple[ErrorCode, Identity]:
        answers: list[Any] = []

        def read(answer: Any) -> int:
            answers.append(answer)
            return int(answer.error_code)

        producer_id, epoch = identity or (-1, -1)
        request = InitProducerIdRequest(transactional_id, timeout_ms, producer_id, epoch)
        code = self.ask(ApiKey.INIT_PRODUCER_ID, version, request, read)
        return code, Identity(answers[-1].producer_id, answers[-1].producer_epoch)

    def add(self, transactional_id: str, who: Identity, topic: str, partition: int = 0) -> ErrorCode:
        request = AddPartitionsToTxnRequest(
            [], transactional_id, *who, [AddPartitionsToTxnTopic(topic, [partition])]
        )
        return self.ask(
            ApiKey.ADD_PARTITIONS_TO_TXN,
            3,
            request,
            lambda answer: (
                answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
            ),
        )

    def add_offsets(self, transactional_id: str, who: Identity, group: str) -> ErrorCode:
        request = AddOffsetsToTxnRequest(transactional_id, *who, group)
        return self.ask(ApiKey.ADD_OFFSETS_TO_TXN, 3, request, lambda answer: answer.error_code)

    def commit_offset(
        self, transactional_id: str, who: Identity, group: str, topic: str, version: int
    ) -> ErrorCode:
        partitions = [TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1)]
        request = TxnOffsetCommitRequest(
            transactional_id=transactional_id,
            group_id=group,
            producer_id=who.producer_id,
            producer_epoch=who.epoch,
            topics=[TxnOffsetCommitRequestTopic(topic, partitions)],
        )
        return self.ask(
            ApiKey.TXN_OFFSET_COMMIT,
            version,
            request,
            lambda answer: answer.topics[0].partitions[0].error_code,
        )

    def end(self, transactional_id: str, who: Identity, *, commit: bool, version: int = NEW) -> ErrorCode:
        request = EndTxnRequest(transactional_id, *who, commit)
        return self.ask(ApiKey.END_TXN, version, request, lambda answer: answer.error_code)

    def write(
        self,
        topic: str,
        who: Identity,
        transactional_id: str | None,
        *,
        version: int = 12,
        value: bytes = b"v",
    ) -> ErrorCode:
        records = transactional(value, producer_id=who.producer_id, epoch=who.epoch)
        return self.produce(produce_request(topic, records, transactional_id=transactional_id), version)

    def produce(self, request: ProduceRequest, version: int = 9) -> ErrorCode:
        return self.ask(
            ApiKey.PRODUCE,
            version,
            request,
            lambda answer: answer.responses[0].partition_responses[0].error_code,
        )

    def mark(self, topic: str, **fields: Any) -> ErrorCode:
        return self.ask(
            ApiKey.WRITE_TXN_MARKERS,
            1,
            marker_request(topic, **fields),
            lambda answer: answer.markers[0].topics[0].partitions[0].error_code,
        )


class Place(NamedTuple):
    """A producer that has begun, and a topic of its own."""

    wire: Wire
    id: str
    who: Identity
    topic: str


@pytest.fixture(scope="module")
def port(target: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with running(start(target, tmp_path_factory.mktemp("errors") / "data", SMALL)) as process:
        yield process.port


@pytest.fixture
def place(port: int) -> Iterator[Place]:
    name = f"errors-{next(_numbers)}"
    with Admin(f"localhost:{port}") as admin:
        succeeded(admin.create_topics([NewTopic(name, 1, 1)]))
    with Peer(port) as peer:
        wire = Wire(peer)
        wire.find(name)
        code, who = wire.init(name)
        assert code is ErrorCode.NONE
        yield Place(wire, name, who, name)


def committed(place: Place) -> list[bytes | None]:
    return committed_values(fetch(place.wire.peer, place.topic, isolation_level=1))


NONE, FENCED, OLD_FENCED = ErrorCode.NONE, ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH
INVALID, NOT_OPEN, UNKNOWN_ID = (
    ErrorCode.INVALID_REQUEST,
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
)
ABORTABLE = ErrorCode.TRANSACTION_ABORTABLE
NO_TOPIC, NO_TIMEOUT = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TRANSACTION_TIMEOUT


def test_ids_timeouts_and_halves_of_identities_are_refused(place: Place) -> None:
    wire, name, who, topic = place
    assert wire.init("")[0] == INVALID
    assert [wire.init(name, timeout_ms=each)[0] for each in (-1, 0, 900_001, 2**31 - 1)] == [NO_TIMEOUT] * 4
    assert [wire.init(name, *half)[0] for half in ((5, -1), (-1, 5))] == [INVALID] * 2
    assert wire.add("", who, topic) == INVALID
    assert [wire.end("", who, commit=True, version=each) for each in (OLD, NEW)] == [INVALID] * 2
    assert wire.init("x" * 30_000)[0] == NONE
    assert wire.add(name, who, topic) == NONE  # none of it has changed anything


def test_identities_that_nobody_was_given_change_nothing(place: Place) -> None:
    """Epochs from the future, producer ids of others, an id that nobody has begun with."""
    wire, name, who, topic = place
    future, other = Identity(who.producer_id, who.epoch + 5), Identity(who.producer_id + 999, who.epoch)
    for strange in (future, other):
        answers = [wire.init(name, *strange, version=each)[0] for each in (3, 4, 5)]
        assert answers == [OLD_FENCED, FENCED, FENCED]
    assert wire.add(name, who, topic) == NONE
    assert wire.write(topic, who, name, version=11) == NONE
    for strange, error, old_error in ((future, FENCED, OLD_FENCED), (other, UNKNOWN_ID, UNKNOWN_ID)):
        assert wire.add(name, strange, topic) == error
        assert wire.add_offsets(name, strange, "group") == error
        ends = [wire.end(name, strange, commit=True, version=each) for each in (1, OLD, NEW)]
        assert ends == [old_error, error, error]
    assert wire.add("unknown", who, topic) == UNKNOWN_ID
    assert wire.end("unknown", who, commit=True) == UNKNOWN_ID
    assert wire.end(name, who, commit=True) == NONE
    wait_until(lambda: committed(place) == [b"v"], "the transaction is committed as it was")


def test_what_is_not_part_of_a_transaction_is_refused(place: Place) -> None:
    wire, name, who, topic = place
    assert [wire.add(name, who, *where) for where in (("nowhere", 0), (topic, 7))] == [NO_TOPIC] * 2
    assert [wire.write(topic, who, name, version=each) for each in (9, 11)] == [NOT_OPEN, ABORTABLE]
    wire.find("group", 0)
    offsets = [wire.commit_offset(name, who, "group", topic, version) for version in (3, 4)]
    assert offsets == [NOT_OPEN, ABORTABLE]
    assert wire.write(topic, who, None) == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert committed(place) == []


def test_markers_of_unknown_producers_are_written_and_older_ones_refused(place: Place) -> None:
    mark, topic = place.wire.mark, place.topic
    assert mark(topic, producer_id=777, producer_epoch=3, coordinator_epoch=4) == NONE
    assert (
        mark(topic, producer_id=777, producer_epoch=3, coordinator_epoch=1)
        == ErrorCode.TRANSACTION_COORDINATOR_FENCED
    )
    assert mark(topic, producer_id=777, producer_epoch=1, coordinator_epoch=4) == OLD_FENCED
    assert mark("nowhere", producer_id=777) == NO_TOPIC
    assert place.wire.produce(produce_request(topic, batch(b"plain"))) == NONE
    wait_until(lambda: committed(place) == [b"plain"], "what follows is read")


def test_ended_transactions_are_ended_again_in_the_same_way_only(place: Place) -> None:
    wire, name, who, topic = place
    nothing = [(True, OLD), (False, OLD), (True, NEW)]
    ends = [wire.end(name, who, commit=commit, version=version) for commit, version in nothing]
    assert ends == [NOT_OPEN] * 3
    assert wire.add(name, who, topic) == NONE
    assert wire.write(topic, who, name, version=11, value=b"old") == NONE
    assert [wire.end(name, who, commit=each, version=OLD) for each in (True, True, False)] == [
        NONE,
        NONE,
        NOT_OPEN,
    ]
    _, third = wire.init(name)
    assert wire.write(topic, third, name, value=b"new") == NONE
    assert [wire.end(name, third, commit=each) for each in (True, True, False)] == [NONE, NONE, NOT_OPEN]
    following = Identity(third.producer_id, third.epoch + 1)
    assert wire.end(name, following, commit=True) == NOT_OPEN
    assert wire.write(topic, third, name, value=b"late") == OLD_FENCED
    wait_until(lambda: committed(place) == [b"old", b"new"], "both are committed, and nothing else")


def test_a_second_producer_with_the_same_id_fences_the_first(place: Place) -> None:
    wire, name, first, topic = place
    assert wire.write(topic, first, name, value=b"of the first") == NONE
    _, second = wire.init(name)
    assert second.producer_id == first.producer_id
    assert second.epoch > first.epoch
    assert wire.add(name, first, topic) == FENCED
    assert [wire.write(topic, first, name, version=each) for each in (11, 12)] == [OLD_FENCED] * 2
    assert [wire.end(name, first, commit=True, version=each) for each in (1, OLD, NEW)] == [
        OLD_FENCED,
        FENCED,
        FENCED,
    ]
    assert wire.init(name, *first)[0] == FENCED
    assert wire.write(topic, second, name, value=b"of the second") == NONE
    assert wire.end(name, second, commit=True) == NONE
    wait_until(lambda: committed(place) == [b"of the second"], "only the second is committed")
