from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import KafkaError
from ottla.server.net.receive_buffer import BUSY_BYTES, INITIAL_BYTES, ReceiveBuffer

LIMIT = 1 << 20


def receive(buffer: ReceiveBuffer, data: bytes) -> None:
    """As a socket would: as much as fits, until all of it is in."""
    while data:
        room = buffer.writable()
        size = min(len(room), len(data))
        room[:size] = data[:size]
        buffer.received(size)
        data = data[size:]


def take_frames(buffer: ReceiveBuffer) -> list[bytes]:
    frames = []
    while buffer.end - buffer.start >= 4:
        size = int.from_bytes(buffer.data[buffer.start : buffer.start + 4], "big")
        if buffer.end - buffer.start < 4 + size:
            break
        frames.append(bytes(buffer.view[buffer.start + 4 : buffer.start + 4 + size]))
        buffer.start += 4 + size
    return frames


@given(sizes=st.lists(st.integers(8, 60_000), max_size=12), cut=st.integers(1, 70_000))
def test_frames_come_out_as_they_went_in_however_the_stream_is_cut(sizes: list[int], cut: int) -> None:
    frames = [bytes((size % 251,)) * size for size in sizes]
    stream = b"".join(pack(">i", len(frame)) + frame for frame in frames)
    # A cut per byte of half a megabyte shows nothing that one per byte of a few kilobytes does not.
    cut = max(cut, len(stream) // 4096)
    buffer = ReceiveBuffer(LIMIT)
    taken = []
    for start in range(0, len(stream), cut):
        receive(buffer, stream[start : start + cut])
        taken += take_frames(buffer)
    assert taken == frames


def test_a_huge_claimed_size_allocates_nothing_until_the_bytes_come() -> None:
    buffer = ReceiveBuffer(100 << 20)
    receive(buffer, pack(">i", 90 << 20) + b"x" * 1000)
    buffer.check_frame_size()
    buffer.writable()
    assert len(buffer.data) <= 2 * INITIAL_BYTES


@pytest.mark.parametrize("size", [-1, -(2**31), 0, 7, LIMIT + 1, 2**31 - 1])
def test_a_size_that_no_request_can_have_is_refused(size: int) -> None:
    buffer = ReceiveBuffer(LIMIT)
    receive(buffer, pack(">i", size))
    with pytest.raises(KafkaError, match=r"socket\.request\.max\.bytes"):
        buffer.check_frame_size()


def test_a_busy_connection_gets_a_large_buffer_and_gives_it_back_when_silent() -> None:
    buffer = ReceiveBuffer(LIMIT)
    frame = pack(">i", 500_000) + bytes(500_000)
    receive(buffer, frame)
    assert len(buffer.data) >= BUSY_BYTES
    buffer.shrink()
    assert len(buffer.data) >= BUSY_BYTES, "a buffer with bytes in it must not shrink"
    take_frames(buffer)
    buffer.shrink()
    assert len(buffer.data) == INITIAL_BYTES


def test_one_huge_frame_is_not_paid_for_by_all_later_ones() -> None:
    buffer = ReceiveBuffer(100 << 20)
    receive(buffer, pack(">i", 20 << 20) + bytes(20 << 20))
    take_frames(buffer)
    buffer.trim()
    assert len(buffer.data) >= 20 << 20, "it was needed a moment ago"
    small = pack(">i", 100) + bytes(100)
    receive(buffer, small + small[:7])
    buffer.trim()
    assert len(buffer.data) == BUSY_BYTES
    assert take_frames(buffer) == [bytes(100)], "what was in it is still there"
    receive(buffer, small[7:])
    assert take_frames(buffer) == [bytes(100)]


def test_a_connection_that_needs_its_large_buffer_keeps_it() -> None:
    buffer = ReceiveBuffer(100 << 20)
    for _ in range(3):
        receive(buffer, pack(">i", 20 << 20) + bytes(20 << 20))
        take_frames(buffer)
        capacity = len(buffer.data)
        buffer.trim()
        assert len(buffer.data) == capacity


def test_frames_of_strangers_come_out_one_by_one_up_to_their_limit() -> None:
    buffer = ReceiveBuffer(1000)
    sent = b"\0\0\0\x03abc" + b"\0\0\0\0" + b"\0\0\0\x05de"
    buffer.writable()[: len(sent)] = sent
    buffer.received(len(sent))
    assert buffer.take_frame(3) == b"abc"
    assert buffer.take_frame(3) == b""
    assert buffer.take_frame(5) is None
    with pytest.raises(KafkaError, match="a frame of 5 bytes"):
        buffer.take_frame(4)
