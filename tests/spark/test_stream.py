"""Streaming queries through Spark: triggers, checkpoints, topics that change while a query runs, and errors
(PIPE-1).
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException
from tests.spark.conftest import NewTopic, produce, produce_transactions

from ottla.blocking import Admin, Producer
from ottla.testing import EmbeddedBroker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

Streamed = Callable[..., "DataFrame"]


@pytest.fixture
def streamed(spark: SparkSession, broker: EmbeddedBroker) -> Streamed:
    """`streamed(subscribe="orders", ...)`: a streaming frame."""

    def frame(**options: Any) -> DataFrame:
        given = {"kafka.bootstrap.servers": broker.bootstrap, **options}
        return spark.readStream.format("ottla").options(**given).load()

    return frame


def to_parquet(frame: DataFrame, directory: Path, **trigger: Any) -> StreamingQuery:
    rows = frame.selectExpr("topic", "partition", "offset", "CAST(value AS STRING) AS value")
    writer = rows.writeStream.format("parquet").option("path", str(directory / "table"))
    return writer.option("checkpointLocation", str(directory / "checkpoint")).trigger(**trigger).start()


def offsets_in(spark: SparkSession, directory: Path) -> list[tuple[int, int]]:
    rows = spark.read.parquet(str(directory / "table")).select("partition", "offset").collect()
    return sorted((row.partition, row.offset) for row in rows)


def until(condition: Callable[[], object], query: StreamingQuery, what: str, timeout_s: float = 60) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert query.isActive, f"the query has ended before {what}: {query.exception()}"
        assert time.monotonic() < deadline, f"not within {timeout_s:g} s: {what}; {query.lastProgress}"
        query.awaitTermination(1)


def test_a_stream_of_committed_records_passes_aborted_ones_and_markers(
    spark: SparkSession, streamed: Streamed, broker: EmbeddedBroker, new_topic: NewTopic, tmp_path: Path
) -> None:
    """Two offsets in a batch: one of them has nothing but an aborted record and a marker, and is no data loss."""
    topic = new_topic()
    committed = {"subscribe": topic, "kafka.isolation.level": "read_committed", "startingOffsets": "earliest"}

    def run() -> list[tuple[int, int]]:
        query = to_parquet(streamed(maxOffsetsPerTrigger="2", **committed), tmp_path, availableNow=True)
        assert query.awaitTermination(90)
        return offsets_in(spark, tmp_path)

    produce_transactions(broker.bootstrap, topic, ([b"a"], True), ([b"x"], False), ([b"b"], True))
    assert run() == [(0, 0), (0, 4)]
    with Producer(broker.bootstrap, transactional_id=f"open-{topic}") as producer:
        with producer.transaction():
            producer.send(topic, b"c")
            assert run() == [(0, 0), (0, 4)]
        assert run() == [(0, 0), (0, 4), (0, 6)]


def test_a_query_goes_on_from_its_checkpoint(
    spark: SparkSession, streamed: Streamed, broker: EmbeddedBroker, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(2, values=[b"%d" % number for number in range(10)])
    options = {"subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "6"}
    query = to_parquet(streamed(**options), tmp_path, availableNow=True)
    assert query.awaitTermination(90)
    assert [each["numInputRows"] for each in query.recentProgress] == [6, 4]
    source = query.recentProgress[0]["sources"][0]
    assert json.loads(source["endOffset"]) == {topic: {"0": 3, "1": 3}}
    assert json.loads(source["latestOffset"]) == {topic: {"0": 5, "1": 5}}

    # The log of offsets is that of Spark's Kafka source.
    written = (tmp_path / "checkpoint" / "offsets" / "1").read_text().splitlines()
    assert json.loads(written[-1]) == {topic: {"0": 5, "1": 5}}

    produce(broker.bootstrap, topic, [{"value": b"late", "partition": 1}] * 3)
    # Where a new query would start does not matter to one with a checkpoint.
    query = to_parquet(streamed(subscribe=topic, startingOffsets="latest"), tmp_path, availableNow=True)
    assert query.awaitTermination(90)
    assert offsets_in(spark, tmp_path) == [(0, at) for at in range(5)] + [(1, at) for at in range(8)]


def test_a_checkpoint_of_sparks_kafka_source_is_gone_on_from(
    spark: SparkSession, streamed: Streamed, new_topic: NewTopic, tmp_path: Path
) -> None:
    """Changing one word of a job must not make it restart from the beginning."""
    topic = new_topic(1, values=[b"x"] * 5)
    checkpoint = {
        "metadata": '{"id":"4a7d0b0f-6e0d-4b0b-9a80-1c1f6f7d0d6e"}',
        "offsets/0": f'v1\n{{"batchWatermarkMs":0,"batchTimestampMs":1700000000000,"conf":{{}}}}\n{{"{topic}":{{"0":2}}}}',
        "commits/0": 'v1\n{"nextBatchWatermarkMs":0}',
        "sources/0/0": f'0v1\n{{"{topic}":{{"0":0}}}}',
    }
    for name, text in checkpoint.items():
        path = tmp_path / "checkpoint" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    query = to_parquet(streamed(subscribe=topic), tmp_path, availableNow=True)
    assert query.awaitTermination(90)
    shutil.rmtree(tmp_path / "table" / "_spark_metadata")  # it misses the batches of the other source
    assert offsets_in(spark, tmp_path) == [(0, 2), (0, 3), (0, 4)]


def test_a_running_query_meets_new_records_new_partitions_and_a_deleted_topic(
    spark: SparkSession, streamed: Streamed, broker: EmbeddedBroker, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(1, values=[b"old"] * 3)
    frame = streamed(subscribe=topic, **{"fetchOffset.retryIntervalMs": "1"})
    query = to_parquet(frame, tmp_path, processingTime="50 milliseconds")
    until(lambda: query.lastProgress, query, "the first batch, which is empty")
    produce(broker.bootstrap, topic, [{"value": b"new"}] * 2)
    until(lambda: (0, 4) in offsets_in(spark, tmp_path), query, "new records")
    with Admin(broker.bootstrap) as admin:
        admin.create_partitions({topic: 2})
    produce(broker.bootstrap, topic, [{"value": b"newer", "partition": 1}] * 2)
    until(lambda: (1, 1) in offsets_in(spark, tmp_path), query, "a new partition")
    assert offsets_in(spark, tmp_path) == [(0, 3), (0, 4), (1, 0), (1, 1)]

    with Admin(broker.bootstrap) as admin:
        admin.delete_topics([topic])
    with pytest.raises(
        PySparkException,
        match=rf"DataLossError: Some data may have been lost: {topic}-0, {topic}-1 not there any more",
    ):
        query.awaitTermination(60)


def test_once_reads_everything_in_one_batch(streamed: Streamed, new_topic: NewTopic, tmp_path: Path) -> None:
    topic = new_topic(2, values=[b"x"] * 10)
    frame = streamed(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger="2")
    query = to_parquet(frame, tmp_path, once=True)
    assert query.awaitTermination(90)
    assert [each["numInputRows"] for each in query.recentProgress] == [10]


def test_a_topic_as_a_stream_in_sql(
    spark: SparkSession, broker: EmbeddedBroker, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(1, values=[b"x"] * 4)
    options = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
    spark.readStream.format("ottla").options(**options).load().createOrReplaceTempView("streamed_topic")
    query = to_parquet(
        spark.sql("SELECT * FROM STREAM streamed_topic WHERE offset > 1"), tmp_path, availableNow=True
    )
    assert query.awaitTermination(90)
    assert offsets_in(spark, tmp_path) == [(0, 2), (0, 3)]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"endingOffsets": "latest"},
            "OptionError: Option 'endingOffsets' is only for batch queries: a stream has no end.",
        ),
        (
            {"subscribe": "not-there"},
            "ClusterError: Topic 'not-there' does not exist: create it or check the name.",
        ),
    ],
)
def test_what_a_stream_cannot_do_ends_it_with_a_sentence(
    streamed: Streamed, new_topic: NewTopic, tmp_path: Path, options: dict[str, str], said: str
) -> None:
    with pytest.raises(PySparkException) as caught:
        to_parquet(
            streamed(**{"subscribe": new_topic(), **options}), tmp_path, availableNow=True
        ).awaitTermination(60)
    assert said in str(caught.value)
