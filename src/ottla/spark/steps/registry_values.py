"""Avro by a schema registry: each value names the schema that it was written with, and gets the reader's columns.

Values are decoded and encoded in Python workers, a batch of Arrow at a time, by `ottla.serializers`. A worker asks the
registry once for each schema. A value whose schema the registry does not know, or that does not fit, has a reason, and
becomes a dead letter; a registry that cannot be reached fails the task, which Spark tries again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from ottla.spark.steps.arguments import StepError, name, quoted
from ottla.spark.steps.avro_schema import parse_avro_schema, record_type
from ottla.spark.steps.json_values import PARSED, REASON

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from ottla.serializers.registry_client import Registry

ENCODED: Final = "encoded"


def parse_by_registry(
    records: DataFrame,
    registry: str,
    schema: str | Mapping[str, Any],
    *,
    column: str = "value",
    login: Mapping[str, str] | None = None,
) -> DataFrame:
    """Parse a column of Avro, each value by the schema that it names in the registry at this address.

    `schema` is the reader's, as JSON or as a dict: it makes the columns, and Avro's rules bring values of older and
    newer writers into its form. `login` has `username` and `password`, or `token`. A record is bad if its value is
    null, names no schema or one that the registry does not know, or cannot be read in the reader's form.
    """
    from pyspark.sql.types import StringType, StructField, StructType

    wanted = parse_avro_schema(schema)
    result = StructType([StructField(PARSED, record_type(wanted)), StructField(REASON, StringType())])
    decode = _decoder(registry, _login(login), wanted, result)
    return _judged(records, column, decode, result, PARSED)


def encode_by_registry(
    rows: DataFrame,
    registry: str,
    schema: str | Mapping[str, Any],
    topic: str,
    *,
    column: str = PARSED,
    login: Mapping[str, str] | None = None,
) -> DataFrame:
    """Write a column of structs as Avro of this schema, which is registered for the topic's values: adds `encoded`,
    with the id of the schema before each value, or `reason` where a struct does not fit.
    """
    from pyspark.sql.types import BinaryType, StringType, StructField, StructType

    from ottla.serializers import AvroSerializer

    wanted = parse_avro_schema(schema)
    # Registered here, once: workers find it, and a refusal is an error of the pipeline and not of its records.
    AvroSerializer(_registry(registry, _login(login)), wanted, topic=name("topic", topic)).prepare()
    result = StructType([StructField(ENCODED, BinaryType()), StructField(REASON, StringType())])
    encode = _encoder(registry, _login(login), wanted, topic, result)
    return _judged(rows.selectExpr(f"* EXCEPT ({REASON})"), column, encode, result, ENCODED)


def _judged(
    rows: DataFrame, column: str, judge: Callable[[Any], Any], result: Any, made_column: str
) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.pandas.functions import arrow_udf

    made_of: Any = arrow_udf  # its stubs do not know that hints are enough
    judged = rows.select("*", made_of(judge, result)(F.col(quoted(name("column", column)))).alias("_judged"))
    return judged.selectExpr(
        "* EXCEPT (_judged)", f"_judged.{made_column} AS {made_column}", f"_judged.{REASON} AS {REASON}"
    )


def _decoder(
    url: str, login: tuple[tuple[str, str], ...], schema: dict[str, Any], result: Any
) -> Callable[[Any], Any]:
    """The function that a Python worker runs on each batch."""

    def decode(values: pa.Array) -> pa.Array:  # Spark reads these hints
        from pyspark.sql.pandas.types import to_arrow_type

        from ottla.serializers import AvroDeserializer

        read = AvroDeserializer(_registry(url, login), schema)
        judged = [_judge(PARSED, read, value) for value in values.to_pylist()]
        return pa.array(judged, type=to_arrow_type(result, timezone="UTC"))

    return decode


def _encoder(
    url: str, login: tuple[tuple[str, str], ...], schema: dict[str, Any], topic: str, result: Any
) -> Callable[[Any], Any]:
    def encode(values: pa.Array) -> pa.Array:  # Spark reads these hints
        from pyspark.sql.pandas.types import to_arrow_type

        from ottla.serializers import AvroSerializer

        write = AvroSerializer(_registry(url, login), schema, topic=topic, registration="lookup")
        judged = [_judge(ENCODED, write, value) for value in values.to_pylist()]
        return pa.array(judged, type=to_arrow_type(result, timezone="UTC"))

    return encode


def _judge(made_column: str, make: Callable[[Any], Any], value: Any) -> dict[str, Any]:
    from ottla.serializers import RegistryRequestError, SchemaDataError

    if value is None:
        return {made_column: None, REASON: "the value is null"}
    try:
        return {made_column: make(value), REASON: None}
    except SchemaDataError as error:
        return {made_column: None, REASON: str(error)}
    except RegistryRequestError as error:
        if error.status != 404:
            raise
        return {made_column: None, REASON: f"the registry does not know its schema: {error.message}"}


def _login(given: Mapping[str, str] | None) -> tuple[tuple[str, str], ...]:
    login = dict(given or {})
    if login.keys() - {"username", "password", "token"}:
        raise StepError("login takes username and password, or token.")
    return tuple(sorted(login.items()))


@lru_cache(maxsize=16)
def _registry(url: str, login: tuple[tuple[str, str], ...]) -> Registry:
    """The registry of a worker: what it has answered once is remembered for all batches."""
    from ottla.serializers import Registry

    options: Any = dict(login)
    try:
        return Registry(url, **options)
    except ValueError as error:
        raise StepError(str(error)) from error
