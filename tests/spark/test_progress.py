"""A query's progress, shown as a consumer group (PIPE-6)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.command_line import ottla as command_line
from tests.spark.conftest import NewTopic, produce

from ottla import testing
from ottla.blocking import Admin, Consumer
from ottla.model import TopicPartition
from ottla.spark.source.progress import GroupProgress, QueryGroups
from ottla.testing import EmbeddedBroker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


def run(
    spark: SparkSession, bootstrap: str, directory: Path, name: str | None = None, **options: Any
) -> StreamingQuery:
    given = {"kafka.bootstrap.servers": bootstrap, "startingOffsets": "earliest", **options}
    frame = spark.readStream.format("ottla").options(**given).load()
    writer = (
        frame.writeStream.format("noop")
        .option("checkpointLocation", str(directory))
        .trigger(availableNow=True)
    )
    query = (writer.queryName(name) if name else writer).start()
    assert query.awaitTermination(90)
    return query


def described(bootstrap: str, group: str) -> Any:
    done = command_line("groups", "describe", group, "--json", bootstrap=bootstrap)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_query_shows_its_lag_like_any_consumer(
    spark: SparkSession, broker: EmbeddedBroker, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(2, values=[b"x"] * 10)
    groups = QueryGroups(broker.bootstrap)
    spark.streams.addListener(groups)
    try:
        run(
            spark,
            broker.bootstrap,
            tmp_path / "named",
            name=f"query-of-{topic}",
            subscribe=topic,
            groupId=f"mill-{topic}",
        )
    finally:
        spark.streams.removeListener(groups)
    produce(broker.bootstrap, topic, [{"value": b"late", "partition": 1}] * 4)
    for group in (f"mill-{topic}", f"query-of-{topic}"):
        rows = {row["partition"]: row for row in described(broker.bootstrap, group)["partitions"]}
        assert (rows[0]["committed_offset"], rows[0]["lag_records"]) == (5, 0)
        assert (rows[1]["committed_offset"], rows[1]["lag_records"]) == (5, 4)
        assert rows[1]["lag_seconds"] >= 0
    run(spark, broker.bootstrap, tmp_path / "quiet", subscribe=topic, commitProgress="false")
    with Admin(broker.bootstrap) as admin:
        assert f"spark-ottla-{topic}" not in {each.group_id for each in admin.list_groups()}


def test_progress_that_cannot_be_committed_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    partition = TopicPartition("orders", 0)
    with testing.broker() as own:
        bootstrap = own.bootstrap
    progress = GroupProgress(bootstrap, "mill")
    for offset in range(3):
        progress.commit({partition: offset})
    assert caplog.text.count("The progress could not be committed to the group 'mill'") == 1


def test_a_group_with_members_is_left_alone(
    broker: EmbeddedBroker, new_topic: NewTopic, caplog: pytest.LogCaptureFixture
) -> None:

    topic = new_topic(values=[b"x"])
    with Consumer(broker.bootstrap, group_id=topic, auto_offset_reset="earliest") as consumer:
        consumer.subscribe([topic])
        assert consumer.poll(timeout_ms=20_000)
        progress = GroupProgress(broker.bootstrap, topic)
        progress.commit({TopicPartition(topic, 0): 1})
        progress.close()
    assert "consumers are members of it; give the query a group of its own" in caplog.text
