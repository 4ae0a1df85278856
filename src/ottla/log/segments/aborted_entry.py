"""The format of a `.txnindex`: one entry of 34 bytes for each aborted transaction, in the order of markers."""

from struct import Struct
from typing import Final, NamedTuple

TXN_INDEX_ENTRY: Final = Struct(
    ">hqqqq"
)  # version, producer id, first offset, last offset, last stable offset
VERSION: Final = 0


class AbortedEntry(NamedTuple):
    """An aborted transaction: its records lie between `first_offset` and the marker at `last_offset`."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int  # after the marker was written: no open transaction began before this offset

    def pack(self) -> bytes:
        """The entry as it stands in the file."""
        return TXN_INDEX_ENTRY.pack(VERSION, *self)
