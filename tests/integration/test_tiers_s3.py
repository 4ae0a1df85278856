"""Tiered storage on a real S3 server, with what goes wrong on the way to it (OPS-6)."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest
from tests.integration.in_process import BrokerThread, broker_thread
from tests.integration.peer import Peer, batch, create_topic, fetch, list_offset, produce, read_all
from tests.integration.s3_place import S3Place, s3_place
from tests.integration.test_tiers import COUNT, SETTINGS, TIERED, fill, numbers

from ottla.errors import ErrorCode
from ottla.localcluster.waiting import wait_until


@pytest.fixture(scope="module")
def place() -> Iterator[S3Place]:
    with s3_place() as found:
        yield found


@pytest.fixture(scope="module")
def tiering(tmp_path_factory: pytest.TempPathFactory, place: S3Place) -> Iterator[BrokerThread]:
    settings = {**SETTINGS, "ottla.remote.store.url": place.url}
    with broker_thread(tmp_path_factory.mktemp("tiering") / "data", settings) as broker:
        yield broker


@pytest.fixture
def peer(tiering: BrokerThread, place: S3Place) -> Iterator[Peer]:
    place.fault = lambda method, path: ""
    with Peer(tiering.port) as connected:
        yield connected
    place.fault = lambda method, path: ""


def is_tiered(broker: BrokerThread, topic: str, end: int = COUNT) -> bool:
    return broker.log(topic).log_start_offset > end // 2


def test_a_topic_whose_first_part_is_in_s3_is_read_by_an_unmodified_client(
    tiering: BrokerThread, peer: Peer, topic: str, place: S3Place
) -> None:
    create_topic(peer, topic, **{**TIERED, "segment_bytes": 20_000, "local_retention_bytes": 1})
    fill(peer, topic, 0, 188)
    wait_until(lambda: tiering.log(topic).log_start_offset >= 0.9 * 188, "nine tenths are in S3 only")
    assert any(name.startswith(f"prefix/{topic}-") for name in place.names())
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": f"127.0.0.1:{tiering.port}",
            "group.id": topic,
            "auto.offset.reset": "earliest",
            "check.crcs": True,
        }
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, confluent_kafka.OFFSET_BEGINNING)])
    found: list[int] = []
    wait_until(lambda: len(found) >= 188 or _take(consumer, found), "all records are read")
    consumer.close()
    assert found == list(range(188))


def _take(consumer: confluent_kafka.Consumer, found: list[int]) -> bool:
    message = consumer.poll(0.5)
    if message is not None and message.error() is None:
        found.append(int((message.value() or b"").rstrip(b".")))
    return len(found) >= 188


def rarely(fault: str) -> object:
    return pytest.param(fault, marks=pytest.mark.compat)


@pytest.mark.parametrize("fault", ["503", rarely("403"), rarely("507"), rarely("cut"), "lost", "wrong"])
def test_a_store_that_fails_while_segments_are_copied_costs_time_and_no_record(
    tiering: BrokerThread, peer: Peer, topic: str, place: S3Place, fault: str
) -> None:
    failures: list[str] = []

    def break_some(method: str, path: str) -> str:
        # Half of the first writes, and of the reads that verify them.
        is_ours = topic in path and len(failures) < 6 and len(place.requests) % 2 == 0
        if is_ours and (method == "PUT" or fault not in ("lost",)):
            failures.append(path)
            return fault
        return ""

    create_topic(peer, topic, **TIERED)
    place.fault = break_some
    fill(peer, topic)
    assert produce(peer, topic, batch(b"60")).error_code == 0
    wait_until(lambda: is_tiered(tiering, topic), "the segments are copied in the end", deadline_s=60)
    place.fault = lambda method, path: ""
    assert failures
    assert numbers(read_all(peer, topic)) == list(range(COUNT + 1))


@pytest.mark.parametrize("fault", [rarely("503"), rarely("cut"), "torn", rarely("wrong")])
def test_readers_of_old_records_get_an_error_that_they_may_retry_and_others_do_not_notice(
    tiering: BrokerThread, peer: Peer, topic: str, place: S3Place, fault: str
) -> None:
    create_topic(peer, topic, **TIERED)
    fill(peer, topic)
    wait_until(lambda: is_tiered(tiering, topic), "the segments are copied")
    place.fault = lambda method, path: fault if method == "GET" and path.endswith(".log") else ""
    local = tiering.log(topic).log_start_offset
    assert fetch(peer, topic, local).error_code == ErrorCode.NONE
    wait_until(
        lambda: fetch(peer, topic, 0, max_wait_ms=500).error_code == ErrorCode.KAFKA_STORAGE_ERROR,
        "the reader hears of it",
    )
    assert produce(peer, topic, batch(b"60")).error_code == 0
    assert numbers(read_all(peer, topic, offset=local))[-1] == COUNT
    place.fault = lambda method, path: ""
    wait_until(lambda: bool(fetch(peer, topic, 0).records), "the store works again", deadline_s=60)
    assert numbers(read_all(peer, topic)) == list(range(COUNT + 1))


def test_a_store_that_is_forbidden_is_named_with_its_reason_and_without_secrets(
    tiering: BrokerThread, peer: Peer, topic: str, place: S3Place, caplog: pytest.LogCaptureFixture
) -> None:
    place.fault = lambda method, path: "403"
    with caplog.at_level(logging.DEBUG):
        create_topic(peer, topic, **TIERED)
        fill(peer, topic)
        tier = tiering.partition(topic).tier
        assert tier is not None
        wait_until(lambda: "necessary privileges" in (tier.problem or ""), "the reason is known")
        wait_until(lambda: "the object store s3://" in caplog.text, "the reason is logged")
    assert "never-logged" not in caplog.text
    assert caplog.text.count("the object store s3://") <= 3
    assert list_offset(peer, topic, -4).offset == 0
    place.fault = lambda method, path: ""
    wait_until(lambda: is_tiered(tiering, topic), "copies go on", deadline_s=60)


def test_large_segments_are_uploaded_in_parts(
    tmp_path: Path, tiering: BrokerThread, peer: Peer, topic: str, place: S3Place
) -> None:
    create_topic(peer, topic, **{**TIERED, "segment_bytes": 9 << 20, "local_retention_bytes": 1 << 20})
    for number in range(11):
        assert produce(peer, topic, batch(b"%d" % number + b"." * 1_000_000)).error_code == 0
    wait_until(lambda: tiering.log(topic).log_start_offset > 8, "a segment is in S3 only")
    assert any(method == "POST" and topic in path for method, path in place.requests)
    assert numbers(read_all(peer, topic)) == list(range(11))
