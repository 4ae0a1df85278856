"""The session that `ottla.spark.session` makes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from tests.spark.conftest import NewTopic

import ottla.spark
from ottla.spark.runtime.class_archive import archive_path
from ottla.spark.runtime.java import find_java
from ottla.testing import EmbeddedBroker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_session_has_settings_for_a_laptop_where_nothing_else_is_said(spark: SparkSession) -> None:
    assert spark.sparkContext.master == "local[2]"
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2", "what the tests say wins"
    assert spark.sparkContext.uiWebUrl is None


def test_a_second_call_answers_the_session_that_there_is(spark: SparkSession) -> None:
    assert ottla.spark.session("other") is spark


def test_the_jvm_starts_from_the_archive_that_was_prepared(spark: SparkSession) -> None:
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    process = jvm.java.lang.ProcessHandle.current().pid()
    assert str(archive_path(find_java())) in Path(f"/proc/{process}/maps").read_text()


def test_workers_take_pyspark_as_it_is_installed(spark: SparkSession) -> None:
    """Spark's zip of it has no bytecode: every process would compile it again."""

    def origin(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from importlib.util import find_spec

        found = [find_spec(name) for name in ("pyspark", "py4j")]
        yield pa.record_batch({"origin": [str(each and each.origin) for each in found]})

    origins = [
        row[0] for row in spark.range(1, numPartitions=1).mapInArrow(origin, "origin string").collect()
    ]
    assert not [each for each in origins if ".zip" in each]


def test_a_broker_in_this_process_serves_python_workers(
    spark: SparkSession, broker: EmbeddedBroker, new_topic: NewTopic
) -> None:
    topic = new_topic(3, values=[b"%d" % number for number in range(1_000)])
    bootstrap = broker.bootstrap

    def count_records(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from ottla.blocking import Consumer
        from ottla.model import TopicPartition

        with Consumer(bootstrap, auto_offset_reset="earliest") as consumer:
            consumer.assign([TopicPartition(topic, partition) for partition in range(3)])
            seen = 0
            while seen < 1_000:
                seen += len(consumer.poll(timeout_ms=1_000))
            yield pa.record_batch({"count": [seen]})

    counted = spark.range(1, numPartitions=1).mapInArrow(count_records, "count long")

    assert [row[0] for row in counted.collect()] == [1_000]
