"""Rows of `ottla dump` for people (tables) and for programs (JSON lines)."""

from __future__ import annotations

import json
import sys
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from itertools import groupby, islice
from typing import Any, Final
from uuid import UUID

import click

from ottla.cli.broker_command import print_table
from ottla.cli.inspect.dump_rows import Row
from ottla.log.files.uuids import uuid_text

_LONGEST_TEXT: Final = 100  # characters of a key or value that a table shows
_TABLE_ROWS: Final = 1000  # a table's widths are known only when all its rows are: long ones come in pieces

Column = tuple[str, Callable[[Row], Any]]


def json_line(path: str, row: Row) -> str:
    """One row as one line of JSON. Bytes that are UTF-8 are text; others are `{"base64": ...}`."""
    if row.get("headers"):
        # As bytes again: a header's key may hold some that are no text.
        row = row | {
            "headers": [(name.encode("utf-8", "surrogateescape"), value) for name, value in row["headers"]]
        }
    return json.dumps({"file": path, **row}, default=_json_value, ensure_ascii=False)


def _json_value(value: Any) -> Any:
    if isinstance(value, UUID):
        return uuid_text(value)
    try:
        return bytes(value).decode("utf-8")
    except UnicodeDecodeError:
        return {"base64": b64encode(value).decode("ascii")}


def print_rows(rows: Iterable[Row], *, with_records: bool) -> int:
    """Print rows as tables, damage in between as sentences; how many rows there were.

    When records are shown, the batches around them are not: each record says where its batch is.
    """
    count = 0
    shown = (row for row in rows if not (with_records and row["kind"] == "batch" and row["records_count"]))
    for kind, group in groupby(shown, lambda row: str(row["kind"])):
        for number, part in enumerate(_parts(group)):
            count += len(part)
            _print_part(kind, part, is_first=number == 0)
    return count


def _print_part(kind: str, rows: list[Row], *, is_first: bool) -> None:
    if kind in _SENTENCES:
        for row in rows:
            click.echo(f"  {_SENTENCES[kind](row)}")
        return
    titles = [name for name, _ in COLUMNS[kind]]
    cells = [[cell(row) for _, cell in COLUMNS[kind]] for row in rows]
    if sys.stdout.isatty():
        print_table(titles, cells)
    else:
        _print_plain(titles, cells, with_titles=is_first)


def _print_plain(titles: list[str], rows: list[list[Any]], *, with_titles: bool) -> None:
    """Aligned columns for pipes: a drawn table costs a millisecond a row, and there may be a million rows."""
    lines = [titles, *(["-" if cell is None else str(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    align = [str.rjust if isinstance(cell, int) else str.ljust for cell in rows[0]]
    for line in lines if with_titles else lines[1:]:
        cells = (put(cell, width) for put, cell, width in zip(align, line, widths, strict=True))
        click.echo(f"  {'  '.join(cells)}".rstrip())


def _parts(rows: Iterator[Row]) -> Iterator[list[Row]]:
    while part := list(islice(rows, _TABLE_ROWS)):
        yield part


def _damage_sentence(row: Row) -> str:
    if "position" not in row:
        return f"DAMAGED: {row['reason']}"
    return f"DAMAGED: {row['size_bytes']} bytes at {row['position']}: {row['reason']}"


_SENTENCES: Final[dict[str, Callable[[Row], str]]] = {
    "damage": _damage_sentence,
    "text": lambda row: str(row["text"]),
}


def time_text(timestamp_ms: int) -> str:
    """A time as people write it, or the bare number where a calendar has no such day."""
    if timestamp_ms < 0:
        return "-"
    try:
        text = datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(timespec="milliseconds")
    except (OverflowError, ValueError, OSError):
        return str(timestamp_ms)
    return text.replace("+00:00", "Z")


def bytes_text(data: bytes | None) -> str:
    """Text as text, other bytes as hex, both cut where they get long."""
    if data is None:
        return "-"
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        text = ""
    if not text.isprintable() or (data and not text):
        text = "0x" + data[: _LONGEST_TEXT // 2].hex()
        return text if len(data) * 2 <= _LONGEST_TEXT else f"{text}... ({len(data)} bytes)"
    return text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}... ({len(data)} bytes)"


def _flags(row: Row) -> str:
    flags = {
        "transactional": row["is_transactional"],
        "control": row["is_control"],
        "append time": row["timestamp_type"] == "LogAppendTime",
        f"horizon {time_text(row['delete_horizon_ms'] or -1)}": row["delete_horizon_ms"] is not None,
    }
    return ", ".join(flag for flag, is_set in flags.items() if is_set)


def _producer(row: Row) -> str:
    if row["producer_id"] < 0:
        return "-"
    return f"{row['producer_id']}/{row['producer_epoch']} {row['base_sequence']}"


# Under these keys a row has the contents of a record that the cluster itself wrote.
_DECODED: Final = ("metadata", "control", "coordinator")
_SOUNDNESS: Final = {None: "-", True: "yes", False: "NO"}


def _record_value(row: Row) -> str:
    for contents in _DECODED:
        if contents in row:
            return _fields_text(row[contents])
    return bytes_text(row["value"])


def _record_key(row: Row) -> str:
    return "-" if "control" in row or "coordinator" in row else bytes_text(row["key"])


def _fields_text(fields: Row) -> str:
    if "problem" in fields:
        return f"not decoded: {fields['problem']}"
    said = [
        f"{name}={_field_text(value)}"
        for name, value in fields.items()
        if name != "type" and value not in (None, [])
    ]
    return " ".join([str(fields["type"]), *said])


def _field_text(value: Any) -> str:
    if isinstance(value, UUID):
        return uuid_text(value)
    if isinstance(value, dict):
        return "{" + " ".join(f"{name}={_field_text(each)}" for name, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_field_text, value)) + "]"
    return str(value)


def _headers(row: Row) -> str:
    return ", ".join(f"{printable(name)}={bytes_text(value)}" for name, value in row["headers"])


def printable(text: str) -> str:
    """Header keys may hold bytes that are no text; a terminal must not choke on them."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _of(name: str, title: str | None = None) -> Column:
    return title or name.replace("_", " "), lambda row: row[name]


def _time(name: str, title: str | None = None) -> Column:
    return title or name.replace("_", " "), lambda row: time_text(row[name])


COLUMNS: Final[dict[str, list[Column]]] = {
    "batch": [
        _of("position"),
        _of("base_offset", "first"),
        _of("last_offset", "last"),
        _of("records_count", "records"),
        _of("size_bytes", "bytes"),
        _of("compression", "codec"),
        _of("partition_leader_epoch", "epoch"),
        _time("max_timestamp", "newest"),
        ("producer", _producer),
        ("sound", lambda row: _SOUNDNESS[row["is_sound"]]),
        ("", _flags),
    ],
    "record": [
        _of("offset"),
        _time("timestamp", "time"),
        ("key", _record_key),
        ("value", _record_value),
        ("headers", _headers),
        _of("batch_position", "batch at"),
    ],
    "index entry": [_of("offset"), _of("position")],
    "time index entry": [_time("timestamp", "time"), _of("offset")],
    "aborted transaction": [
        _of("producer_id", "producer"),
        _of("first_offset"),
        _of("last_offset"),
        _of("last_stable_offset"),
    ],
    "producer": [
        _of("producer_id", "producer"),
        _of("epoch"),
        _of("first_sequence"),
        _of("last_sequence"),
        _of("last_offset"),
        _time("timestamp", "time"),
        _of("coordinator_epoch"),
        _of("transaction_first_offset", "transaction from"),
    ],
    "leader epoch": [_of("epoch"), _of("start_offset", "from offset")],
    "checkpoint": [_of("topic"), _of("partition"), _of("offset")],
    "property": [_of("name"), _of("value")],
}
