"""A scan of a range of offsets: exact rows from a real broker, explained data loss, faults that pass."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import ottla
import ottla.testing
from ottla.blocking import Admin, Producer
from ottla.errors import ErrorCode, KafkaError
from ottla.model import TopicPartition
from ottla.spark.source.plan.data_loss import DataLossError
from ottla.spark.source.plan.offsets import OffsetRange
from ottla.spark.source.scan import ScanSettings, arrow_schema, scan
from ottla.testing import EmbeddedBroker

IMPATIENT_MS = 100


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with ottla.testing.broker() as running:
        yield running


@pytest.fixture
def topic(broker: EmbeddedBroker, request: pytest.FixtureRequest) -> str:
    name = f"{request.node.name}"[:100].replace("[", "-").replace("]", "")
    return broker.create_topic(name)


def fill(bootstrap: str, topic: str, count: int, *, first: int = 0, **producing: Any) -> None:
    """Records in batches of as many as fit."""

    async def produce() -> None:
        async with ottla.Producer(bootstrap, linger_ms=20, **producing) as producer:
            for number in range(first, first + count):
                producer.send_soon(topic, b"value %d" % number, key=b"key %d" % number, partition=0)
                await producer.drain()
            await producer.flush()

    asyncio.run(produce())


def settings_of(bootstrap: str, **more: Any) -> ScanSettings:
    return replace(ScanSettings(bootstrap, patience_ms=IMPATIENT_MS), **more)


def read(bootstrap: str, topic: str, start: int, end: int, **more: Any) -> list[dict[str, Any]]:
    settings = settings_of(bootstrap, **more)
    batches = list(scan(OffsetRange(topic, 0, start, end), settings))
    schema = arrow_schema(include_headers=settings.include_headers)
    assert all(batch.schema.equals(schema) for batch in batches)
    return [row for batch in batches for row in batch.to_pylist()]


def offsets(rows: list[dict[str, Any]]) -> list[int]:
    return [row["offset"] for row in rows]


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_a_range_is_read_exactly(broker: EmbeddedBroker, topic: str, compression: str) -> None:
    fill(broker.bootstrap, topic, 3_000, compression=compression, batch_size=4_000)
    for start, end in ((0, 3_000), (17, 2_345), (100, 100), (2_999, 3_000)):
        rows = read(broker.bootstrap, topic, start, end)
        assert offsets(rows) == list(range(start, end))
        assert all(row["value"] == b"value %d" % row["offset"] for row in rows)
        assert all(row["key"] == b"key %d" % row["offset"] for row in rows)


def test_small_fetches_bring_the_same(broker: EmbeddedBroker, topic: str) -> None:
    fill(broker.bootstrap, topic, 1_000, batch_size=500)
    client = {"max.partition.fetch.bytes": "1000", "client.id": "small"}
    assert offsets(read(broker.bootstrap, topic, 3, 997, client=client)) == list(range(3, 997))


def test_rows_have_the_columns_of_sparks_kafka_source(broker: EmbeddedBroker, topic: str) -> None:
    with Producer(broker.bootstrap) as producer:
        producer.send(topic, b"a", key=None, timestamp_ms=1_700_000_000_123)
        producer.send(topic, None, key=b"", headers=[("h", b"1"), ("h", None)], timestamp_ms=5)
    first, second = read(broker.bootstrap, topic, 0, 2, include_headers=True)
    assert (first["key"], first["value"], first["headers"]) == (None, b"a", None)
    assert (first["topic"], first["partition"], first["timestampType"]) == (topic, 0, 0)
    assert first["timestamp"].isoformat() == "2023-11-14T22:13:20.123000+00:00"
    assert (second["key"], second["value"]) == (b"", None)
    assert second["headers"] == [{"key": "h", "value": b"1"}, {"key": "h", "value": None}]


def test_a_topic_with_the_brokers_time_says_so(broker: EmbeddedBroker) -> None:
    topic = broker.create_topic("stamped", configs={"message.timestamp.type": "LogAppendTime"})
    fill(broker.bootstrap, topic, 3)
    rows = read(broker.bootstrap, topic, 0, 3)
    assert [row["timestampType"] for row in rows] == [1, 1, 1]


def test_readers_of_committed_records_read_what_is_stable(broker: EmbeddedBroker, topic: str) -> None:
    fill(broker.bootstrap, topic, 50)
    assert offsets(read(broker.bootstrap, topic, 0, 50, read_committed=True)) == list(range(50))


# ---- data loss


def deleted_before(broker: EmbeddedBroker, topic: str, offset: int) -> None:
    with Admin(broker.bootstrap) as admin:
        admin.delete_records({TopicPartition(topic, 0): offset})


def test_a_log_that_begins_later_is_data_loss(broker: EmbeddedBroker, topic: str) -> None:
    fill(broker.bootstrap, topic, 100)
    deleted_before(broker, topic, 40)
    with pytest.raises(DataLossError) as raised:
        read(broker.bootstrap, topic, 10, 60)
    words = f"the offsets 10 to 39 of {topic}-0, of which [10, 60) was to be read, are not there"
    assert f"{words}: the log begins at offset 40 now." in str(raised.value)
    assert "failOnDataLoss" in str(raised.value)


def test_what_is_left_is_read_if_loss_may_be(
    broker: EmbeddedBroker, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    fill(broker.bootstrap, topic, 100)
    deleted_before(broker, topic, 40)
    with caplog.at_level(logging.WARNING):
        assert offsets(read(broker.bootstrap, topic, 10, 60, fail_on_data_loss=False)) == list(range(40, 60))
        assert read(broker.bootstrap, topic, 10, 30, fail_on_data_loss=False) == []
        assert offsets(read(broker.bootstrap, topic, 90, 120, fail_on_data_loss=False)) == list(
            range(90, 100)
        )
    said = [record.getMessage() for record in caplog.records if "lost" in record.getMessage()]
    assert [
        "offsets 10 to 39" in said[0],
        "offsets 10 to 29" in said[1],
        "offsets 100 to 119" in said[2],
    ] == [True] * 3


@pytest.mark.parametrize("start", [50, 100, 150])
def test_a_log_that_ends_early_is_data_loss(broker: EmbeddedBroker, topic: str, start: int) -> None:
    fill(broker.bootstrap, topic, 100)
    with pytest.raises(DataLossError, match=r"the log ends at offset 100\."):
        read(broker.bootstrap, topic, start, 200)


def test_a_topic_that_is_gone_is_data_loss(broker: EmbeddedBroker) -> None:
    with pytest.raises(DataLossError, match="there is no such topic or partition any more"):
        read(broker.bootstrap, "no-such-topic", 0, 10)
    assert read(broker.bootstrap, "no-such-topic", 0, 10, fail_on_data_loss=False) == []


def test_a_topic_that_is_made_again_during_a_scan_is_data_loss(broker: EmbeddedBroker, topic: str) -> None:
    fill(broker.bootstrap, topic, 1_000, batch_size=500)
    settings = settings_of(broker.bootstrap, client={"max.partition.fetch.bytes": "600"})
    batches = scan(OffsetRange(topic, 0, 0, 1_000), settings)
    next(batches)
    with Admin(broker.bootstrap) as admin:
        admin.delete_topics([topic])
    broker.create_topic(topic)
    fill(broker.bootstrap, topic, 1_000, batch_size=500)
    with pytest.raises(DataLossError, match="the topic was deleted and created again"):
        list(batches)


def test_a_topic_that_is_made_again_between_scans_is_another_topic(
    broker: EmbeddedBroker, topic: str
) -> None:
    """A worker keeps what it knows of the cluster from scan to scan; that may be of the old one."""
    fill(broker.bootstrap, topic, 10)
    assert offsets(read(broker.bootstrap, topic, 0, 10)) == list(range(10))
    with Admin(broker.bootstrap) as admin:
        admin.delete_topics([topic])
    broker.create_topic(topic)
    fill(broker.bootstrap, topic, 5)
    assert offsets(read(broker.bootstrap, topic, 0, 5)) == list(range(5))


# ---- faults


def test_a_damaged_batch_names_its_place(tmp_path: Path) -> None:
    with ottla.testing.broker(tmp_path) as broker:
        topic = broker.create_topic("damaged")
        fill(broker.bootstrap, topic, 10)
        fill(broker.bootstrap, topic, 10, first=10)
        [segment] = tmp_path.glob("**/damaged-0/00000000000000000000.log")
        content = segment.read_bytes()
        place = content.index(b"value 15")
        with segment.open("r+b") as file:
            file.seek(place)
            file.write(b"VALUE")
        with pytest.raises(KafkaError) as raised:
            read(broker.bootstrap, topic, 0, 20)
        assert raised.value.code == ErrorCode.CORRUPT_MESSAGE
        assert raised.value.message.startswith("damaged-0 is damaged at offset 10: the checksum says")
        rows = read(broker.bootstrap, topic, 0, 20, client={"check.crcs": "false"})
        assert rows[15]["value"] == b"VALUE 15"


@pytest.mark.parametrize("code", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR])
def test_an_error_that_passes_is_not_noticed(broker: EmbeddedBroker, topic: str, code: ErrorCode) -> None:
    fill(broker.bootstrap, topic, 100)
    broker.faults.fail("fetch", code, times=2)
    assert offsets(read(broker.bootstrap, topic, 0, 100)) == list(range(100))


def test_a_lost_connection_is_not_noticed(broker: EmbeddedBroker, topic: str) -> None:
    fill(broker.bootstrap, topic, 1_000, batch_size=500)
    client = {"max.partition.fetch.bytes": "600"}
    batches = scan(OffsetRange(topic, 0, 0, 1_000), settings_of(broker.bootstrap, client=client))
    rows = next(batches).to_pylist()
    broker.drop_connections()
    rows += next(batches).to_pylist()
    broker.faults.lose_answer("fetch")
    rows += [row for batch in batches for row in batch.to_pylist()]
    assert offsets(rows) == list(range(1_000))


def test_an_error_that_does_not_pass_is_raised(broker: EmbeddedBroker, topic: str) -> None:
    fill(broker.bootstrap, topic, 10)
    broker.faults.fail("fetch", ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(KafkaError, match=rf"TOPIC_AUTHORIZATION_FAILED: {topic}-0 at offset 0: "):
        read(broker.bootstrap, topic, 0, 10)


def test_trying_again_ends(broker: EmbeddedBroker, topic: str) -> None:
    fill(broker.bootstrap, topic, 10)
    client = {"default.api.timeout.ms": "300"}
    with (
        broker.faults.fail("fetch", ErrorCode.KAFKA_STORAGE_ERROR, times=None),
        pytest.raises(KafkaError, match="KAFKA_STORAGE_ERROR"),
    ):
        read(broker.bootstrap, topic, 0, 10, client=client)


def test_nobody_there_is_said_so() -> None:
    with ottla.testing.broker() as broker:
        address = broker.bootstrap
    with pytest.raises(ConnectionError, match=f"could not reach {address}"):
        read(address, "orders", 0, 10, client={"default.api.timeout.ms": "200"})


@pytest.mark.parametrize("ending", ["kill", "stop"])
def test_another_leader_goes_on_where_the_first_one_ended(ending: str) -> None:
    with ottla.testing.cluster(3) as cluster:
        topic = cluster.create_topic("led")
        fill(cluster.bootstrap, topic, 2_000, batch_size=500)
        client = {"max.partition.fetch.bytes": "600"}
        batches = scan(OffsetRange(topic, 0, 0, 2_000), ScanSettings(cluster.bootstrap, client))
        rows = next(batches).to_pylist()
        getattr(cluster, ending)(cluster.leader_of(topic))
        rows += [row for batch in batches for row in batch.to_pylist()]
        assert offsets(rows) == list(range(2_000))
        assert all(row["value"] == b"value %d" % row["offset"] for row in rows)


# ---- connections


def test_connections_are_kept_from_scan_to_scan(broker: EmbeddedBroker, topic: str) -> None:
    fill(broker.bootstrap, topic, 100)
    client = {"client.id": "keeps"}
    read(broker.bootstrap, topic, 0, 100, client=client)
    before = broker.connection_count
    for _ in range(5):
        read(broker.bootstrap, topic, 0, 100, client=client)
    assert broker.connection_count == before


def test_a_scan_that_is_given_up_harms_none_that_follows(broker: EmbeddedBroker, topic: str) -> None:
    fill(broker.bootstrap, topic, 1_000, batch_size=500)
    client = {"max.partition.fetch.bytes": "600", "client.id": "gives up"}
    for _ in range(3):
        batches = scan(OffsetRange(topic, 0, 0, 1_000), settings_of(broker.bootstrap, client=client))
        next(batches)
        batches.close()  # type: ignore[attr-defined]
    assert offsets(read(broker.bootstrap, topic, 0, 1_000, client=client)) == list(range(1_000))


_FORK = """
import os, sys
from ottla.spark.source.plan.offsets import OffsetRange
from ottla.spark.source.scan import ScanSettings, scan

def count():
    return sum(batch.num_rows for batch in scan(OffsetRange(sys.argv[2], 0, 0, 100), ScanSettings(sys.argv[1], {})))

assert count() == 100
child = os.fork()
if not child:
    os._exit(0 if count() == count() == 100 else 1)
assert count() == 100
assert os.waitpid(child, 0)[1] == 0
assert count() == 100
"""


def test_a_forked_process_has_connections_of_its_own(broker: EmbeddedBroker, topic: str) -> None:
    fill(broker.bootstrap, topic, 100)
    command = [sys.executable, "-c", _FORK, broker.bootstrap, topic]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=environment)
    assert done.returncode == 0, done.stderr


def test_a_number_that_is_none_is_refused(broker: EmbeddedBroker) -> None:
    with pytest.raises(ValueError, match=r"kafka\.request\.timeout\.ms must be a whole number, not 'soon'"):
        read(broker.bootstrap, "orders", 0, 1, client={"request.timeout.ms": "soon"})


def test_connections_that_nobody_needs_any_more_are_closed(broker: EmbeddedBroker, topic: str) -> None:
    fill(broker.bootstrap, topic, 10)
    for number in range(20):
        read(broker.bootstrap, topic, 0, 10, client={"client.id": f"query {number}"})
    before = broker.connection_count
    for number in range(20, 40):
        read(broker.bootstrap, topic, 0, 10, client={"client.id": f"query {number}"})
    deadline = time.monotonic() + 10
    while broker.connection_count > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert broker.connection_count <= before
