"""The blocking driver against real brokers: connections that are kept, replaced and used ahead of time."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import ottla.testing
from ottla.client.cluster.machine.conversation import Ask, Pause, Steps, asked, refreshed
from ottla.client.cluster.machine.topic_inquiries import describe_topics
from ottla.client.requests.metadata import metadata_request
from ottla.client.sync.blocking_brokers import BlockingBrokers
from ottla.errors import ErrorCode, KafkaError
from ottla.model import Address, parse_address
from ottla.wire.failures import CannotConnectError, ConnectionLostError


def brokers_at(*addresses: Address, timeout_ms: int = 10_000) -> BlockingBrokers:
    return BlockingBrokers(addresses, client_id="blocking", timeout_ms=timeout_ms)


@contextmanager
def opened(broker: ottla.testing.EmbeddedBroker) -> Iterator[BlockingBrokers]:
    brokers = brokers_at(parse_address(broker.bootstrap))
    try:
        brokers.converse(refreshed(brokers.known, []))
        yield brokers
    finally:
        brokers.close()


@contextmanager
def silent_peer() -> Iterator[Address]:
    """A peer that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield Address("127.0.0.1", listener.getsockname()[1])


@contextmanager
def hanging_up_peer() -> Iterator[Address]:
    """A peer that closes every connection as soon as a request came."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                accepted, _ = listener.accept()
            except OSError:
                return
            with accepted:
                accepted.recv(4096)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield Address("127.0.0.1", listener.getsockname()[1])
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(10)


def question(topic: str = "orders", node_id: int | None = 0) -> Ask:
    return Ask(node_id, metadata_request([topic]))


def names(response: object) -> list[str]:
    return [topic.name for topic in response.topics]  # type: ignore[attr-defined]


def node_of(brokers: BlockingBrokers, broker: ottla.testing.EmbeddedBroker) -> int:
    return brokers.known.node_of(parse_address(broker.bootstrap))


def test_a_request_that_was_sent_ahead_is_answered_when_the_steps_ask_for_it() -> None:
    with ottla.testing.broker() as broker, opened(broker) as brokers:
        broker.create_topic("orders", 1)
        broker.create_topic("other", 1)
        ahead = question("orders", node_of(brokers, broker))
        brokers.begin(ahead)
        assert names(brokers.converse(asked(ahead))) == ["orders"]
        # The answer is given out once: the same question is sent again.
        assert names(brokers.converse(asked(ahead))) == ["orders"]


def test_another_question_than_the_one_that_was_sent_ahead_gets_its_own_answer() -> None:
    with ottla.testing.broker() as broker, opened(broker) as brokers:
        broker.create_topic("orders", 1)
        broker.create_topic("other", 1)
        node_id = node_of(brokers, broker)
        brokers.begin(question("orders", node_id))
        assert names(brokers.converse(asked(question("other", node_id)))) == ["other"]
        assert names(brokers.converse(asked(question("orders", node_id)))) == ["orders"]


def test_an_abandoned_request_is_sent_again_on_a_new_connection() -> None:
    with ottla.testing.broker() as broker, opened(broker) as brokers:
        broker.create_topic("orders", 1)
        ahead = question("orders", node_of(brokers, broker))
        brokers.begin(ahead)
        brokers.abandon()
        brokers.abandon()
        assert names(brokers.converse(asked(ahead))) == ["orders"]


def test_a_request_that_cannot_be_sent_ahead_fails_when_the_steps_ask_for_it() -> None:
    with ottla.testing.broker() as broker, opened(broker) as brokers:
        node_id = node_of(brokers, broker)
        brokers.begin(question("orders", node_id + 1))  # no such broker is known
        broker.stop()
        ahead = question("orders", node_id)
        brokers.begin(ahead)
        with pytest.raises(ConnectionError):
            brokers.converse(asked(ahead))


def test_a_broker_that_the_cluster_does_not_have_is_named() -> None:
    with ottla.testing.broker() as broker, opened(broker) as brokers:
        with pytest.raises(KafkaError, match="no broker 77") as raised:
            brokers.converse(asked(question("orders", 77)))
        assert raised.value.code is ErrorCode.BROKER_NOT_AVAILABLE


def test_where_any_broker_will_do_the_next_address_is_tried() -> None:
    with ottla.testing.broker() as broker:
        broker.create_topic("orders", 1)
        brokers = brokers_at(Address("127.0.0.1", 1), parse_address(broker.bootstrap))
        assert names(brokers.converse(asked(question("orders", None)))) == ["orders"]
        brokers.close()


def test_a_peer_that_accepts_and_is_silent_could_not_be_connected_to() -> None:
    with silent_peer() as address, pytest.raises(CannotConnectError):
        brokers_at(address, timeout_ms=200).converse(asked(question("orders", None)))


def test_a_peer_that_hangs_up_could_not_be_connected_to() -> None:
    with hanging_up_peer() as address:
        with pytest.raises(CannotConnectError) as raised:
            brokers_at(address).converse(asked(question("orders", None)))
        assert not isinstance(raised.value, ConnectionLostError)


def test_steps_hear_of_failures_and_may_go_on() -> None:
    def steps() -> Steps[str]:
        try:
            yield question("orders", None)
        except ConnectionError:
            yield Pause(1)
            return "went on"
        return "was answered"

    assert brokers_at(Address("127.0.0.1", 1)).converse(steps()) == "went on"


def test_an_inquiry_is_settled_and_a_cluster_that_never_answered_is_not_waited_for() -> None:
    with ottla.testing.broker() as broker, opened(broker) as brokers:
        broker.create_topic("orders", 3)
        found = brokers.settle(describe_topics(brokers.known, ["orders", "missing"]))
        assert isinstance(found["missing"], KafkaError)
        assert not isinstance(found["orders"], KafkaError)
        assert len(found["orders"].partitions) == 3
    never = brokers_at(Address("127.0.0.1", 1), timeout_ms=600_000)
    with pytest.raises(CannotConnectError):
        never.settle(describe_topics(never.known, ["orders"]))


def test_brokers_that_do_not_announce_a_feature_are_named() -> None:
    with ottla.testing.broker() as broker, opened(broker) as brokers:
        assert brokers.lacking("ottla.group.commit") == []
        assert brokers.lacking("mind.reading") == [parse_address(broker.bootstrap)]
