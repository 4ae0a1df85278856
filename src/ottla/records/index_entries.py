"""The entries of a segment's index files: fixed sizes, one after the other.

`.index`: an offset, relative to the segment's first one, and where its batch stands. `.timeindex`: a timestamp, and
the relative offset of the batch that has it. `.txnindex`: an aborted transaction, 34 bytes, in the order of markers.
"""

from struct import Struct
from typing import Final, NamedTuple

OFFSET_ENTRY: Final = Struct(">ii")
TIME_ENTRY: Final = Struct(">qi")
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
