"""Tables of topics written by Spark's executors, and the format "ottla.lake" over table and log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from tests.spark.conftest import NewTopic, produce

import ottla.testing
from ottla.lake.plan.definition import TableDefinition
from ottla.lake.topic import Cluster
from ottla.lake.warehouse import Warehouse
from ottla.lake.writing.engines import SparkEngine
from ottla.lake.writing.job import Limits, TableWriter


def orders(first: int, end: int) -> list[dict[str, Any]]:
    return [{"value": b'{"id": %d, "land": "SI"}' % at, "partition": at % 2} for at in range(first, end)]


def test_executors_write_the_table_and_read_it_with_the_log(
    spark: SparkSession, broker: ottla.testing.EmbeddedBroker, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(2, records=orders(0, 40))
    warehouse = Warehouse(tmp_path)
    definition = TableDefinition(topic, "orders", value="json")
    warehouse.enable(definition)
    writer = TableWriter(
        warehouse, definition, Cluster(broker.bootstrap), SparkEngine(spark), Limits(records_per_task=12)
    )
    assert [each.rows for each in writer.run()] == [40]
    produce(broker.bootstrap, topic, orders(40, 50))

    def read(**options: str) -> DataFrame:
        given = {"kafka.bootstrap.servers": broker.bootstrap, "topic": topic, "warehouse": str(tmp_path)}
        return spark.read.format("ottla.lake").options(**{**given, **options}).load()

    both = read()
    assert both.columns[-2:] == ["id", "land"]
    assert sorted(row.id for row in both.select("id").collect()) == list(range(50))
    narrowed = read(where="id >= 36 AND partition = 0", at='{"0": 22}')
    assert sorted(row.id for row in narrowed.select("id").collect()) == [36, 38, 40, 42]
    with pytest.raises(AnalysisException, match="Option 'topic' must name the topic"):
        read(topic=" ")


def test_filters_of_a_query_are_pushed_into_table_and_log(
    spark: SparkSession, broker: ottla.testing.EmbeddedBroker, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(1, values=[b"a", b"b", b"c"])
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        pushed = (
            spark.read.format("ottla.lake")
            .options(
                **{"kafka.bootstrap.servers": broker.bootstrap, "topic": topic, "warehouse": str(tmp_path)}
            )
            .option("pushFilters", "true")
            .load()
            .where("offset >= 1 AND value IN (X'62')")
        )
        assert [(row.offset, bytes(row.value)) for row in pushed.collect()] == [(1, b"b")]
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")
