"""Everything has a limit: connections, frames, idle time (WIRE-5)."""

import struct
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from tests.integration.in_process import BrokerThread, broker_thread
from tests.integration.peer import Peer, batch, create_topic, fetch_request, produce

from ottla.localcluster.waiting import wait_until
from ottla.protocol.apis import ApiKey
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.server import housekeeping

METADATA = (ApiKey.METADATA, 9, MetadataRequest(topics=[]))
IDLE_MS = 500


def open_connections(broker: BrokerThread) -> int:
    return broker.call(lambda: broker.broker.listeners.connection_count)


@pytest.mark.parametrize("setting", ["max.connections", "max.connections.per.ip"])
def test_one_connection_too_many_is_closed_and_the_next_one_finds_room_again(
    tmp_path: Path, setting: str, caplog: pytest.LogCaptureFixture
) -> None:
    with broker_thread(tmp_path / "data", {setting: "3"}) as broker, ExitStack() as stack:
        peers = [stack.enter_context(Peer(broker.port)) for _ in range(3)]
        for peer in peers:
            assert peer.ask(*METADATA).brokers
        with Peer(broker.port) as refused:
            assert refused.is_closed()
        assert f"the limit is {setting}" in caplog.text
        assert peers[0].ask(*METADATA).brokers, "those that are in stay"
        peers[1].socket.close()
        wait_until(lambda: open_connections(broker) == 2, "the broker noticed")
        with Peer(broker.port) as late:
            assert late.ask(*METADATA).brokers


def test_a_frame_larger_than_the_limit_closes_before_its_bytes_come(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with broker_thread(tmp_path / "data", {"socket.request.max.bytes": "20000"}) as broker:
        with Peer(broker.port) as peer:
            create_topic(peer, "t")
            assert produce(peer, "t", batch(bytes(19_000))).error_code == 0
            peer.socket.sendall(struct.pack(">ihhi", 20_001, 0, 9, 1))
            assert peer.is_closed()
        assert "a frame of 20001 bytes" in caplog.text
        assert "socket.request.max.bytes" in caplog.text


@contextmanager
def reaping(data: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[BrokerThread]:
    monkeypatch.setattr(housekeeping, "_REAP_INTERVAL_MS", 20)
    with broker_thread(data, {"connections.max.idle.ms": str(IDLE_MS)}) as broker:
        yield broker


def test_an_idle_connection_is_closed_and_neither_a_busy_nor_a_waiting_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with reaping(tmp_path / "data", monkeypatch) as broker, ExitStack() as stack:
        idle, half, busy, waiting = (stack.enter_context(Peer(broker.port)) for _ in range(4))
        create_topic(busy, "t")
        idle.ask(*METADATA)
        half.socket.sendall(half.frame(*METADATA)[:9])
        wait_ms = 3 * IDLE_MS
        waiting.send(ApiKey.FETCH, 12, fetch_request(("t", 0, 0), max_wait_ms=wait_ms, min_bytes=1))
        wait_until(lambda: bool(busy.ask(*METADATA)) and open_connections(broker) == 2, "two are closed")
        assert idle.is_closed()
        assert half.is_closed(), "half a request is no request"
        assert waiting.receive(ApiKey.FETCH, 12)[1].error_code == 0


def test_a_reader_that_takes_nothing_for_so_long_is_closed_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with reaping(tmp_path / "data", monkeypatch) as broker, Peer(broker.port) as peer:
        create_topic(peer, "t")
        for _ in range(12):
            produce(peer, "t", batch(bytes(1_000_000)))
        with Peer(broker.port, receive_buffer_bytes=4096) as stuck:
            stuck.send(ApiKey.FETCH, 12, fetch_request(("t", 0, 0)))
            wait_until(lambda: bool(peer.ask(*METADATA)) and open_connections(broker) == 1, "it is closed")
