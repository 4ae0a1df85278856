"""`ottla mirror` and `ottla trace` with Apache Kafka: there, and back again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from bench.apache.kafka import start_apache_kafka
from bench.apache.maven import CannotFetchError
from tests.integration.command_line import ottla_here

import ottla
import ottla.blocking
import ottla.testing
from ottla.localcluster.broker_process import running

FIRST = ottla.TopicPartition("orders", 0)


def mirrored(source: str, target: str, name: str) -> dict[str, int]:
    arguments = ("--from", source, "--to", target, "--topics", "orders", "--name", name, "--once", "--json")
    done = ottla_here("mirror", *arguments, bootstrap="")
    assert done.returncode == 0, done.stderr
    told: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    return told


def test_topics_and_groups_move_to_apache_kafka_and_back(tmp_path: Path) -> None:
    try:
        started = start_apache_kafka(tmp_path / "apache")
    except CannotFetchError as reason:
        pytest.skip(f"NO APACHE KAFKA TO MIRROR: {reason}")
    with running(started) as apache, ottla.testing.broker() as ours, ottla.testing.broker() as again:
        ours.create_topic("orders", 1, configs={"retention.ms": "12345678"})
        with ottla.blocking.Producer(ours.bootstrap) as producer:
            for number in range(500):
                producer.send_soon("orders", str(number), key=f"table {number % 7}")
        with ottla.blocking.Admin(ours.bootstrap) as admin:
            ottla.succeeded(admin.alter_group_offsets("billing", {FIRST: ottla.CommittedOffset(200)}))
        assert mirrored(ours.bootstrap, apache.bootstrap, "there")["copied"] == 500
        told = ottla_here("trace", "orders-0@200", "--json", bootstrap=apache.bootstrap)
        assert told.returncode == 0, told.stderr
        assert json.loads(told.stdout)["transaction"]["state"] == "committed"
        assert mirrored(apache.bootstrap, again.bootstrap, "back")["copied"] == 500
        assert [each.value for each in again.records("orders")] == [b"%d" % number for number in range(500)]
        with ottla.blocking.Admin(again.bootstrap) as admin:
            committed = admin.list_group_offsets("billing")[FIRST]
            assert isinstance(committed, ottla.CommittedOffset)
            record = ottla.succeeded(admin.peek({FIRST: committed.offset}))[FIRST]
        assert record is not None
        assert record.value == b"200"
