"""Incremental fetch sessions as a client sees them (WIRE-6, KIP-227)."""

from typing import Any
from uuid import UUID

import pytest
from tests.integration.in_process import BrokerThread
from tests.integration.peer import Peer, batch, create_topic, delete_topic, fetch_request, produce, values_of

from ottla.errors import ErrorCode
from ottla.localcluster.waiting import wait_until
from ottla.protocol.apis import ApiKey
from ottla.protocol.messages.fetch import FetchRequest, ForgottenTopic

Wanted = tuple[str | UUID, int, int]
VERSION = 12


class Session:
    """What a client does: names its partitions once, then only what changed."""

    def __init__(self, peer: Peer, wants: list[Wanted], version: int = VERSION) -> None:
        self._peer = peer
        self._version = version
        self._epoch = 1
        answer = peer.ask(ApiKey.FETCH, version, fetch_request(wants, session_epoch=0))
        assert answer.error_code == 0
        self.session_id: int = answer.session_id
        self.first = answered(answer)

    def request(self, wants: list[Wanted] | None = None, **options: Any) -> FetchRequest:
        request = fetch_request(wants or [], session_id=self.session_id, session_epoch=self._epoch, **options)
        self._epoch += 1
        return request

    def go_on(self, wants: list[Wanted] | None = None, **options: Any) -> dict[int, list[bytes | None]]:
        """The next fetch: the partitions that are answered, and their values."""
        answer = self._peer.ask(ApiKey.FETCH, self._version, self.request(wants, **options))
        assert (answer.error_code, answer.session_id) == (0, self.session_id)
        return answered(answer)

    def forget(self, topic: str | UUID, partitions: list[int]) -> dict[int, list[bytes | None]]:
        request = self.request()
        named = {"topic": topic} if isinstance(topic, str) else {"topic_id": topic}
        request.forgotten_topics_data = [ForgottenTopic(partitions=partitions, **named)]
        return answered(self._peer.ask(ApiKey.FETCH, self._version, request))


def answered(response: Any) -> dict[int, list[bytes | None]]:
    assert response.error_code == 0
    return {
        found.partition_index: values_of(found) for topic in response.responses for found in topic.partitions
    }


def test_a_new_session_answers_every_partition_and_gets_an_id(peer: Peer, topic: str) -> None:
    create_topic(peer, topic, partitions=3)
    session = Session(peer, [(topic, index, 0) for index in range(3)])
    assert session.session_id > 0
    assert session.first == {0: [], 1: [], 2: []}


def test_an_empty_request_means_all_its_partitions_and_the_answer_only_those_with_news(
    peer: Peer, topic: str
) -> None:
    create_topic(peer, topic, partitions=3)
    session = Session(peer, [(topic, index, 0) for index in range(3)])
    assert session.go_on() == {}
    produce(peer, topic, batch(b"news"), partition=1)
    assert session.go_on() == {1: [b"news"]}
    assert session.go_on() == {1: [b"news"]}, "until the client says that it went on"
    assert session.go_on([(topic, 1, 1)]) == {}
    produce(peer, topic, batch(b"more"), partition=2)
    assert session.go_on() == {2: [b"more"]}


def test_an_empty_request_waits_for_all_its_partitions(served: BrokerThread, peer: Peer, topic: str) -> None:
    create_topic(peer, topic, partitions=2)
    with Peer(served.port) as reader:
        session = Session(reader, [(topic, 0, 0), (topic, 1, 0)])
        reader.send(ApiKey.FETCH, VERSION, session.request(max_wait_ms=10_000))
        wait_until(lambda: len(served.partition(topic, 1).waiters.readers) == 1, "it waits")
        produce(peer, topic, batch(b"news"), partition=1)
        assert answered(reader.receive(ApiKey.FETCH, VERSION)[1]) == {1: [b"news"]}


def test_partitions_are_added_and_forgotten(peer: Peer, topic: str) -> None:
    create_topic(peer, topic, partitions=3)
    for index in range(3):
        produce(peer, topic, batch(b"%d" % index), partition=index)
    session = Session(peer, [(topic, 0, 0)])
    assert session.go_on([(topic, 1, 0), (topic, 2, 0)]) == {0: [b"0"], 1: [b"1"], 2: [b"2"]}
    assert session.forget(topic, [0, 2]) == {1: [b"1"]}
    assert session.go_on() == {1: [b"1"]}


def test_partitions_are_known_by_id_from_version_13_on(peer: Peer, topic: str) -> None:
    topic_id = create_topic(peer, topic, partitions=2)
    session = Session(peer, [(topic_id, 0, 0), (topic_id, 1, 0)], version=16)
    produce(peer, topic, batch(b"a"), partition=0)
    produce(peer, topic, batch(b"b"), partition=1)
    assert session.go_on() == {0: [b"a"], 1: [b"b"]}
    assert session.forget(topic_id, [0]) == {1: [b"b"]}


def test_a_wrong_epoch_or_an_unknown_session_is_refused(peer: Peer, topic: str) -> None:
    create_topic(peer, topic)
    session = Session(peer, [(topic, 0, 0)])

    def refusal(session_id: int, session_epoch: int) -> int:
        request = fetch_request([], session_id=session_id, session_epoch=session_epoch)
        answer = peer.ask(ApiKey.FETCH, VERSION, request)
        assert answer.responses == []
        code: int = answer.error_code
        return code

    assert refusal(session.session_id, 5) == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert refusal(session.session_id, 2) == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert refusal(session.session_id ^ 1, 1) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert session.go_on() == {}, "the session itself is not harmed"


def test_names_and_ids_are_not_mixed_in_one_session(peer: Peer, topic: str) -> None:
    topic_id = create_topic(peer, topic)
    session = Session(peer, [(topic, 0, 0)])
    request = fetch_request([(topic_id, 0, 0)], session_id=session.session_id, session_epoch=1)
    answer = peer.ask(ApiKey.FETCH, 13, request)
    assert answer.error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


@pytest.mark.parametrize("epoch", [-1, 0], ids=["closed", "replaced"])
def test_a_session_that_was_closed_or_replaced_is_gone(peer: Peer, topic: str, epoch: int) -> None:
    create_topic(peer, topic)
    produce(peer, topic, batch(b"v"))
    session = Session(peer, [(topic, 0, 0)])
    last = fetch_request([(topic, 0, 0)], session_id=session.session_id, session_epoch=epoch)
    answer = peer.ask(ApiKey.FETCH, VERSION, last)
    assert answered(answer) == {0: [b"v"]}
    assert (answer.session_id == 0) == (epoch == -1)
    assert answer.session_id != session.session_id
    gone = peer.ask(ApiKey.FETCH, VERSION, session.request())
    assert gone.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_session_outlives_its_connection(served: BrokerThread, peer: Peer, topic: str) -> None:
    create_topic(peer, topic)
    with Peer(served.port) as before:
        session = Session(before, [(topic, 0, 0)])
    produce(peer, topic, batch(b"v"))
    assert answered(peer.ask(ApiKey.FETCH, VERSION, session.request())) == {0: [b"v"]}


def test_an_error_is_told_again_until_it_is_over(peer: Peer, topic: str) -> None:
    create_topic(peer, topic)
    session = Session(peer, [(topic, 0, 0)])
    delete_topic(peer, topic)
    for _ in range(2):
        answer = peer.ask(ApiKey.FETCH, VERSION, session.request())
        (found,) = answer.responses[0].partitions
        assert found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    create_topic(peer, topic)
    assert session.go_on() == {0: []}, "that it is over is news"
    assert session.go_on() == {}


def test_partitions_that_were_read_go_to_the_end_of_the_line(peer: Peer, topic: str) -> None:
    create_topic(peer, topic, partitions=3)
    for index in range(3):
        produce(peer, topic, batch(bytes(1000)), partition=index)
    session = Session(peer, [(topic, index, 0) for index in range(3)])
    # Room for one batch only: each partition gets its turn.
    served_first = [
        next(index for index, values in session.go_on(max_bytes=100).items() if values) for _ in range(6)
    ]
    assert sorted(served_first[:3]) == [0, 1, 2]
    assert served_first[:3] == served_first[3:]


def test_without_a_session_everything_is_always_answered(peer: Peer, topic: str) -> None:
    create_topic(peer, topic, partitions=2)
    request = fetch_request([(topic, 0, 0), (topic, 1, 0)])
    for _ in range(2):
        answer = peer.ask(ApiKey.FETCH, VERSION, request)
        assert (answer.session_id, answered(answer)) == (0, {0: [], 1: []})
