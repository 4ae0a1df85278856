"""The steps on real topics: bad records get a reason, nothing is lost on the way, streams are summed up,
joined and kept up to date (PIPE-4).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F  # noqa: N812 - everybody calls it so

import ottla
import ottla.testing
from ottla.spark import steps

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from tests.spark.conftest import NewTopic

SCHEMA = (
    "order_id STRING NOT NULL, amount DOUBLE, placed_at TIMESTAMP, `lines` ARRAY<STRUCT<sku: STRING, n: INT>>"
)
AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "order_id", "type": "string"},
        {"name": "amount", "type": ["null", "double"]},
        {"name": "placed_at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
    ],
}
Run = Callable[..., None]


@pytest.fixture
def records(spark: SparkSession, broker: ottla.testing.EmbeddedBroker) -> Callable[..., DataFrame]:
    def read(topic: str, **given: Any) -> DataFrame:
        return steps.read_range(spark, topic, bootstrap_servers=broker.bootstrap, **given)

    return read


@pytest.fixture
def stream(spark: SparkSession, broker: ottla.testing.EmbeddedBroker) -> Callable[..., DataFrame]:
    def read(topic: str, schema: str) -> DataFrame:
        topic_rows = steps.read_topic(
            spark, topic, bootstrap_servers=broker.bootstrap, group=f"steps.{topic}"
        )
        return steps.valid(steps.parse_json(topic_rows, schema), keep=())

    return read


def run_into_memory(rows: DataFrame, name: str) -> list[tuple[Any, ...]]:
    """All that a stream has to say now."""
    query = rows.writeStream.format("memory").queryName(name).trigger(availableNow=True).start()
    query.awaitTermination()
    return [tuple(row) for row in rows.sparkSession.table(name).collect()]


def test_json_is_parsed_or_has_a_reason(new_topic: NewTopic, records: Callable[..., DataFrame]) -> None:
    values: list[bytes | None] = [
        b'{"order_id": "a", "amount": 1.5, "placed_at": "2026-01-01T00:00:00Z", "lines": [{"sku": "x", "n": 2}], "more": 1}',
        b"oops",
        b"[1, 2]",
        b'{"order_id": "b", "amount": "many"}',
        b'{"amount": 2}',
        b'{"order_id": "c", "amount": -3}',
        None,
        b'{"order_id": "d"}',
    ]
    topic = new_topic(records=[{"value": value, "key": f"k{at}"} for at, value in enumerate(values)])
    judged = steps.require(
        steps.parse_json(records(topic), SCHEMA), {"negative": "parsed.amount IS NULL OR parsed.amount > 0"}
    )

    reasons = [row.reason for row in judged.orderBy("offset").collect()]
    good, bad = steps.split(judged, topic="dead")
    rows = good.orderBy("offset").collect()
    letters = bad.collect()

    assert reasons == [
        None,
        "not JSON: oops",
        "not a JSON object: [1, 2]",
        "amount is not of type DOUBLE: many",
        "order_id is missing",
        "negative",
        "the value is null",
        None,
    ]
    assert [(row.order_id, row.amount, row.topic, row.offset) for row in rows] == [
        ("a", 1.5, topic, 0),
        ("d", None, topic, 7),
    ]
    assert rows[0].lines[0].n == 2
    assert {letter.topic for letter in letters} == {"dead"}
    told = {header.key: bytes(header.value).decode() for header in letters[0].headers}
    assert told["dead-letter.reason"] == "not JSON: oops"
    assert (told["dead-letter.topic"], told["dead-letter.partition"], told["dead-letter.offset"]) == (
        topic,
        "0",
        "1",
    )
    assert int(told["dead-letter.timestamp"]) > 1_700_000_000_000


def test_dead_letters_are_sent_and_driven_back_as_they_were(
    new_topic: NewTopic,
    records: Callable[..., DataFrame],
    ottla_write: Callable[..., Any],
) -> None:
    topic = new_topic(
        records=[{"value": b"oops", "key": b"k", "headers": [("trace", b"7")]}, {"value": b"{}"}]
    )
    dead = new_topic(stem="dead")
    judged = steps.parse_json(records(topic, headers=True), "order_id STRING")
    ottla_write(steps.dead_letters(judged, headers=True), topic=dead).save()

    again = steps.redrive(records(dead, headers=True)).collect()

    assert [(bytes(row.key), bytes(row.value), row.topic) for row in again] == [(b"k", b"oops", topic)]
    assert [(header.key, bytes(header.value)) for header in again[0].headers] == [("trace", b"7")]


def test_avro_is_parsed_or_has_a_reason(new_topic: NewTopic, records: Callable[..., DataFrame]) -> None:
    codec = ottla.AvroCodec(AVRO)
    order = {"order_id": "a", "amount": 1.5, "placed_at": 1_767_225_600_000, "tags": ["x", "y"]}
    good = codec.serialize(order)
    header = b"\x00\x00\x00\x00\x07"
    plain = new_topic(values=[good, good[:-3], good + b"!"])
    with_header = new_topic(values=[header + good, good], stem="registry")

    judged = steps.parse_avro(records(plain), json.dumps(AVRO)).orderBy("offset").collect()
    skipped = steps.parse_avro(records(with_header), AVRO, registry_header=True).orderBy("offset").collect()

    assert judged[0].reason is None
    assert judged[0].parsed.placed_at == datetime(2026, 1, 1)
    assert (judged[0].parsed.amount, judged[0].parsed.tags) == (1.5, ["x", "y"])
    assert judged[1].reason.startswith("not Avro of this schema")
    assert judged[2].reason == "not Avro of this schema: 1 bytes are left over"
    assert skipped[0].parsed.order_id == "a"
    assert skipped[1].reason == "the value does not begin with a schema registry's header"


def test_windows_count_each_order_once_and_come_when_they_are_over(
    new_topic: NewTopic, stream: Callable[..., DataFrame]
) -> None:
    def order(name: str, second: int) -> dict[str, Any]:
        placed = f"2026-01-01T00:{second // 60:02}:{second % 60:02}Z"
        return {"value": json.dumps({"id": name, "at": placed, "amount": 10.0}).encode()}

    topic = new_topic(records=[order("a", 5), order("b", 8), order("b", 8), order("c", 85)])
    once = steps.deduplicate(
        stream(topic, "id STRING, at TIMESTAMP, amount DOUBLE"), "id", time="at", late="10s"
    )
    sums = steps.windowed(
        once, {"n": "count(*)", "revenue": "sum(amount)"}, time="at", every="1 minute", late=None
    ).selectExpr("minute(window_start)", "n", "revenue")
    assert run_into_memory(sums, "windows") == [(0, 2, 20.0)]


def test_streams_are_joined_by_key_and_time_and_with_a_table(
    spark: SparkSession, new_topic: NewTopic, stream: Callable[..., DataFrame]
) -> None:
    orders = new_topic(
        values=[b'{"id": "a", "at": "2026-01-01T00:00:00Z"}', b'{"id": "b", "at": "2026-01-01T00:00:00Z"}']
    )
    payments = new_topic(
        values=[
            b'{"id": "a", "paid": "2026-01-01T00:05:00Z", "sum": 3}',
            b'{"id": "b", "paid": "2026-01-01T02:00:00Z", "sum": 4}',
        ]
    )
    joined = steps.join_streams(
        stream(orders, "id STRING, at TIMESTAMP"),
        stream(payments, "id STRING, paid TIMESTAMP, sum INT"),
        "id",
        left_time="at",
        right_time="paid",
        within="10 minutes",
        late="1 minute",
    )
    names = spark.createDataFrame([("a", "Ada")], "id STRING, name STRING")
    named = steps.join_table(joined, names, "id").selectExpr("id", "sum", "name")

    assert run_into_memory(named, "joined") == [("a", 3, "Ada")]


def test_upsert_keeps_the_newest_row_of_each_key_also_when_a_batch_comes_twice(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = tmp_path / "customers"
    write = steps.upsert(str(table), "customer", order_by="at")

    def batch(*rows: tuple[str, int, str]) -> DataFrame:
        return spark.createDataFrame(list(rows), "customer STRING, at INT, city STRING")

    def seen() -> list[tuple[Any, ...]]:
        return [tuple(row) for row in spark.read.parquet(str(table)).orderBy("customer").collect()]

    write(batch(("a", 1, "Graz"), ("b", 5, "Linz")), 0)
    write(batch(("a", 2, "Wien"), ("b", 4, "Enns")), 1)
    assert seen() == [("a", 2, "Wien"), ("b", 5, "Linz")]
    write(batch(("a", 2, "Wien"), ("b", 4, "Enns")), 1)
    write(batch(("c", 1, "Wels")), 2)

    assert seen() == [("a", 2, "Wien"), ("b", 5, "Linz"), ("c", 1, "Wels")]
    assert len(list((tmp_path / ".customers.versions").iterdir())) == 2


def test_a_backfill_adds_what_the_table_lacks_and_nothing_twice(
    spark: SparkSession, new_topic: NewTopic, broker: ottla.testing.EmbeddedBroker, tmp_path: Path
) -> None:
    topic = new_topic(2, values=[f'{{"n": {at}}}'.encode() for at in range(20)])
    table = str(tmp_path / "numbers")

    def fill(**given: Any) -> int:
        return steps.backfill(
            spark,
            topic,
            table,
            lambda rows: steps.valid(steps.parse_json(rows, "n INT")),
            bootstrap_servers=broker.bootstrap,
            **given,
        )

    assert fill(since={0: 5, 1: 5}) == 10
    assert fill() == 10
    assert fill() == 0
    assert spark.read.parquet(table).agg(F.count("*"), F.countDistinct("n")).first() == (20, 20)

    streamed = tmp_path / "streamed"
    (streamed / "_spark_metadata").mkdir(parents=True)
    with pytest.raises(steps.StepError, match="which a stream writes"):
        steps.backfill(spark, topic, str(streamed), lambda rows: rows, bootstrap_servers=broker.bootstrap)
