"""Examines the directory of one partition, without changing anything in it.

A quick look reads what a lookup would read: the indexes, some of the batches they point at, and each segment
from its last index entry on. A deep look reads every batch and its checksum, and follows every index entry.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

from ottla.cli.inspect.segment_file import Damage, ReadOnlyFile, index_entries, walk
from ottla.client.admin.checks.findings import Examination
from ottla.log.files.checkpoint import CheckpointError, parse_pairs
from ottla.log.files.file_names import (
    CLEANED,
    DELETED,
    INDEX,
    LEADER_EPOCHS,
    LOG,
    PARTITION_METADATA,
    SNAPSHOT,
    SWAP,
    TEMPORARY,
    TIME_INDEX,
    TXN_INDEX,
    offset_of,
)
from ottla.log.files.uuids import parse_uuid
from ottla.log.producers.producer_snapshot import SnapshotError, parse_snapshot
from ottla.records.batch import HEADER_BYTES, CorruptRecord, read_header
from ottla.records.index_entries import OFFSET_ENTRY, TIME_ENTRY, TXN_INDEX_ENTRY

METADATA_DIRECTORY: Final = "__cluster_metadata-0"
_SAMPLES: Final = (
    50  # index entries that a quick look follows: enough to see an index that belongs to another file
)

_SCAN_ANEW: Final = (
    "Stop the broker, delete recovery-point-offset-checkpoint and .kafka_cleanshutdown from the data directory, and start "
    "it again: it then reads every segment, "
)
REBUILD: Final = _SCAN_ANEW + "and rebuilds the indexes."
SALVAGE: Final = (
    "Look at it with `ottla dump FILE --deep`, and bring the file back from a copy if there is one. Without one: "
    + _SCAN_ANEW[0].lower()
    + _SCAN_ANEW[1:]
    + "puts the damaged bytes aside in a quarantine file, and serves the batches around them."
)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The entries of other files of the data directory for a partition."""

    deep: bool
    is_in_use: bool
    was_closed_cleanly: bool
    was_compacted: bool
    recovery_point: int | None
    log_start_offset: int | None
    high_watermark: int | None


@dataclass(frozen=True, slots=True)
class SegmentEnd:
    """Where a segment begins and where its last sound batch ends."""

    base_offset: int
    next_offset: int


def check_partition(directory: Path, around: Surroundings, report: Examination) -> None:
    """Examine one partition; findings and sizes go into the report."""
    logs = sorted(path for path in directory.iterdir() if offset_of(path.name, LOG) is not None)
    if not logs:
        report.error(
            directory,
            "there is no segment in it",
            "If the partition held records, bring the directory back from a copy. Otherwise the broker creates an empty one.",
        )
        return
    ends = [_check_segment(path, path == logs[-1], around, report) for path in logs]
    _check_order(directory, ends, around, report)
    _check_offsets(directory, ends, around, report)
    _check_epochs(directory, ends[-1].next_offset, report)
    _check_identity(directory, report)
    _check_snapshots(directory, report)
    _check_leftovers(directory, around, report)
    report.facts["segments"] = report.facts.get("segments", 0) + len(logs)
    report.facts["size_bytes"] = report.facts.get("size_bytes", 0) + sum(path.stat().st_size for path in logs)


def _check_segment(path: Path, is_active: bool, around: Surroundings, report: Examination) -> SegmentEnd:
    base_offset = offset_of(path.name, LOG) or 0
    with ReadOnlyFile(path) as file:
        position = _check_index(path, base_offset, file, around, report)
        next_offset = base_offset
        for found in walk(file, base_offset, deep=around.deep, position=0 if around.deep else position):
            if not isinstance(found, Damage):
                next_offset = found.placed.next_offset
            elif not (
                is_active and found.end == file.size and _tail_is_expected(path, found, around, report)
            ):
                _tell_damage(path, found, report)
        _check_time_index(path, base_offset, next_offset, report)
        _check_transaction_index(path, base_offset, next_offset, report)
    return SegmentEnd(base_offset, next_offset)


def _tell_damage(path: Path, damage: Damage, report: Examination) -> None:
    size = damage.end - damage.position
    report.error(path, f"{size} bytes at {damage.position} are damaged: {damage.reason}", SALVAGE)


def _tail_is_expected(path: Path, damage: Damage, around: Surroundings, report: Examination) -> bool:
    """Whether an unfinished write at the end of the log is no cause for alarm; a note says so."""
    if around.was_closed_cleanly:
        return False
    size = damage.end - damage.position
    if around.is_in_use:
        report.note(path, f"{size} bytes at the end are being written", "Nothing: a broker is at work.")
    else:
        report.note(
            path,
            f"the last {size} bytes are an unfinished write",
            "Nothing: the broker cuts them when it starts.",
        )
    return True


# ---- indexes


def _check_index(
    log: Path, base_offset: int, file: ReadOnlyFile, around: Surroundings, report: Examination
) -> int:
    """Examine the offset index; answer where in the log its last good entry points."""
    path = log.with_suffix(INDEX)
    entries = _entries(path, OFFSET_ENTRY.size, report)
    if not entries:
        return 0
    last_position = entries[-1][1]
    if any(b[0] <= a[0] or b[1] <= a[1] for a, b in pairwise(entries)) or last_position > file.size:
        report.warning(path, "its entries do not rise, or point past the end of the log", REBUILD)
        return 0
    step = 1 if around.deep else max(1, len(entries) // _SAMPLES)
    for relative, position in [*entries[::step], *entries[-1:]]:
        if not _points_at_batch(file, position, base_offset + relative):
            report.warning(path, f"the entry for offset {base_offset + relative} points at no batch", REBUILD)
            return 0
    return last_position


def _entries(path: Path, entry_bytes: int, report: Examination) -> list[tuple[int, int]]:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        report.warning(path, "the index is missing, so that reads begin at the start of the segment", REBUILD)
        return []
    if len(data) % entry_bytes:
        report.warning(path, f"{len(data)} bytes are not a whole number of entries", REBUILD)
    entry = OFFSET_ENTRY if entry_bytes == OFFSET_ENTRY.size else TIME_ENTRY
    return [(first, second) for first, second in index_entries(data, entry)]


def _points_at_batch(file: ReadOnlyFile, position: int, offset: int) -> bool:
    try:
        return read_header(file.read(position, HEADER_BYTES)).base_offset <= offset
    except CorruptRecord:
        return False


def _check_time_index(log: Path, base_offset: int, next_offset: int, report: Examination) -> None:
    path = log.with_suffix(TIME_INDEX)
    entries = _entries(path, TIME_ENTRY.size, report)
    if any(b[0] <= a[0] or b[1] < a[1] for a, b in pairwise(entries)):
        report.warning(path, "its entries do not rise", REBUILD)
    elif entries and not base_offset <= base_offset + entries[-1][1] < max(next_offset, base_offset + 1):
        offset = base_offset + entries[-1][1]
        report.warning(path, f"it names offset {offset}, and the segment ends at {next_offset}", REBUILD)


def _check_transaction_index(log: Path, base_offset: int, next_offset: int, report: Examination) -> None:
    """Examine the list of aborted transactions; a segment that has none needs no file."""
    path = log.with_suffix(TXN_INDEX)
    data = path.read_bytes() if path.exists() else b""
    if len(data) % TXN_INDEX_ENTRY.size:
        report.warning(path, f"{len(data)} bytes are not a whole number of entries", REBUILD)
    markers = [(first, last) for _, _, first, last, _ in index_entries(data, TXN_INDEX_ENTRY)]
    if any(b[1] <= a[1] for a, b in pairwise(markers)) or any(first > last for first, last in markers):
        report.warning(path, "its entries do not rise", REBUILD)
    elif markers and not base_offset <= markers[0][1] <= markers[-1][1] < max(next_offset, base_offset + 1):
        ends = f"{markers[0][1]} to {markers[-1][1]}"
        segment = f"the segment has the offsets {base_offset} to {next_offset - 1}"
        report.warning(path, f"it names markers at {ends}, and {segment}", REBUILD)


# ---- what must agree


def _check_order(directory: Path, ends: list[SegmentEnd], around: Surroundings, report: Examination) -> None:
    for end, following in pairwise(ends):
        if end.next_offset > following.base_offset:
            report.error(
                directory,
                f"the segment from {end.base_offset} on reaches offset {end.next_offset - 1}, into the one from "
                f"{following.base_offset} on",
                "Look at both with `ottla dump`; one of them came from somewhere else. Bring the directory back from a copy.",
            )
        elif end.next_offset < following.base_offset:
            tell = report.note if around.was_compacted else report.warning
            tell(
                directory,
                f"offsets {end.next_offset} to {following.base_offset - 1} are in no segment",
                "In a compacted topic that is as it should be. In another one records were lost: look for quarantine files "
                "beside the segments, or bring the directory back from a copy.",
            )


def _check_offsets(
    directory: Path, ends: list[SegmentEnd], around: Surroundings, report: Examination
) -> None:
    end = ends[-1].next_offset
    names = {
        "was flushed up to offset": around.recovery_point,
        "was committed up to offset": around.high_watermark,
        "begins at offset": around.log_start_offset,
    }
    for name, offset in names.items():
        if offset is not None and offset > end:
            report.error(
                directory,
                f"by its checkpoint the log {name} {offset}, but it ends at {end}: records are missing",
                "Bring the directory back from a copy, or accept the loss: the broker goes on from where the log ends.",
            )


def _check_epochs(directory: Path, end_offset: int, report: Examination) -> None:
    path = directory / LEADER_EPOCHS
    anew = "Stop the broker and delete the file: it is rebuilt from the log when the broker starts."
    if not path.exists() or not path.stat().st_size:
        return  # written with the first batch; Apache Kafka begins with an empty file
    try:
        epochs = parse_pairs(path.read_bytes())
    except CheckpointError as problem:
        report.warning(path, str(problem), anew)
        return
    if any(b[0] <= a[0] or b[1] <= a[1] for a, b in pairwise(epochs)):
        report.warning(path, "epochs and their offsets do not rise", anew)
    elif epochs and epochs[-1][1] > end_offset:
        report.warning(
            path, f"epoch {epochs[-1][0]} begins at {epochs[-1][1]}, past the end at {end_offset}", anew
        )


def _check_identity(directory: Path, report: Examination) -> None:
    if directory.name == METADATA_DIRECTORY:
        return
    path = directory / PARTITION_METADATA
    try:
        match = re.search(r"(?m)^topic_id:\s*(\S{22})\s*$", path.read_text("ascii", "replace"))
    except FileNotFoundError:
        report.warning(
            path, "it is missing, so it is not known which topic these records belong to", _IDENTIFY
        )
        return
    if match is None or parse_uuid(match[1]) is None:
        report.warning(path, "it names no topic id", _IDENTIFY)


_IDENTIFY: Final = (
    "If the topic still exists under this name, stop the broker and delete the file; the broker writes it when it opens "
    "the partition."
)


def _check_snapshots(directory: Path, report: Examination) -> None:
    for path in sorted(directory.glob(f"*{SNAPSHOT}")):
        try:
            parse_snapshot(path.read_bytes())
        except SnapshotError as problem:
            report.warning(
                path, str(problem), "Nothing has to be done: the broker removes it and reads the log instead."
            )


def _check_leftovers(directory: Path, around: Surroundings, report: Examination) -> None:
    for path in sorted(directory.iterdir()):
        if ".quarantine-" in path.name:
            report.warning(
                path,
                f"{path.stat().st_size} damaged bytes were put aside here when the broker recovered",
                "Look at what was lost with `ottla dump`; delete the file when it is no longer needed.",
            )
        elif path.name.endswith((DELETED, CLEANED, SWAP, TEMPORARY)) and not around.is_in_use:
            report.note(
                path,
                "it is left over from an operation that was interrupted",
                "Nothing: the broker clears it up when it starts.",
            )
