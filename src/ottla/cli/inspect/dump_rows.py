"""The contents of the files of a data directory, as rows.

A row is a mapping whose `kind` says what it is about; the values are Python's own (bytes are bytes). How rows
are shown, as a table or as JSON, is decided elsewhere. Damage is a row like the others: reading continues
after it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from typing import Any, Final

from ottla.cli.inspect.coordinator_rows import coordinator_fields, plain
from ottla.cli.inspect.segment_file import Damage, Found, ReadOnlyFile, index_entries, walk
from ottla.config.properties import parse_properties
from ottla.controller.records import decode_record
from ottla.log.directory import (
    CLEAN_SHUTDOWN,
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    META_PROPERTIES,
    RECOVERY_POINTS,
)
from ottla.log.files.checkpoint import CheckpointError, parse_lines, parse_pairs
from ottla.log.files.file_names import CLEANED, DELETED, LEADER_EPOCHS, PARTITION_METADATA, SWAP, TEMPORARY
from ottla.log.producers.producer_snapshot import SnapshotError, parse_snapshot
from ottla.protocol.codec import DecodeError
from ottla.records.batch import BatchView, CorruptRecord
from ottla.records.compression import Compression
from ottla.records.control import ControlRecordType, control_type_of, read_marker
from ottla.records.header import CODEC_MASK, CONTROL, DELETE_HORIZON, LOG_APPEND_TIME, TRANSACTIONAL
from ottla.records.index_entries import OFFSET_ENTRY, TIME_ENTRY, TXN_INDEX_ENTRY
from ottla.records.record import Record

Row = dict[str, Any]

METADATA_TOPIC: Final = "__cluster_metadata"
# With the keys of a credential passwords can be guessed, and brokers be impersonated: they are not shown.
_SECRET_RECORDS: Final = frozenset({"UserScramCredentialRecord"})
_SECRET_FIELDS: Final = frozenset({"salt", "stored_key", "server_key"})


@dataclass(frozen=True, slots=True)
class Wanted:
    """The part of a file to read."""

    records: bool = False
    deep: bool = False
    first_offset: int = 0
    last_offset: int = (1 << 63) - 1

    def includes(self, first: int, last: int | None = None) -> bool:
        """Whether offsets `first` to `last` overlap with those that are wanted."""
        return first <= self.last_offset and (first if last is None else last) >= self.first_offset


def reader_of(name: str) -> Callable[[Path, Wanted], Iterator[Row]] | None:
    """The reader of a file by its name; None for files that a data directory does not have."""
    for suffix in (DELETED, SWAP, CLEANED, TEMPORARY):
        name = name.removesuffix(suffix)
    name = re.sub(r"\.quarantine-\d+$", "", name)
    return _READERS.get(name) or _READERS.get(Path(name).suffix)


def base_offset_of(name: str) -> int:
    """The offset in a file's name; 0 if there is none."""
    match = re.match(r"\d{20}(?=\.)", name)
    return int(match[0]) if match else 0


def _damage(reason: str, position: int | None = None, end: int | None = None) -> Row:
    place = {} if position is None or end is None else {"position": position, "size_bytes": end - position}
    return {"kind": "damage", **place, "reason": reason}


# ---- batches and records


def _log_rows(path: Path, wanted: Wanted) -> Iterator[Row]:
    topic = METADATA_TOPIC if path.suffix == ".checkpoint" else path.parent.name.rpartition("-")[0]
    # A batch of the metadata log says nothing by itself: its records are always shown.
    is_metadata = topic == METADATA_TOPIC
    with ReadOnlyFile(path) as file:
        for found in walk(file, base_offset_of(path.name), deep=wanted.deep):
            if isinstance(found, Damage):
                yield _damage(found.reason, found.position, found.end)
            elif wanted.includes(found.placed.header.base_offset, found.placed.header.last_offset):
                yield _batch_row(found)
                if (wanted.records or is_metadata) and found.is_sound is not False:
                    yield from _record_rows(file, found, wanted, topic)


def _batch_row(found: Found) -> Row:
    position, header = found.placed
    attributes = header.attributes
    codec = attributes & CODEC_MASK
    return {
        "kind": "batch",
        "position": position,
        "size_bytes": header.size_bytes,
        **header._asdict(),
        "last_offset": header.last_offset,
        "compression": Compression(codec).name.lower() if codec <= max(Compression) else f"codec {codec}",
        "timestamp_type": "LogAppendTime" if attributes & LOG_APPEND_TIME else "CreateTime",
        "is_transactional": bool(attributes & TRANSACTIONAL),
        "is_control": bool(attributes & CONTROL),
        "delete_horizon_ms": header.base_timestamp if attributes & DELETE_HORIZON else None,
        "is_sound": found.is_sound,
    }


def _record_rows(file: ReadOnlyFile, found: Found, wanted: Wanted, topic: str) -> Iterator[Row]:
    try:
        batch = found.batch(file)
        for record in batch.records():
            if wanted.includes(record.offset):
                yield _record_row(record, found, _meaning(record, batch, topic))
    except CorruptRecord as problem:
        header = found.placed.header
        reason = f"the records of the batch at offset {header.base_offset}: {problem}"
        yield _damage(reason, found.placed.position, found.placed.end)


def _record_row(record: Record, found: Found, meaning: Row) -> Row:
    row = {"kind": "record", "batch_position": found.placed.position, **record._asdict(), **meaning}
    row["headers"] = [list(header) for header in record.headers]
    if meaning.get("metadata", {}).get("type") in _SECRET_RECORDS:
        row["value"] = None
    return row


def _meaning(record: Record, batch: BatchView, topic: str) -> Row:
    """The contents of a record that the cluster itself wrote."""
    if batch.is_control:
        return {"control": _control_fields(record)}
    if topic == METADATA_TOPIC and record.value is not None:
        return {"metadata": _metadata_fields(record.value)}
    decoded = coordinator_fields(topic, record)
    return {} if decoded is None else {"coordinator": decoded}


def _control_fields(record: Record) -> Row:
    control_type = control_type_of(record.key)
    known: Row = {"type": control_type.name if isinstance(control_type, ControlRecordType) else control_type}
    marker = read_marker(record)
    return known | {"coordinator_epoch": marker.coordinator_epoch} if marker else known


def _metadata_fields(value: bytes) -> Row:
    """The record's type and fields. A type that is not decoded is no damage: Kafka has more of them."""
    try:
        decoded = decode_record(value)
    except DecodeError as problem:
        return {"type": "unknown", "problem": str(problem)}
    fields = {name: value for name, value in plain(decoded).items() if name not in _SECRET_FIELDS}
    return {"type": type(decoded).__name__, **fields}


# ---- what stands beside the batches


def _index_rows(path: Path, wanted: Wanted) -> Iterator[Row]:
    base, data = base_offset_of(path.name), path.read_bytes()
    for relative, position in index_entries(data, OFFSET_ENTRY):
        if wanted.includes(base + relative):
            yield {"kind": "index entry", "offset": base + relative, "position": position}
    yield from _odd_size(data, OFFSET_ENTRY)


def _time_index_rows(path: Path, wanted: Wanted) -> Iterator[Row]:
    base, data = base_offset_of(path.name), path.read_bytes()
    for timestamp, relative in index_entries(data, TIME_ENTRY):
        if wanted.includes(base + relative):
            yield {"kind": "time index entry", "timestamp": timestamp, "offset": base + relative}
    yield from _odd_size(data, TIME_ENTRY)


def _txn_index_rows(path: Path, wanted: Wanted) -> Iterator[Row]:
    data = path.read_bytes()
    for version, producer_id, first, last, last_stable in index_entries(data, TXN_INDEX_ENTRY):
        if wanted.includes(first, last):
            yield {
                "kind": "aborted transaction",
                "version": version,
                "producer_id": producer_id,
                "first_offset": first,
                "last_offset": last,
                "last_stable_offset": last_stable,
            }
    yield from _odd_size(data, TXN_INDEX_ENTRY)


def _odd_size(data: bytes, entry: Struct) -> Iterator[Row]:
    if rest := len(data) % entry.size:
        yield _damage(f"{len(data)} bytes are not a whole number of entries", len(data) - rest, len(data))


def _snapshot_rows(path: Path, wanted: Wanted) -> Iterator[Row]:
    try:
        producers = parse_snapshot(path.read_bytes())
    except SnapshotError as problem:
        yield _damage(str(problem))
        return
    for producer_id, entry in producers.items():
        yield {
            "kind": "producer",
            "producer_id": producer_id,
            "epoch": entry.epoch,
            "first_sequence": entry.batches[-1].first_sequence if entry.batches else -1,
            "last_sequence": entry.last_sequence,
            "last_offset": entry.last_offset,
            "timestamp": entry.last_timestamp,
            "coordinator_epoch": entry.coordinator_epoch,
            "transaction_first_offset": entry.txn_first_offset,
        }


def _epoch_rows(path: Path, wanted: Wanted) -> Iterator[Row]:
    data = path.read_bytes()
    try:
        for epoch, start_offset in parse_pairs(data) if data else ():
            yield {"kind": "leader epoch", "epoch": epoch, "start_offset": start_offset}
    except CheckpointError as problem:
        yield _damage(str(problem))


def _checkpoint_rows(path: Path, wanted: Wanted) -> Iterator[Row]:
    data = path.read_bytes()
    try:
        for line in parse_lines(data) if data else ():  # Apache Kafka begins with empty files
            topic, partition, offset = line.rsplit(None, 2)
            yield {"kind": "checkpoint", "topic": topic, "partition": int(partition), "offset": int(offset)}
    except ValueError as problem:
        yield _damage(str(problem))


def _property_rows(path: Path, wanted: Wanted) -> Iterator[Row]:
    try:
        for name, value in parse_properties(path.read_text("utf-8")).items():
            yield {"kind": "property", "name": name, "value": value}
    except ValueError as problem:
        yield _damage(str(problem))


def _text_rows(path: Path, wanted: Wanted) -> Iterator[Row]:
    for line in path.read_text("utf-8", "replace").splitlines():
        yield {"kind": "text", "text": line}


_READERS: Final[dict[str, Callable[[Path, Wanted], Iterator[Row]]]] = {
    ".log": _log_rows,
    ".checkpoint": _log_rows,  # a snapshot of the metadata log is a file of batches too
    ".index": _index_rows,
    ".timeindex": _time_index_rows,
    ".txnindex": _txn_index_rows,
    ".snapshot": _snapshot_rows,
    LEADER_EPOCHS: _epoch_rows,
    RECOVERY_POINTS: _checkpoint_rows,
    LOG_START_OFFSETS: _checkpoint_rows,
    HIGH_WATERMARKS: _checkpoint_rows,
    CLEANER_OFFSETS: _checkpoint_rows,
    META_PROPERTIES: _property_rows,
    PARTITION_METADATA: _property_rows,
    CLEAN_SHUTDOWN: _text_rows,
    "quorum-state": _text_rows,
}
