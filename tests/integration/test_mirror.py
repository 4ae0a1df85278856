"""`ottla mirror` between two brokers: every record once, killed and resumed, groups with their offsets."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator

import pytest
from tests.integration.command_line import OTTLA, ottla_here

import ottla
import ottla.blocking
import ottla.testing
from ottla.client.requests.configs import ConfigSource
from ottla.localcluster.waiting import wait_until
from ottla.testing.embedded_broker import EmbeddedBroker

DEADLINE_S = 60.0
SETTINGS = {"group.initial.rebalance.delay.ms": "0"}
RECORDS = 6000
PARTITIONS = 2


@pytest.fixture
def source() -> Iterator[EmbeddedBroker]:
    with ottla.testing.broker(settings=SETTINGS) as made:
        yield made


@pytest.fixture
def target() -> Iterator[EmbeddedBroker]:
    with ottla.testing.broker(settings=SETTINGS) as made:
        yield made


def write(broker: EmbeddedBroker, numbers: range) -> None:
    with ottla.blocking.Producer(broker.bootstrap) as producer:
        for number in numbers:
            headers = [("n", b"%d" % number)]
            producer.send_soon("orders", str(number), partition=number % PARTITIONS, headers=headers)


def mirrored(source: EmbeddedBroker, target: EmbeddedBroker, *more: str) -> dict[str, int]:
    """Mirror up to the end; the last line about progress."""
    done = ottla_here(
        "mirror",
        "--from",
        source.bootstrap,
        "--to",
        target.bootstrap,
        "--once",
        "--json",
        *more,
        bootstrap="",
    )
    assert done.returncode == 0, done.stderr
    told: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    return told


def content(broker: EmbeddedBroker) -> list[tuple[object, ...]]:
    """Everything about the committed records but their offsets, and the mirror's own header."""
    partitions = [ottla.TopicPartition("orders", number) for number in range(PARTITIONS)]
    with ottla.blocking.Admin(broker.bootstrap) as admin:
        latest = dict.fromkeys(partitions, int(ottla.OffsetSpec.LATEST))
        ends = ottla.succeeded(admin.list_offsets(latest, read_committed=True))
    settings = {"auto_offset_reset": "earliest", "isolation_level": "read_committed"}
    found: list[ottla.ConsumerRecord] = []
    make: Callable[..., ottla.blocking.Consumer] = ottla.blocking.Consumer
    with make(broker.bootstrap, **settings) as consumer:
        consumer.assign(partitions)
        while any((consumer.position(key) or 0) < each.offset for key, each in ends.items()):
            found += consumer.poll(timeout_ms=100)
    return [
        (each.partition, each.timestamp_ms, each.key, each.value, each.headers[0])
        for each in sorted(found, key=lambda each: (each.partition, each.offset))
    ]


def test_topics_come_with_their_partitions_settings_and_records(
    source: EmbeddedBroker, target: EmbeddedBroker
) -> None:
    source.create_topic(
        "orders", PARTITIONS, configs={"retention.ms": "12345678", "schema.validation": "false"}
    )
    write(source, range(100))
    assert mirrored(source, target) == {"copied": 100, "behind": 0, "groups": 0}
    assert content(target) == content(source)
    with ottla.blocking.Admin(target.bootstrap) as admin:
        resource = ottla.ConfigResource(ottla.ResourceType.TOPIC, "orders")
        entries = ottla.succeeded(admin.describe_configs([resource]))[resource]
    assert entries["retention.ms"].value == "12345678"
    # What a record of the source had to name is not asked again: its schema may be deleted by now.
    assert entries["schema.validation"].source is not ConfigSource.TOPIC
    assert mirrored(source, target)["copied"] == 0, "nothing is copied twice"


def test_a_mirror_that_is_killed_goes_on_and_copies_nothing_twice(
    source: EmbeddedBroker, target: EmbeddedBroker
) -> None:
    source.create_topic("orders", PARTITIONS)
    target.create_topic("orders", PARTITIONS)
    write(source, range(RECORDS))
    arguments = ["mirror", "--from", source.bootstrap, "--to", target.bootstrap, "--groups", "none"]
    with subprocess.Popen([OTTLA, *arguments], stdout=subprocess.DEVNULL, env=dict(os.environ)) as process:
        try:
            wait_until(lambda: _end(target) > 0, "something is copied", DEADLINE_S)
        finally:
            process.kill()
    write(source, range(RECORDS, RECORDS + 100))
    mirrored(source, target, "--groups", "none")
    assert content(target) == content(source)


def _end(broker: EmbeddedBroker) -> int:
    partition = broker.look(lambda inside: inside.partitions.find("orders", 0))
    return 0 if partition is None else partition.log.log_end_offset


def test_groups_go_on_in_the_target_where_they_were(source: EmbeddedBroker, target: EmbeddedBroker) -> None:
    source.create_topic("orders", PARTITIONS)
    write(source, range(100))
    first = ottla.TopicPartition("orders", 0)
    with ottla.blocking.Admin(source.bootstrap) as admin:
        ottla.succeeded(admin.alter_group_offsets("billing", {first: ottla.CommittedOffset(20)}))
        ottla.succeeded(admin.alter_group_offsets("other", {first: ottla.CommittedOffset(50)}))
        admin.delete_records({first: 10})
    # Two mirrorings leave a marker of a transaction among the records: offsets differ.
    mirrored(source, target, "--groups", "none")
    write(source, range(100, 120))
    assert mirrored(source, target)["groups"] == 2
    with ottla.blocking.Consumer(target.bootstrap, group_id="billing") as consumer:
        consumer.subscribe(["orders"])
        found = [each for each in consumer.poll(max_records=500) if each.partition == 0]
    assert found[0].value == b"40", "offset 20 of partition 0"
    with ottla.blocking.Admin(target.bootstrap) as admin:
        committed = admin.list_group_offsets("other")[first]
        assert isinstance(committed, ottla.CommittedOffset)
        record = ottla.succeeded(admin.peek({first: committed.offset}))[first]
    assert record is not None
    assert record.value == b"100"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--topics", "nothing"), "the source has no topic nothing"),
        (("--from-config", "/nowhere"), "--from: "),
        (("--to", "localhost:x"), "--to: "),
    ],
)
def test_what_cannot_be_mirrored_is_refused_in_one_sentence(
    source: EmbeddedBroker, target: EmbeddedBroker, arguments: tuple[str, ...], sentence: str
) -> None:
    done = ottla_here(
        "mirror", "--from", source.bootstrap, "--to", target.bootstrap, "--once", *arguments, bootstrap=""
    )
    assert done.returncode in (1, 2)
    assert sentence in done.stderr
