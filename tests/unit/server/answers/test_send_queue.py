import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.simulation.world.disk import SimulatedDisk

from ottla.log.reading.reader import FileRange
from ottla.log.status import Status
from ottla.runtime.disk import OsDisk
from ottla.runtime.network import OsNetwork
from ottla.server.answers.send_queue import SENDFILE_BYTES, SendQueue

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.setblocking(False)
    with ours, theirs:
        yield ours, theirs


def received(theirs: socket.socket) -> bytes:
    data = b""
    while True:
        try:
            data += theirs.recv(1 << 20)
        except BlockingIOError:
            return data


def test_small_parts_leave_at_once_and_joined(pair: Pair) -> None:
    ours, theirs = pair
    queue = SendQueue(ours, OsNetwork())
    assert queue.send([b"one", bytearray(b"two"), memoryview(b"three")])
    assert received(theirs) == b"onetwothree"
    assert queue.queued_bytes == 0


@pytest.mark.parametrize("size", [10, SENDFILE_BYTES - 1, SENDFILE_BYTES, 3_000_000])
def test_bytes_and_file_ranges_leave_in_order_however_slow_the_reader(
    pair: Pair, tmp_path: Path, size: int
) -> None:
    ours, theirs = pair
    data = os.urandom(size + 20)
    file = OsDisk().open(str(tmp_path / "segment"), create=True)
    file.append([data])
    queue = SendQueue(ours, OsNetwork())
    drained = queue.send([b"head", FileRange(file, 10, size, 0, Status("orders-0")), b"tail"])
    drained = queue.send([b"next response"]) and drained
    got = received(theirs)
    while not drained:
        assert queue.queued_bytes > 0
        drained = queue.pump()
        got += received(theirs)
    assert got == b"head" + data[10 : 10 + size] + b"tail" + b"next response"
    assert queue.queued_bytes == 0


def test_a_range_whose_file_was_removed_is_still_sent_to_the_end(pair: Pair, tmp_path: Path) -> None:
    ours, theirs = pair
    data = os.urandom(3_000_000)
    path = tmp_path / "segment"
    file = OsDisk().open(str(path), create=True)
    file.append([data])
    queue = SendQueue(ours, OsNetwork())
    drained = queue.send([b"head", FileRange(file, 0, len(data), 0, Status("orders-0"))])
    del file
    path.unlink()
    got = received(theirs)
    while not drained:
        drained = queue.pump()
        got += received(theirs)
    assert got == b"head" + data


def test_a_file_that_ends_too_early_is_an_error_and_no_endless_loop(pair: Pair, tmp_path: Path) -> None:
    ours, _ = pair
    file = OsDisk().open(str(tmp_path / "segment"), create=True)
    file.append([bytes(1000)])
    with pytest.raises(ConnectionAbortedError):
        SendQueue(ours, OsNetwork()).send([FileRange(file, 0, SENDFILE_BYTES * 2, 0, Status("orders-0"))])


def test_a_range_that_cannot_be_read_is_noted_at_its_log(pair: Pair) -> None:
    ours, _ = pair
    disk = SimulatedDisk()
    disk.put("/data/segment", bytes(1000))
    file = disk.open("/data/segment")
    disk.failing["read"] = 5
    status = Status("orders-0")
    with pytest.raises(OSError, match="Input/output error"):
        SendQueue(ours, OsNetwork()).send([FileRange(file, 0, 1000, 42, status)])
    assert status.take_unread() == 41
    disk.failing.clear()
    with pytest.raises(ConnectionAbortedError):
        SendQueue(ours, OsNetwork()).send([FileRange(file, 0, 1001, 42, status)])
    assert status.take_unread() == 41
    assert status.take_unread() is None
