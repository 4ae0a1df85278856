"""The findings of an audit: numbers for each partition, and whether they mean that table and topic are equal.
Pure.

The table is the topic when every record that the topic holds in the audited range is in the table exactly
once, with the same value, and nothing else is. Offsets at which the topic holds no record (compaction took
it, or a control record is there) are no gaps. Two kinds of rows cannot be compared, because what they came
from is gone: those that are older than the topic's first record (retention), and those whose record
compaction has removed since. They are counted, and do not make an audit fail.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

_HASH_BITS = 64


class Fault(StrEnum):
    """The kinds of differences at an offset; the values are shown to people."""

    MISSING = "not in the table"
    DUPLICATE = "more than once in the table"
    EXTRA = "not in the topic"
    ALTERED = "another value in the table"
    READ_TWICE = "more than once read from the topic"


@dataclass(frozen=True, slots=True)
class Side:
    """One partition as the topic, or the table, holds it. Offsets are None where there is no record."""

    count: int = 0
    distinct: int = 0
    first_offset: int | None = None
    last_offset: int | None = None
    checksum: int = 0  # the sum of the values' hashes, whatever their order
    offset_checksum: int = 0  # the same with each value bound to its offset

    @property
    def checksum_text(self) -> str:
        return _hexadecimal(self.checksum)

    @property
    def offset_checksum_text(self) -> str:
        return _hexadecimal(self.offset_checksum)


@dataclass(frozen=True, slots=True)
class PartitionAudit:
    """One partition of the topic beside the table."""

    partition: int
    start: int  # the audited range: [start, end)
    end: int
    topic: Side
    table: Side
    missing: int = 0
    extra: int = 0
    duplicates: int = 0
    altered: int = 0
    read_twice: int = 0
    older: int = 0  # rows from before the topic's first record
    compacted: int = 0  # rows whose record compaction has removed
    behind: int = 0  # of the missing ones, those behind the table's last offset

    @property
    def is_equal(self) -> bool:
        return not (self.missing or self.extra or self.duplicates or self.altered or self.read_twice)

    @property
    def unused_offsets(self) -> int:
        """Offsets of the range at which the topic holds no record."""
        return max(self.end - self.start - self.topic.distinct, 0)


@dataclass(frozen=True, slots=True)
class Offender:
    """One offset with which something is wrong."""

    partition: int
    offset: int
    fault: Fault


@dataclass(frozen=True, slots=True)
class OffsetRun:
    """Neighbouring offsets with the same fault."""

    partition: int
    first: int
    last: int
    fault: Fault

    def __str__(self) -> str:
        which = f"offset {self.first}" if self.first == self.last else f"offsets {self.first} to {self.last}"
        return f"partition {self.partition}: {which} {self.fault}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The whole audit. `compared` says what of a record was compared beside its place."""

    topic: str
    table: str
    compared: str | None
    partitions: tuple[PartitionAudit, ...]
    nameless: int = 0  # rows without a partition or an offset
    offenders: tuple[OffsetRun, ...] = ()  # the first of them

    @property
    def is_equal(self) -> bool:
        return not self.nameless and all(each.is_equal for each in self.partitions)

    @property
    def records(self) -> int:
        return sum(each.topic.count for each in self.partitions)

    @property
    def rows(self) -> int:
        return sum(each.table.count for each in self.partitions)


def runs(offenders: Iterable[Offender]) -> list[OffsetRun]:
    """Neighbours with the same fault as one; they come in the order of partitions and offsets."""
    found: list[OffsetRun] = []
    for each in offenders:
        last = found[-1] if found else None
        if last and (last.partition, last.fault, last.last + 1) == (each.partition, each.fault, each.offset):
            found[-1] = OffsetRun(last.partition, last.first, each.offset, last.fault)
        else:
            found.append(OffsetRun(each.partition, each.offset, each.offset, each.fault))
    return found


def sentence(verdict: Verdict) -> str:
    """The verdict for a person, in a line."""
    if not verdict.is_equal:
        return f"NOT EQUAL: {', '.join(_troubles(verdict))}."
    if not verdict.records:
        return "EQUAL: there is no record in this range, and no row."
    what = (
        f"each with the same {verdict.compared}"
        if verdict.compared
        else "by their offsets; no values compared"
    )
    return f"EQUAL: {verdict.records:,} records, each exactly once in the table, {what}."


def notes(verdict: Verdict) -> list[str]:
    """Remarks beside the verdict."""
    said = []
    if older := sum(each.older for each in verdict.partitions):
        said.append(
            f"{older:,} rows are older than the topic's first record, which retention has deleted: nothing is left to compare them with."
        )
    if compacted := sum(each.compacted for each in verdict.partitions):
        said.append(
            f"{compacted:,} rows came from records that compaction has removed since: nothing is left to compare them with."
        )
    if behind := sum(each.behind for each in verdict.partitions):
        said.append(
            f"{behind:,} of the missing records come after the table's last one: what writes it may still be on its way. "
            "Audit as far as the table goes with --to table."
        )
    if unused := sum(each.unused_offsets for each in verdict.partitions):
        said.append(
            f"{unused:,} offsets hold no record in the topic (compaction, transactions), and are no gaps."
        )
    if verdict.compared is None:
        said.append(
            "Only offsets were compared: the table has no column with the records' values or checksums."
        )
    return said


def as_json(verdict: Verdict) -> dict[str, Any]:
    """For programs."""
    return {
        "topic": verdict.topic,
        "table": verdict.table,
        "equal": verdict.is_equal,
        "compared": verdict.compared,
        "records": verdict.records,
        "rows": verdict.rows,
        "rows_without_place": verdict.nameless,
        "partitions": [_partition_json(each) for each in verdict.partitions],
        "offenders": [
            {"partition": each.partition, "first": each.first, "last": each.last, "fault": str(each.fault)}
            for each in verdict.offenders
        ],
    }


def _partition_json(audit: PartitionAudit) -> dict[str, Any]:
    plain = asdict(audit)
    for name, side in (("topic", audit.topic), ("table", audit.table)):
        plain[name] |= {"checksum": side.checksum_text, "offset_checksum": side.offset_checksum_text}
    return plain | {"unused_offsets": audit.unused_offsets, "equal": audit.is_equal}


def _troubles(verdict: Verdict) -> Sequence[str]:
    counts = {
        "missing from the table": sum(each.missing for each in verdict.partitions),
        "too many in the table": sum(each.duplicates for each in verdict.partitions),
        "in the table only": sum(each.extra for each in verdict.partitions),
        "with another value": sum(each.altered for each in verdict.partitions),
        "read twice from the topic": sum(each.read_twice for each in verdict.partitions),
        "without partition or offset": verdict.nameless,
    }
    return [f"{count:,} {what}" for what, count in counts.items() if count]


def _hexadecimal(number: int) -> str:
    return f"{number % (1 << _HASH_BITS):016x}"
