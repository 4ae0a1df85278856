"""Whole batches decoded into columns: the fast way for readers that want all of it.

`read_records` gives record by record; here offsets, timestamps, keys, values and headers come as one sequence
each, and an application that wants only the values pays only for them. Both find the same damage: a record
that does not have one of the layouts known here goes to `read_record`, which alone decides.

Where the loop over records is compiled (`compiled`), it takes all records of a batch, and these ways are for
small batches only. Without it there are three, the faster one where it fits:
- a run: neighbours of the same size and layout. Bytes at the same place in each are compared as slices with a
  stride, and keys and values are cut out by `struct`: no bytecode runs per record.
- small batches, one behind the other: headers and records in one loop; and faster still if each has only one
  record: header and record are then looked at together; neighbours of one size, or without keys, are cut out
  by `runs`.
- one by one, with as few looks at the bytes as possible.
`add_lone`, `_take_few` and `_take_usual` read the same fields in place: a call per record would cost 6 %.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from struct import error as struct_error
from typing import Final, NamedTuple

from crc32c import crc32c

from ottla.records.compiled import Take, compiled_take
from ottla.records.compression import Readable
from ottla.records.corruption import CorruptRecord
from ottla.records.header import (
    BATCH_OVERHEAD_BYTES,
    CRC_START,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    BatchHeader,
)
from ottla.records.record import Header, read_headers, read_record
from ottla.records.single_record_batches import NOT_PLAIN, LoneRun, lone_records
from ottla.records.uniform_runs import SHORTEST_RUN, run_at

_LOOK_AHEAD: Final = bytes(80)  # zeros behind the block: whatever is peeked at ends in there
_LARGE: Final = 512
_CHUNK: Final = 64  # records one by one between two looks for a run
_peek: Final = Struct("8B").unpack_from
FEW_RECORDS: Final = SHORTEST_RUN - 1  # in a batch that is worth no look for a run
# Base offset, length, leader epoch, checksum, attributes, last offset delta, first timestamp, count.
_peek_header: Final = Struct(">qiixIhiq22xi").unpack_from
# The same of a batch of one record, and what the record begins with.
_peek_lone: Final = Struct(">qiixIhiq22xi6B").unpack_from
_peek_seven: Final = Struct("7B").unpack_from


class RecordColumns(NamedTuple):
    """The records of a batch; equal indexes belong together. `headers` is None if no record has any."""

    offsets: Sequence[int]
    timestamps: Sequence[int]
    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    headers: Sequence[tuple[Header, ...]] | None


def decode_columns(header: BatchHeader, block: Readable, take: Take | None = compiled_take) -> RecordColumns:
    """Decode the records of a batch, which must fill the block exactly; CorruptRecord if damaged."""
    decoder = ColumnsDecoder(take)
    decoder.add(header, decodable(block, header.records_count), 0, len(block))
    return decoder.columns()


def decodable(data: Readable, records_count: int) -> bytes | memoryview:
    """The bytes that records are decoded from: padded at the end, or the data itself if records are large."""
    # Small records are taken apart faster in bytes; large ones cost more to copy than to look at from afar.
    return memoryview(data) if len(data) > _LARGE * records_count else b"".join((data, _LOOK_AHEAD))


class ColumnsDecoder:
    """Decodes batches, one after the other, into the same columns."""

    __slots__ = (
        "_base_offset",
        "_base_timestamp",
        "_data",
        "_delta",
        "_end",
        "_first_offset",
        "_gaps",
        "_headers",
        "_keys",
        "_known_headers",
        "_left",
        "_most_missing",
        "_next_offset",
        "_position",
        "_source",
        "_take",
        "_timestamps",
        "_use_delta",
        "_values",
    )

    def __init__(self, take: Take | None = compiled_take) -> None:
        self._take = take
        self._first_offset = self._next_offset = -1
        self._gaps: list[tuple[int, int]] = []  # the place of a record behind a gap, and its offset
        self._timestamps: list[int] = []
        self._keys: list[bytes | None] = []
        self._values: list[bytes | None] = []
        self._headers: dict[int, tuple[Header, ...]] = {}  # by the record's place
        self._known_headers: dict[bytes, tuple[Header, ...]] = {}  # by their bytes

    def __len__(self) -> int:
        return len(self._values)

    def add(self, header: BatchHeader, source: bytes | memoryview, start: int, end: int) -> None:
        """Decode the batch at this place of the source, which is `decodable`; CorruptRecord leaves no trace."""
        # By index and in one go: with batches of one record, this is most of the work.
        base_offset, _, _, _, _, attributes, last_delta, base, latest, _, _, _, count = header
        if not 0 <= count <= last_delta + 1:
            raise CorruptRecord(f"{count} records in a batch whose last offset delta is {last_delta}")
        before = len(self._values)
        if not before:
            self._first_offset = base_offset
        elif base_offset != self._next_offset and count:
            self._gaps.append((before, base_offset))
        self._source, self._data = source, source if isinstance(source, bytes) else b""
        self._position, self._end, self._left = start, end, count
        self._use_delta = not attributes & LOG_APPEND_TIME
        self._base_offset, self._base_timestamp = base_offset, base if self._use_delta else latest
        self._most_missing = last_delta + 1 - count - before
        self._delta = 0  # in zig-zag: of the next offset, if none is missing
        try:
            while self._left:
                if self._take is not None:
                    self._take_compiled(self._take)
                elif self._left < SHORTEST_RUN or not self._take_run():
                    self._take_one_by_one()
            if self._position != self._end:
                raise CorruptRecord(f"{self._end - self._position} bytes are left over after {count} records")
        except CorruptRecord:
            self._cut(before)
            raise
        self._next_offset = base_offset + (self._delta >> 1)

    def add_lone(
        self, source: bytes, start: int, end: int, *, wanted: int, check_crcs: bool
    ) -> tuple[int, int]:
        """Decode whole batches of one usual record each, up to a limit; their end, and the next offset.

        All have one leader epoch. Any other batch, a damaged one included, ends the run: `add` is for it.
        """
        run = lone_records(source, start, end, wanted - len(self._values), check_crcs=check_crcs)
        if run is not None:
            return self._take_lone_run(run)
        # Dense on purpose: producers that do not wait write such batches, and this is all that is done with
        # each.
        keys, values, timestamps, peek = self._keys, self._values, self._timestamps, _peek_lone
        position, next_offset, common_epoch = start, self._next_offset, None
        self._data = source
        key: bytes | None
        value: bytes | None
        try:
            while position < end and len(values) < wanted:
                looked = peek(source, position)
                base, length, epoch, crc, attributes, last, time, count, a, b, c, d, e, n = looked
                if count != 1 or last or attributes & NOT_PLAIN or (epoch != common_epoch is not None):
                    break
                behind = self._end = position + length + BATCH_OVERHEAD_BYTES
                if a < 128:  # the length has one byte: the key's length is one place nearer
                    d, e, n, at = c, d, e, position + HEADER_BYTES + 5
                    stop = at - 4 + (a >> 1)
                else:
                    at = position + HEADER_BYTES + 6
                    stop = at - 4 + (a >> 1 & 63 | b << 6) if b < 128 else 0
                if d or e or stop != behind or (n & 129 and n != 1) or a & 1:
                    break
                key = None if n == 1 else source[at : (at := at + (n >> 1))]
                if (n := source[at]) < 128:
                    stop = at + 1 + (n >> 1)
                    value = source[at + 1 : stop]
                else:  # a third byte would make it too large to fit
                    stop = at + 2 + (n >> 1 & 63 | source[at + 1] << 6)
                    value = source[at + 2 : stop]
                if check_crcs and crc32c(source[position + CRC_START : behind]) != crc:
                    break
                if stop + 1 != behind or source[stop] or n & 1:
                    if not self._is_complete(stop, behind, n):
                        break
                    value = None if n == 1 else value
                if base != next_offset:
                    self._begin_at(base)
                keys.append(key)
                values.append(value)
                timestamps.append(time)
                position, next_offset, common_epoch = behind, base + 1, epoch
        except (CorruptRecord, IndexError):
            pass  # headers: what is wrong with them is for `add` to say
        self._next_offset = next_offset
        return position, next_offset

    def _take_lone_run(self, run: LoneRun) -> tuple[int, int]:
        if run.first_offset != self._next_offset:
            self._begin_at(run.first_offset)
        self._timestamps += run.timestamps
        self._keys += run.keys
        self._values += run.values
        self._next_offset = run.first_offset + len(run.values)
        return run.end, self._next_offset

    def add_small(
        self, source: bytes, start: int, end: int, *, wanted: int, check_crcs: bool
    ) -> tuple[int, int]:
        """Decode whole batches of a few usual records, up to a limit; their end, and the next offset.

        All have one leader epoch. Any other batch, a damaged one included, ends the run: `add` is for it.
        """
        self._data, self._end = source, len(source)
        position, next_offset, common, done = start, self._next_offset, None, len(self._values)
        try:
            while position < end and done < wanted:
                base, length, epoch, crc, attributes, last, first, count = _peek_header(source, position)
                if not 0 < count <= FEW_RECORDS or last != count - 1 or attributes & NOT_PLAIN:
                    break
                behind = position + length + BATCH_OVERHEAD_BYTES
                if epoch != common is not None:
                    break
                if check_crcs and crc32c(source[position + CRC_START : behind]) != crc:
                    break
                if base != next_offset:
                    self._begin_at(base)
                if self._take_few(position + HEADER_BYTES, count, first) != behind:
                    break
                position, next_offset, common, done = behind, base + count, epoch, done + count
        except (CorruptRecord, IndexError, struct_error):
            pass  # what is wrong there is for `add` to say
        self._cut(done)
        self._next_offset = next_offset
        return position, next_offset

    def _begin_at(self, offset: int) -> None:
        """The next record has this offset, which does not follow the last one."""
        if self._values:
            self._gaps.append((len(self._values), offset))
        else:
            self._first_offset = offset

    def _take_few(self, position: int, count: int, base: int) -> int:
        """Usual records without a gap, as `_take_usual` does it for many; answers where they end, or 0."""
        data, keys, values, timestamps = self._data, self._keys, self._values, self._timestamps
        key: bytes | None
        value: bytes | None
        for delta in range(0, 2 * count, 2):
            a, b, c, d, e, n, m = _peek_seven(data, position)
            if a < 128:
                d, e, n, m = c, d, e, n
                at, end = position + 5, position + 1 + (a >> 1)
            else:
                at, end = position + 6, position + 2 + (a >> 1 & 63 | b << 6) if b < 128 else 0
            if d:
                if d > 127:
                    if e > 127:
                        return 0
                    d, e, n = d & 127 | e << 7, n, m
                    at += 1
                d = d >> 1 ^ -(d & 1)
            if e != delta or (n & 129 and n != 1) or a & 1:
                return 0
            key = None if n == 1 else data[at : (at := at + (n >> 1))]
            if (n := data[at]) < 128:
                stop = at + 1 + (n >> 1)
                value = data[at + 1 : stop]
            else:  # a third byte would make it too large to fit
                stop = at + 2 + (n >> 1 & 63 | data[at + 1] << 6)
                value = data[at + 2 : stop]
            if stop + 1 != end or data[stop] or n & 1:
                if not self._is_complete(stop, end, n):
                    return 0
                value = None if n == 1 else value
            keys.append(key)
            values.append(value)
            timestamps.append(base + d)
            position = end
        return position

    def _cut(self, count: int) -> None:
        """Drop the records after the first `count`."""
        for column in (self._keys, self._values, self._timestamps):
            del column[count:]
        self._gaps = [gap for gap in self._gaps if gap[0] < count]
        self._headers = {place: headers for place, headers in self._headers.items() if place < count}

    def columns(self) -> RecordColumns:
        """The decoded columns."""
        return RecordColumns(
            self._offsets(), self._timestamps, self._keys, self._values, self._headers_column()
        )

    def _headers_column(self) -> list[tuple[Header, ...]] | None:
        if not self._headers:
            return None
        column: list[tuple[Header, ...]] = [()] * len(self._values)
        for place, headers in self._headers.items():
            column[place] = headers
        return column

    def _offsets(self) -> Sequence[int]:
        count, first = len(self._values), self._first_offset
        if not self._gaps:
            return range(first, first + count)
        offsets, at = list[int](), 0
        for place, behind in [*self._gaps, (count, 0)]:
            offsets += range(first, first + place - at)
            at, first = place, behind
        return offsets

    def _take_compiled(self, take: Take) -> None:
        """All records up to the first one that is not as it should be."""
        self._position, self._delta, taken = take(
            self._source,
            self._position,
            self._end,
            self._left,
            self._delta,
            self._base_offset,
            self._base_timestamp,
            self._use_delta,
            self._most_missing,
            self._keys,
            self._values,
            self._timestamps,
            self._headers,
            self._gaps,
        )
        self._left -= taken
        if self._left:
            self._copy_rest()
            self._take_unusual()

    def _copy_rest(self) -> None:
        """Have the rest of the block as padded bytes, to look at it in Python."""
        if not self._data:
            self._source = self._data = b"".join((self._source[self._position : self._end], _LOOK_AHEAD))
            self._position, self._end = 0, self._end - self._position

    def _take_one_by_one(self) -> None:
        """A chunk of records, whatever their sizes; it ends with one that is unusual."""
        self._copy_rest()
        wanted = min(self._left, _CHUNK)
        try:
            taken = self._take_usual(wanted)
        except (IndexError, struct_error):
            self._position = self._end + 1
        if self._position > self._end:
            raise CorruptRecord(f"the records block ends inside a record, at byte {self._end}")
        self._left -= taken
        if taken < wanted:
            self._take_unusual()

    def _take_usual(self, wanted: int) -> int:
        """Decode up to `wanted` records whose numbers take two bytes at most; answers how many there were."""
        # Dense on purpose: this is where a consumer's time goes when records differ in size. Eight bytes are
        # looked at together: length, attributes, timestamp, offset, the key's length; they move up where a
        # number has one byte.
        data, position, delta, base = self._data, self._position, self._delta, self._base_timestamp
        keys, values, timestamps, before = self._keys, self._values, self._timestamps, len(self._values)
        stamp, timestamp, most_missing, peek = -1, 0, self._most_missing, _peek
        key: bytes | None
        value: bytes | None
        for _ in range(wanted):
            a, b, c, d, e, f, n, m = peek(data, position)
            if a > 127:
                if b > 127:
                    break
                a = a & 127 | b << 7
                at, end = position + 7, position + 2 + (a >> 1)
            else:
                d, e, f, n, m = c, d, e, f, n
                at, end = position + 6, position + 1 + (a >> 1)
            if d > 127:
                if e > 127:
                    break
                d, e, f, n = d & 127 | e << 7, f, n, m
                at += 1
            if e > 127:
                if f > 127:
                    break
                e = e & 127 | f << 7
            else:
                n = f
                at -= 1
            if n & 129 and n != 1:  # negative, or longer than one byte
                break
            key = None if n == 1 else data[at : (at := at + (n >> 1))]
            if (n := data[at]) < 128:
                stop = at + 1 + (n >> 1)
                value = data[at + 1 : stop]
            else:  # a third byte would make it too large to fit
                stop = at + 2 + (n >> 1 & 63 | data[at + 1] << 6)
                value = data[at + 2 : stop]
            if stop + 1 != end or data[stop] or (a | n) & 1:
                if a & 1 or not self._is_complete(stop, end, n):
                    break
                value = None if n == 1 else value
            if e != delta:
                if e < delta or e & 1 or (e >> 1) - len(values) > most_missing:
                    break
                self._gaps.append((len(values), self._base_offset + (e >> 1)))
            if d != stamp:
                timestamps += [timestamp] * (len(values) - len(timestamps))
                stamp, timestamp = d, base + (d >> 1 ^ -(d & 1)) * self._use_delta
            keys.append(key)
            values.append(value)
            position, delta = end, e + 2
        timestamps += [timestamp] * (len(values) - len(timestamps))
        self._position, self._delta = position, delta
        return len(values) - before

    def _is_complete(self, stop: int, end: int, value_length: int) -> bool:
        """Whether a record with headers, or without a value, is usual otherwise."""
        if value_length & 1 and value_length != 1:
            return False
        written = self._data[stop:end]  # many records have the same headers
        headers = self._known_headers.get(written)
        if headers is None:
            headers, behind = read_headers(self._data, stop, self._end)
            if behind != end:
                return False
            self._known_headers[written] = headers
        if headers:
            self._headers[len(self._values)] = headers
        return True

    def _take_unusual(self) -> None:
        """One record of any shape, or the damage that it is."""
        place = len(self._values)
        stamp, offset, key, value, headers, behind = read_record(self._data, self._position, self._end)
        if offset != self._delta:
            if offset < self._delta or offset & 1 or (offset >> 1) - place > self._most_missing:
                raise CorruptRecord(
                    f"offset delta {offset >> 1 ^ -(offset & 1)} where {self._delta >> 1} is next"
                )
            self._gaps.append((place, self._base_offset + (offset >> 1)))
        if headers:
            self._headers[place] = headers
        self._timestamps.append(self._base_timestamp + (stamp >> 1 ^ -(stamp & 1)) * self._use_delta)
        self._keys.append(key)
        self._values.append(value)
        self._delta, self._position = offset + 2, behind
        self._left -= 1

    def _take_run(self) -> bool:
        """Records of exactly the same size and layout, as many as there are; False if they are too few."""
        run = run_at(
            self._source,
            self._position,
            self._end,
            most=self._left,
            delta=self._delta,
            base_timestamp=self._base_timestamp,
            use_delta=self._use_delta,
        )
        if run is None:
            return False
        count = len(run.timestamps)
        self._timestamps += run.timestamps
        self._keys += run.keys
        self._values += run.values
        self._delta += 2 * count
        self._position = run.end
        self._left -= count
        return True
