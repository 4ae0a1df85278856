"""Which files of a table are merged into larger ones.

Rules
- Only files of the same part of the table (a day, an hour, a bucket) are merged, and only with neighbours by
  offset, so that a merged file stays sorted and its statistics stay narrow.
- A file of at least two thirds of the wanted size stays: rewriting it would gain nothing.
- A group of one file is no group.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import NamedTuple


class SizedFile(NamedTuple):
    """A data file: its part of the table, its place in the order of offsets, its size."""

    path: str
    part: int | None
    partition: int
    first_offset: int
    size_bytes: int


def groups_to_merge(files: Iterable[SizedFile], file_bytes: int) -> list[list[SizedFile]]:
    """Groups of files that become one file each, of about `file_bytes`."""
    ordered = sorted(
        files, key=lambda each: (-1 if each.part is None else each.part, each.partition, each.first_offset)
    )
    found: list[list[SizedFile]] = []
    for _, neighbours in groupby(ordered, key=lambda each: (each.part, each.partition)):
        found.extend(_packed(list(neighbours), file_bytes))
    return found


def _packed(neighbours: Sequence[SizedFile], file_bytes: int) -> list[list[SizedFile]]:
    groups: list[list[SizedFile]] = [[]]
    size_bytes = 0
    for each in neighbours:
        if each.size_bytes * 3 >= file_bytes * 2:
            groups.append([])
            size_bytes = 0
            continue
        if groups[-1] and size_bytes + each.size_bytes > file_bytes:
            groups.append([])
            size_bytes = 0
        groups[-1].append(each)
        size_bytes += each.size_bytes
    return [group for group in groups if len(group) > 1]
