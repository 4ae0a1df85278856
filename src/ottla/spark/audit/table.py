"""The table of an audit: opened by its path or its name, and brought to the columns that an audit compares.

A path's format is found by its content (`_delta_log`, Iceberg's metadata, the data files' suffix) unless
it is given. Parquet that a streaming query wrote is read through its `_spark_metadata`, as Spark always does:
files that a killed query left behind do not count.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (as all of Spark's users call it)
from pyspark.sql.types import BinaryType, DataType, IntegralType, StringType, StructType

from ottla.spark.audit.scope import AuditError
from ottla.spark.table_formats import TableFormatError, check_format, format_settings

DEFAULT_VALUE: Final = "value"
_SUFFIXES: Final = ("parquet", "orc", "json", "avro", "csv")
_FILES_TO_LOOK_AT: Final = 1000  # a directory of nothing but strangers is no table


@dataclass(frozen=True, slots=True)
class Columns:
    """The table's names for the columns that are compared. Dots reach into structs.

    Of a topic in the place of a table: the prefix of the headers that name a record's origin, or that its key does.
    """

    partition: str = "partition"
    offset: str = "offset"
    topic: str | None = None  # None: `topic`, if there is such a column
    value: str | None = None  # None: `value`, if there is such a column with bytes or text
    checksum: str | None = None
    checksum_function: str = "xxhash64"
    origin_headers: str = "origin."
    origin_in_key: bool = False


@dataclass(frozen=True, slots=True)
class Comparison:
    """The compared part of a record's value: a hash of the topic's side, the same of the table's, and a
    description.
    """

    topic: Column
    table: Column
    words: str | None


def open_table(spark: SparkSession, table: str, table_format: str | None) -> DataFrame:
    """The table as it is now. AuditError says what is there instead."""
    try:
        if not is_path(table):
            return _named(spark, table)
        found = table_format or _format_at(table)
        check_format(spark, found)
        return spark.read.format(found).load(
            table if "://" in table else str(Path(table).expanduser().resolve())
        )
    except TableFormatError as error:
        raise AuditError(f"{table} cannot be read as a table: {error}") from error
    except (
        PySparkException,
        Py4JJavaError,
    ) as error:  # the second: what Spark has no exception for in Python
        words = _first_line(error.java_exception if isinstance(error, Py4JJavaError) else error)
        raise AuditError(f"{table} cannot be read as a table: {words}") from error


def settings_for(table: str, table_format: str | None, given: Mapping[str, str]) -> dict[str, str]:
    """The settings that a session needs to read a table, besides those the user has `given`."""
    try:
        found = table_format or (_format_at(table) if is_path(table) else "")
    except AuditError:
        return {}  # told when the table is opened
    return format_settings(found, given=given)


def is_path(table: str) -> bool:
    """Whether a table is meant by its place. A name has no slash, and there is no directory of that name
    here.
    """
    return "/" in table or table.startswith((".", "~")) or Path(table).exists()


def _named(spark: SparkSession, table: str) -> DataFrame:
    if not spark.catalog.tableExists(table):
        raise AuditError(
            f"there is no table {table} in Spark's catalog, and no directory of that name here. "
            "Give the table's directory, or say where the catalog is with --conf"
        )
    return spark.table(table)


def _format_at(table: str) -> str:
    if "://" in table:
        return "parquet"
    place = Path(table).expanduser()
    if not place.exists():
        raise AuditError(f"there is no table at {table}: no such file or directory")
    if (place / "_delta_log").is_dir():
        return "delta"
    if any((place / "metadata").glob("*.metadata.json")):
        return "iceberg"
    for _, path in zip(range(_FILES_TO_LOOK_AT), _data_files(place), strict=False):
        for suffix in _SUFFIXES:
            if f".{suffix}" in path.name:
                return suffix
    raise AuditError(f"there is no table at {table}: no data file of a kind that Spark reads is there")


def _data_files(place: Path) -> Iterator[Path]:
    if place.is_file():
        yield place
        return
    for path in place.rglob("*"):
        if path.is_file() and not any(part.startswith(("_", ".")) for part in path.relative_to(place).parts):
            yield path


def rows_of(table: DataFrame, topic: str, columns: Columns) -> DataFrame:
    """The rows that came from this topic. AuditError if a column that is needed is missing or of no use."""
    for option, name in (("--partition-column", columns.partition), ("--offset-column", columns.offset)):
        found = _type_of(table, name)
        if found is None:
            raise AuditError(
                f"the table has no column {name}; it has {', '.join(table.columns)}. An audit needs the partition and the offset of "
                f"each record in the table: keep those columns of the source, or name them with {option}"
            )
        if not isinstance(found, IntegralType):
            raise AuditError(f"the column {name} is {found.simpleString()}: {option} must name whole numbers")
    named = columns.topic or "topic"
    kind = _type_of(table, named)
    if kind is None:
        if columns.topic:
            raise AuditError(f"the table has no column {columns.topic}; it has {', '.join(table.columns)}")
        return table
    return table.where(F.col(named) == F.lit(topic))


def comparison(table: DataFrame, columns: Columns) -> Comparison:
    """How values are compared, by what the table has."""
    if columns.checksum is not None:
        return _by_checksum(table, columns.checksum, columns.checksum_function)
    name = columns.value or DEFAULT_VALUE
    kind = _type_of(table, name)
    if isinstance(kind, BinaryType | StringType):
        hashed = F.xxhash64(F.col(name).cast("binary"))
        return Comparison(F.xxhash64(F.col("value")), hashed, "value")
    if columns.value is None:  # another thing of that name, or none: offsets are compared
        return Comparison(F.lit(0).cast("long"), F.lit(0).cast("long"), None)
    if kind is None:
        raise AuditError(f"the table has no column {name}; it has {', '.join(table.columns)}")
    raise AuditError(
        f"the column {name} is {kind.simpleString()}: --value-column must name the record's value as bytes or text. "
        "A table that keeps no values can keep their checksums: --checksum-column"
    )


def _by_checksum(table: DataFrame, name: str, function: str) -> Comparison:
    kind = _type_of(table, name)
    if kind is None:
        raise AuditError(f"the table has no column {name}; it has {', '.join(table.columns)}")
    value, words = F.col("value"), f"checksum ({function})"
    if function in ("xxhash64", "crc32"):
        if not isinstance(kind, IntegralType):
            raise AuditError(
                f"the column {name} is {kind.simpleString()}: {function} is a whole number (bigint)"
            )
        ours = F.xxhash64(value) if function == "xxhash64" else F.crc32(value)
        return Comparison(ours, F.col(name).cast("long"), words)
    if not isinstance(kind, StringType):
        raise AuditError(
            f"the column {name} is {kind.simpleString()}: {function} is text of hexadecimal digits"
        )
    digest = F.md5(value) if function == "md5" else F.sha2(value, 256)
    return Comparison(F.xxhash64(digest), F.xxhash64(F.lower(F.col(name))), words)


def _type_of(table: DataFrame, name: str) -> DataType | None:
    """The type of a column, or of a field in one; None if it is not there. Names have no case, as in
    Spark.
    """
    found: DataType = table.schema
    for part in name.split("."):
        fields = found.fields if isinstance(found, StructType) else []
        matching = [field.dataType for field in fields if field.name.lower() == part.lower()]
        if not matching:
            return None
        found = matching[0]
    return found


def _first_line(error: object) -> str:
    """Without the class that Java puts before its message."""
    return (
        str(error).strip().splitlines()[0].partition("Exception: ")[-1] or str(error).strip().splitlines()[0]
    )
