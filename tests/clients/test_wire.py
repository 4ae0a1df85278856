"""The requests of real clients, seen by a proxy between them and the broker (WIRE-2, WIRE-6).

A range advertised too narrow makes a client fall back in silence: to an older version, to no compression, to
no fetch session. So the versions that each family uses with Apache Kafka 4.x are written down here, and must
be the ones it uses with us.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.clients.catalogue import FAMILIES, Family, families
from tests.clients.conftest import connect
from tests.clients.families.confluent_family import ConfluentClient
from tests.clients.model import AtTime, Client, Message
from tests.clients.raw import API_VERSIONS, FETCH, LIST_OFFSETS, METADATA, PRODUCE
from tests.clients.recording import RecordingProxy
from tests.conftest import start

from ottla.localcluster.broker_process import BrokerProcess, running
from ottla.localcluster.ports import HOST
from ottla.localcluster.waiting import wait_until

INIT_PRODUCER_ID = 22
APIS = (API_VERSIONS, METADATA, PRODUCE, FETCH, LIST_OFFSETS, INIT_PRODUCER_ID)
# family: the versions of those, as used with Apache Kafka 4.3.
USED: dict[str, tuple[set[int], ...]] = {
    "confluent": ({3}, {13}, {10}, {16}, {7}, {4}),
    "aiokafka": ({0}, {5}, {7}, {11}, {3}, {0}),
    "kafka-python": ({4}, {13}, {9}, {12}, {11}, {4}),
    "ottla": ({4}, {13}, {13}, {18}, {11}, {5}),
    "kcat": ({3}, {4}, {7}, {11}, {2}, {4}),
    "kafkajs": ({2}, {6}, {7}, {11}, {3}, {1}),
    "java": ({4}, {13}, {13}, {18}, {11}, {5}),
    "franz-go": ({4, 5}, {13}, {13}, {18}, {11}, {5}),  # it asks for a version that is too new first
}
WITH_SESSIONS = [family for family in FAMILIES if family.name in ("kafka-python", "ottla", "java")]


@pytest.fixture(scope="session")
def recorded(
    target: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[BrokerProcess, RecordingProxy]]:
    """A broker that advertises a recording proxy as its address."""
    proxy = RecordingProxy()
    settings = {"advertised.listeners": f"PLAINTEXT://{HOST}:{proxy.port}"}
    try:
        with running(
            start(target, tmp_path_factory.mktemp(f"recorded-{target}") / "data", settings)
        ) as process:
            proxy.forward_to(process.port)
            yield process, proxy
    finally:
        proxy.close()


@pytest.fixture
def proxy(recorded: tuple[BrokerProcess, RecordingProxy]) -> RecordingProxy:
    return recorded[1]


@pytest.fixture
def watched(family: Family, proxy: RecordingProxy) -> Iterator[Client]:
    """The family under test, seen through the proxy."""
    client = connect(family, f"{HOST}:{proxy.port}")
    yield client
    client.close()


@pytest.fixture
def writer(recorded: tuple[BrokerProcess, RecordingProxy]) -> Iterator[Client]:
    """A client that is not under test and does not disturb the record more than a producer must."""
    client = ConfluentClient(recorded[0].bootstrap)
    yield client
    client.close()


@families("idempotence")
def test_each_family_uses_the_versions_it_uses_with_the_original(
    watched: Client, family: Family, proxy: RecordingProxy, writer: Client, topic_name: str
) -> None:
    writer.create_topic(topic_name, 1)
    proxy.forget()
    watched.produce(topic_name, [Message(b"watched")], idempotent=True)
    watched.consume(topic_name, 1, start=AtTime(0))
    used = tuple(proxy.versions(api_key) for api_key in APIS)
    assert used == USED[family.name]


@pytest.mark.parametrize(
    "family",
    [pytest.param(f, id=f.name, marks=() if f.from_pypi else pytest.mark.compat) for f in WITH_SESSIONS],
)
def test_clients_that_know_fetch_sessions_get_one_and_keep_it(
    watched: Client, proxy: RecordingProxy, writer: Client, topic_name: str
) -> None:
    writer.create_topic(topic_name, 1)
    proxy.forget()
    writer.produce(topic_name, [Message(b"first")])
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(watched.consume, topic_name, 2)
        wait_until(lambda: len(proxy.fetches()) >= 4, "the consumer fetches again and again")
        writer.produce(topic_name, [Message(b"second")])
        assert [record.value for record in reading.result()] == [b"first", b"second"]
    sessions = [request.fetch_session() for request in proxy.fetches()]
    granted = {session_id for session_id, _ in sessions if session_id != 0}
    assert sessions[0] == (0, 0)
    assert len(granted) == 1
    epochs = [epoch for session_id, epoch in sessions if session_id in granted and epoch > 0]
    assert epochs == list(range(1, len(epochs) + 1))
    assert len(epochs) >= 3


@families()
def test_a_waiting_consumer_does_not_hammer_the_broker(
    watched: Client, proxy: RecordingProxy, writer: Client, topic_name: str
) -> None:
    writer.create_topic(topic_name, 1)
    proxy.forget()
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(watched.consume, topic_name, 1)
        wait_until(lambda: len(proxy.fetches()) >= 3, "the consumer waits at the end of an empty partition")
        before = len(proxy.fetches())
        with pytest.raises(TimeoutError):
            wait_until(lambda: len(proxy.fetches()) > before + 10, "more fetches than a long poll needs", 1.0)
        writer.produce(topic_name, [Message(b"at last")])
        assert reading.result()[0].value == b"at last"
