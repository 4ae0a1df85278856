"""A reader that asks for much and takes nothing costs the broker little and nobody else anything (WIRE-5)."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.peer import (
    Peer,
    batch,
    create_topic,
    fetch_request,
    produce,
    resident_bytes,
    took_s,
)

from ottla.localcluster.broker_process import BrokerProcess, running, start_broker
from ottla.localcluster.waiting import wait_until
from ottla.protocol.apis import ApiKey
from ottla.protocol.messages.metadata import MetadataRequest

pytestmark = pytest.mark.alone  # deadlines of a tenth of a second and less
MIB = 1 << 20
QUEUE_BYTES = MIB
MOST_BYTES = 64 * MIB  # more than kernels keep for a connection
# Buffers of one connection and what the allocator keeps: far below what the requests ask for, far above
# noise.
GROWTH_BYTES = 24 * MIB
METADATA = (ApiKey.METADATA, 9, MetadataRequest(topics=None))


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    settings = {"ottla.connection.response.bytes": str(QUEUE_BYTES)}
    data = tmp_path_factory.mktemp("back-pressure") / "data"
    with running(start_broker(data, settings)) as started, Peer(started.port) as peer:
        create_topic(peer, "large")
        create_topic(peer, "small")
        create_topic(peer, "other")
        for _ in range(20):
            assert produce(peer, "large", batch(bytes(1_000_000))).error_code == 0
            assert produce(peer, "small", batch(bytes(60_000))).error_code == 0
        yield started


def flood(peer: Peer, frame: bytes, size_bytes: int) -> int:
    """Send the frame again and again until the broker has not taken any for a while; how many bytes went."""
    peer.socket.settimeout(0.3)
    data = frame * (MIB // len(frame))
    sent = 0
    try:
        while sent < size_bytes:
            sent += peer.socket.send(memoryview(data)[sent % len(data) :])
    except TimeoutError:
        pass
    return sent


def in_the_kernel(peer: Peer) -> int:
    """Bytes that it sent and the broker has not read: its kernel may keep as much as 36 MiB of them, if it
    thinks that right.
    """
    ours, theirs = peer.socket.getsockname()[1], peer.socket.getpeername()[1]
    waiting = 0
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        _, local, remote, _, queues, *_ = line.split()
        sending, receiving = (int(each, 16) for each in queues.split(":"))
        ports = (int(local.split(":")[1], 16), int(remote.split(":")[1], 16))
        waiting += sending if ports == (ours, theirs) else receiving if ports == (theirs, ours) else 0
    return waiting


def fetch_frame(peer: Peer, topic: str, max_bytes: int) -> bytes:
    return peer.frame(ApiKey.FETCH, 12, fetch_request((topic, 0, 0), max_bytes=max_bytes))


def others_are_served(broker: BrokerProcess) -> None:
    with Peer(broker.port) as other:
        other.ask(*METADATA)
        assert min(took_s(lambda: other.ask(*METADATA)) for _ in range(5)) < 0.05
        assert produce(other, "other", batch(b"v")).error_code == 0


@pytest.mark.parametrize("kind", ["large ranges", "small ranges", "metadata"])
def test_a_reader_that_takes_nothing_does_not_make_the_broker_grow(broker: BrokerProcess, kind: str) -> None:
    before = resident_bytes(broker.pid)
    with Peer(broker.port, receive_buffer_bytes=64 * 1024) as greedy:
        frame = {
            "large ranges": lambda: fetch_frame(greedy, "large", 50 * MIB),
            "small ranges": lambda: fetch_frame(greedy, "small", 63_000),
            "metadata": lambda: greedy.frame(*METADATA),
        }[kind]()
        # Behind a long poll the requests pile up in the broker, and are then all there at once.
        greedy.send(ApiKey.FETCH, 12, fetch_request(("small", 0, 20), max_wait_ms=200, min_bytes=MIB))
        sent = flood(greedy, frame, MOST_BYTES)
        assert sent < MOST_BYTES, "the broker reads from it without end"
        assert sent - in_the_kernel(greedy) < 4 * MIB, "the broker reads what it cannot answer"
        others_are_served(broker)
        assert resident_bytes(broker.pid) - before < GROWTH_BYTES


def test_when_it_reads_again_it_gets_every_answer_to_its_last_byte(broker: BrokerProcess) -> None:
    asked = 12
    with Peer(broker.port, receive_buffer_bytes=64 * 1024) as late:
        frames = b"".join(
            fetch_frame(late, "large", 5 * MIB) + fetch_frame(late, "small", 63_000)
            for _ in range(asked // 2)
        )
        late.socket.sendall(frames)
        others_are_served(broker)
        sizes = []
        for number in range(1, asked + 1):
            answered_id, answer = late.receive(ApiKey.FETCH, 12)
            assert answered_id == number
            sizes.append(len(answer.responses[0].partitions[0].records))
    assert sizes[0] > 4 * MIB
    assert sizes == sizes[:2] * (asked // 2)


def test_a_reader_that_goes_away_with_answers_queued_is_forgotten(broker: BrokerProcess) -> None:
    def descriptors() -> int:
        return len(os.listdir(f"/proc/{broker.pid}/fd"))

    before = descriptors()
    for _ in range(20):
        with Peer(broker.port) as leaving:
            leaving.socket.sendall(fetch_frame(leaving, "large", 50 * MIB) * 10)
            leaving.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    wait_until(lambda: descriptors() <= before, "all of their sockets are closed")
    others_are_served(broker)
