"""Any bytes give a message or a DecodeError, in memory bounded by the bytes received (WIRE-5)."""

from __future__ import annotations

import sys
import tracemalloc
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.conformance.declared import declared_classes, declared_versions, version_id
from tests.conformance.strategies import messages
from tests.fuzz.mutations import ABSURD_LENGTHS, mutate
from tests.fuzz.random_messages import random_message

from ottla.protocol.codec import DecodeError, codec, declaration_of, decode, encode
from ottla.protocol.declaration import Wire
from ottla.protocol.frame import read_request_header, read_response
from ottla.protocol.layout import Field, layout, smallest_size_bytes
from ottla.protocol.messages.coordinator import FindCoordinatorRequest
from ottla.protocol.messages.topics import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from ottla.protocol.primitives import uuid_of, uvarint
from ottla.protocol.reading import MAX_ELEMENTS

# The densest there is: three bytes of SyncGroup become an object with an empty string and an empty view, 240
# bytes.
MOST_BYTES_PER_BYTE = 90
SPARE_BYTES = 20_000  # error messages, tracebacks, and what Python keeps for itself

quick = settings(
    max_examples=10,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
)


def versions_of(cls: type[Any]) -> st.SearchStrategy[int]:
    first, last = declaration_of(cls).versions
    return st.integers(first, last)


def read_or_refuse(cls: type[Any], data: bytes, version: int) -> bool:
    """Whether the bytes were read; anything but a DecodeError passes through and fails the test."""
    try:
        codec(cls, version).read(memoryview(data), 0)
    except DecodeError:
        return False
    return True


def most_bytes(size: int) -> int:
    """The memory that reading this many bytes may take."""
    return MOST_BYTES_PER_BYTE * size + SPARE_BYTES


def peak_bytes(cls: type[Any], data: bytes, version: int) -> int:
    """What reading takes: the least of three, for other threads (a broker's, Spark's) allocate as they
    please, and are counted too.
    """
    codec(cls, version)
    least = sys.maxsize
    for _ in range(3):
        uuid_of.cache_clear()  # its table has a bound of its own, and grows in leaps
        tracemalloc.start()
        try:
            read_or_refuse(cls, data, version)
            least = min(least, tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
        if least <= most_bytes(len(data)):
            break
    return least


@pytest.mark.parametrize("cls", declared_classes(), ids=version_id)
@quick
@given(data=st.data())
def test_a_message_cut_at_any_byte_is_refused(cls: Any, data: st.DataObject) -> None:
    version = data.draw(versions_of(cls))
    encoded = bytes(encode(data.draw(messages(cls, version)), version))
    ends = (
        range(len(encoded)) if len(encoded) < 300 else [*range(150), *range(len(encoded) - 150, len(encoded))]
    )
    assert not any(read_or_refuse(cls, encoded[:end], version) for end in ends)


@pytest.mark.parametrize("cls", declared_classes(), ids=version_id)
@quick
@given(data=st.data(), seed=st.integers(0, 2**32), garbage=st.binary(max_size=200))
def test_spoiled_messages_and_garbage_are_read_or_refused(
    cls: Any, data: st.DataObject, seed: int, garbage: bytes
) -> None:
    version = data.draw(versions_of(cls))
    encoded = encode(data.draw(messages(cls, version)), version)
    random = Random(seed)
    for spoiled in (garbage, bytes(encoded) + garbage, *(mutate(encoded, random) for _ in range(5))):
        read_or_refuse(cls, spoiled, version)


@pytest.mark.parametrize("cls", declared_classes(), ids=version_id)
def test_a_message_of_another_version_is_read_or_refused(cls: Any) -> None:
    first, last = declaration_of(cls).versions
    for written in range(first, last + 1):
        encoded = bytes(encode(random_message(cls, written, Random(f"{cls.__name__} {written}")), written))
        for read in range(first, last + 1):
            assert read_or_refuse(cls, encoded, read) or read != written


@pytest.mark.parametrize("cls", declared_classes(), ids=version_id)
def test_a_version_that_is_not_declared_is_refused(cls: Any) -> None:
    encoded = encode(cls(), declaration_of(cls).versions[0])
    first, last = declaration_of(cls).versions
    for undeclared in (first - 1, last + 1, 32767, -32768):
        with pytest.raises(DecodeError):
            decode(cls, encoded, undeclared)


@pytest.mark.parametrize(("cls", "version"), declared_versions(), ids=version_id)
def test_absurd_lengths_at_any_place_take_no_memory(cls: Any, version: int) -> None:
    encoded = bytes(encode(random_message(cls, version, Random(f"{cls.__name__} {version}")), version))
    for at in range(0, len(encoded), max(1, len(encoded) // 6)):
        for length in ABSURD_LENGTHS:
            data = encoded[:at] + length + encoded[at + len(length) :]
            assert peak_bytes(cls, data, version) <= most_bytes(len(data))


def smallest_bytes(kind: Wire | type[Any], version: int, flexible: bool) -> bytes:
    """The shortest value of a kind: zeros, empty strings, empty lists."""
    if isinstance(kind, Wire):
        return bytes(kind.size_bytes) if kind.code else _empty(kind.name == "string", flexible)
    fields = b"".join(_smallest_field(f, version, flexible) for f in layout(kind, version).plain)
    return fields + (b"\0" if flexible else b"")


def _smallest_field(field: Field, version: int, flexible: bool) -> bytes:
    if field.is_array:
        return _empty(False, flexible)
    if isinstance(field.kind, type) and field.is_nullable(version):
        return b"\xff"
    return smallest_bytes(field.kind, version, flexible)


def _empty(is_string: bool, flexible: bool) -> bytes:
    return b"\x01" if flexible else bytes(2 if is_string else 4)


def densest_messages(cls: type[Any], version: int, size_bytes: int) -> list[bytes]:
    """For each list of a message: the message with that list as long as fits, and all else as short as can
    be.
    """
    flexible = declaration_of(cls).is_flexible(version)
    fields = layout(cls, version).plain
    found = []
    for dense in (f for f in fields if f.is_array):
        count = size_bytes // smallest_size_bytes(dense.kind, version, flexible)
        length = uvarint(count + 1) if flexible else count.to_bytes(4)
        elements = length + smallest_bytes(dense.kind, version, flexible) * count
        parts = (elements if f is dense else _smallest_field(f, version, flexible) for f in fields)
        found.append(b"".join(parts) + (b"\0" if flexible else b""))
    return found


@pytest.mark.parametrize(("cls", "version"), declared_versions(), ids=version_id)
def test_the_densest_message_takes_a_bounded_multiple_of_its_bytes(cls: Any, version: int) -> None:
    for data in densest_messages(cls, version, size_bytes=4_000):
        assert read_or_refuse(cls, data, version)
        assert peak_bytes(cls, data, version) <= most_bytes(len(data))


def test_the_densest_nested_list_takes_a_bounded_multiple_of_its_bytes() -> None:
    topic = CreatePartitionsTopic(assignments=[CreatePartitionsAssignment()] * 10_000)
    data = bytes(encode(CreatePartitionsRequest([topic]), 2))
    assert peak_bytes(CreatePartitionsRequest, data, 2) <= most_bytes(len(data))


def test_a_message_with_more_elements_than_anyone_needs_is_refused() -> None:
    def request(count: int) -> bytes:
        return b"\0" + uvarint(count + 1) + b"\x01" * count + b"\0"

    assert len(decode(FindCoordinatorRequest, request(MAX_ELEMENTS), 4).coordinator_keys) == MAX_ELEMENTS
    with pytest.raises(DecodeError, match="too many elements"):
        decode(FindCoordinatorRequest, request(MAX_ELEMENTS + 1), 4)


def test_elements_of_nested_lists_count_together() -> None:
    topic = CreatePartitionsTopic(assignments=[CreatePartitionsAssignment()] * (MAX_ELEMENTS // 2))
    data = encode(CreatePartitionsRequest([topic] * 2), 2)
    with pytest.raises(DecodeError, match="too many elements"):
        decode(CreatePartitionsRequest, data, 2)


@settings(max_examples=300, deadline=None)
@given(data=st.binary(max_size=60), key=st.integers(-5, 100), version=st.integers(-5, 20))
def test_garbage_frames_are_read_or_refused(data: bytes, key: int, version: int) -> None:
    view = memoryview(key.to_bytes(2, signed=True) + version.to_bytes(2, signed=True) + data)
    for read in (lambda: read_request_header(view), lambda: read_response(key, version, view[4:])):
        try:
            read()
        except DecodeError:
            continue
