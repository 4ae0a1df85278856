"""Strategies for records, and a decoder so plain that it can be seen to be right.

The decoder reads one number at a time and knows nothing of the shapes that ottla.records.record is fast at;
the tests hold the two against each other.
"""

from collections.abc import Sequence

from hypothesis import strategies as st

from ottla.records.record import Header, Record

INT64_MAX = (1 << 63) - 1

# Lengths around the places where a varint takes one byte more: 63/64 and 8191/8192.
sizes = st.one_of(st.integers(0, 70), st.sampled_from([63, 64, 127, 128, 4095, 4096, 8191, 8192, 20000]))
payloads = st.one_of(st.binary(max_size=80), sizes.map(lambda size: b"v" * size))
names = st.text(max_size=12)
headers: st.SearchStrategy[tuple[Header, ...]] = st.lists(
    st.tuples(names, st.none() | st.binary(max_size=70)), max_size=4
).map(tuple)
timestamps = st.one_of(
    st.integers(0, 200),
    st.integers(1_700_000_000_000, 1_700_000_100_000),
    st.integers(-1, INT64_MAX - 1),  # from one to any other a delta of 64 bits reaches
)


@st.composite
def record_lists(draw: st.DrawFn, *, dense: bool = False, min_size: int = 0) -> list[Record]:
    """Records with rising offsets from 0 on, with holes where compaction took some unless they are dense."""
    rows = draw(
        st.lists(
            st.tuples(timestamps, st.none() | payloads, st.none() | payloads, st.just(()) | headers),
            min_size=min_size,
            max_size=8,
        )
    )
    gaps = st.just(1) if dense else st.sampled_from([1, 1, 1, 2, 63, 64, 9000])
    offset, records = -1, []
    for timestamp, key, value, record_headers in rows:
        offset += draw(gaps)
        records.append(Record(offset, timestamp, key, value, record_headers))
    return records


class MalformedError(Exception):
    """The plain decoder's only complaint."""


def plain_decode(block: bytes, count: int, last_offset_delta: int, base_timestamp: int) -> list[Record]:
    """Every record of an uncompressed block, or MalformedError."""
    try:
        return list(_plain_records(block, count, last_offset_delta, base_timestamp))
    except IndexError:
        raise MalformedError from None


def _plain_records(block: bytes, count: int, last_offset_delta: int, base_timestamp: int) -> Sequence[Record]:
    reader = _Reader(block)
    records: list[Record] = []
    for _ in range(count):
        length = reader.number()
        end = reader.position + length
        reader.take(1)
        timestamp = base_timestamp + reader.number()
        offset = reader.number()
        key, value = reader.sized(), reader.sized()
        found = tuple(reader.header() for _ in range(reader.count()))
        previous = records[-1].offset if records else -1
        if reader.position != end or not previous < offset <= last_offset_delta:
            raise MalformedError
        records.append(Record(offset, timestamp, key, value, found))
    if reader.position != len(block):
        raise MalformedError
    return records


class _Reader:
    def __init__(self, block: bytes) -> None:
        self.block = block
        self.position = 0

    def take(self, size: int) -> bytes:
        if size < 0 or self.position + size > len(self.block):
            raise MalformedError
        self.position += size
        return self.block[self.position - size : self.position]

    def number(self) -> int:
        total = shift = 0
        while True:
            (byte,) = self.take(1)
            total += (byte % 128) << shift
            shift += 7
            if byte < 128:
                break
            if shift == 70:
                raise MalformedError
        if total >= 1 << 64:
            raise MalformedError
        return total // 2 if total % 2 == 0 else -(total + 1) // 2

    def sized(self) -> bytes | None:
        size = self.number()
        return None if size == -1 else self.take(size)

    def count(self) -> int:
        count = self.number()
        if not 0 <= count <= len(self.block):
            raise MalformedError
        return count

    def header(self) -> Header:
        key = self.sized()
        if key is None:
            raise MalformedError
        return key.decode("utf-8", "surrogateescape"), self.sized()
