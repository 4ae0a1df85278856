"""The formats with schemas, their media types, and the schemas that the body of a request names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

from ottla.gateway.http.machine.http_error import HttpError, unprocessable
from ottla.schemas.schema import AVRO, JSON, PROTOBUF

SchemaFormat = Literal["avro", "jsonschema", "protobuf"]
TYPES: Final[dict[SchemaFormat, str]] = {"avro": AVRO, "jsonschema": JSON, "protobuf": PROTOBUF}
SCHEMA_MEDIA_TYPES: Final[dict[str, SchemaFormat]] = {
    f"application/vnd.kafka.{each}.v2+json": each for each in TYPES
}
_MISSING: Final = {"key": 42201, "value": 42202}
BAD_DATA: Final = 42203
_MOST_ID: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class NamedSchema:
    """The schema of the keys or the values of a request: a text to register, or an id."""

    text: str | None = None
    id: int | None = None


def named_schema(body: dict[str, Any], part: Literal["key", "value"]) -> NamedSchema | None:
    """The schema that a body names for its keys or values; None without data. Raises HttpError(422)."""
    text, number = body.get(f"{part}_schema"), body.get(f"{part}_schema_id")
    if text is not None and number is not None:
        raise unprocessable(f"give either {part}_schema or {part}_schema_id")
    if text is not None:
        if not isinstance(text, str):
            raise unprocessable(f"{part}_schema must be a text with the schema in it")
        return NamedSchema(text=text)
    if number is not None:
        if not isinstance(number, int) or isinstance(number, bool) or not 0 < number <= _MOST_ID:
            raise unprocessable(f"{part}_schema_id must be the id of a schema")
        return NamedSchema(id=number)
    records = body.get("records")
    if isinstance(records, list) and any(
        isinstance(each, dict) and each.get(part) is not None for each in records
    ):
        raise HttpError(
            422,
            f"the request has {part}s, and no schema for them: give {part}_schema or {part}_schema_id",
            error_code=_MISSING[part],
        )
    return None
