"""A topic with a table in a warehouse of its own, for the tests of the lake."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import ottla.lake
import ottla.testing
from ottla.blocking import Producer
from ottla.lake.plan.definition import TableDefinition
from ottla.lake.topic import Cluster
from ottla.lake.warehouse import Warehouse
from ottla.lake.writing.job import Limits, TableWriter

FORMATS = ["iceberg", "delta", "parquet"]
_NUMBERS = itertools.count()


class LakePlace:
    """A warehouse, a topic in it, and a writer for its table."""

    def __init__(
        self, broker: ottla.testing.EmbeddedBroker, location: Path | str, partitions: int = 2
    ) -> None:
        self.broker = broker
        self.warehouse = Warehouse(location)
        self.topic = broker.create_topic(f"orders_{next(_NUMBERS)}", partitions)

    def enable(self, **given: object) -> TableDefinition:
        definition = replace(TableDefinition(self.topic, self.topic), **given)  # type: ignore[arg-type]
        self.warehouse.enable(definition)
        return definition

    def produce(self, values: Iterable[bytes | None]) -> None:
        with Producer(self.broker.bootstrap) as producer:
            for at, value in enumerate(values):
                producer.send_soon(self.topic, value, key=b"key-%d" % (at % 5), partition=at % 2)
            producer.flush()

    def writer(self, **limits: Any) -> TableWriter:
        definition = self.warehouse.definition(self.topic)
        return TableWriter(
            self.warehouse, definition, Cluster(self.broker.bootstrap), limits=Limits(**limits)
        )

    def rows(self, **given: Any) -> list[tuple[int, int]]:
        """Partition and offset of each row of table and log, in order."""
        found = ottla.lake.scan(
            self.topic, bootstrap=self.broker.bootstrap, warehouse=self.warehouse.location, **given
        ).read_all()
        return sorted(zip(found["partition"].to_pylist(), found["offset"].to_pylist(), strict=True))

    def table_rows(self) -> int:
        definition = self.warehouse.definition(self.topic)
        with self.warehouse.table(definition) as table:
            return sum(each.rows for each in table.files(table.snapshot()))

    def sql(self, query: str) -> list[dict[str, object]]:
        found: list[dict[str, object]] = ottla.lake.sql(
            query.replace("TOPIC", self.topic),
            bootstrap=self.broker.bootstrap,
            warehouse=self.warehouse.location,
        ).to_pylist()
        return found


def all_of(count: int) -> list[tuple[int, int]]:
    """The rows of `count` records that went round two partitions."""
    return sorted((at % 2, at // 2) for at in range(count))


def orders(first: int, end: int, **more: object) -> list[bytes]:
    return [json.dumps({"id": at, "amount": at / 2, **more}).encode() for at in range(first, end)]
