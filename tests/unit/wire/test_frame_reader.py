from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.wire.frame_reader import STAGING_BYTES, FrameReader, FrameSizeError


def feed(reader: FrameReader, data: bytes, most: int) -> list[bytes]:
    """Give `data` to the reader as a socket would: as much as fits, at most `most` bytes at a time."""
    frames: list[bytes] = []
    while data:
        room = reader.room()
        size = min(len(room), len(data), most)
        room[:size] = data[:size]
        data = data[size:]
        frames += [bytes(frame) for frame in reader.received(size)]
    return frames


def framed(*bodies: bytes) -> bytes:
    return b"".join(len(body).to_bytes(4, "big") + body for body in bodies)


@settings(deadline=None)  # the machine may be busy; what is tested has no clock
@given(
    bodies=st.lists(st.binary(min_size=4, max_size=40) | st.just(b"x" * (STAGING_BYTES + 7)), max_size=6),
    most=st.sampled_from([3, 5, 64, STAGING_BYTES, 10**6]),
)
def test_frames_come_out_whole_and_in_order_however_the_bytes_are_cut(bodies: list[bytes], most: int) -> None:
    assert feed(FrameReader(), framed(*bodies), most) == bodies


def test_a_frame_keeps_its_bytes_when_the_next_one_arrives() -> None:
    reader = FrameReader()
    first = framed(b"aaaa")
    reader.room()[: len(first)] = first
    (frame,) = reader.received(len(first))
    feed(reader, framed(b"bbbb"), 100)
    assert bytes(frame) == b"aaaa"


def test_a_frame_larger_than_the_staging_buffer_is_received_in_place() -> None:
    reader = FrameReader()
    feed(reader, framed(b"x" * 100_000)[:10], 10)
    assert len(reader.room()) == 100_000 - 6


@pytest.mark.parametrize("size", [-1, 0, 3, 101])
def test_a_size_that_no_response_can_have_is_refused(size: int) -> None:
    with pytest.raises(FrameSizeError, match=f"a frame of {size} bytes"):
        feed(FrameReader(max_frame_bytes=100), size.to_bytes(4, "big", signed=True), 4)


def test_a_frame_at_the_limit_is_accepted() -> None:
    assert feed(FrameReader(max_frame_bytes=100), framed(b"x" * 100), 1000) == [b"x" * 100]


@pytest.mark.parametrize("reuses_memory", [True, False])
def test_large_frames_share_their_memory_only_where_that_was_asked_for(reuses_memory: bool) -> None:
    reader = FrameReader()
    if reuses_memory:
        reader.reuse_memory()
    frames: list[memoryview] = []
    for number in range(3):
        body = bytes([number]) * (STAGING_BYTES + 100 - number)
        data = framed(body)
        while data:
            room = reader.room()
            size = min(len(room), len(data))
            room[:size] = data[:size]
            data = data[size:]
            frames += reader.received(size)
        assert frames[-1] == body
    assert (frames[0].obj is frames[2].obj) == reuses_memory
