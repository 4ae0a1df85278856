"""The tables of a Spark whose JVM is elsewhere, or whose catalog is not the built-in one: asked and told in
SQL.

A Connect server with the built-in catalog forgets its tables when it restarts, as a driver does
(pipeline_catalog.py). They are given back as managed tables, which a full refresh may empty. Spark refuses to
make a managed table where data already are, but not to let one move there. So for the moment of making them
the database's tables go aside, to a directory with nothing in it, and each table is then moved to its data.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from ottla.spark.pipelines.catalog import COLLATION, quoted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DETAILS: Final = "# Detailed Table Information"
_LOCATION: Final = "Location"


def described(
    spark: SparkSession, names: Iterable[str], *, with_definitions: bool
) -> dict[str, tuple[str, str]]:
    """By quoted name, what makes each table again (nothing, where it is not needed), and where it lies. A
    table of which the catalog tells neither is left out.
    """
    from pyspark.errors import PySparkException

    found = {}
    for name in names:
        try:
            created = _definition(spark, name) if with_definitions else ""
            location = _location_of_table(spark, name)
        except PySparkException:  # not every catalog has an answer, and an update goes on without it
            continue
        if location:
            found[name] = created, location
    return found


def _definition(spark: SparkSession, name: str) -> str:
    (row,) = spark.sql(f"SHOW CREATE TABLE {name}").collect()
    return COLLATION.sub("", row[0].strip())


def _location_of_table(spark: SparkSession, name: str) -> str:
    rows = [(row[0], row[1]) for row in spark.sql(f"DESCRIBE TABLE EXTENDED {name}").collect()]
    beginning = next((at for at, row in enumerate(rows) if row[0] == _DETAILS), 0)
    return next((value for field, value in rows[beginning:] if field == _LOCATION), "")


def give_back(spark: SparkSession, database: str, tables: Mapping[str, tuple[str, str]], aside: str) -> None:
    """Give the server's catalog tables that it has forgotten: by quoted name, their definitions and
    locations. `aside` is a directory for nothing.
    """
    forgotten = {name: table for name, table in tables.items() if not spark.catalog.tableExists(name)}
    if not forgotten:
        return
    with _placed(spark, database, aside):
        for created, _ in forgotten.values():
            spark.sql(created)
    for name, (_, location) in forgotten.items():
        spark.sql(f"ALTER TABLE {name} SET LOCATION {_text(location)}")


@contextmanager
def _placed(spark: SparkSession, database: str, aside: str) -> Iterator[None]:
    """A database's new tables go elsewhere meanwhile. Its old ones stay."""
    name = quoted([database])
    rows = spark.sql(f"DESCRIBE DATABASE EXTENDED {name}").collect()
    home = next(row[1] for row in rows if row[0] == _LOCATION)
    spark.sql(f"ALTER DATABASE {name} SET LOCATION {_text(aside)}")
    try:
        yield
    finally:
        spark.sql(f"ALTER DATABASE {name} SET LOCATION {_text(home)}")


def _text(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
