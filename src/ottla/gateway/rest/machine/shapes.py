"""JSON Schemas that several routes share, for OpenAPI."""

from __future__ import annotations

from typing import Any, Final

Schema = dict[str, Any]

TEXT: Final[Schema] = {"type": "string"}
NUMBER: Final[Schema] = {"type": "integer"}
ANY: Final[Schema] = {}


def record_of(required: tuple[str, ...] = (), **properties: Schema) -> Schema:
    """An object with these properties."""
    shape: Schema = {"type": "object", "properties": properties}
    if required:
        shape["required"] = list(required)
    return shape


def list_of(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def nullable(shape: Schema) -> Schema:
    return {**shape, "type": [shape["type"], "null"]}


PARTITION: Final = record_of(("topic", "partition"), topic=TEXT, partition=NUMBER)
PARTITIONS: Final = record_of(("partitions",), partitions=list_of(PARTITION))
OFFSET: Final = record_of(
    ("topic", "partition", "offset"), topic=TEXT, partition=NUMBER, offset=NUMBER, metadata=TEXT
)
OFFSETS: Final = record_of(("offsets",), offsets=list_of(OFFSET))
