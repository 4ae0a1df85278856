"""Headers of records as Arrow lists. Many records have the same headers: each kind is read once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from ottla.records.corruption import CorruptRecord
from ottla.records.record import Header, read_headers
from ottla.spark.decode.record_fields import Numbers
from ottla.spark.decode.record_starts import Source, UnusualError
from ottla.spark.decode.schema import HEADERS

_LOOK_AHEAD = bytes(16)  # a reader of headers may look a little beyond them


def arrow_headers(rows: Sequence[tuple[Header, ...]]) -> pa.Array:
    """Null where a record has none, as Spark's Kafka source has it. Keys that are no text are made text, as
    Java does.
    """
    counts = np.fromiter(map(len, rows), np.int32, len(rows))
    offsets = np.concatenate([np.zeros(1, np.int32), np.cumsum(counts, dtype=np.int32)])
    pairs = [pair for row in rows for pair in row]
    keys = pa.array([_text(key) for key, _ in pairs], pa.string())
    values = pa.array([value for _, value in pairs], pa.binary())
    pairs_array = pa.StructArray.from_arrays([keys, values], fields=list(HEADERS.value_type))
    return pa.ListArray.from_arrays(pa.array(offsets), pairs_array, type=HEADERS, mask=pa.array(counts == 0))


def read_arrow_headers(source: Source, at: Numbers, ends: Numbers) -> pa.Array:
    """The headers between these places; UnusualError if they are not all of it."""
    kinds: dict[bytes, int] = {}
    view = memoryview(source)
    written = [bytes(view[begin:end]) for begin, end in zip(at.tolist(), ends.tolist(), strict=True)]
    indexes = [kinds.setdefault(each, len(kinds)) for each in written]
    return arrow_headers([_read(each) for each in kinds]).take(pa.array(indexes, pa.int32()))


def _read(written: bytes) -> tuple[Header, ...]:
    try:
        headers, behind = read_headers(written + _LOOK_AHEAD, 0, len(written))
    except (CorruptRecord, IndexError) as error:
        raise UnusualError from error
    if behind != len(written):
        raise UnusualError
    return headers


def _text(key: str) -> str:
    try:
        key.encode()
    except UnicodeEncodeError:
        return key.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return key
