"""TLS over a non-blocking socket keeps the promises of a socket: order, back-pressure, nothing left inside
(WIRE-5).
"""

from __future__ import annotations

import os
import random
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.tls_authority import Authority

from ottla.runtime.network import OsNetwork
from ottla.runtime.tls_context import client_context
from ottla.runtime.tls_socket import (
    LEAST_ROOM_BYTES,
    PIECE_BYTES,
    READ_BYTES,
    TURN_BYTES,
    TlsError,
    TlsNetwork,
    TlsSocket,
)

SMALL_BUFFER_BYTES = 16 * 1024


class Pair:
    """Both ends of a connection: ours as the broker has it, theirs as a blocking client does."""

    def __init__(self, ours: socket.socket, theirs: ssl.SSLSocket, tls: TlsSocket) -> None:
        self.raw = ours
        self.ours = tls
        self.theirs = theirs


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def context(authority: Authority) -> ssl.SSLContext:
    issued = authority.issue("broker")
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.load_cert_chain(issued.certificate, issued.key)
    return made


def wrapped(sock: socket.socket, context: ssl.SSLContext) -> TlsSocket:
    return TlsSocket(sock, context, memoryview(bytearray(READ_BYTES)))


def shaken(tls: TlsSocket, sock: socket.socket) -> None:
    """Drive the handshake to its end, as an event loop does."""
    sock.settimeout(15)
    while not tls.handshake():
        pass
    sock.setblocking(False)


@pytest.fixture
def pair(authority: Authority, context: ssl.SSLContext) -> Iterator[Pair]:
    ours, theirs = socket.socketpair()
    for end in (ours, theirs):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SMALL_BUFFER_BYTES)
    tls = wrapped(ours, context)
    server = threading.Thread(target=shaken, args=(tls, ours))
    server.start()
    client = client_context(authority.security()).wrap_socket(theirs, server_hostname="localhost")
    server.join()
    client.settimeout(15)
    yield Pair(ours, client, tls)
    client.close()
    tls.close()


def received(pair: Pair, size: int) -> bytes:
    found = b""
    while len(found) < size:
        found += pair.theirs.recv(1 << 20)
    return found


def test_bytes_that_the_kernel_does_not_take_are_refused_until_they_have_left(pair: Pair) -> None:
    data, sent = random.Random(1).randbytes(3 * PIECE_BYTES), 0
    refused = 0
    taken: list[bytes] = []
    while sent < len(data):
        try:
            sent += pair.ours.send(memoryview(data)[sent:])
        except BlockingIOError:
            refused += 1
            # Whatever can be received now was sent before: the peer never gets ahead of the answer by a piece.
            taken.append(pair.theirs.recv(1 << 20))
            assert sum(map(len, taken)) <= sent + PIECE_BYTES
    rest = received(pair, len(data) - sum(map(len, taken)))
    assert b"".join(taken) + rest == data
    assert refused > 3
    assert not pair.ours.has_unsent


def test_a_long_answer_lets_others_have_their_turn(authority: Authority, context: ssl.SSLContext) -> None:
    """A peer that takes everything at once is refused once in a while all the same."""

    class Sink:
        """Takes everything."""

        def __init__(self, inner: socket.socket) -> None:
            self._inner = inner
            self.is_full = False

        def fileno(self) -> int:
            return self._inner.fileno()

        def recv_into(self, buffer: memoryview, nbytes: int = 0, /) -> int:
            return self._inner.recv_into(buffer, nbytes)

        def send(self, data: memoryview, /) -> int:
            return len(data) if self.is_full else self._inner.send(data)

        def close(self) -> None:
            self._inner.close()

    ours, theirs = socket.socketpair()
    sink = Sink(ours)
    tls = TlsSocket(sink, context, memoryview(bytearray(READ_BYTES)))
    server = threading.Thread(target=shaken, args=(tls, ours))
    server.start()
    client = client_context(authority.security()).wrap_socket(theirs, server_hostname="localhost")
    server.join()
    sink.is_full = True
    data, sent, turns = bytes(10 * TURN_BYTES), 0, 0
    while sent < len(data):
        try:
            sent += tls.send(memoryview(data)[sent:])
        except BlockingIOError:
            turns += 1
    assert turns == 9
    client.close()
    tls.close()


def test_a_range_of_a_file_is_sent_in_pieces_and_its_end_is_told(pair: Pair, tmp_path: Path) -> None:
    data = random.Random(2).randbytes(2 * PIECE_BYTES + 77)
    (tmp_path / "segment").write_bytes(data)
    network, taken = TlsNetwork(OsNetwork()), b""
    descriptor = os.open(tmp_path / "segment", os.O_RDONLY)
    position, size = 100, len(data) - 100
    while size:
        try:
            sent = network.sendfile(pair.ours, descriptor, position, size)
        except BlockingIOError:
            taken += pair.theirs.recv(1 << 20)
            continue
        position, size = position + sent, size - sent
    taken += received(pair, len(data) - 100 - len(taken))
    assert taken == data[100:]
    assert network.sendfile(pair.ours, descriptor, len(data), 50) == 0
    os.close(descriptor)


def test_no_decrypted_byte_stays_inside_when_the_kernel_has_nothing_more(pair: Pair) -> None:
    data = random.Random(3).randbytes(1 << 20)
    sender = threading.Thread(target=pair.theirs.sendall, args=(data,))
    sender.start()
    room, found = memoryview(bytearray(LEAST_ROOM_BYTES)), b""
    while len(found) < len(data):
        try:
            size = pair.ours.recv_into(room)
        except BlockingIOError:
            # Nothing is left inside: the next byte can only come from the kernel.
            pair.raw.settimeout(15)
            pair.raw.recv(1, socket.MSG_PEEK)
            pair.raw.setblocking(False)
            continue
        assert size
        found += room[:size]
    sender.join()
    assert found == data


def test_the_end_of_the_peer_is_the_end_of_the_stream(pair: Pair) -> None:
    pair.theirs.sendall(b"last words")
    pair.theirs.shutdown(socket.SHUT_WR)
    room = memoryview(bytearray(LEAST_ROOM_BYTES))
    assert bytes(room[: pair.ours.recv_into(room)]) == b"last words"
    assert pair.ours.recv_into(room) == 0


def test_an_empty_socket_blocks_and_a_spoilt_record_is_an_error(pair: Pair) -> None:
    room = memoryview(bytearray(LEAST_ROOM_BYTES))
    with pytest.raises(BlockingIOError):
        pair.ours.recv_into(room)
    with socket.socket(fileno=socket.dup(pair.theirs.fileno())) as raw:
        raw.sendall(b"\x17\x03\x03\x00\x20" + bytes(32))
    with pytest.raises(TlsError, match="TLS failed"):
        pair.ours.recv_into(room)


def test_what_is_not_tls_is_told_apart_before_anything_is_set_up(context: ssl.SSLContext) -> None:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    tls = wrapped(ours, context)
    assert not tls.handshake(), "nothing came yet"
    theirs.sendall(b"\0\0\0\x20")
    with pytest.raises(TlsError, match="looks like a Kafka client without TLS"):
        tls.handshake()
    assert theirs.recv(100)[:2] == b"\x15\x03", "an alert that says what is spoken here"
    tls.close()
    theirs.close()


def test_a_peer_that_goes_away_during_the_handshake_is_an_error(context: ssl.SSLContext) -> None:
    ours, theirs = socket.socketpair()
    tls = wrapped(ours, context)
    theirs.close()
    with pytest.raises(ConnectionResetError, match="went away"):
        tls.handshake()
    tls.close()
