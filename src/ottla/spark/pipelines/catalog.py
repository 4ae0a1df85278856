"""Tables that outlive the process: Spark's built-in catalog lives in memory, and forgets them when the driver
ends.

A metastore would remember, at the price of a database and seconds at each start. A pipeline has a handful of
tables, so their definitions are kept in the pipeline's state, and given to the catalog before the first
update of a process.

Rules
- Only for the built-in catalog in memory; a catalog that was configured remembers by itself. A Connect
  server's is in pipeline_remote_catalog.py.
- A table that is given back is a managed one, as it was: a full refresh empties it, which Spark refuses for
  external tables. Spark also refuses to make a managed table where data already are, so it is made as an
  external one, and then declared managed in the catalog itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CATALOG_TABLE_TYPE: Final = "org.apache.spark.sql.catalyst.catalog.CatalogTableType$"
_TABLE_TYPE: Final = 1  # where CatalogTable has its type
# Delta's catalog leaves to the built-in one what is not Delta's: the list of tables, too.
_IN_MEMORY: Final = ("builtin", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
COLLATION: Final = re.compile(r" COLLATE UTF8_BINARY\b")


def forgets(driver: SparkSession) -> bool:
    """Whether the session's catalog is the built-in one in memory."""
    conf = driver.conf
    return (
        conf.get("spark.sql.catalogImplementation", "in-memory") == "in-memory"
        and conf.get("spark.sql.defaultCatalog", "spark_catalog") == "spark_catalog"
        and conf.get("spark.sql.catalog.spark_catalog", "builtin") in _IN_MEMORY
    )


def definitions(driver: SparkSession, database: str) -> dict[str, tuple[str, str]]:
    """By quoted name, what makes each table of a database again, and where it lies.

    The catalog is asked itself: in SQL the same is a dozen queries, in each update.
    """
    catalog = cast(Any, driver)._jsparkSession.sharedState().externalCatalog()
    listed = catalog.listTables(database).mkString("\n").splitlines()
    return {quoted([database, name]): _definition(catalog.getTable(database, name)) for name in listed}


def _definition(table: Any) -> tuple[str, str]:
    name = quoted([table.identifier().database().get(), table.identifier().table()])
    ddl = COLLATION.sub("", table.schema().toDDL())
    columns = (
        f" ({ddl})" if ddl else ""
    )  # Delta's tables have theirs in their log, and the catalog does not know them
    partitions = [quoted([each]) for each in table.partitionColumnNames().mkString("\n").splitlines()]
    by = f" PARTITIONED BY ({', '.join(partitions)})" if partitions else ""
    created = f"CREATE TABLE {name}{columns} USING {table.provider().get()}{by}"
    return created, str(table.location())


def restore(driver: SparkSession, tables: Mapping[str, tuple[str, str]]) -> None:
    """Give the catalog tables that an earlier process made: by quoted name, their definitions and
    locations.
    """
    for name, (created, location) in tables.items():
        if driver.catalog.tableExists(name):
            continue
        path = location.replace("'", "\\'")
        driver.sql(f"{created}\nLOCATION '{path}'")
        _declare_managed(driver, name)


def _declare_managed(driver: SparkSession, name: str) -> None:
    jvm, session = cast(Any, driver)._jvm, cast(Any, driver)._jsparkSession
    identifier = session.sessionState().sqlParser().parseTableIdentifier(name)
    database = identifier.database().get() if identifier.database().isDefined() else "default"
    catalog = session.sharedState().externalCatalog()
    table = catalog.getTable(database, identifier.table())
    fields = [getattr(table, f"copy$default${at + 1}")() for at in range(table.productArity())]
    fields[_TABLE_TYPE] = getattr(getattr(jvm, _CATALOG_TABLE_TYPE), "MODULE$").MANAGED()
    catalog.alterTable(table.copy(*fields))


def quoted(parts: Iterable[str]) -> str:
    """A name as SQL wants it."""
    return ".".join(f"`{part.replace('`', '``')}`" for part in parts)
