"""The answer of a fetch becomes Arrow record batches.

Here batches are chosen, checked and decompressed; `rows` makes rows of their records, of many batches at
once. Rules
- Control batches, batches of aborted transactions and batches without records have no rows.
- A batch that is damaged (its checksum, its compressed block, its records) is KafkaError(CORRUPT_MESSAGE)
  with its place.
- Compressed batches are decompressed behind each other into memory that is used again: it holds `most_bytes`,
  or the largest single batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
from crc32c import crc32c

from ottla.client.sync.range_batches import PlacedBatch, RangeBatches
from ottla.errors import ErrorCode, KafkaError
from ottla.records.aborted_transactions import AbortedTransactions
from ottla.records.batch import BatchView
from ottla.records.corruption import CorruptRecord
from ottla.records.header import CODEC_MASK, CONTROL, CRC_START, HEADER_BYTES, LOG_APPEND_TIME, BatchHeader
from ottla.spark.decode.arrow_rows import Block, Constants, DamagedBlockError, arrow_rows
from ottla.spark.decode.decompressed import Decompressed

MOST_ROWS: Final = 1 << 15
MOST_BYTES: Final = 8 << 20


@dataclass(frozen=True, slots=True)
class Wanted:
    """The records of a partition as columns; batches that are older or newer than wanted may be left out.

    A record batch has about `most_rows` rows, or `most_bytes` bytes of records.
    """

    topic: str
    partition: int
    include_headers: bool = False
    check_crcs: bool = True
    since_ms: int | None = None
    until_ms: int | None = None
    most_rows: int = MOST_ROWS
    most_bytes: int = MOST_BYTES


class Decoder:
    """Decodes the answers of one scan."""

    def __init__(self, wanted: Wanted) -> None:
        self._wanted = wanted
        self._constants = Constants(wanted.topic, wanted.partition)
        self._decompressed = Decompressed(wanted.most_bytes)

    def decode(self, raw: RangeBatches) -> Iterator[pa.RecordBatch]:
        """The rows of an answer. Raises KafkaError(CORRUPT_MESSAGE) that names the place of what is
        damaged.
        """
        blocks: list[Block] = []
        is_packed, rows = False, 0
        for batch in self._visible(raw):
            was_packed, is_packed = is_packed, bool(batch.header[5] & CODEC_MASK)
            if is_packed != was_packed or rows + batch.header[12] > self._wanted.most_rows:
                yield from self._rows(raw, blocks, was_packed)
                blocks, rows = [], 0
            block = self._block(raw.records, batch)
            if block is None:
                yield from self._rows(raw, blocks, is_packed)
                blocks, rows = [], 0
                block = self._block(raw.records, batch)
            if block is not None and batch.header[12] != 0:
                blocks.append(block)
                rows += batch.header[12]
        yield from self._rows(raw, blocks, is_packed)
        if raw.damage is not None:
            raise self._damaged(raw.next_offset, raw.damage)

    def _visible(self, raw: RangeBatches) -> Iterator[PlacedBatch]:
        """The batches that have rows, checked."""
        transactions = AbortedTransactions(raw.aborted) if raw.aborted else None
        for batch in raw.batches:
            header = batch.header
            try:
                if transactions is not None and transactions.hides(BatchView(raw.records, batch.position)):
                    continue
                if header.last_offset < raw.start or self._is_left_out(header):
                    continue
                if self._wanted.check_crcs and not raw.is_checked:
                    _check_crc(raw.records, batch)
            except CorruptRecord as damage:
                raise self._damaged(header[0], damage) from damage
            yield batch

    def _is_left_out(self, header: BatchHeader) -> bool:
        wanted = self._wanted
        if header.attributes & CONTROL:
            return True
        if wanted.since_ms is not None and header.max_timestamp < wanted.since_ms:
            return True
        is_stamped = bool(header.attributes & LOG_APPEND_TIME)
        return wanted.until_ms is not None and is_stamped and header.max_timestamp > wanted.until_ms

    def _block(self, records: memoryview, batch: PlacedBatch) -> Block | None:
        """The records of a batch; None if there is no room to decompress them now."""
        position, end, header = batch
        begin, codec = position + HEADER_BYTES, header[5] & CODEC_MASK
        place: tuple[int, int] | None = (begin, end)
        try:
            if codec and begin < end:
                place = self._decompressed.add(codec, records[begin:end])
            if header[12] == 0 and place is not None and place[1] > place[0]:
                raise CorruptRecord(f"{place[1] - place[0]} bytes are left over after 0 records")
        except CorruptRecord as damage:
            raise self._damaged(header[0], damage) from damage
        return None if place is None else Block(header, *place)

    def _rows(self, raw: RangeBatches, blocks: Sequence[Block], is_packed: bool) -> Iterator[pa.RecordBatch]:
        """The rows of what was gathered, which is done with then."""
        source = self._decompressed.memory if is_packed else raw.records
        self._decompressed.clear()
        if not blocks:
            return
        include_headers = self._wanted.include_headers
        try:
            rows = arrow_rows(source, blocks, self._constants, include_headers=include_headers)
        except DamagedBlockError as error:
            raise self._damaged(error.block.header[0], error.damage) from error.damage
        rows = _cut(rows, blocks, raw.start, raw.end)
        if rows.num_rows:
            yield rows

    def _damaged(self, offset: int, damage: CorruptRecord) -> KafkaError:
        place = f"{self._wanted.topic}-{self._wanted.partition} is damaged at offset {offset}"
        return KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{place}: {damage}")


def _cut(rows: pa.RecordBatch, blocks: Sequence[Block], start: int, end: int) -> pa.RecordBatch:
    """Without the rows before and behind the range, where a batch reaches out of it."""
    if blocks[0].header.base_offset >= start and blocks[-1].header.last_offset < end:
        return rows
    first, last = np.searchsorted(rows.column("offset").to_numpy(), [start, end])
    return rows.slice(int(first), int(last - first))


def _check_crc(records: memoryview, batch: PlacedBatch) -> None:
    computed, said = crc32c(records[batch.position + CRC_START : batch.end]), batch.header[4]
    if computed != said:
        raise CorruptRecord(f"the checksum says {said:08x}, the bytes say {computed:08x}")
