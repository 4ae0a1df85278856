"""The columns of a topic as Spark's Kafka source names and types them, in Arrow."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

HEADERS: Final = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
TIMESTAMP: Final = pa.timestamp("us", tz="UTC")

SPARK_SCHEMA: Final = pa.schema(
    [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", TIMESTAMP),
        pa.field("timestampType", pa.int32()),
    ]
)
SPARK_SCHEMA_WITH_HEADERS: Final = SPARK_SCHEMA.append(pa.field("headers", HEADERS))


def arrow_schema(*, include_headers: bool) -> pa.Schema:
    """The schema of a scan's record batches."""
    return SPARK_SCHEMA_WITH_HEADERS if include_headers else SPARK_SCHEMA
