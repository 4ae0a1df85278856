"""Avro by schema: each record is parsed, or has a reason why not; the columns are those of `parse_json`.

Spark's `from_avro` wants a jar that is not on PyPI, so values are decoded by fastavro, in Python workers, a
batch of Arrow at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from ottla.spark.steps.arguments import StepError, name, quoted
from ottla.spark.steps.avro_schema import parse_avro_schema, record_type
from ottla.spark.steps.json_values import PARSED, REASON

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Before each value: a zero, and the schema's number in four bytes.
_REGISTRY_HEADER_BYTES: Final = 5


def parse_avro(
    records: DataFrame,
    schema: str | Mapping[str, Any],
    *,
    column: str = "value",
    registry_header: bool = False,
) -> DataFrame:
    """Parse a column of Avro records that were written with `schema`, given as JSON or as a dict.

    `registry_header=True` passes over the five bytes that clients of a schema registry put before each value.
    A record is bad if its value is null, does not fit the schema, or is longer than it.
    """
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.pandas.functions import arrow_udf
    from pyspark.sql.types import StringType, StructField, StructType

    parsed_schema = parse_avro_schema(schema)
    result = StructType([StructField(PARSED, record_type(parsed_schema)), StructField(REASON, StringType())])
    made_of: Any = arrow_udf  # its stubs do not know that hints are enough
    decode = made_of(_decoder(parsed_schema, result, registry_header), result)
    judged = records.select("*", decode(F.col(quoted(name("column", column)))).alias("_judged"))
    return judged.selectExpr(
        "* EXCEPT (_judged)", f"_judged.{PARSED} AS {PARSED}", f"_judged.{REASON} AS {REASON}"
    )


def _decoder(schema: dict[str, Any], result: Any, registry_header: bool) -> Callable[[Any], Any]:
    """The function that a Python worker runs on each batch."""
    _check_fastavro(schema)
    skipped = _REGISTRY_HEADER_BYTES if registry_header else 0

    def decode(values: pa.Array) -> pa.Array:  # Spark reads these hints
        import fastavro
        from pyspark.sql.pandas.types import to_arrow_type

        compiled = fastavro.parse_schema(schema)
        judged = [_judge(value, compiled, skipped) for value in values.to_pylist()]
        return pa.array(judged, type=to_arrow_type(result, timezone="UTC"))

    return decode


def _judge(value: bytes | None, schema: Any, skipped: int) -> dict[str, Any]:
    import fastavro

    if value is None:
        return {PARSED: None, REASON: "the value is null"}
    if len(value) < skipped or (skipped and value[0]):
        return {PARSED: None, REASON: "the value does not begin with a schema registry's header"}
    data = BytesIO(value[skipped:])
    try:
        record = fastavro.schemaless_reader(data, schema)
    except Exception as error:  # whatever bytes can do to a decoder
        said = str(error) or type(error).__name__
        return {PARSED: None, REASON: f"not Avro of this schema: {said}"}
    if left := len(value) - skipped - data.tell():
        return {PARSED: None, REASON: f"not Avro of this schema: {left} bytes are left over"}
    return {PARSED: record, REASON: None}


def _check_fastavro(schema: dict[str, Any]) -> None:
    try:
        import fastavro
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "Avro needs the package fastavro: pip install fastavro", name="fastavro"
        ) from error
    try:
        fastavro.parse_schema(schema)
    except Exception as error:  # it raises whatever it meets
        raise StepError(f"schema is not Avro: {error}") from error
