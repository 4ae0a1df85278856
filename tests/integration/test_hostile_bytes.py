"""Whatever comes over the wire: the broker stays up, serves others, grows by nothing claimed, and says why
(WIRE-5).
"""

import contextlib
import os
import random
import socket
import struct
import zlib
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from crc32c import crc32c
from tests.fuzz.mutations import mutate
from tests.fuzz.random_messages import random_message
from tests.integration.peer import (
    Peer,
    batch,
    create_topic,
    fetch_request,
    produce,
    produce_request,
    resident_bytes,
    took_s,
)

from ottla.errors import ErrorCode
from ottla.localcluster.broker_process import BrokerProcess, running, start_broker
from ottla.localcluster.ports import HOST
from ottla.localcluster.waiting import wait_until
from ottla.protocol.apis import DECLARED_APIS, ApiKey
from ottla.protocol.frame import RequestHeader, write_request
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.records.batch import HEADER_BYTES

pytestmark = pytest.mark.alone  # deadlines of a tenth of a second and less
MIB = 1 << 20
METADATA = (ApiKey.METADATA, 9, MetadataRequest(topics=[]))
ABSURD_SIZES = [-1, -(2**31), -5, 0, 1, 7, (100 << 20) + 1, 2**31 - 1]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    # Connections come faster here than one loop accepts them; those that find no room to wait try again in a
    # second.
    settings = {"socket.listen.backlog.size": "1024"}
    data = tmp_path_factory.mktemp("hostile") / "data"
    # In detail: otherwise only the first of many refusals of one kind is logged.
    with running(start_broker(data, settings, is_verbose=True)) as started:
        with Peer(started.port) as peer:
            create_topic(peer, "t")
            create_topic(peer, "compacted", cleanup_policy="compact")
            produce(peer, "t", batch(b"v"))
        yield started


@pytest.fixture(autouse=True)
def _is_unharmed(broker: BrokerProcess) -> Iterator[None]:
    """After each test the broker serves, at its usual speed, and has met no error of its own."""
    yield
    with Peer(broker.port) as peer:
        assert peer.ask(*METADATA).brokers
        assert produce(peer, "t", batch(b"v")).error_code == 0
        assert min(took_s(lambda: peer.ask(*METADATA)) for _ in range(5)) < 0.1
    assert broker.is_running()
    assert "Traceback" not in broker.said()
    assert "internal error" not in broker.said()


def descriptors(broker: BrokerProcess) -> int:
    return len(os.listdir(f"/proc/{broker.pid}/fd"))


def send_and_leave(port: int, data: bytes) -> None:
    """Send, say that this was all, and wait until the broker has closed too."""
    with socket.create_connection((HOST, port), timeout=10) as sending, contextlib.suppress(ConnectionError):
        sending.sendall(data)
        sending.shutdown(socket.SHUT_WR)
        while sending.recv(1 << 16):
            pass


@pytest.mark.parametrize("size", ABSURD_SIZES)
def test_a_size_that_no_request_has_closes_with_a_reason(broker: BrokerProcess, size: int) -> None:
    with Peer(broker.port) as peer:
        peer.ask(*METADATA)
        peer.socket.sendall(struct.pack(">i", size) + bytes(20))
        assert peer.is_closed()
    assert f"a frame of {size} bytes" in broker.said()


@pytest.mark.parametrize(
    "words",
    [
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"SSH-2.0-x\r\n",
    ],
    ids=["http", "tls", "ssh"],
)
def test_another_protocol_is_told_to_go(broker: BrokerProcess, words: bytes) -> None:
    with Peer(broker.port) as peer:
        peer.socket.sendall(words + bytes(200))
        assert peer.is_closed()


def test_sizes_that_are_only_claimed_cost_nothing(broker: BrokerProcess) -> None:
    before = resident_bytes(broker.pid)
    with ExitStack() as stack:
        peers = [stack.enter_context(Peer(broker.port)) for _ in range(100)]
        for peer in peers:
            # 90 MiB announced, a few hundred bytes sent.
            peer.socket.sendall(struct.pack(">ihhi", 90 * MIB, 0, 9, 1) + bytes(500))
        with Peer(broker.port) as other:
            for _ in range(20):
                assert other.ask(*METADATA).brokers
        assert resident_bytes(broker.pid) - before < 16 * MIB
    wait_until(lambda: descriptors(broker) < 60, "they are forgotten")


@pytest.mark.parametrize(
    ("key", "version", "body"),
    [
        (ApiKey.METADATA, 9, b"\0" + b"\xff\xff\xff\xff\x0f"),
        (ApiKey.METADATA, 1, struct.pack(">i", 2**31 - 1)),
        (ApiKey.FETCH, 4, struct.pack(">iiiibi", -1, 0, 0, 0, 0, 2**31 - 1)),
        (ApiKey.PRODUCE, 9, b"\0\0" + struct.pack(">hi", 1, 1) + b"\xff\xff\xff\xff\x07"),
        (ApiKey.PRODUCE, 3, struct.pack(">hhii", -1, 1, 1, 2**31 - 1)),
        (ApiKey.CREATE_TOPICS, 7, b"\0" + b"\xff\xff\xff\xff\x0f"),
    ],
)
def test_counts_that_are_only_claimed_cost_nothing(
    broker: BrokerProcess, key: ApiKey, version: int, body: bytes
) -> None:
    before = resident_bytes(broker.pid)
    frame = struct.pack(">hhih", key, version, 5, 1) + b"c" + body + bytes(10)
    with Peer(broker.port) as peer:
        peer.socket.sendall(struct.pack(">i", len(frame)) + frame)
        assert peer.is_closed()
    assert "unusable request" in broker.said()
    assert resident_bytes(broker.pid) - before < 8 * MIB


def test_frames_that_end_anywhere_are_forgotten(broker: BrokerProcess) -> None:
    with Peer(broker.port) as peer:
        frame = peer.frame(ApiKey.PRODUCE, 9, produce_request("t", batch(b"value"), acks=1))
        whole = peer.frame(*METADATA)
    for end in range(0, len(frame), 3):
        send_and_leave(broker.port, whole + frame[:end])
    wait_until(lambda: descriptors(broker) < 60, "they are closed")


def test_mutated_requests_of_every_api_harm_nothing(broker: BrokerProcess) -> None:
    seed = 20
    print(f"seed {seed}")
    rng = random.Random(seed)
    before = resident_bytes(broker.pid)
    for key, api in DECLARED_APIS.items():
        for version in {api.min_version, api.max_version, rng.randint(api.min_version, api.max_version)}:
            for _ in range(8):
                frame = bytearray()
                request = random_message(api.request, version, rng)
                write_request(RequestHeader(key, version, rng.getrandbits(31), "fuzz"), request, frame)
                changed = bytearray(mutate(frame[4:], rng) if rng.random() < 0.8 else frame[4:])
                send_and_leave(broker.port, struct.pack(">i", len(changed)) + changed)
    assert resident_bytes(broker.pid) - before < 32 * MIB


def test_mutated_produce_and_fetch_requests_to_a_real_topic_harm_nothing(broker: BrokerProcess) -> None:
    seed = 21
    print(f"seed {seed}")
    rng = random.Random(seed)
    with Peer(broker.port) as peer:
        frames = [
            peer.frame(ApiKey.PRODUCE, version, produce_request("t", batch(b"value" * 5), acks=acks))
            for version, acks in ((3, 1), (7, -1), (9, 1), (12, 0))
        ]
        frames += [
            peer.frame(ApiKey.FETCH, version, fetch_request(("t", 0, 0), max_wait_ms=1))
            for version in (4, 11, 12)
        ]
    for _ in range(150):
        # Several on one connection, so that shapes are learnt and then spoilt.
        parts = []
        for _ in range(4):
            frame = rng.choice(frames)
            body = mutate(frame[4:], rng) if rng.random() < 0.5 else frame[4:]
            parts.append(struct.pack(">i", len(body)) + body)
        send_and_leave(broker.port, b"".join(parts))


def test_slow_senders_and_half_open_connections_keep_nobody_waiting(broker: BrokerProcess) -> None:
    before = resident_bytes(broker.pid)
    with ExitStack() as stack:
        slow = [stack.enter_context(Peer(broker.port)) for _ in range(100)]
        silent = [stack.enter_context(Peer(broker.port)) for _ in range(100)]
        other = stack.enter_context(Peer(broker.port))
        frame = slow[0].frame(*METADATA)
        for byte in frame[:-1]:
            for peer in slow:
                peer.socket.sendall(bytes((byte,)))
        assert min(took_s(lambda: other.ask(*METADATA)) for _ in range(5)) < 0.1
        for peer in slow:
            peer.socket.sendall(frame[-1:])
            assert peer.receive(ApiKey.METADATA, 9)[1].brokers
        assert silent[0].ask(*METADATA).brokers
        assert resident_bytes(broker.pid) - before < 16 * MIB


def test_a_thousand_connections_come_and_go(broker: BrokerProcess) -> None:
    open_before, memory_before = descriptors(broker), resident_bytes(broker.pid)
    frame = b""
    for number in range(1000):
        with Peer(broker.port) as peer:
            frame = frame or peer.frame(*METADATA)
            if number % 2:
                peer.socket.sendall(frame if number % 4 == 1 else frame[:9])
            if number % 3 == 0:
                peer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    wait_until(lambda: descriptors(broker) <= open_before, "every socket is closed")
    assert "reset by peer" not in broker.said(), "who goes away is no news"
    assert resident_bytes(broker.pid) - memory_before < 16 * MIB


def test_a_block_that_swells_a_thousandfold_is_refused(broker: BrokerProcess) -> None:
    """The one place where a broker opens a block for everybody: a compacted topic looks at the keys."""
    before = resident_bytes(broker.pid)
    pressing = zlib.compressobj(level=9, wbits=31)
    bomb = b"".join(pressing.compress(bytes(MIB)) for _ in range(200)) + pressing.flush()
    record_batch = bytearray(batch(b"v"))[:HEADER_BYTES] + bomb
    struct.pack_into(">i", record_batch, 8, len(record_batch) - 12)
    struct.pack_into(">h", record_batch, 21, 1)
    struct.pack_into(">I", record_batch, 17, crc32c(memoryview(record_batch)[21:]))
    with Peer(broker.port) as peer:
        refused = produce(peer, "compacted", record_batch)
    assert refused.error_code == ErrorCode.INVALID_RECORD
    assert resident_bytes(broker.pid) - before < 150 * MIB
