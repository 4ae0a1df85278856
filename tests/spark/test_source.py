"""Batch queries through Spark: columns, options, SQL, filters and errors as a user meets them (PIPE-1)."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException
from tests.spark.conftest import NewTopic, produce, produce_transactions

from ottla.blocking import Producer
from ottla.testing import EmbeddedBroker

if TYPE_CHECKING:
    from pyspark.sql import DataFrameReader, SparkSession

Read = Callable[..., "DataFrameReader"]
NOON_MS = 1_794_744_000_000


def message(caught: pytest.ExceptionInfo[Any]) -> str:
    return str(caught.value)


def test_a_topic_has_the_columns_of_sparks_kafka_source(ottla_read: Read, new_topic: NewTopic) -> None:
    topic = new_topic(
        records=[
            {"key": b"k", "value": b"v", "timestamp_ms": NOON_MS + 7, "headers": [("h", b"1"), ("n", None)]},
            {"key": None, "value": None, "timestamp_ms": NOON_MS + 8},
        ]
    )
    frame = ottla_read(subscribe=topic, includeHeaders="true").load()
    assert frame.columns == [
        "key",
        "value",
        "topic",
        "partition",
        "offset",
        "timestamp",
        "timestampType",
        "headers",
    ]
    first, second = frame.orderBy("offset").collect()
    assert (bytes(first.key), bytes(first.value)) == (b"k", b"v")
    assert (first.topic, first.partition, first.offset, first.timestampType) == (topic, 0, 0, 0)
    assert first.timestamp.astimezone(UTC) == datetime(2026, 11, 15, 12, 0, 0, 7000, tzinfo=UTC)
    assert [(each.key, each.value and bytes(each.value)) for each in first.headers] == [
        ("h", b"1"),
        ("n", None),
    ]
    assert (second.key, second.value, second.headers) == (None, None, None)


def test_options_work_together(ottla_read: Read, new_topic: NewTopic) -> None:
    topic = new_topic(2, values=[b"%d" % number for number in range(40)])
    frame = ottla_read(
        subscribePattern=f"^{topic}$",
        startingOffsets=json.dumps({topic: {"0": 5, "1": -2}}),
        endingOffsets=json.dumps({topic: {"0": -1, "1": 12}}),
        minPartitions="6",
        **{
            "kafka.fetch.max.bytes": "1000",
            "KAFKA.Client.Id": "mill",
            "kafka.session.timeout.ms": "9",
            "kafka.isolation.level": "read_committed",
        },
    ).load()
    read = {(row.partition, row.offset) for row in frame.collect()}
    assert read == {(0, offset) for offset in range(5, 20)} | {(1, offset) for offset in range(12)}
    assert frame.rdd.getNumPartitions() == 6


def test_committed_records_are_read_and_markers_are_no_loss(
    ottla_read: Read, new_topic: NewTopic, broker: EmbeddedBroker
) -> None:
    """Ranges of two offsets: some begin within an aborted transaction, some have nothing but markers."""
    topic = new_topic()
    produce_transactions(
        broker.bootstrap, topic, ([b"a", b"b"], True), ([b"x", b"y", b"z"], False), ([b"c"], True), ([], True)
    )

    def read(level: str, **options: str) -> list[bytes]:
        isolation = {"kafka.isolation.level": level}
        frame = ottla_read(subscribe=topic, **isolation, **options).load().orderBy("offset")
        return [bytes(row.value) for row in frame.select("value").collect()]

    small = {"maxRecordsPerPartition": "2"}
    assert read("read_committed") == read("read_committed", **small) == [b"a", b"b", b"c"]
    with Producer(broker.bootstrap, transactional_id=f"open-{topic}") as producer:
        with producer.transaction():
            producer.send(topic, b"late")
            assert read("read_committed", **small) == [b"a", b"b", b"c"]
            assert read("read_uncommitted", **small) == [b"a", b"b", b"x", b"y", b"z", b"c", b"late"]
        assert read("read_committed", **small) == [b"a", b"b", b"c", b"late"]


def test_an_empty_topic_is_an_empty_frame(ottla_read: Read, new_topic: NewTopic) -> None:
    assert ottla_read(subscribe=new_topic(3)).load().count() == 0


def test_a_frame_is_planned_once(ottla_read: Read, new_topic: NewTopic, broker: EmbeddedBroker) -> None:
    """Spark keeps the plan of a Python source: newer records need a newer frame. docs/spark.md says so."""
    topic = new_topic(values=[b"x"] * 3)
    frame = ottla_read(subscribe=topic).load()
    assert frame.count() == 3
    produce(broker.bootstrap, topic, [{"value": b"late"}])
    assert frame.count() == 3
    assert ottla_read(subscribe=topic).load().count() == 4


# ---- errors


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "One of the options 'subscribe', 'subscribePattern' and 'assign' must say what to read"),
        (
            {"subscribe": "a", "kafka.bootstrap.servers": ""},
            "Option 'kafka.bootstrap.servers' must not be empty",
        ),
        ({"subscribe": "a", "maxOffsetPerTrigger": "5"}, "Did you mean 'maxOffsetsPerTrigger'?"),
        (
            {"subscribe": "a", "startingOffsets": "{"},
            "Option 'startingOffsets' must be earliest, latest, or JSON",
        ),
    ],
)
def test_a_wrong_option_is_an_error_when_the_frame_is_made(
    ottla_read: Read, options: dict[str, str], said: str
) -> None:
    with pytest.raises(PySparkException) as caught:
        ottla_read(**options).load()
    assert f"OptionError: {said}" in message(caught) or said in message(caught)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"subscribe": "not-there"},
            "ClusterError: Topic 'not-there' does not exist: create it or check the name.",
        ),
        (
            {"subscribe": "a", "startingOffsets": "latest"},
            "OptionError: Option 'startingOffsets' cannot be latest in a batch",
        ),
        (
            {"subscribe": "a", "kafka.bootstrap.servers": "127.0.0.1:1"},
            "ClusterError: Cannot reach the brokers at 127.0.0.1:1",
        ),
    ],
)
def test_what_cannot_be_read_is_an_error_when_the_query_runs(
    ottla_read: Read, options: dict[str, str], said: str
) -> None:
    with pytest.raises(PySparkException) as caught:
        ottla_read(**options, **{"fetchOffset.retryIntervalMs": "1"}).load().count()
    assert said in message(caught)


def test_columns_cannot_be_set(ottla_read: Read, new_topic: NewTopic) -> None:
    with pytest.raises(PySparkException) as caught:
        ottla_read(subscribe=new_topic()).schema("value STRING").load().count()
    assert "OptionError: The columns of a topic are struct<key:binary" in message(caught)


# ---- SQL


def test_topics_in_sql(spark: SparkSession, broker: EmbeddedBroker, new_topic: NewTopic) -> None:
    topic = new_topic(2, values=[b"%d" % number for number in range(10)])
    options = f"OPTIONS (`kafka.bootstrap.servers` '{broker.bootstrap}', subscribe '{topic}')"
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW the_view USING ottla {options}")
    (row,) = spark.sql("SELECT count(*), sum(CAST(CAST(value AS STRING) AS INT)) FROM the_view").collect()
    assert tuple(row) == (10, 45)
    # Spark does not tell a Python source the options of a table in its catalog; so much can be said.
    spark.sql(f"CREATE TABLE the_table USING ottla {options}")
    try:
        with pytest.raises(PySparkException, match=r"use CREATE TEMPORARY VIEW \.\.\. USING ottla instead"):
            spark.sql("SELECT * FROM the_table").collect()
        given = (
            options.replace("OPTIONS", "WITH")
            .replace("servers` '", "servers` = '")
            .replace("subscribe '", "subscribe = '")
        )
        assert spark.sql(f"SELECT count(*) FROM the_table {given}").first() == (10,)
    finally:
        spark.sql("DROP TABLE the_table")


# ---- filters


@pytest.fixture
def pushed(spark: SparkSession, ottla_read: Read) -> Iterator[Callable[..., Any]]:
    """`pushed(topic, condition)`: a fresh frame whose filters are pushed down."""
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    yield lambda topic, condition: ottla_read(subscribe=topic, pushFilters="true").load().where(condition)
    spark.conf.unset("spark.sql.python.filterPushdown.enabled")


@pytest.mark.parametrize(
    ("condition", "expected", "tasks"),
    [
        ("partition IN (0, 2) AND offset BETWEEN 3 AND 5", lambda p, o: p != 1 and 3 <= o <= 5, 2),
        ("offset >= 8L AND offset < CAST(9 AS DECIMAL) AND topic LIKE 'filters%'", lambda p, o: o == 8, 3),
        ("NOT (partition <=> 1) AND offset NOT IN (0, 5)", lambda p, o: p != 1 and o not in (0, 5), 4),
        ("offset IN (1, 7, NULL) AND partition < 1", lambda p, o: p == 0 and o in (1, 7), 2),
        ("timestamp > TIMESTAMP'2026-11-15 12:00:00.007Z'", lambda p, o: o > 7, 3),
        ("partition = 7", lambda p, o: False, 1),
        ("CAST(value AS STRING) = '5' AND partition > 1", lambda p, o: (p, o) == (2, 1), 1),
    ],
)
def test_filters_read_less_and_find_the_same(
    pushed: Callable[..., Any],
    new_topic: NewTopic,
    condition: str,
    expected: Callable[[int, int], bool],
    tasks: int,
) -> None:
    records = [
        {"value": b"%d" % at, "partition": at % 3, "timestamp_ms": NOON_MS + at // 3} for at in range(30)
    ]
    frame = pushed(new_topic(3, records=records, stem="filters"), condition).select("partition", "offset")
    wanted = [
        (partition, offset) for partition in range(3) for offset in range(10) if expected(partition, offset)
    ]
    assert sorted(tuple(row) for row in frame.collect()) == wanted
    assert frame.rdd.getNumPartitions() == tasks


def test_a_narrowed_plan_serves_one_query(
    pushed: Callable[..., Any], ottla_read: Read, new_topic: NewTopic
) -> None:
    """Without the guard, the second count would be 5, without a word: Spark shares the plan."""
    topic = new_topic(2, values=[b"x"] * 10)
    frame = pushed(topic, "true")
    assert frame.where("partition = 0").count() == 5
    for second in (frame, frame.where("partition = 1")):
        with pytest.raises(PySparkException) as caught:
            second.count()
        assert "OptionError: A DataFrame with the option 'pushFilters' can be used for one query" in message(
            caught
        )
    plain = ottla_read(subscribe=topic).load()
    assert (plain.where("partition = 0").count(), plain.count()) == (5, 10)


def test_pushing_filters_needs_sparks_leave(ottla_read: Read, new_topic: NewTopic) -> None:
    with pytest.raises(PySparkException, match=r"spark.sql.python.filterPushdown.enabled"):
        ottla_read(subscribe=new_topic(), pushFilters="true").load().count()


# ---- how Spark finds it


def test_spark_finds_the_source_as_it_looks_for_sources() -> None:
    """Each package named pyspark_* with a DefaultSource is one; importing it must not need a session."""
    program = (
        "from pkgutil import iter_modules\n"
        "assert 'pyspark_ottla' in {each.name for each in iter_modules()}\n"
        "import pyspark_ottla, pickle\n"
        "print(pyspark_ottla.DefaultSource.name(), len(pickle.dumps(pyspark_ottla.DefaultSource)) < 200)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True, cwd="/"
    )
    assert done.stdout.split() == ["ottla", "True"]
