"""`df.writeStream.format("ottla")`: micro-batches into topics, at least once, whatever ends in between
(PIPE-1).
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.spark.conftest import NewTopic, produce

from ottla.blocking import Admin
from ottla.client.requests.offsets import OffsetSpec
from ottla.client.requests.topics import NewTopic as CreatedTopic
from ottla.errors import KafkaError
from ottla.localcluster.broker_process import start_broker
from ottla.localcluster.waiting import wait_until
from ottla.model import TopicPartition
from ottla.testing import EmbeddedBroker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

DEADLINE_S = 90.0
COUNTS = {(b"0", b"30"), (b"1", b"30"), (b"2", b"30")}


def reading(spark: SparkSession, broker: EmbeddedBroker, topic: str, **options: Any) -> DataFrame:
    stream = spark.readStream.format("ottla").option("kafka.bootstrap.servers", broker.bootstrap)
    return stream.options(subscribe=topic, startingOffsets="earliest", **options).load()


def writing(frame: DataFrame, broker: EmbeddedBroker, checkpoint: Path, **options: Any) -> DataStreamWriter:
    stream = frame.writeStream.format("ottla").option("kafka.bootstrap.servers", broker.bootstrap)
    return stream.options(checkpointLocation=str(checkpoint), **options)


def values(broker: EmbeddedBroker, topic: str) -> list[bytes]:
    return [record.value or b"" for record in broker.records(topic)]


def test_a_stream_goes_from_topic_to_topic_and_on_where_it_was(
    spark: SparkSession, broker: EmbeddedBroker, new_topic: NewTopic, tmp_path: Path
) -> None:
    source, target = new_topic(2, values=[b"%d" % number for number in range(500)]), new_topic(3)
    copied = reading(spark, broker, source, maxOffsetsPerTrigger=100).select("key", "value")

    writing(copied, broker, tmp_path, topic=target).trigger(availableNow=True).start().awaitTermination()
    assert sorted(map(int, values(broker, target))) == list(range(500))

    produce(broker.bootstrap, source, [{"value": b"%d" % number} for number in range(500, 600)])
    writing(copied, broker, tmp_path, topic=target).trigger(availableNow=True).start().awaitTermination()
    assert sorted(map(int, values(broker, target))) == list(range(600))


def test_rows_of_a_stream_say_their_topic(
    spark: SparkSession, broker: EmbeddedBroker, new_topic: NewTopic, tmp_path: Path
) -> None:
    source = new_topic(values=[b"%d" % number for number in range(100)])
    even, odd = new_topic(), new_topic()
    split = reading(spark, broker, source).selectExpr(
        f"if(int(string(value)) % 2 = 0, '{even}', '{odd}') as topic", "value"
    )
    writing(split, broker, tmp_path).trigger(availableNow=True).start().awaitTermination()
    assert values(broker, even) == [b"%d" % number for number in range(0, 100, 2)]
    assert values(broker, odd) == [b"%d" % number for number in range(1, 100, 2)]


def counts_of(spark: SparkSession, broker: EmbeddedBroker, source: str) -> DataFrame:
    counts = reading(spark, broker, source).groupBy("value").count()
    return counts.selectExpr("value as key", "cast(count as string) as value")


def test_a_whole_aggregate_is_appended_with_each_batch(
    spark: SparkSession, broker: EmbeddedBroker, new_topic: NewTopic, tmp_path: Path
) -> None:
    source, target = new_topic(values=[b"%d" % (number % 3) for number in range(90)]), new_topic()
    written = writing(counts_of(spark, broker, source), broker, tmp_path, topic=target)
    written.outputMode("complete").trigger(availableNow=True).start().awaitTermination()
    assert {(record.key, record.value) for record in broker.records(target)} == COUNTS


def test_updates_of_an_aggregate_are_written_batch_by_batch(
    spark: SparkSession, broker: EmbeddedBroker, new_topic: NewTopic, ottla_write: Any, tmp_path: Path
) -> None:
    """Spark lets no Python sink have updates; `foreachBatch` does."""
    source, target = new_topic(values=[b"%d" % (number % 3) for number in range(90)]), new_topic()

    def write(batch: DataFrame, _: int) -> None:
        ottla_write(batch, topic=target).save()

    stream = counts_of(spark, broker, source).writeStream.option("checkpointLocation", str(tmp_path))
    updates = stream.outputMode("update").foreachBatch(write)
    updates.trigger(availableNow=True).start().awaitTermination()
    assert {(record.key, record.value) for record in broker.records(target)} == COUNTS


@pytest.mark.parametrize(
    ("frame", "options", "words"),
    [
        ("partition", {"topic": "t"}, "Required attribute 'value' not found"),
        ("value", {}, "topic option required when no 'topic' attribute is present"),
        ("value", {"topic": "t", "kafka.acks": "some"}, "Option 'kafka.acks' must be all"),
        ("value", {"topic": "t", "transactionalId": "mill"}, "the sink names its transactions itself"),
    ],
)
def test_what_cannot_be_written_stops_a_query_in_words(
    spark: SparkSession,
    broker: EmbeddedBroker,
    new_topic: NewTopic,
    tmp_path: Path,
    frame: str,
    options: dict[str, str],
    words: str,
) -> None:
    source = new_topic(values=[b"x"])
    selected = reading(spark, broker, source).select(frame)
    with pytest.raises(Exception, match=words):
        writing(selected, broker, tmp_path, **options).trigger(availableNow=True).start().awaitTermination()


def test_nothing_is_lost_when_the_broker_is_killed_in_the_middle_of_a_write(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The task's producer finds the broker again and sends again what it did not hear of; idempotence keeps
    that from being twice.
    """
    rows = 400_000
    with Crash(tmp_path / "data", at_records=rows // 50) as crash, ThreadPoolExecutor(1) as pool:
        address = {"kafka.bootstrap.servers": crash.broker.bootstrap}
        crashed = pool.submit(crash.run)
        frame = spark.range(rows, numPartitions=2).selectExpr("lpad(cast(id as string), 100, '0') as value")
        frame.write.format("ottla").options(topic="t", **address).mode("append").save()
        assert crashed.result(DEADLINE_S) < rows, "the write was over before the broker was killed"
        read = spark.read.format("ottla").options(subscribe="t", startingOffsets="earliest", **address).load()
        counted = read.selectExpr("count(*)", "count(distinct value)", "max(int(string(value)))").collect()
    assert tuple(counted[0]) == (rows, rows, rows - 1)


class Crash:
    """A broker with a topic `t`, which is killed when the topic has this many records, and started again."""

    def __init__(self, data: Path, *, at_records: int) -> None:
        self._data, self._at_records = data, at_records
        self.broker = start_broker(data)

    def __enter__(self) -> Crash:
        with Admin(self.broker.bootstrap) as admin:
            admin.create_topics([CreatedTopic("t", 3)])
        return self

    def __exit__(self, *_: object) -> None:
        self.broker.stop()

    def run(self) -> int:
        """How many records there were when the broker was killed."""
        seen = 0

        def has_begun() -> bool:
            nonlocal seen
            seen = records_count(admin)
            return seen >= self._at_records

        with Admin(self.broker.bootstrap) as admin:
            wait_until(has_begun, "the write has begun", DEADLINE_S)
            self.broker.kill()
        self.broker = start_broker(self._data, port=self.broker.port)
        return seen


def records_count(admin: Admin) -> int:
    """How many records the topic has, without reading them."""
    latest = {TopicPartition("t", partition): OffsetSpec.LATEST for partition in range(3)}
    answers = admin.list_offsets(latest).values()
    return sum(answer.offset for answer in answers if not isinstance(answer, KafkaError))
