"""`df.write.format("ottla")`: what of a DataFrame becomes records, and what is refused, in which words
(PIPE-1).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from tests.spark.conftest import NewTopic

from ottla.client.fetching.plan.record_batch import ConsumerRecord
from ottla.client.producer.machine.partitioners import murmur2
from ottla.testing import EmbeddedBroker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameWriter, SparkSession

Write = Callable[..., "DataFrameWriter"]

HEADERS = "headers array<struct<key:string,value:binary>>"


def rows_of(records: list[ConsumerRecord]) -> Counter[tuple[Any, ...]]:
    return Counter((record.key, record.value, tuple(record.headers)) for record in records)


def test_text_and_bytes_are_written_as_bytes(
    spark: SparkSession, broker: EmbeddedBroker, new_topic: NewTopic, ottla_write: Write
) -> None:
    topic = new_topic()
    text = spark.createDataFrame([("k1", "grün"), (None, None), ("", "")], "key string, value string")
    data = spark.createDataFrame([(bytearray(b"\xff"), bytearray(b"\x00\x01"))], "key binary, value binary")
    ottla_write(text, topic=topic).save()
    ottla_write(data, topic=topic).save()
    assert rows_of(broker.records(topic)) == Counter(
        {
            (b"k1", "grün".encode(), ()): 1,
            (None, None, ()): 1,
            (b"", b"", ()): 1,
            (b"\xff", b"\x00\x01", ()): 1,
        }
    )


def test_a_value_is_enough(
    spark: SparkSession, broker: EmbeddedBroker, new_topic: NewTopic, ottla_write: Write
) -> None:
    topic = new_topic(3)
    ottla_write(spark.range(1_000).selectExpr("cast(id as string) as value"), topic=topic).save()
    records = broker.records(topic)
    assert {record.key for record in records} == {None}
    assert sorted(int(record.value or b"") for record in records) == list(range(1_000))


def test_keys_go_where_every_kafka_client_sends_them_and_stay_in_order(
    spark: SparkSession, broker: EmbeddedBroker, new_topic: NewTopic, ottla_write: Write
) -> None:
    topic = new_topic(5)
    frame = spark.range(20_000, numPartitions=1).selectExpr(
        "concat('key-', id % 40) as key", "cast(id as string) as value"
    )
    ottla_write(frame, topic=topic).save()
    records = broker.records(topic)
    assert len(records) == 20_000
    seen: dict[bytes, int] = {}
    for record in records:
        assert record.key is not None
        assert record.partition == (murmur2(record.key) & 0x7FFFFFFF) % 5
        number = int(record.value or b"")
        assert number > seen.get(record.key, -1)
        seen[record.key] = number


def test_rows_say_their_partition_or_leave_it_to_their_key(
    spark: SparkSession, broker: EmbeddedBroker, new_topic: NewTopic, ottla_write: Write
) -> None:
    topic = new_topic(4)
    frame = spark.createDataFrame(
        [("a", "named", 3), ("a", "hashed", None), (None, "alone", 2)],
        "key string, value string, partition int",
    )
    ottla_write(frame, topic=topic).save()
    by_key = (murmur2(b"a") & 0x7FFFFFFF) % 4
    assert {(record.value, record.partition) for record in broker.records(topic)} == {
        (b"named", 3),
        (b"hashed", by_key),
        (b"alone", 2),
    }


def test_rows_say_their_topic(
    spark: SparkSession, broker: EmbeddedBroker, new_topic: NewTopic, ottla_write: Write
) -> None:
    one, two = new_topic(2), new_topic(2)
    frame = spark.range(100).selectExpr(
        f"if(id % 3 = 0, '{one}', '{two}') as topic", "cast(id as string) as value"
    )
    ottla_write(frame).save()
    assert sorted(int(record.value or b"") for record in broker.records(one)) == list(range(0, 100, 3))
    assert len(broker.records(two)) == 66


def test_the_option_decides_over_the_column(
    spark: SparkSession, broker: EmbeddedBroker, new_topic: NewTopic, ottla_write: Write
) -> None:
    topic, other = new_topic(), new_topic()
    ottla_write(spark.createDataFrame([(other, "x")], "topic string, value string"), topic=topic).save()
    ottla_write(spark.createDataFrame([(None, "y")], "topic string, value string"), topic=topic).save()
    assert [record.value for record in broker.records(topic)] == [b"x", b"y"]
    assert broker.records(other) == []


def test_headers_are_written(
    spark: SparkSession, broker: EmbeddedBroker, new_topic: NewTopic, ottla_write: Write
) -> None:
    topic = new_topic(2)
    rows: list[Any] = [
        ("k", "both", [("a", bytearray(b"1")), ("a", None)]),
        (None, "none", None),
        ("q", "empty", []),
    ]
    ottla_write(spark.createDataFrame(rows, f"key string, value string, {HEADERS}"), topic=topic).save()
    assert rows_of(broker.records(topic)) == Counter(
        {(b"k", b"both", (("a", b"1"), ("a", None))): 1, (None, b"none", ()): 1, (b"q", b"empty", ()): 1}
    )


def test_what_the_source_reads_can_be_written_as_it_is(
    spark: SparkSession,
    broker: EmbeddedBroker,
    new_topic: NewTopic,
    ottla_read: Callable[..., Any],
    ottla_write: Write,
) -> None:
    records = [
        {"value": b"%d" % number, "key": b"k%d" % number, "partition": number % 3, "headers": {"n": b"x"}}
        for number in range(60)
    ]
    source, target = new_topic(3, records=records), new_topic(3)
    read = ottla_read(subscribe=source, startingOffsets="earliest", includeHeaders="true").load()
    ottla_write(read, topic=target).save()
    assert rows_of(broker.records(target)) == rows_of(broker.records(source))
    assert {(record.value, record.partition) for record in broker.records(target)} == {
        (record.value, record.partition) for record in broker.records(source)
    }


def test_no_rows_write_nothing(
    spark: SparkSession, broker: EmbeddedBroker, new_topic: NewTopic, ottla_write: Write
) -> None:
    topic = new_topic()
    ottla_write(spark.createDataFrame([], "value string"), topic=topic).save()
    assert broker.records(topic) == []


def test_values_of_many_sizes_arrive_whole(
    spark: SparkSession, broker: EmbeddedBroker, new_topic: NewTopic, ottla_write: Write
) -> None:
    topic = new_topic(2)
    frame = spark.range(200, numPartitions=2).selectExpr("repeat('x', int(id * id * 5)) as value")
    ottla_write(frame, topic=topic, **{"kafka.compression.type": "zstd"}).save()
    assert Counter(len(record.value or b"") for record in broker.records(topic)) == Counter(
        number * number * 5 for number in range(200)
    )


# ---- what is refused, before a task runs


def refusal(write: DataFrameWriter) -> str:
    with pytest.raises(Exception) as refused:
        write.save()
    return str(refused.value)


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ("value int", "value attribute unsupported type int. value must be a(n) string or binary"),
        (
            "key long, value string",
            "key attribute unsupported type bigint. key must be a(n) string or binary",
        ),
        (
            "value string, partition long",
            "partition attribute unsupported type bigint. partition must be a(n) int",
        ),
        (
            "value string, headers map<string,binary>",
            "headers attribute unsupported type map<string,binary>. headers must be a(n) array<struct<key:string,value:binary>>",
        ),
        ("key string", "Required attribute 'value' not found; there are: key."),
    ],
)
def test_columns_of_a_wrong_type_are_refused_in_sparks_words(
    spark: SparkSession, ottla_write: Write, schema: str, words: str
) -> None:
    assert words in refusal(ottla_write(spark.createDataFrame([], schema), topic="t"))


def test_a_topic_column_must_be_text(spark: SparkSession, ottla_write: Write) -> None:
    frame = spark.createDataFrame([], "topic binary, value string")
    assert "topic attribute unsupported type binary. topic must be a(n) string" in refusal(ottla_write(frame))


def test_a_topic_must_come_from_somewhere(spark: SparkSession, ottla_write: Write) -> None:
    words = "topic option required when no 'topic' attribute is present. Use the topic option for setting a topic."
    assert words in refusal(ottla_write(spark.createDataFrame([], "value string")))


def test_a_topic_only_grows(spark: SparkSession, ottla_write: Write) -> None:
    frame = spark.createDataFrame([], "value string")
    told = refusal(ottla_write(frame, topic="t").mode("overwrite"))
    assert 'Save mode Overwrite not allowed for Ottla: a topic only grows. Use .mode("append").' in told
    for mode in ("ErrorIfExists", "Ignore"):
        assert f'cannot be written in the "{mode}" mode' in refusal(ottla_write(frame, topic="t").mode(mode))


# ---- what only a task can see


def test_a_null_topic_is_refused(spark: SparkSession, new_topic: NewTopic, ottla_write: Write) -> None:
    frame = spark.createDataFrame([(new_topic(), "x"), (None, "y")], "topic string, value string")
    words = "null topic present in the data. Use the topic option for setting a default topic."
    assert words in refusal(ottla_write(frame.coalesce(1)))


def test_a_partition_that_is_not_there_is_refused(
    spark: SparkSession, broker: EmbeddedBroker, new_topic: NewTopic, ottla_write: Write
) -> None:
    topic = new_topic(2)
    frame = spark.createDataFrame([("x", 0), ("y", 2)], "value string, partition int").coalesce(1)
    told = refusal(ottla_write(frame, topic=topic))
    assert (
        f'partition 2 is given with a record for topic "{topic}", which has 2: it must be null or from 0 to 1'
        in told
    )
    assert broker.records(topic) == []


def test_a_record_larger_than_a_request_is_refused(
    spark: SparkSession, new_topic: NewTopic, ottla_write: Write
) -> None:
    frame = spark.createDataFrame([("x" * 2_000,)], "value string")
    told = refusal(ottla_write(frame, topic=new_topic(), **{"kafka.max.request.size": "1500"}))
    assert "max_request_size allows 1500" in told


def test_a_record_that_the_broker_finds_too_large_is_refused_and_others_are_written(
    spark: SparkSession, broker: EmbeddedBroker, new_topic: NewTopic, ottla_write: Write
) -> None:
    topic = new_topic(configs={"max.message.bytes": "5000"})
    frame = spark.createDataFrame([("a" * 10,), ("b" * 6_000,), ("c" * 10,)], "value string").coalesce(1)
    told = refusal(ottla_write(frame, topic=topic))
    assert f"{topic}-0 did not take the record" in told
    assert [record.value for record in broker.records(topic)] == [b"a" * 10, b"c" * 10]


def test_batches_that_a_topic_finds_too_large_are_written_in_parts(
    spark: SparkSession, broker: EmbeddedBroker, new_topic: NewTopic, ottla_write: Write
) -> None:
    topic = new_topic(configs={"max.message.bytes": "20000"})
    frame = spark.range(2_000, numPartitions=1).selectExpr("lpad(cast(id as string), 100, '0') as value")
    ottla_write(frame, topic=topic).save()
    assert [int(record.value or b"") for record in broker.records(topic)] == list(range(2_000))


def test_a_topic_that_is_not_there_is_named(spark: SparkSession, ottla_write: Write) -> None:
    frame = spark.createDataFrame([("x",)], "value string")
    told = refusal(ottla_write(frame, topic="no spaces!", **{"kafka.max.block.ms": "300"}))
    assert "no spaces!" in told


def test_a_broker_that_is_not_there_is_named(spark: SparkSession) -> None:
    frame: DataFrame = spark.createDataFrame([("x",)], "value string")
    write = frame.write.format("ottla").options(topic="t", **{"kafka.bootstrap.servers": "127.0.0.1:1"})
    assert "127.0.0.1:1" in refusal(write.mode("append"))
