"""The aborted transactions that a reader of committed records must know to skip their records.

The entry of a transaction lies in the segment of its marker, which may follow the read range by many
segments. The last stable offset in an entry tells when the search may end: no transaction that is aborted
later has a record before it.
"""

from ottla.log.segments.segment_list import Segments
from ottla.records.index_entries import AbortedEntry


def find_aborted(segments: Segments, offset: int, upper_offset: int) -> list[AbortedEntry]:
    """The aborted transactions with records from `offset` up to `upper_offset`."""
    found: list[AbortedEntry] = []
    for segment in segments.from_offset(offset):
        index = segment.txn_index
        if index.count:
            entries, is_complete = index.find(offset, upper_offset)
            found += entries
            if is_complete:
                break
    return found
