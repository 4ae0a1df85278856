"""`ottla audit`: what it finds in a table, and what it says where it cannot look (PIPE-3)."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from tests.spark.conftest import NewTopic, produce, produce_transactions

import ottla.testing
from ottla import blocking
from ottla.cli.main import ottla as command
from ottla.localcluster.waiting import wait_until
from ottla.model import TopicPartition
from ottla.spark import steps
from ottla.spark.audit.job import AuditError, Bound, Columns, Edge, audit
from ottla.spark.audit.verdict import Fault, OffsetRun, notes

Read = Callable[..., DataFrameReader]
RECORDS = 12  # of each of two partitions


@pytest.fixture(scope="module")
def topic(broker: ottla.testing.EmbeddedBroker) -> str:
    """Two partitions of twelve records, written at 1,000 ms, 2,000 ms, …"""
    name = broker.create_topic("audited", 2)
    records = [
        {"value": f"value {offset}", "key": "k", "partition": partition, "timestamp_ms": 1000 * (offset + 1)}
        for offset in range(RECORDS)
        for partition in range(2)
    ]
    produce(broker.bootstrap, name, records)
    return name


@pytest.fixture(scope="module")
def table(
    spark: SparkSession,
    broker: ottla.testing.EmbeddedBroker,
    topic: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """The topic as a Parquet table, complete."""
    path = tmp_path_factory.mktemp("audited") / "table"
    reader = spark.read.format("ottla").option("kafka.bootstrap.servers", broker.bootstrap)
    reader.option("subscribe", topic).load().drop("timestampType").write.parquet(str(path))
    return path


@pytest.fixture
def run(broker: ottla.testing.EmbeddedBroker, spark: SparkSession) -> Callable[..., Result]:
    """`ottla audit …` in this process, with the session that is there."""

    def run(*arguments: object) -> Result:
        words = ["audit", *map(str, arguments), "--bootstrap", broker.bootstrap]
        return CliRunner().invoke(command, words)

    return run


def loaded(read: Read, topic: str) -> DataFrame:
    return read(subscribe=topic).load()


@pytest.fixture
def copy(
    new_topic: NewTopic, ottla_read: Read, ottla_write: Callable[..., Any], topic: str
) -> Callable[..., str]:
    """Another topic with the rows of a DataFrame, by default of the audited topic; `topic:NAME`."""

    def write(rows: DataFrame | None = None, **options: str) -> str:
        name = new_topic(3, stem="copy")
        made = steps.with_origin(loaded(ottla_read, topic)) if rows is None else rows
        ottla_write(made, topic=name, **options).save()
        return f"topic:{name}"

    return write


# ---- what is found


def test_a_topic_that_was_written_exactly_once_is_equal(
    run: Callable[..., Result], topic: str, ottla_read: Read, copy: Callable[..., str]
) -> None:
    done = run(topic, copy(delivery="exactly-once"), "--value-column", "value")
    assert done.exit_code == 0, done.output
    assert "EQUAL: 24 records, each exactly once in the table, each with the same value." in done.output
    records = loaded(ottla_read, topic)
    by_key = copy(records.selectExpr("concat_ws(':', partition, offset) as key", "'x' as value"))
    done = run(topic, by_key, "--origin-key")
    assert done.exit_code == 0, done.output
    assert "EQUAL: 24 records, each exactly once in the table, by their offsets" in done.output


def test_every_fault_of_a_topic_is_found(
    spark: SparkSession,
    broker: ottla.testing.EmbeddedBroker,
    topic: str,
    ottla_read: Read,
    copy: Callable[..., str],
) -> None:
    """Records of other sources are left alone; a record without an origin is none of the topic's."""
    records = loaded(ottla_read, topic)
    rows = steps.with_origin(records.where("not (partition = 1 and offset in (4, 5))"))
    again = steps.with_origin(records.where("partition = 0 and offset = 7"))
    elsewhere = steps.with_origin(records.where("offset = 0").selectExpr("* except (topic)", "'b' as topic"))
    nameless = again.selectExpr("key", "value", "slice(headers, 1, 1) as headers")
    output = copy(rows.unionAll(again).unionAll(elsewhere).unionAll(nameless))
    verdict = audit(spark, topic, output, bootstrap=broker.bootstrap)
    assert not verdict.is_equal
    assert verdict.nameless == 1
    assert list(verdict.offenders) == [OffsetRun(0, 7, 7, Fault.DUPLICATE), OffsetRun(1, 4, 5, Fault.MISSING)]


def test_what_a_transaction_has_aborted_is_in_neither_topic(
    spark: SparkSession, broker: ottla.testing.EmbeddedBroker, new_topic: NewTopic, ottla_write: Any
) -> None:
    source, target = new_topic(stem="halved"), new_topic(stem="halves")
    produce_transactions(broker.bootstrap, source, ([b"a", b"b"], True), ([b"c"], False), ([b"d"], True))
    records = steps.read_range(spark, source, bootstrap_servers=broker.bootstrap)
    ottla_write(steps.with_origin(records), topic=target).save()
    verdict = audit(spark, source, f"topic:{target}", bootstrap=broker.bootstrap)
    assert (verdict.is_equal, verdict.records, verdict.rows) == (True, 3, 3)
    uncommitted = {"kafka.isolation.level": "read_uncommitted"}
    careless = audit(spark, source, f"topic:{target}", bootstrap=broker.bootstrap, options=uncommitted)
    assert [each.missing for each in careless.partitions] == [1]


def test_a_table_that_is_the_topic_is_equal(run: Callable[..., Result], topic: str, table: Path) -> None:
    done = run(topic, table)
    assert done.exit_code == 0, done.output
    assert "EQUAL: 24 records, each exactly once in the table, each with the same value." in done.output
    assert "0-11" in done.output


def test_programs_get_json(run: Callable[..., Result], topic: str, table: Path) -> None:
    found = json.loads(run(topic, table, "--json").stdout)
    assert (found["equal"], found["records"], found["rows"], found["compared"]) == (True, 24, 24, "value")
    first = found["partitions"][0]
    assert first["topic"]["checksum"] == first["table"]["checksum"] != "0" * 16
    assert first["topic"]["offset_checksum"] == first["table"]["offset_checksum"]
    assert (first["topic"]["first_offset"], first["topic"]["last_offset"]) == (0, 11)


def test_every_fault_is_found_and_its_offset_named(
    spark: SparkSession, broker: ottla.testing.EmbeddedBroker, topic: str, ottla_read: Read
) -> None:
    whole = loaded(ottla_read, topic).selectExpr(
        "partition", "offset", "if(partition = 0 and offset = 3, 'other', cast(value as string)) as value"
    )
    places = "partition int, offset bigint, value string"
    strangers = [(0, 12, "behind the end"), (7, 0, "no such partition"), (0, 5, "value 5"), (None, 1, "-")]
    table = whole.where("not (partition = 1 and offset in (4, 5, 9))")
    verdict = audit(
        spark, topic, table.unionAll(spark.createDataFrame(strangers, places)), bootstrap=broker.bootstrap
    )
    assert not verdict.is_equal
    assert verdict.nameless == 1
    assert list(verdict.offenders) == [
        OffsetRun(0, 3, 3, Fault.ALTERED),
        OffsetRun(0, 5, 5, Fault.DUPLICATE),
        OffsetRun(0, 12, 12, Fault.EXTRA),
        OffsetRun(1, 4, 5, Fault.MISSING),
        OffsetRun(1, 9, 9, Fault.MISSING),
        OffsetRun(7, 0, 0, Fault.EXTRA),
    ]
    zero, one, seven = verdict.partitions
    assert (zero.altered, zero.duplicates, zero.extra, zero.missing) == (1, 1, 1, 0)
    assert (one.missing, one.behind, one.table.count, one.table.distinct) == (3, 0, 9, 9)
    assert (seven.extra, seven.topic.count) == (1, 0)


def test_values_that_changed_places_have_the_same_checksum_and_another_one_by_offset(
    spark: SparkSession, broker: ottla.testing.EmbeddedBroker, topic: str, ottla_read: Read
) -> None:
    swapped = loaded(ottla_read, topic).selectExpr(
        "partition", "case offset when 2 then 3L when 3 then 2L else offset end as offset", "value"
    )
    first = audit(spark, topic, swapped, bootstrap=broker.bootstrap).partitions[0]
    assert first.altered == 2
    assert first.topic.checksum == first.table.checksum
    assert first.topic.offset_checksum != first.table.offset_checksum


def test_a_table_that_is_not_there_yet_is_behind(run: Callable[..., Result], topic: str, table: Path) -> None:
    spark = SparkSession.getActiveSession()
    assert spark is not None
    behind = table.with_name("behind")
    spark.read.parquet(str(table)).where("partition = 0 and offset < 10").write.parquet(str(behind))
    done = run(topic, behind)
    assert done.exit_code == 1
    assert "partition 0: offsets 10 to 11 not in the table" in done.output
    assert "14 of the missing records come after the table's last one" in done.output
    assert "NOT EQUAL: 14 missing from the table." in done.output
    as_far = run(topic, behind, "--to", "table")
    assert as_far.exit_code == 0, as_far.output
    assert "EQUAL: 10 records" in as_far.output


def test_files_that_a_killed_query_left_behind_do_not_count(
    spark: SparkSession,
    run: Callable[..., Result],
    broker: ottla.testing.EmbeddedBroker,
    topic: str,
    tmp_path: Path,
) -> None:
    reader = spark.readStream.format("ottla").option("kafka.bootstrap.servers", broker.bootstrap)
    stream = reader.option("subscribe", topic).option("startingOffsets", "earliest").load()
    table, checkpoint = tmp_path / "stream", tmp_path / "checkpoint"
    writer = stream.writeStream.format("parquet").option("checkpointLocation", str(checkpoint))
    assert writer.trigger(availableNow=True).start(str(table)).awaitTermination(180)
    shutil.copy(next(table.glob("part-*.parquet")), table / "part-00000-left-behind.snappy.parquet")
    assert run(topic, table).exit_code == 0


# ---- what is compared


@pytest.mark.parametrize(
    "function", ["xxhash64(value)", "crc32(value)", "md5(value)", "upper(sha2(value, 256))"]
)
def test_a_checksum_stands_in_for_a_value(
    spark: SparkSession, broker: ottla.testing.EmbeddedBroker, topic: str, ottla_read: Read, function: str
) -> None:
    name = next(name for name in ("xxhash64", "crc32", "md5", "sha256") if name[:4] in function)
    table = loaded(ottla_read, topic).selectExpr(
        "partition",
        "offset",
        f"if(partition = 1 and offset = 4, substr({function}, 2), {function}) as sum"
        if name in ("md5", "sha256")
        else f"if(partition = 1 and offset = 4, {function} + 1, {function}) as sum",
    )
    columns = Columns(checksum="sum", checksum_function=name)
    verdict = audit(spark, topic, table, bootstrap=broker.bootstrap, columns=columns)
    assert verdict.offenders == (OffsetRun(1, 4, 4, Fault.ALTERED),)
    assert verdict.compared == f"checksum ({name})"


def test_without_values_offsets_are_compared_and_that_is_said(
    spark: SparkSession, broker: ottla.testing.EmbeddedBroker, topic: str, ottla_read: Read
) -> None:
    table = loaded(ottla_read, topic).selectExpr(
        "named_struct('p', partition, 'o', offset) as place", "1.5 as value"
    )
    columns = Columns(partition="place.p", offset="place.o")
    verdict = audit(spark, topic, table, bootstrap=broker.bootstrap, columns=columns)
    assert verdict.is_equal
    assert verdict.compared is None
    assert "Only offsets were compared" in " ".join(notes(verdict))


def test_rows_of_other_topics_are_left_alone(
    spark: SparkSession, broker: ottla.testing.EmbeddedBroker, topic: str, ottla_read: Read
) -> None:
    both = loaded(ottla_read, topic).unionAll(
        loaded(ottla_read, topic).selectExpr(
            *("key", "value", "'other' as topic", "partition", "offset", "timestamp", "timestampType")
        )
    )
    assert audit(spark, topic, both, bootstrap=broker.bootstrap).is_equal


# ---- which part of the topic


@pytest.mark.parametrize(
    ("start", "end", "records"),
    [
        (Bound(offset=2), Bound(offset=10), 16),
        (Bound(offsets={1: 11}), Bound(Edge.LATEST), 13),
        (Bound(time_ms=3500), Bound(time_ms=6000), 4),  # the records of 4,000 and 5,000 ms, twice
        (Bound(offset=12), Bound(Edge.LATEST), 0),
    ],
    ids=["offsets", "offsets by partition", "moments", "nothing"],
)
def test_an_audit_looks_at_a_part_of_the_topic(
    spark: SparkSession,
    broker: ottla.testing.EmbeddedBroker,
    topic: str,
    ottla_read: Read,
    start: Bound,
    end: Bound,
    records: int,
) -> None:
    table = loaded(ottla_read, topic)
    verdict = audit(spark, topic, table, bootstrap=broker.bootstrap, start=start, end=end)
    assert (verdict.is_equal, verdict.records, verdict.rows) == (True, records, records)


def test_what_retention_deleted_is_no_fault_and_cannot_be_asked_for(
    spark: SparkSession,
    broker: ottla.testing.EmbeddedBroker,
    new_topic: Any,
    ottla_read: Read,
    run: Callable[..., Result],
    tmp_path: Path,
) -> None:
    topic = new_topic(values=[b"value"] * 10)
    table = tmp_path / "table"
    loaded(ottla_read, topic).write.parquet(str(table))
    with blocking.Admin(broker.bootstrap) as admin:
        admin.delete_records({TopicPartition(topic, 0): 4})
    done = run(topic, table)
    assert done.exit_code == 0, done.output
    assert "4 rows are older than the topic's first record" in done.output
    assert "EQUAL: 6 records" in done.output
    refused = run(topic, table, "--from", "0")
    assert refused.exit_code == 2
    assert (
        f"partition 0 of {topic} begins at offset 4: the records from 0 to 3 were deleted" in refused.output
    )


@pytest.fixture
def compacted(tmp_path: Path) -> Iterator[ottla.testing.EmbeddedBroker]:
    """A broker with a topic that was compacted, and is no more: the cleaner would go on while an audit reads
    twice.
    """
    cleaning = {"log.cleaner.enable": True, "log.cleaner.backoff.ms": 20}
    configs = {"cleanup.policy": "compact", "segment.bytes": "4000", "min.cleanable.dirty.ratio": "0.01"}
    with ottla.testing.broker(tmp_path / "data", settings=cleaning) as running:
        topic = running.create_topic("compacted", configs=configs)
        for round_ in range(20):
            keys = [{"value": f"{round_}" * 200, "key": f"{key}"} for key in range(10)]
            produce(running.bootstrap, topic, keys)
        wait_until(lambda: len(running.records(topic)) < 100, "the log was compacted", 60)
    with ottla.testing.broker(tmp_path / "data") as running:
        yield running


def test_what_compaction_removed_is_no_gap(
    spark: SparkSession, compacted: ottla.testing.EmbeddedBroker
) -> None:
    topic = "compacted"
    reader = spark.read.format("ottla").option("kafka.bootstrap.servers", compacted.bootstrap)
    table = reader.option("subscribe", topic).load()
    verdict = audit(spark, topic, table, bootstrap=compacted.bootstrap)
    assert verdict.is_equal
    assert verdict.partitions[0].unused_offsets > 100
    older = spark.createDataFrame([(0, 1, b"gone")], "partition int, offset bigint, value binary")
    with_older = table.select("partition", "offset", "value").unionAll(older)
    verdict = audit(spark, topic, with_older, bootstrap=compacted.bootstrap)
    assert (verdict.is_equal, verdict.partitions[0].compacted) == (True, 1)


# ---- where it cannot look


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere", "TABLE"], "there is no topic nowhere"),
        (["TOPIC", "/no/such/place"], "there is no table at /no/such/place: no such file or directory"),
        (["TOPIC", "no_such_table"], "there is no table no_such_table in Spark's catalog"),
        (["TOPIC", "EMPTY"], "no data file of a kind that Spark reads is there"),
        (
            ["TOPIC", "TABLE", "--offset-column", "place"],
            "the table has no column place; it has key, value, topic",
        ),
        (
            ["TOPIC", "TABLE", "--offset-column", "key"],
            "the column key is binary: --offset-column must name whole numbers",
        ),
        (["TOPIC", "TABLE", "--value-column", "what"], "the table has no column what"),
        (
            ["TOPIC", "TABLE", "--value-column", "offset"],
            "the column offset is bigint: --value-column must name",
        ),
        (
            ["TOPIC", "TABLE", "--checksum-column", "value"],
            "the column value is binary: xxhash64 is a whole number",
        ),
        (["TOPIC", "TABLE", "--topic-column", "source"], "the table has no column source"),
        (["TOPIC", "TABLE", "--format", "nonsense"], "cannot be read as a table: [DATA_SOURCE_NOT_FOUND]"),
        (["TOPIC", "TABLE", "--from", "soon"], "--from: none of earliest, latest"),
        (["TOPIC", "TABLE", "--from", "table"], "--from: none of earliest, latest"),
        (["TOPIC", "TABLE", "--to", "99"], "ends at offset 12: there is nothing up to 99 to audit yet"),
        (["TOPIC", "TABLE", "--to", "5:1"], "--to names partition 5: audited has the partitions 0 to 1"),
        (["TOPIC", "TABLE", "--from", "9", "--to", "3"], "is empty the wrong way round: from 9 to 3"),
        (["TOPIC", "TABLE", "--option", "nonsense=1"], "nonsense"),
        (["TOPIC", "topic:nowhere"], "there is no topic nowhere"),
        (["TOPIC", "topic:squeezed"], "the topic squeezed is compacted: records that it had may be gone"),
        (["TOPIC", "TABLE", "--option", "nonsense"], "--option"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, list) else "",
)
def test_an_audit_that_cannot_be_done_says_why(
    run: Callable[..., Result],
    broker: ottla.testing.EmbeddedBroker,
    topic: str,
    table: Path,
    tmp_path: Path,
    arguments: list[str],
    words: str,
) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    if "topic:squeezed" in arguments:
        broker.create_topic("squeezed", configs={"cleanup.policy": "compact"})
    stand_ins = {"TOPIC": topic, "TABLE": str(table), "EMPTY": str(empty)}
    done = run(*(stand_ins.get(each, each) for each in arguments))
    assert done.exit_code == 2, done.output
    assert words in done.output
    assert "Traceback" not in done.output


def test_a_table_in_the_catalog_is_found_by_its_name(
    spark: SparkSession, run: Callable[..., Result], topic: str, table: Path
) -> None:
    spark.sql(f"CREATE TABLE audited_orders USING parquet LOCATION '{table}'")
    try:
        assert run(topic, "audited_orders").exit_code == 0
    finally:
        spark.sql("DROP TABLE audited_orders")


def test_a_program_is_told_by_an_exception(spark: SparkSession, broker: ottla.testing.EmbeddedBroker) -> None:
    with pytest.raises(AuditError, match="there is no topic nowhere"):
        audit(
            spark,
            "nowhere",
            spark.createDataFrame([(0, 1)], "partition int, offset bigint"),
            bootstrap=broker.bootstrap,
        )
