"""The batches of one fetch response: found by their headers when they come, decoded when they are needed.

Producers that do not wait write batches of one record; so several batches are decoded together, and no object
is made per batch that is not needed. Rules
- A broker may cut the last batch off: it is not there.
- Control batches and aborted transactions have no records for the application.
- Invalid bytes end the batches before them (`damage`); damage that is found only by decoding is raised, after
  the records before it were handed out.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final, NamedTuple

from crc32c import crc32c

from ottla.protocol.messages.fetch import AbortedTransaction
from ottla.records.aborted_transactions import AbortedTransactions
from ottla.records.batch import BatchView
from ottla.records.compression import compression_of, decompress
from ottla.records.corruption import CorruptRecord
from ottla.records.decoding import FEW_RECORDS, ColumnsDecoder, RecordColumns, decodable
from ottla.records.header import (
    BATCH_OVERHEAD_BYTES,
    CODEC_MASK,
    CONTROL,
    CRC_START,
    HEADER,
    HEADER_BYTES,
    MAGIC,
    BatchHeader,
    read_header,
)

_walk: Final = Struct(">8xi4xb").unpack_from  # length and magic
_offsets: Final = Struct(">q15xi").unpack_from  # base offset and last offset delta
_epoch: Final = Struct(">12xi").unpack_from
_header: Final = HEADER.unpack_from
# Large records are not decoded far ahead of the application: the copy takes as much memory as they do.
_ENOUGH_BYTES: Final = 64 << 10
_SMALLEST_LENGTH: Final = HEADER_BYTES - BATCH_OVERHEAD_BYTES


class Decoded(NamedTuple):
    """Records of neighbouring batches, perhaps none, and the offset after them."""

    columns: RecordColumns
    next_offset: int
    leader_epoch: int
    size_bytes: int


class FetchedBatches:
    """The whole batches from an offset on."""

    __slots__ = (
        "_end",
        "_hidden",
        "_position",
        "_records",
        "_source",
        "damage",
        "leader_epoch",
        "next_offset",
    )

    def __init__(
        self, records: memoryview, offset: int, aborted: Sequence[AbortedTransaction] | None = None
    ) -> None:
        self._records = records
        self._source: bytes | memoryview | None = None
        self.next_offset = offset
        self.leader_epoch = -1
        self.damage: CorruptRecord | None = None
        self._position, self._end = self._look_over(offset)
        self._hidden = self._aborted(AbortedTransactions(aborted)) if aborted else frozenset()

    @property
    def size_bytes(self) -> int:
        """The bytes that are not decoded yet."""
        return self._end - self._position

    @property
    def base_offset(self) -> int:
        """Of the batch that is next."""
        base_offset: int = _offsets(self._records, self._position)[0]
        return base_offset

    def decode(self, wanted: int, *, check_crcs: bool) -> Decoded:
        """The next batches, up to a number of records.

        Raises CorruptRecord if the first of them is damaged.
        """
        records, end, begin = self._records, self._end, self._position
        decoder = ColumnsDecoder()
        position, next_offset, epoch = begin, 0, -1
        while position < end and len(decoder) < wanted and position - begin < _ENOUGH_BYTES:
            header: BatchHeader = _header(records, position)  # type: ignore[assignment]
            if header[2] != epoch and position != begin:
                break
            source = self._source
            if header[12] <= FEW_RECORDS and isinstance(source, bytes) and not self._hidden:
                enough = min(end, begin + _ENOUGH_BYTES)
                add = decoder.add_lone if header[12] == 1 else decoder.add_small
                behind, offset = add(source, position, enough, wanted=wanted, check_crcs=check_crcs)
                if behind > position:
                    next_offset, epoch, position = offset, header[2], behind
                    continue
            behind = position + header[1] + BATCH_OVERHEAD_BYTES
            if not header[5] & CONTROL and position not in self._hidden:
                try:
                    self._add(decoder, header, position, behind, check_crcs)
                except CorruptRecord:
                    if position == begin:
                        raise
                    break  # the batches before the damage come first
            next_offset, epoch, position = header[0] + header[6] + 1, header[2], behind
        self._position = position
        return Decoded(decoder.columns(), next_offset, epoch, position - begin)

    def _add(
        self, decoder: ColumnsDecoder, header: BatchHeader, position: int, end: int, check_crcs: bool
    ) -> None:
        records = self._records
        if check_crcs and (computed := crc32c(records[position + CRC_START : end])) != header[4]:
            raise CorruptRecord(f"the checksum says {header[4]:08x}, the bytes say {computed:08x}")
        start, count, codec = position + HEADER_BYTES, header[12], header[5] & CODEC_MASK
        if codec:
            block = decompress(compression_of(codec), records[start:end]) if end > start else b""
            decoder.add(header, decodable(block, count), 0, len(block))
            return
        if self._source is None:
            share = max(
                1, (end - position) // max(1, count)
            )  # the size of a record, estimated from the first batch
            self._source = decodable(records, len(records) // share)
        decoder.add(header, self._source, start, end)

    def _look_over(self, offset: int) -> tuple[int, int]:
        """Where the first batch from the offset on begins, and where the last one ends."""
        records, position, end, walk = self._records, 0, len(self._records), _walk
        begin, last = -1, -1
        while end - position >= HEADER_BYTES:
            length, magic = walk(records, position)
            if magic != MAGIC or length < _SMALLEST_LENGTH:
                self.damage = _damage(records, position)
                break
            behind = position + length + BATCH_OVERHEAD_BYTES
            if behind > end:
                break
            if begin < 0 and _last_offset(records, position) >= offset:
                begin = position
            last, position = position, behind
        if begin < 0:
            return position, position
        self.next_offset = max(offset, _last_offset(records, last) + 1)  # never back, whatever a broker says
        (self.leader_epoch,) = _epoch(records, last)
        return begin, position

    def _aborted(self, transactions: AbortedTransactions) -> frozenset[int]:
        """Where batches begin that readers of committed records must not see."""
        position, hidden = 0, list[int]()
        try:
            while position < self._end:
                batch = BatchView(self._records, position)
                if transactions.hides(batch):
                    hidden.append(position)
                position += batch.size_bytes
        except CorruptRecord as damage:
            self.damage, self._end = damage, max(position, self._position)
        return frozenset(hidden)


def _last_offset(records: memoryview, position: int) -> int:
    base_offset, last_delta = _offsets(records, position)
    return int(base_offset + last_delta)


def _damage(records: memoryview, position: int) -> CorruptRecord:
    try:
        read_header(records, position)
    except CorruptRecord as damage:
        return damage
    return CorruptRecord("the header is invalid")
