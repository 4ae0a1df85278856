"""Retention waits for the table: brokers delete nothing that the table does not hold (PIPE-5)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.integration.lake_place import LakePlace

import ottla.testing
from ottla.blocking import Admin, Producer
from ottla.cli.main import ottla as command
from ottla.client.requests.offsets import OffsetSpec
from ottla.client.requests.outcomes import succeeded
from ottla.localcluster.waiting import wait_until
from ottla.model import TopicPartition


@pytest.fixture(scope="module")
def broker() -> Iterator[ottla.testing.EmbeddedBroker]:
    with ottla.testing.broker(settings={"log.retention.check.interval.ms": 50}) as running:
        yield running


def command_of(*arguments: str) -> str:
    done = CliRunner().invoke(command, arguments)
    assert done.exit_code == 0, done.output
    return done.output


def test_a_log_is_deleted_up_to_what_the_table_holds(
    broker: ottla.testing.EmbeddedBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = LakePlace(broker, tmp_path, partitions=1)
    other = broker.create_topic(
        "waits-for-nothing", 1, configs={"retention.ms": "1", "segment.bytes": "2000"}
    )
    monkeypatch.setenv("OTTLA_BOOTSTRAP", broker.bootstrap)
    monkeypatch.setenv("OTTLA_WAREHOUSE", place.warehouse.location)
    command_of("lake", "enable", place.topic, "--table", "t", "--format", "parquet", "--retention-waits")
    command_of("topics", "alter", place.topic, "--config", "retention.ms=1", "--config", "segment.bytes=2000")

    def produce(topic: str) -> None:
        with Producer(broker.bootstrap, linger_ms=0) as producer:
            for at in range(60):
                producer.send(topic, b"%060d" % at, partition=0, timestamp_ms=1000)

    def offset_of(topic: str, spec: OffsetSpec) -> int:
        partition = TopicPartition(topic, 0)
        with Admin(broker.bootstrap) as admin:
            return succeeded(admin.list_offsets({partition: spec}))[partition].offset

    produce(place.topic)
    produce(other)
    wait_until(lambda: offset_of(other, OffsetSpec.EARLIEST) == 60, "a topic without a table is deleted")
    assert offset_of(place.topic, OffsetSpec.EARLIEST) == 0
    assert command_of("lake", "run", place.topic) == f"{place.topic}: 60 rows in 1 files\n"
    described = json.loads(command_of("topics", "describe", place.topic, "--json"))
    assert "0:60" in json.dumps(described)
    wait_until(lambda: offset_of(place.topic, OffsetSpec.EARLIEST) == 60, "what the table holds is deleted")
    assert len(place.rows()) == 60
    produce(place.topic)
    command_of("lake", "disable", place.topic)
    wait_until(lambda: offset_of(place.topic, OffsetSpec.EARLIEST) == 120, "retention waits no more")
