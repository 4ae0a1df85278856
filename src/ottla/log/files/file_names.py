"""The names of a partition directory's files:

`<20-digit offset>.<kind>`, with a suffix while a file is in transition.
"""

from typing import Final

LOG: Final = ".log"
INDEX: Final = ".index"
TIME_INDEX: Final = ".timeindex"
TXN_INDEX: Final = ".txnindex"
SNAPSHOT: Final = ".snapshot"

DELETED: Final = ".deleted"  # out of the log, removed after file.delete.delay.ms
CLEANED: Final = ".cleaned"  # being written; removed after a crash
SWAP: Final = ".swap"  # written and durable, about to replace segments
TEMPORARY: Final = ".tmp"

SEGMENT_KINDS: Final = (LOG, INDEX, TIME_INDEX, TXN_INDEX)

LEADER_EPOCHS: Final = "leader-epoch-checkpoint"
PARTITION_METADATA: Final = "partition.metadata"
FIRST_LOST_OFFSET: Final = "first-lost-offset"
PENDING_CUT: Final = "pending-cut"

_OFFSET_DIGITS: Final = 20


def file_name(offset: int, kind: str) -> str:
    """The name of the file of this kind that starts at `offset`."""
    return f"{offset:0{_OFFSET_DIGITS}d}{kind}"


def offset_of(name: str, kind: str) -> int | None:
    """The offset in a file's name, or None if the name is not of this kind."""
    digits = name[:_OFFSET_DIGITS]
    if name[_OFFSET_DIGITS:] != kind or not digits.isdecimal():
        return None
    return int(digits)
