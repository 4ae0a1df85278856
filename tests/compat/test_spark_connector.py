"""Spark's own Kafka connector reads and writes Ottla, and ours does the same with Ottla and with Apache
Kafka: a job changes one word (PIPE-1).

Both are in one session, and every question is asked of both. Each reads the records that the other writes,
with every column equal.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from time import time
from typing import TYPE_CHECKING, Any

import pytest
from bench.apache.maven import CannotFetchError
from bench.apache.spark_connector import connector_jars
from tests.spark.conftest import produce, start_session

import ottla.spark
from ottla.blocking import Admin
from ottla.client.requests.topics import NewTopic
from ottla.localcluster.broker_process import BrokerProcess

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

# A test that is broken off leaves the session, and so all later tests, in pieces.
pytestmark = pytest.mark.timeout(400)

FORMATS = ["ottla", "kafka"]
# An hour ago: what is older than a week, Apache Kafka deletes after half a minute.
START_MS = int(time() * 1000) - 3_600_000
PARTITIONS = 3
RECORDS = 60
HEADERS = "array<struct<key:string,value:binary>>"

_numbers = count(1)


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session that has Spark's Kafka connector."""
    try:
        jars = ",".join(map(str, connector_jars()))
    except CannotFetchError as reason:
        pytest.skip(f"NO KAFKA CONNECTOR TO COMPARE WITH: {reason}")
    session = start_session(tmp_path_factory.mktemp("connector"), **{"spark.jars": jars})
    assert session.conf.get("spark.jars") == jars, (
        "another session runs in this process: run this module alone"
    )
    yield session
    ottla.spark.stop(session)


@pytest.fixture
def new_topic(broker: BrokerProcess) -> str:
    name = f"spark-{next(_numbers)}"
    with Admin(broker.bootstrap) as admin:
        admin.create_topics([NewTopic(name, PARTITIONS)])
    return name


@pytest.fixture(scope="module")
def filled(broker: BrokerProcess) -> str:
    """A topic with keys, nulls, headers and timestamps, a second apart, on three partitions."""
    name = f"spark-filled-{next(_numbers)}"
    with Admin(broker.bootstrap) as admin:
        admin.create_topics([NewTopic(name, PARTITIONS)])
    records = [
        {
            "value": None if number % 10 == 9 else b"value %d" % number,
            "key": None if number % 4 == 3 else b"key %d" % (number % 5),
            "partition": number % PARTITIONS,
            "headers": [("n", b"%d" % number), ("none", None)] if number % 2 else (),
            "timestamp_ms": START_MS + 1_000 * number,
        }
        for number in range(RECORDS)
    ]
    produce(broker.bootstrap, name, records)
    return name


def read(spark: SparkSession, kind: str, broker: BrokerProcess, **options: Any) -> list[Row]:
    """All rows with all columns, in order."""
    address = {"kafka.bootstrap.servers": broker.bootstrap, "includeHeaders": "true"}
    return in_order(spark.read.format(kind).options(**{**address, **options}).load())


def in_order(frame: DataFrame) -> list[Row]:
    rows: list[Row] = frame.orderBy("topic", "partition", "offset").collect()
    return rows


def test_both_read_the_same_rows_with_the_same_columns(
    spark: SparkSession, broker: BrokerProcess, filled: str
) -> None:
    address = {"kafka.bootstrap.servers": broker.bootstrap, "includeHeaders": "true", "subscribe": filled}
    ours, theirs = (spark.read.format(kind).options(**address).load() for kind in FORMATS)
    assert [(field.name, field.dataType) for field in ours.schema] == [
        (field.name, field.dataType) for field in theirs.schema
    ]
    rows = in_order(theirs)
    assert len(rows) == RECORDS
    assert in_order(ours) == rows


QUESTIONS: list[tuple[dict[str, Any], int]] = [
    ({"subscribe": "T", "startingOffsets": '{"T":{"0":5,"1":-2,"2":19}}', "endingOffsets": '{"T":{"0":9,"1":-1,"2":-1}}'}, 25),
    ({"assign": '{"T":[0,2]}'}, 40),
    ({"subscribePattern": "T.*"}, 60),
    ({"subscribe": "T", "startingTimestamp": str(START_MS + 30_500)}, 29),
    ({"subscribe": "T", "endingTimestamp": str(START_MS + 30_000)}, 30),
    ({"subscribe": "T", "startingOffsetsByTimestamp": json.dumps({"T": {str(each): START_MS + 10_000 * each for each in range(3)}})}, 51),
    ({"subscribe": "T", "endingOffsetsByTimestamp": json.dumps({"T": {str(each): START_MS + 10_000 * each for each in range(3)}})}, 9),
    ({"subscribe": "T", "minPartitions": "9"}, 60),
    ({"subscribe": "T", "maxRecordsPerPartition": "7"}, 60),
    ({"subscribe": "T", "kafka.isolation.level": "read_committed"}, 60),
    ({"subscribe": "T", "kafka.isolation.level": "read_uncommitted", "kafka.fetch.max.bytes": "300"}, 60),
    ({"subscribe": "T", "failOnDataLoss": "false", "groupIdPrefix": "spark-test"}, 60),
]  # fmt: skip


@pytest.mark.parametrize(("options", "expected"), QUESTIONS)
def test_options_mean_the_same_to_both(
    spark: SparkSession, broker: BrokerProcess, filled: str, options: dict[str, Any], expected: int
) -> None:
    named = {name: value.replace("T", filled) for name, value in options.items()}
    theirs = read(spark, "kafka", broker, **named)
    assert len(theirs) == expected
    assert read(spark, "ottla", broker, **named) == theirs


@pytest.mark.parametrize("writer", FORMATS)
def test_what_one_writes_both_read(
    spark: SparkSession, broker: BrokerProcess, new_topic: str, writer: str
) -> None:
    rows: list[Any] = [
        (f"key {number % 7}" if number % 3 else None, f"value {number}" if number % 5 else None,
         [("n", bytearray(b"%d" % number)), ("none", None)] if number % 2 else None,
         number % PARTITIONS if number % 4 == 0 else None)
        for number in range(200)
    ]  # fmt: skip
    frame = spark.createDataFrame(rows, f"key string, value string, headers {HEADERS}, partition int")
    address = {"kafka.bootstrap.servers": broker.bootstrap, "topic": new_topic}
    frame.write.format(writer).options(**address).mode("append").save()

    theirs = read(spark, "kafka", broker, subscribe=new_topic)
    assert read(spark, "ottla", broker, subscribe=new_topic) == theirs
    written = {(_text(row.key), _text(row.value), _pairs(row.headers)) for row in theirs}
    assert written == {(key, value, _pairs(headers)) for key, value, headers, _ in rows}
    assert len(theirs) == len(rows)


def test_a_sink_is_exactly_once_where_the_brokers_can_do_it(
    spark: SparkSession, broker: BrokerProcess, new_topic: str
) -> None:
    """`auto` writes to every broker; to one of Ottla in transactions."""
    options = {"kafka.bootstrap.servers": broker.bootstrap, "topic": new_topic, "delivery": "auto"}
    rows = spark.range(20).selectExpr("string(id) as value")
    rows.write.format("ottla").options(**options).mode("append").save()
    assert len(read(spark, "ottla", broker, subscribe=new_topic)) == 20
    with Admin(broker.bootstrap) as admin:
        ids = [each.transactional_id for each in admin.list_transactions()]
    assert any(each.startswith("ottla-sink-") for each in ids) is (broker.name == "ottla")


def test_both_send_a_key_to_the_same_partition(
    spark: SparkSession, broker: BrokerProcess, new_topic: str
) -> None:
    frame = spark.range(500).selectExpr(
        "concat('key ', id) as key", f"'{new_topic}' as topic", "'x' as value"
    )
    for kind in FORMATS:
        address = {"kafka.bootstrap.servers": broker.bootstrap}
        frame.write.format(kind).options(**address).mode("append").save()
    places: dict[Any, set[int]] = {}
    for row in read(spark, "ottla", broker, subscribe=new_topic):
        places.setdefault(bytes(row.key), set()).add(row.partition)
    assert len(places) == 500
    assert {len(each) for each in places.values()} == {1}


@pytest.mark.parametrize(("source", "sink"), [("kafka", "ottla"), ("ottla", "kafka"), ("kafka", "kafka")])
def test_a_stream_may_come_by_one_and_go_by_the_other(
    spark: SparkSession,
    broker: BrokerProcess,
    filled: str,
    new_topic: str,
    tmp_path: Path,
    source: str,
    sink: str,
) -> None:
    address = {"kafka.bootstrap.servers": broker.bootstrap}
    options = {
        "subscribe": filled,
        "startingOffsets": "earliest",
        "includeHeaders": "true",
        "maxOffsetsPerTrigger": "21",
    }
    stream = spark.readStream.format(source).options(**address, **options).load().drop("topic")
    query = stream.writeStream.format(sink).options(
        topic=new_topic, checkpointLocation=str(tmp_path), **address
    )
    running = query.trigger(availableNow=True).start()
    running.awaitTermination()
    sizes = [progress["numInputRows"] for progress in running.recentProgress if progress["numInputRows"]]
    assert sizes == [21, 21, 18]
    copied = read(spark, "ottla", broker, subscribe=new_topic)
    original = read(spark, "kafka", broker, subscribe=filled)
    assert sorted(map(_content, copied), key=str) == sorted(map(_content, original), key=str)


@pytest.mark.parametrize(("first", "then"), [("kafka", "ottla"), ("ottla", "kafka")])
def test_a_query_goes_on_where_the_other_connector_left_it(
    spark: SparkSession, broker: BrokerProcess, new_topic: str, tmp_path: Path, first: str, then: str
) -> None:
    """The offsets in a checkpoint mean the same to both."""
    table, checkpoint = str(tmp_path / "table"), str(tmp_path / "checkpoint")

    def run(kind: str) -> None:
        address = {"kafka.bootstrap.servers": broker.bootstrap, "startingOffsets": "earliest"}
        stream = spark.readStream.format(kind).options(subscribe=new_topic, **address).load()
        query = stream.writeStream.format("parquet").option("checkpointLocation", checkpoint)
        query.trigger(availableNow=True).start(table).awaitTermination()

    produce(broker.bootstrap, new_topic, [{"value": b"%d" % number} for number in range(100)])
    run(first)
    produce(broker.bootstrap, new_topic, [{"value": b"%d" % number} for number in range(100, 150)])
    run(then)
    values = spark.read.parquet(table).selectExpr("int(string(value)) as number").orderBy("number").collect()
    assert [row.number for row in values] == list(range(150))


def _content(row: Row) -> tuple[Any, ...]:
    return _text(row.key), _text(row.value), row.partition, _pairs(row.headers)


def _text(data: Any) -> str | None:
    return None if data is None else bytes(data).decode()


def _pairs(headers: Any) -> tuple[tuple[str, bytes | None], ...]:
    """No headers and an empty list of them are the same in a record."""
    return tuple((key, None if value is None else bytes(value)) for key, value in headers or ())
