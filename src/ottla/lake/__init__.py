"""Topics as tables: an Iceberg, Delta or Parquet table of a topic, and one query over the table and the log.

    import ottla.lake

    rows = ottla.lake.scan("orders", bootstrap="localhost:9092", where="amount > 100")

plan         decisions: offsets, ranges, the seam of table and log, filters, which files to merge
tables       the three formats behind one protocol
warehouse    where tables and their definitions are
topic        what is asked of the cluster
values       records become rows
writing      a topic's table is brought up to date, exactly once
reading      table and log as one
status       how far a table is behind its topic
comparison   whether a table is its topic
maintenance  files are merged, old snapshots and orphaned files go
retention    brokers are told what the table holds, so that retention can wait
spark_source the format "ottla.lake" of Spark
topic_queries  SQL over topics, with an embedded DuckDB

Nothing is imported before it is used: pyarrow, pyiceberg, deltalake and duckdb come with `ottla[lake]`, and only
this room imports them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ottla.lake.plan.definition import TableDefinition as TableDefinition
    from ottla.lake.reading.scan import scan as scan
    from ottla.lake.topic_queries import sql as sql
    from ottla.lake.warehouse import Warehouse as Warehouse
    from ottla.lake.writing.job import TableWriter as TableWriter

_HOMES = {
    "TableDefinition": "ottla.lake.plan.definition",
    "TableWriter": "ottla.lake.writing.job",
    "Warehouse": "ottla.lake.warehouse",
    "scan": "ottla.lake.reading.scan",
    "sql": "ottla.lake.topic_queries",
}

__all__ = ["TableDefinition", "TableWriter", "Warehouse", "scan", "sql"]

# Hidden from type checkers, which would take any name for one that exists.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        home = _HOMES.get(name)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(home), name)
        globals()[name] = value  # the next access finds it at once
        return value


def __dir__() -> list[str]:
    return __all__
