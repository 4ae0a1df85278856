"""The offset map: a dictionary in a fixed number of bytes (RET-5)."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.log.compaction.plan.offset_map import SLOT_BYTES, OffsetMap

KEYS = st.one_of(st.binary(max_size=3), st.binary(min_size=100, max_size=120))


@settings(max_examples=100, deadline=None)
@given(st.lists(KEYS, max_size=80), st.integers(min_value=0, max_value=2**62), st.integers(0, 40))
def test_it_knows_what_a_dictionary_knows_until_it_is_full(keys: list[bytes], start: int, slots: int) -> None:
    offsets = OffsetMap(slots * SLOT_BYTES, start)
    expected: dict[bytes, int] = {}
    for offset, key in enumerate(keys, start):
        is_taken = offsets.put(key, offset)
        assert is_taken == (key in expected or len(expected) < offsets.limit)
        if is_taken:
            expected[key] = offset
    assert offsets.count == len(expected)
    for key in {*keys, b"never seen", b""}:
        assert offsets.get(key) == expected.get(key, -1)


def test_a_full_map_still_takes_newer_offsets_of_keys_it_knows() -> None:
    offsets = OffsetMap(5 * SLOT_BYTES, 0)
    assert [offsets.put(b"%d" % number, number) for number in range(5)] == [True, True, True, True, False]
    assert offsets.put(b"1", 9)
    assert offsets.get(b"1") == 9
    assert offsets.get(b"4") == -1


@pytest.mark.parametrize("size_bytes", [1 << 12, 1 << 16, (1 << 20) - 3])
def test_it_never_takes_more_than_it_may(size_bytes: int) -> None:
    offsets = OffsetMap(size_bytes, 0)
    assert size_bytes * 0.95 < offsets.size_bytes <= size_bytes
    assert offsets.limit == int(offsets.size_bytes // SLOT_BYTES * 0.8)


@pytest.mark.parametrize("keys", [0, 1, 100, 1000])
def test_it_is_no_larger_than_so_many_keys_need_and_has_room_for_all_of_them(keys: int) -> None:
    offsets = OffsetMap(64 << 20, 0, keys=keys)
    assert all(offsets.put(b"%d" % number, number) for number in range(keys))
    assert offsets.size_bytes < (keys * 1.5 + 50) * SLOT_BYTES


def test_an_offset_too_far_from_the_start_is_refused_like_a_key_too_many() -> None:
    offsets = OffsetMap(1 << 12, 1000)
    assert offsets.put(b"near", 1000 + (1 << 32) - 3)
    assert not offsets.put(b"far", 1000 + (1 << 32))
    assert offsets.get(b"near") == 1000 + (1 << 32) - 3
