"""Quotas on a running broker: answers leave at once and say for how long their connection is muted, throttled fetches
are empty, and other clients are not held up (OPS-4).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
from typing import Any

import pytest
from tests.integration.in_process import BrokerThread, broker_thread
from tests.integration.peer import Peer, batch, create_topic, fetch_request, produce, produce_request

import ottla.blocking
from ottla import NewTopic, QuotaEntity
from ottla.errors import ErrorCode
from ottla.localcluster.ports import HOST
from ottla.protocol.apis import ApiKey
from ottla.protocol.messages.client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from ottla.protocol.messages.fetch import FetchResponse
from ottla.protocol.messages.groups import HeartbeatRequest
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.protocol.messages.topics import CreatableTopic, CreateTopicsRequest, DeleteTopicsRequest

# A quota may be used for one second's worth at once.
SETTINGS = {
    "quota.window.num": "1",
    "quota.window.size.seconds": "1",
    "controller.quota.window.num": "1",
}
_names = count()


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerThread]:
    with broker_thread(tmp_path_factory.mktemp("quotas") / "data", SETTINGS) as broker:
        yield broker


@pytest.fixture
def administrator(limited: BrokerThread) -> Iterator[Peer]:
    with Peer(limited.port) as peer:
        yield peer


@pytest.fixture
def topic(administrator: Peer) -> str:
    name = f"limited-{next(_names)}"
    create_topic(administrator, name)
    return name


@pytest.fixture
def client(limited: BrokerThread) -> Iterator[Client]:
    with Peer(limited.port) as peer:
        yield Client(peer)


class Client:
    """A connection under a client id of its own, which nobody else uses up the quota of."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.client_id = f"client-{next(_names)}"

    def frame(self, key: ApiKey, version: int, request: object) -> bytes:
        return self.peer.frame(key, version, request, client_id=self.client_id)

    def ask(self, key: ApiKey, version: int, request: object) -> Any:
        self.peer.socket.sendall(self.frame(key, version, request))
        return self.peer.receive(key, version)[1]

    def produce(self, topic: str, size_bytes: int, acks: int = 1) -> int:
        """The throttle time of a request with about so many bytes of records."""
        request = produce_request(topic, batch(bytes(size_bytes)), acks=acks)
        answer = self.ask(ApiKey.PRODUCE, 9, request)
        assert not answer.responses[0].partition_responses[0].error_code
        return int(answer.throttle_time_ms)

    def fetch(self, topic: str, offset: int = 0) -> FetchResponse:
        answer: FetchResponse = self.ask(ApiKey.FETCH, 12, fetch_request((topic, 0, offset)))
        return answer


def limit(administrator: Peer, entity: dict[str, str | None], **rates: float | None) -> None:
    """Set quotas, or remove those that are None."""
    changes = [OpData(key, rate or 0.0, remove=rate is None) for key, rate in rates.items()]
    entry = EntryData([EntityData(kind, name) for kind, name in entity.items()], changes)
    (result,) = administrator.ask(ApiKey.ALTER_CLIENT_QUOTAS, 1, AlterClientQuotasRequest([entry])).entries
    assert not result.error_code, result.error_message


@pytest.mark.parametrize("acks", [1, -1])
def test_a_producer_beyond_its_quota_is_answered_at_once_and_then_muted(
    administrator: Peer, client: Client, topic: str, acks: int
) -> None:
    limit(administrator, {"client-id": client.client_id}, producer_byte_rate=100_000)
    began = time.monotonic()
    throttle_ms = client.produce(topic, 130_000, acks)
    assert 290 <= throttle_ms <= 310
    # Whoever has no quota is served meanwhile, and on the same partition.
    assert not produce(administrator, topic, batch(bytes(200_000))).error_code
    client.ask(ApiKey.METADATA, 9, MetadataRequest([]))
    assert time.monotonic() - began >= throttle_ms / 1000


def test_recognised_requests_count_as_decoded_ones_do(
    administrator: Peer, client: Client, topic: str
) -> None:
    # Learnt while there is no quota, and recognised since.
    assert [client.produce(topic, 1000) for _ in range(3)] == [0, 0, 0]
    limit(administrator, {"client-id": client.client_id}, producer_byte_rate=100)
    assert client.produce(topic, 1000) > 9000


def test_a_fetch_beyond_its_quota_is_empty_and_the_records_come_later(
    administrator: Peer, client: Client, topic: str
) -> None:
    for _ in range(4):
        assert not produce(administrator, topic, batch(bytes(5000))).error_code
    limit(administrator, {"client-id": client.client_id}, consumer_byte_rate=12_000)
    began, offset, read_bytes = time.monotonic(), 0, 0
    while offset < 4:
        answer = client.fetch(topic, offset)
        if answer.throttle_time_ms:
            assert answer.responses == []
            continue
        (found,) = answer.responses[0].partitions
        assert found.records
        # No more than the quota allows at once.
        assert len(found.records) <= 12_000
        read_bytes += len(found.records)
        offset += len(found.records) // 5000
    assert time.monotonic() - began >= (read_bytes - 12_000) / 12_000


def test_a_batch_larger_than_the_quota_is_read_all_the_same(
    administrator: Peer, client: Client, topic: str
) -> None:
    for _ in range(2):
        assert not produce(administrator, topic, batch(bytes(20_000))).error_code
    limit(administrator, {"client-id": client.client_id}, consumer_byte_rate=200)
    first = client.fetch(topic)
    assert (first.throttle_time_ms, bool(first.responses[0].partitions[0].records)) == (0, True)
    second = client.fetch(topic, 1)
    assert second.throttle_time_ms > 30_000
    assert second.responses == []


def test_a_throttled_fetch_keeps_its_session(administrator: Peer, client: Client, topic: str) -> None:
    opened = client.ask(ApiKey.FETCH, 12, fetch_request((topic, 0, 0), session_epoch=0))
    assert opened.session_id
    for _ in range(2):
        assert not produce(administrator, topic, batch(bytes(20_000))).error_code
    limit(administrator, {"client-id": client.client_id}, consumer_byte_rate=20_500)

    def fetch(epoch: int, offset: int) -> FetchResponse:
        request = fetch_request((topic, 0, offset), session_id=opened.session_id, session_epoch=epoch)
        answer: FetchResponse = client.ask(ApiKey.FETCH, 12, request)
        assert (answer.error_code, answer.session_id) == (0, opened.session_id)
        return answer

    epoch, offset = 1, 0
    while offset < 2:
        answer = fetch(epoch, offset)
        epoch += 1
        offset += bool(answer.responses)


def test_a_quota_of_a_user_is_shared_and_goes_when_it_is_removed(
    administrator: Peer, client: Client, limited: BrokerThread, topic: str
) -> None:
    everybody: dict[str, str | None] = {"user": "ANONYMOUS"}
    limit(administrator, everybody, producer_byte_rate=1000)
    try:
        assert client.produce(topic, 800) == 0
        with Peer(limited.port) as peer:
            # Another client id of the same user: the first one has used most of the quota.
            assert Client(peer).produce(topic, 100_000) > 90_000
    finally:
        limit(administrator, everybody, producer_byte_rate=None)
    with Peer(limited.port) as peer:
        assert Client(peer).produce(topic, 100_000) == 0


def test_a_client_that_takes_too_much_time_is_throttled_and_nobody_else_is(
    administrator: Peer, client: Client, limited: BrokerThread, topic: str
) -> None:
    limit(administrator, {"client-id": client.client_id}, request_percentage=0.01)
    # A tenth of a millisecond is free, about as much as a request takes.
    question = (ApiKey.METADATA, 9, MetadataRequest(None))
    for _ in range(1000):
        began_s = time.monotonic()
        if throttle_ms := client.ask(*question).throttle_time_ms:
            break
    assert 0 < throttle_ms <= 1000, "at most a window"
    client.peer.socket.sendall(client.frame(*question))
    others = [administrator.ask(*question) for _ in range(20)]
    assert {each.throttle_time_ms for each in others} == {0}
    client.peer.receive(*question[:2])
    # The broker counts in whole milliseconds, at both ends.
    assert (time.monotonic() - began_s) * 1000 >= throttle_ms - 2, "its next request waits"
    # The connection is muted, and not the loop: the quota gone, a new connection is served at once.
    limit(administrator, {"client-id": client.client_id}, request_percentage=None)
    with Peer(limited.port) as again:
        again.socket.sendall(client.frame(*question))
        assert again.receive(*question[:2])[1].throttle_time_ms == 0


@pytest.mark.parametrize("what", ["produce", "fetch", "heartbeat", "waits"])
def test_every_kind_of_request_takes_time(administrator: Peer, client: Client, topic: str, what: str) -> None:
    limit(administrator, {"client-id": client.client_id}, request_percentage=0.05)
    asks: dict[str, Callable[[], int]] = {
        "produce": lambda: client.produce(topic, 10),
        "fetch": lambda: client.fetch(topic).throttle_time_ms,
        "heartbeat": lambda: client.ask(ApiKey.HEARTBEAT, 4, HeartbeatRequest("none")).throttle_time_ms,
        "waits": lambda: client.ask(ApiKey.CREATE_TOPICS, 5, CreateTopicsRequest()).throttle_time_ms,
    }
    assert any(asks[what]() for _ in range(1000))
    limit(administrator, {"client-id": client.client_id}, request_percentage=None)


def creation(*names: str, partitions: int = 2) -> CreateTopicsRequest:
    return CreateTopicsRequest([CreatableTopic(name, partitions, 1) for name in names])


def test_a_client_that_knows_the_error_is_refused_beyond_its_quota_of_partitions(
    administrator: Peer, client: Client
) -> None:
    limit(administrator, {"client-id": client.client_id}, controller_mutation_rate=1)
    first, second = (f"{client.client_id}-{number}" for number in range(2))
    answer = client.ask(ApiKey.CREATE_TOPICS, 7, creation(first, second))
    assert [each.error_code for each in answer.topics] == [0, ErrorCode.THROTTLING_QUOTA_EXCEEDED]
    assert 0 < answer.throttle_time_ms <= 1001
    assert "used up: try again in" in answer.topics[1].error_message
    # Muted until the debt is paid: the next request finds it so.
    answer = client.ask(ApiKey.CREATE_TOPICS, 7, creation(second))
    assert (answer.topics[0].error_code, answer.throttle_time_ms) == (0, 0)


def test_a_client_that_does_not_know_the_error_is_throttled_and_served(
    administrator: Peer, client: Client
) -> None:
    limit(administrator, {"client-id": client.client_id}, controller_mutation_rate=10)
    first, second = (f"{client.client_id}-{number}" for number in range(2))
    began = time.monotonic()
    answer = client.ask(ApiKey.CREATE_TOPICS, 5, creation(first, second, partitions=6))
    assert [each.error_code for each in answer.topics] == [0, 0]
    assert 0 < answer.throttle_time_ms <= 201
    deletion = DeleteTopicsRequest(topic_names=[first])
    answer = client.ask(ApiKey.DELETE_TOPICS, 4, deletion)
    elapsed_ms = (time.monotonic() - began) * 1000
    assert elapsed_ms >= 150
    assert [each.error_code for each in answer.responses] == [0]
    # 18 partitions were changed, and 10 are free at once; the others are paid for by the time that has passed.
    assert 800 - elapsed_ms <= answer.throttle_time_ms <= 601


def test_topics_are_created_by_our_own_client_however_small_its_quota(limited: BrokerThread) -> None:
    names = [f"own-{number}" for number in range(3)]
    with ottla.blocking.Admin(f"localhost:{limited.port}", client_id="own") as admin:
        own = QuotaEntity(client_id="own")
        assert admin.alter_quotas({own: {"controller_mutation_rate": 2.0}}) == {own: None}
        outcomes = admin.create_topics([NewTopic(name, partitions=2) for name in names])
        assert [getattr(each, "partitions", each) for each in outcomes.values()] == [2, 2, 2]
        assert admin.alter_quotas({own: {"controller_mutation_rate": None}}) == {own: None}


def test_a_muted_connection_can_be_closed_and_the_broker_stops_at_once(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with (
        broker_thread(tmp_path_factory.mktemp("muted") / "data", SETTINGS) as broker,
        Peer(broker.port) as administrator,
        Peer(broker.port) as left,
        Peer(broker.port) as kept,
    ):
        create_topic(administrator, "muted")
        limit(administrator, {"client-id": None}, producer_byte_rate=10)
        for peer in (left, kept):
            assert Client(peer).produce("muted", 50_000) > 1_000_000
        left.socket.close()
        began = time.monotonic()
        broker.stop()
        assert time.monotonic() - began < 20


def test_a_quota_survives_a_restart(tmp_path_factory: pytest.TempPathFactory) -> None:
    data = tmp_path_factory.mktemp("restarted") / "data"
    with broker_thread(data, SETTINGS) as broker, Peer(broker.port) as administrator:
        create_topic(administrator, "kept")
        limit(administrator, {"user": None}, producer_byte_rate=10)
    with broker_thread(data, SETTINGS) as broker, Peer(broker.port) as peer:
        assert Client(peer).produce("kept", 50_000) > 1_000_000


def test_an_address_that_connects_too_often_is_closed_later_and_others_are_served(
    tmp_path_factory: pytest.TempPathFactory, caplog: pytest.LogCaptureFixture
) -> None:
    settings = {"listeners": f"PLAINTEXT://{HOST}:0"}
    with (
        broker_thread(tmp_path_factory.mktemp("rates") / "data", {**SETTINGS, **settings}) as broker,
        Peer(broker.port) as administrator,
    ):
        limit(administrator, {"ip": HOST}, connection_creation_rate=2)
        with ExitStack() as stack:
            peers = [stack.enter_context(Peer(broker.port)) for _ in range(20)]
            for peer in peers:
                peer.send(ApiKey.METADATA, 9, MetadataRequest([]))
            served = [peer for peer in peers if not peer.is_closed()]
        assert 2 <= len(served) <= 6
        assert administrator.ask(ApiKey.METADATA, 9, MetadataRequest([])).brokers
        assert caplog.text.count("connection_creation_rate") == 1, "one line for all of them"
        assert broker.call(lambda: broker.broker.listeners.traffic.refused_connections) >= 14
        limit(administrator, {"ip": HOST}, connection_creation_rate=None)
        with Peer(broker.port) as peer:
            assert peer.ask(ApiKey.METADATA, 9, MetadataRequest([])).brokers


@pytest.mark.parametrize(
    "name", ["max.connection.creation.rate", "listener.name.plaintext.max.connection.creation.rate"]
)
def test_connections_beyond_the_rate_of_the_broker_wait_and_are_served(
    tmp_path_factory: pytest.TempPathFactory, name: str
) -> None:
    with (
        broker_thread(tmp_path_factory.mktemp("rate") / "data", {**SETTINGS, name: "10"}) as broker,
        ExitStack() as stack,
    ):
        began = time.monotonic()
        for _ in range(16):
            peer = stack.enter_context(Peer(broker.port))
            assert peer.ask(ApiKey.METADATA, 9, MetadataRequest([])).brokers
        assert time.monotonic() - began >= 0.4


def test_a_listener_has_a_limit_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> None:
    settings = {
        "listeners": f"ONE://{HOST}:0,TWO://{HOST}:0",
        "listener.security.protocol.map": "ONE:PLAINTEXT,TWO:PLAINTEXT",
        "listener.name.two.max.connections": "1",
    }
    with (
        broker_thread(tmp_path_factory.mktemp("listener") / "data", settings) as broker,
        ExitStack() as stack,
    ):
        two = broker.call(lambda: broker.broker.listeners.port_of("TWO"))
        first, refused = (stack.enter_context(Peer(two)) for _ in range(2))
        assert first.ask(ApiKey.METADATA, 9, MetadataRequest([])).brokers
        assert refused.is_closed()
        for _ in range(3):
            assert stack.enter_context(Peer(broker.port)).ask(ApiKey.METADATA, 9, MetadataRequest([])).brokers
