"""A connection without an event loop, against a real broker and against peers that talk nonsense."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

import ottla.testing
from ottla.client.requests.metadata import metadata_request
from ottla.client.sync.blocking_connection import BlockingConnection
from ottla.errors import ErrorCode, KafkaError
from ottla.model import Address, parse_address
from ottla.protocol.apis import ApiKey
from ottla.wire.connection import CannotConnectError
from ottla.wire.stream import ConnectionLostError


def connected(address: Address, timeout_ms: int = 10_000) -> BlockingConnection:
    return BlockingConnection(address, client_id="raw", timeout_ms=timeout_ms, connect_timeout_ms=timeout_ms)


@contextmanager
def peer_that_answers(answer: bytes) -> Iterator[Address]:
    """Somebody who takes one request, sends these bytes, and hangs up."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        accepted, _ = listener.accept()
        with accepted, suppress(OSError):  # who talks nonsense is left in the middle of it
            accepted.recv(4096)
            accepted.sendall(answer)
            accepted.shutdown(socket.SHUT_WR)
            while accepted.recv(4096):
                pass

    thread = threading.Thread(target=serve)
    thread.start()
    with listener:
        yield Address("127.0.0.1", listener.getsockname()[1])
        thread.join(10)


def test_questions_are_answered_one_after_the_other() -> None:
    with ottla.testing.broker() as broker:
        broker.create_topic("orders", 3)
        connection = connected(parse_address(broker.bootstrap))
        for _ in range(3):
            answer = connection.ask(metadata_request(["orders"]))
            assert [len(topic.partitions) for topic in answer.topics] == [3]
        connection.begin(metadata_request(["orders"]))
        assert not connection.is_idle
        assert connection.finish().topics[0].name == "orders"
        assert connection.is_idle
        connection.close()
        assert not connection.is_open


def test_a_version_that_nobody_speaks_is_said_so() -> None:
    with ottla.testing.broker() as broker:
        connection = connected(parse_address(broker.bootstrap))
        assert connection.common_version(ApiKey.FETCH, at_most=12) == 12
        with pytest.raises(KafkaError) as raised:
            connection.common_version(ApiKey.FETCH, at_most=1)
        assert raised.value.code == ErrorCode.UNSUPPORTED_VERSION
        connection.close()


def test_a_broker_that_goes_is_a_lost_connection() -> None:
    with ottla.testing.broker() as broker:
        connection = connected(parse_address(broker.bootstrap))
    with pytest.raises(ConnectionLostError, match="was lost"):
        connection.ask(metadata_request([]))
    assert not connection.is_open


def test_nobody_there_is_said_so() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(CannotConnectError, match=f"could not reach 127.0.0.1:{port}: connection refused"):
        connected(Address("127.0.0.1", port))


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"", "it hung up"),
        (struct.pack(">i", 100) + b"short", "it hung up"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "it announced a frame of 1213486160 bytes"),
        (struct.pack(">ii", 4, 1), "API_VERSIONS v4 cannot be decoded"),
        (struct.pack(">iihbib", 12, 99, 0, 1, 0, 0), "an answer to question 99, not 1"),
    ],
)
def test_nonsense_ends_the_connection(answer: bytes, words: str) -> None:
    with peer_that_answers(answer) as address, pytest.raises(ConnectionLostError, match=words):
        connected(address)


def test_silence_is_not_waited_for_longer_than_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = Address("127.0.0.1", listener.getsockname()[1])
        with pytest.raises(TimeoutError, match=r"did not answer within 0\.05 s"):
            connected(address, timeout_ms=50)
