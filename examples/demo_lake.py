"""The end of the demo: half of the orders are in a table, half only in the log, and one query sees all of them."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import ottla.lake
from ottla.lake.plan.definition import TableDefinition
from ottla.lake.topic import Cluster
from ottla.lake.warehouse import Warehouse
from ottla.lake.writing.job import Limits, TableWriter

# What a person would type: ottla sql "SELECT …"
QUERY = """
SELECT decode(value)->>'country' AS country, count(*) AS orders
FROM orders WHERE json_valid(decode(value)) GROUP BY 1 ORDER BY 2 DESC LIMIT 1
"""


class LakeAnswer(NamedTuple):
    """How many records the table has, how many table and log have together, and which country ordered most."""

    table_rows: int
    rows: int
    country: str
    orders: int


def ask_table_and_log(bootstrap: str, topic: str, total: int, directory: Path) -> LakeAnswer:
    """Put about half of a topic into an Iceberg table, and ask for all of it."""
    warehouse = Warehouse(directory / "lake")
    definition = TableDefinition(topic, topic)
    warehouse.enable(definition)
    half = Limits(records_per_commit=max(1, total // 2))
    committed = TableWriter(warehouse, definition, Cluster(bootstrap), limits=half).commit_once()

    def asked(query: str) -> dict[str, int]:
        found = ottla.lake.sql(query, bootstrap=bootstrap, warehouse=warehouse.location)
        row: dict[str, int] = found.to_pylist()[0]
        return row

    counted = asked(f'SELECT count(DISTINCT (partition, "offset")) AS n, count(*) AS rows FROM {topic}')
    most = asked(QUERY)
    rows = counted["rows"] if counted["n"] == counted["rows"] else -1
    return LakeAnswer(committed.rows if committed else 0, rows, str(most["country"]), most["orders"])
