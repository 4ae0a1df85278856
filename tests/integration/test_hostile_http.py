"""Whatever comes to the HTTP port, producers go on, memory stays bounded, and the pages come back (OPS-2, WIRE-5)."""

from __future__ import annotations

import contextlib
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from tests.integration.metrics_page import Metrics, get, http_port_in
from tests.integration.peer import Peer, batch, create_topic, produce, resident_bytes

from ottla.localcluster.broker_process import BrokerProcess, running, start_broker
from ottla.localcluster.ports import HOST
from ottla.localcluster.waiting import wait_until

MIB = 1 << 20
# A request takes well under a millisecond; this is for a machine with much else to do.
LONGEST_S = 5.0


class Producer:
    """Produces one record after the other, and knows how long the slowest took."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._is_done = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.sent = 0
        self.slowest_s = 0.0
        self.errors: list[int] = []

    def __enter__(self) -> Producer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_done.set()
        self._thread.join()

    def _run(self) -> None:
        with Peer(self._port) as peer:
            while not self._is_done.is_set():
                begun = time.monotonic()
                answer = produce(peer, "t", batch(b"v"))
                self.slowest_s = max(self.slowest_s, time.monotonic() - begun)
                self.sent += 1
                if answer.error_code:
                    self.errors.append(answer.error_code)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    settings = {"ottla.http.listener": "127.0.0.1:0"}
    with running(start_broker(tmp_path_factory.mktemp("hostile") / "data", settings)) as started:
        with Peer(started.port) as peer:
            create_topic(peer, "t")
        yield started


@pytest.fixture
def port(broker: BrokerProcess) -> int:
    return http_port_in(broker.said())


def slow_requests(port: int) -> None:
    """Peers that hold a connection and send a byte now and then; more of them than there are threads."""
    with ExitStack() as stack:
        peers = [stack.enter_context(_connected(port)) for _ in range(30)]
        for _ in range(10):
            for peer in peers:
                with contextlib.suppress(OSError):
                    peer.send(b"G")


def many_connections(port: int) -> None:
    """Hundreds that say nothing."""
    with ExitStack() as stack:
        for _ in range(300):
            stack.enter_context(_connected(port))


def huge_headers(port: int) -> None:
    for _ in range(20):
        with _connected(port) as peer, contextlib.suppress(OSError):
            for _ in range(256):
                peer.sendall(b"x: " + b"a" * 16_000 + b"\r\n")


def garbage(port: int) -> None:
    dice = random.Random(7)
    for _ in range(50):
        with _connected(port) as peer, contextlib.suppress(OSError):
            peer.sendall(dice.randbytes(dice.randrange(1, 5000)) + b"\r\n\r\n")
            peer.recv(1 << 16)


def unread_answers(port: int) -> None:
    """Peers that ask and never read."""
    with ExitStack() as stack:
        peers = [stack.enter_context(_connected(port)) for _ in range(30)]
        for peer in peers:
            with contextlib.suppress(OSError):
                peer.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")


def many_scrapes(port: int) -> None:
    def scrape() -> None:
        for _ in range(25):
            with contextlib.suppress(OSError):
                assert get(port, "/metrics").status in (200, 503)

    threads = [threading.Thread(target=scrape) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@contextlib.contextmanager
def _connected(port: int) -> Iterator[socket.socket]:
    with socket.create_connection((HOST, port), timeout=30) as connection:
        yield connection


ATTACKS = [slow_requests, many_connections, huge_headers, garbage, unread_answers, many_scrapes]


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_producers_go_on_whatever_comes(
    broker: BrokerProcess, port: int, attack: Callable[[int], None]
) -> None:
    wait_until(lambda: get(port, "/health/ready").status == 200, "the port is free", 30.0)
    before = resident_bytes(broker.pid)
    with Producer(broker.port) as producer:
        wait_until(lambda: producer.sent > 0, "it produces", 30.0)
        sent = producer.sent
        attack(port)
        wait_until(lambda: producer.sent > sent + 10, "it goes on", 30.0)
    assert producer.errors == []
    assert producer.slowest_s < LONGEST_S
    assert resident_bytes(broker.pid) - before < 24 * MIB
    wait_until(lambda: get(port, "/health/live").status == 200, "the pages are back", 30.0)
    assert Metrics(port).counted("ottla_topic_records_in_total", topic="t") >= producer.sent
    assert "Traceback" not in broker.said()


def test_threads_of_the_port_are_bounded(broker: BrokerProcess, port: int) -> None:
    with ExitStack() as stack:
        peers = [stack.enter_context(_connected(port)) for _ in range(60)]
        peers[-1].settimeout(30)
        # The last one is refused while the first ones hold their threads.
        assert b" 503 " in peers[-1].recv(1 << 10)
        with open(f"/proc/{broker.pid}/status") as file:
            (threads,) = [int(line.split()[1]) for line in file if line.startswith("Threads:")]
        assert threads < 40
    wait_until(lambda: get(port, "/health/live").status == 200, "the pages are back", 30.0)
    assert Metrics(port).counted("ottla_http_refused_total") > 0
