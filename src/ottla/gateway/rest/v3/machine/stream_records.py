"""One record of a stream, and its answer line."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

from ottla.client.producer.machine.delivery_report import DeliveryReport
from ottla.gateway.http.machine.http_error import HttpError, unprocessable
from ottla.gateway.http.machine.json_bodies import json_object, kind_of
from ottla.gateway.records.machine.embedded import base64_bytes, json_bytes
from ottla.gateway.records.machine.produced import RecordToSend, whole_number
from ottla.records.record import Header

_SCHEMAS: Final = ("AVRO", "JSONSCHEMA", "PROTOBUF")
_TYPES: Final = ("BINARY", "JSON", "STRING")
_FIELDS: Final = {"partition_id", "headers", "key", "value", "timestamp"}


def record_in(text: bytes) -> RecordToSend:
    """The record of one JSON object. Raises HttpError(400 or 422)."""
    given = json_object(text)
    if unknown := sorted(given.keys() - _FIELDS):
        raise unprocessable(
            f"a record has no field {unknown[0][:50]!r}: {', '.join(sorted(_FIELDS))} can be given"
        )
    partition = given.get("partition_id")
    return RecordToSend(
        _part("value", given.get("value")),
        _part("key", given.get("key")),
        None if partition is None else whole_number("partition_id", partition, 2**31 - 1),
        tuple(_headers(given.get("headers"))),
        _timestamp(given.get("timestamp")),
    )


def answer_line(cluster_id: str, sent: RecordToSend, report: DeliveryReport) -> dict[str, Any]:
    """The answer to a record that was written."""
    line = {
        "error_code": 200,
        "cluster_id": cluster_id,
        "topic_name": report.topic,
        "partition_id": report.partition,
        "offset": report.offset,
        "timestamp": datetime.fromtimestamp(report.timestamp_ms / 1000, UTC)
        .isoformat()
        .replace("+00:00", "Z"),
    }
    sizes = {"key": sent.key, "value": sent.value}
    return line | {name: {"size": len(data)} for name, data in sizes.items() if data is not None}


def _part(name: str, given: Any) -> bytes | None:
    if given is None:
        return None
    if not isinstance(given, dict):
        raise unprocessable(f"{name} must be an object with type and data, not {kind_of(given)}")
    kind, data = given.get("type"), given.get("data")
    if kind in _SCHEMAS or {"schema", "schema_id", "schema_version"} & given.keys():
        raise unprocessable(
            f"a {name} with a schema is not served yet: encode it with a serializer of the schema registry, as BINARY"
        )
    if kind not in _TYPES:
        raise unprocessable(f"the type of {name} must be one of {', '.join(_TYPES)}")
    if data is None:
        return None
    try:
        if kind == "JSON":
            return json_bytes(data)
        if not isinstance(data, str):
            raise ValueError(f"it must be a text, not {kind_of(data)}")
        return base64_bytes(data) if kind == "BINARY" else data.encode("utf-8")
    except ValueError as error:
        raise HttpError(422, f"the {name} cannot be used: {error}", error_code=42205) from error


def _headers(given: Any) -> list[Header]:
    if given is None:
        return []
    if not isinstance(given, list) or not all(isinstance(each, dict) for each in given):
        raise unprocessable("headers must be a list of objects with name and value (base64)")
    pairs: list[Header] = []
    for each in given:
        name, value = each.get("name"), each.get("value")
        if not isinstance(name, str) or not isinstance(value, str | None):
            raise unprocessable("a header must have a name, and a value in base64 or null")
        try:
            name.encode("utf-8")
            pairs.append((name, None if value is None else base64_bytes(value)))
        except ValueError as error:
            raise unprocessable(f"a header cannot be used: {error}") from error
    return pairs


def _timestamp(given: Any) -> int | None:
    if given is None:
        return None
    if isinstance(given, str):
        try:
            moment = datetime.fromisoformat(given)
        except ValueError:
            raise unprocessable(
                f"timestamp must be a time such as 2026-11-18T08:00:00Z, not {given[:50]!r}"
            ) from None
        if moment.tzinfo is not None and moment.timestamp() >= 0:
            return round(moment.timestamp() * 1000)
        raise unprocessable("timestamp must be a time since 1970 with its time zone")
    return whole_number("timestamp", given)
