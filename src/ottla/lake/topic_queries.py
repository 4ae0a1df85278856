"""SQL over topics, with an embedded DuckDB: `FROM orders` is the table of the topic and its log, or the log alone.

Rules
- One statement that reads: nothing is written, and no file of the machine is opened by it.
- A topic that a query names several times is the same snapshot each time.
- DuckDB pushes its filters and columns into the table's files. The log after the seam is read once, into memory or,
  if it is long, into files that go with the query.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import duckdb
import pyarrow as pa

from ottla.lake.plan.definition import DEAD_LETTERS_SUFFIX
from ottla.lake.reading.cold import cold_dataset
from ottla.lake.reading.hot import hot_tables
from ottla.lake.reading.log_spool import LogSpool
from ottla.lake.reading.query import At, planned
from ottla.lake.reading.scan import reader_of
from ottla.lake.tables.schemas import DEAD_LETTER_SCHEMA
from ottla.lake.topic import Cluster, topic_names
from ottla.lake.warehouse import NoTableError, Warehouse
from ottla.security.settings import PLAINTEXT, Security

_READS: Final = ("SELECT", "EXPLAIN")


class QueryError(RuntimeError):
    """A query that cannot be answered; the message says why."""


def sql(
    query: str,
    *,
    bootstrap: str = "localhost:9092",
    warehouse: str | os.PathLike[str] | None = None,
    at: At = None,
    security: Security = PLAINTEXT,
) -> pa.Table:
    """The result of a query over topics by name. Names with other characters than letters, digits and `_` stand in
    double quotes. `orders__dead_letters` has the records of orders that could not be decoded.
    """
    return query_topics(query, Warehouse(warehouse), Cluster(bootstrap, security), at)


def query_topics(query: str, warehouse: Warehouse, cluster: Cluster, at: At = None) -> pa.Table:
    """The same with objects; QueryError, or what `planned` raises."""
    connection = duckdb.connect(config={"enable_external_access": "false"})
    scratch = TemporaryDirectory(prefix="ottla-sql-")
    try:
        connection.execute("SET TimeZone = 'UTC'")
        for number, name in enumerate(_topics_of(connection, query)):
            _add_topic(connection, name, warehouse, cluster, at, Path(scratch.name) / str(number))
        found: pa.Table = connection.sql(query).to_arrow_table()
        return found
    except duckdb.Error as error:
        raise QueryError(_in_words(error, connection, warehouse, cluster)) from error
    finally:
        connection.close()
        scratch.cleanup()


def _topics_of(connection: Any, query: str) -> list[str]:
    """The tables that a query names; QueryError if it is not one query that reads."""
    statements = connection.extract_statements(query)
    if len(statements) != 1:
        raise QueryError(f"give one query, not {len(statements)}")
    kind = str(statements[0].type).rpartition(".")[2]
    if kind not in _READS:
        raise QueryError(
            f"only queries that read are allowed, and this is {kind}: topics are written by producers"
        )
    return sorted(connection.get_table_names(query, qualified=False))


def _add_topic(
    connection: Any, name: str, warehouse: Warehouse, cluster: Cluster, at: At, scratch: Path
) -> None:
    if name.endswith(DEAD_LETTERS_SUFFIX) and _add_dead_letters(connection, name, warehouse):
        return
    query = planned(warehouse, cluster, name, at=at)
    if query.definition.is_upsert:
        connection.register(name, reader_of(query).read_all())
        return
    spool = LogSpool(scratch, query.schema)
    for each in hot_tables(query):
        spool.add(each)
    hot, cold = spool.dataset(), cold_dataset(query.files, spool.schema)
    if query.filter is not None:
        cold, hot = cold.filter(query.filter), hot.filter(query.filter)
    connection.register("_ottla_cold_" + name, cold)
    connection.register("_ottla_hot_" + name, hot)
    parts = [f"SELECT * FROM {_quoted(f'_ottla_{each}_{name}')}" for each in ("cold", "hot")]
    connection.execute(f"CREATE VIEW {_quoted(name)} AS {' UNION ALL BY NAME '.join(parts)}")


def _add_dead_letters(connection: Any, name: str, warehouse: Warehouse) -> bool:
    try:
        definition = warehouse.definition(name.removesuffix(DEAD_LETTERS_SUFFIX))
    except NoTableError:
        return False
    if not definition.has_dead_letters:
        raise QueryError(
            f"the table of {definition.topic} has raw values: every record is good, and none is a dead letter"
        )
    with warehouse.dead_letters(definition) as table:
        files = table.files(table.snapshot())
    connection.register(name, cold_dataset(files, DEAD_LETTER_SCHEMA))
    return True


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _in_words(error: Exception, connection: Any, warehouse: Warehouse, cluster: Cluster) -> str:
    text = str(error).replace("_ottla_hot_", "").replace("_ottla_cold_", "")
    if isinstance(error, duckdb.CatalogException):
        return f"{text} Topics: {', '.join(_names(lambda: topic_names(cluster))) or 'none'}."
    return text


def _names(asked: Callable[[], list[str]]) -> list[str]:
    try:
        return asked()
    except (ConnectionError, TimeoutError):
        return []
