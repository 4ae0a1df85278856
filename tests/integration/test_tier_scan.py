"""Ranges read by executors: from the object store what lies there, from brokers the rest, exact at the seam.

Requirements: PIPE-9.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from tests.integration.in_process import BrokerThread, broker_thread
from tests.integration.peer import Peer, create_topic, delete_topic
from tests.integration.test_tiers import (
    COUNT,
    TIERED,
    alter,
    delete_before,
    fill,
    objects,
    settings,
    tiered,
    value,
)

from ottla.client.sync.planner_admin import PlannerAdmin
from ottla.errors import ErrorCode, KafkaError
from ottla.localcluster.ports import HOST
from ottla.localcluster.waiting import wait_until
from ottla.model import TopicPartition
from ottla.protocol.apis import ApiKey
from ottla.server.apis import remote_logs
from ottla.spark.source.plan.data_loss import DataLossError
from ottla.spark.source.plan.offsets import OffsetRange
from ottla.spark.source.scan import ScanSettings, scan

Row = tuple[int, bytes | None]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tier")


@pytest.fixture(scope="module")
def tiering(tmp_path_factory: pytest.TempPathFactory, store: Path) -> Iterator[BrokerThread]:
    with broker_thread(tmp_path_factory.mktemp("tiering") / "data", settings(store)) as broker:
        yield broker


@pytest.fixture
def peer(tiering: BrokerThread) -> Iterator[Peer]:
    with Peer(tiering.port) as connected:
        yield connected


# Pieces of 700 bytes: smaller than a segment, and than some batches.
SMALL_PIECES = {"max.partition.fetch.bytes": "350"}


def scanning(broker: BrokerThread, **more: Any) -> ScanSettings:
    found = ScanSettings(f"{HOST}:{broker.port}", {"client.id": "scan"}, read_tier=True, patience_ms=500)
    return replace(found, **more)


def rows(broker: BrokerThread, topic: str, start: int, end: int, **more: Any) -> list[Row]:
    """The rows of a range, read from the store as far as it goes."""
    batches = scan(OffsetRange(topic, 0, start, end), scanning(broker, **more))
    return [(row["offset"], row["value"]) for batch in batches for row in batch.to_pylist()]


def expected(start: int, end: int) -> list[Row]:
    return [(number, value(number)) for number in range(start, end)]


def fetches(broker: BrokerThread) -> int:
    return broker.call(lambda: broker.broker.services.requests.of(ApiKey.FETCH).histogram.count)


def stable_end(broker: BrokerThread, topic: str) -> int:
    """The end of the log when the last marker is written, which a commit and an abort do not wait for."""
    partition = broker.partition(topic)
    wait_until(
        lambda: (
            partition.last_stable_offset == partition.log.log_end_offset
            and not partition.log.producers.transactions
        ),
        "all transactions are over",
        60,
    )
    return partition.log.log_end_offset


def loads(broker: BrokerThread) -> int:
    """How often the broker has read records from the store."""
    tiers = broker.broker.services.tiers
    assert tiers is not None
    return tiers.reads.loads


def test_what_lies_in_the_store_costs_no_fetch_of_a_broker(
    tiering: BrokerThread, peer: Peer, topic: str
) -> None:
    create_topic(peer, topic, **{**TIERED, "segment_bytes": 20_000, "local_retention_bytes": 1})
    fill(peer, topic, 0, 188)
    log = tiering.log(topic)
    wait_until(lambda: log.log_start_offset >= 0.9 * 188, "nine tenths are in the store only", 60)
    tier = tiering.partition(topic).tier
    assert tier is not None
    wait_until(lambda: tier.remote.next_offset == log.log_start_offset, "the rest is not there", 60)
    seam, before = log.log_start_offset, (fetches(tiering), loads(tiering))
    assert rows(tiering, topic, 0, seam) == expected(0, seam)
    assert (fetches(tiering), loads(tiering)) == before
    assert rows(tiering, topic, 0, 188) == expected(0, 188)
    assert fetches(tiering) > before[0]
    assert loads(tiering) == before[1]


@pytest.mark.parametrize("compression", ["producer", "zstd"])
def test_any_range_is_read_exactly(tiering: BrokerThread, peer: Peer, topic: str, compression: str) -> None:
    small = {"segment_bytes": 700, "local_retention_bytes": 1000} if compression == "zstd" else {}
    create_topic(
        peer, topic, **{**TIERED, **small, "compression_type": compression, "index_interval_bytes": 100}
    )
    fill(peer, topic)
    wait_until(lambda: tiering.log(topic).log_start_offset > COUNT // 2, "local segments are deleted", 60)
    seam = tiering.log(topic).log_start_offset
    for start, end in ((0, COUNT), (3, COUNT - 1), (seam - 1, seam + 1), (seam, COUNT), (9, 9), (10, 11)):
        assert rows(tiering, topic, start, end, client=SMALL_PIECES) == expected(start, end)
    assert rows(tiering, topic, 17, 40, client={"check.crcs": "false"}) == expected(17, 40)


def test_more_segments_than_one_answer_tells(
    tiering: BrokerThread, peer: Peer, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_logs, "SEGMENTS_PER_ANSWER", 2)
    tiered(tiering, peer, topic)
    assert rows(tiering, topic, 0, COUNT) == expected(0, COUNT)
    admin = PlannerAdmin(f"{HOST}:{tiering.port}", client_id="planner", timeout_ms=5_000)
    place = TopicPartition(topic, 0)
    segments = admin.remote_segments({place: (5, COUNT)})[place]
    admin.close()
    assert len(segments) > 2
    assert segments[0].base_offset <= 5
    assert all(one.next_offset == other.base_offset for one, other in pairwise(segments))


def test_readers_of_committed_records_skip_what_was_aborted_wherever_its_marker_lies(
    tiering: BrokerThread, peer: Peer, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_logs, "SEGMENTS_PER_ANSWER", 2)
    create_topic(peer, topic, **TIERED)
    producers = []
    for number in range(2):
        config: dict[str, Any] = {"transactional.id": f"{topic}-{number}", "linger.ms": 0}
        config["bootstrap.servers"] = f"{HOST}:{tiering.port}"
        producers.append(confluent_kafka.Producer(config))
        producers[-1].init_transactions(15)
    for turn in range(16):
        # Two transactions at a time, one of them long: its marker comes two segments after its records.
        for number, producer in enumerate(producers):
            if not turn % (1 + 3 * number):
                producer.begin_transaction()
            producer.produce(topic, value(10 * turn + number), partition=0)
            producer.flush(15)
        for number, producer in enumerate(producers):
            if turn % (1 + 3 * number) == 3 * number:
                (producer.abort_transaction if turn % 3 else producer.commit_transaction)(15)
    fill(peer, topic, 1000, 20)
    end = stable_end(tiering, topic)
    wait_until(lambda: tiering.log(topic).log_start_offset > 30, "local segments are deleted", 60)
    whole = rows(tiering, topic, 0, end, read_committed=True)
    assert whole == rows(tiering, topic, 0, end, read_committed=True, read_tier=False)
    assert 20 < len(whole) < len(rows(tiering, topic, 0, end))
    for start in range(0, end, 3):
        found = rows(tiering, topic, start, min(start + 7, end), read_committed=True)
        assert found == [row for row in whole if start <= row[0] < start + 7]


def test_a_marker_that_only_the_leader_has_is_known(tiering: BrokerThread, peer: Peer, topic: str) -> None:
    create_topic(peer, topic, **{**TIERED, "local_retention_bytes": 1})
    config = {"bootstrap.servers": f"{HOST}:{tiering.port}", "transactional.id": topic, "linger.ms": 0}
    producer = confluent_kafka.Producer(config)
    producer.init_transactions(15)
    producer.begin_transaction()
    for number in range(10):
        producer.produce(topic, value(number), partition=0)
        producer.flush(15)
    producer.abort_transaction(15)
    end = stable_end(tiering, topic)
    tier = tiering.partition(topic).tier
    assert tier is not None
    wait_until(lambda: (tier.remote.next_offset or 0) > 5, "the first records are copied", 60)
    assert (tier.remote.next_offset or 0) < end
    assert rows(tiering, topic, 0, end, read_committed=True) == []
    assert len(rows(tiering, topic, 0, end)) == 10


# ---- what changes meanwhile


def test_records_that_are_deleted_meanwhile_are_data_loss_as_from_a_broker(
    tiering: BrokerThread, peer: Peer, topic: str
) -> None:
    tiered(tiering, peer, topic)
    batches = scan(OffsetRange(topic, 0, 0, COUNT), scanning(tiering, client=SMALL_PIECES))
    assert next(batches).to_pylist()[0]["offset"] == 0
    assert delete_before(peer, topic, 25)[0] == ErrorCode.NONE
    tier = tiering.partition(topic).tier
    assert tier is not None
    wait_until(lambda: not tier.remote.deleting, "the objects are gone", 60)
    with pytest.raises(DataLossError, match="the log begins at offset 25 now"):
        list(batches)
    assert rows(tiering, topic, 0, COUNT, fail_on_data_loss=False) == expected(25, COUNT)


def test_a_topic_that_is_made_again_meanwhile_is_data_loss(
    tiering: BrokerThread, peer: Peer, topic: str
) -> None:
    tiered(tiering, peer, topic)
    batches = scan(OffsetRange(topic, 0, 0, COUNT), scanning(tiering, client=SMALL_PIECES))
    next(batches)
    delete_topic(peer, topic)
    create_topic(peer, topic, **TIERED)
    fill(peer, topic)
    assert rows(tiering, topic, 0, COUNT) == expected(0, COUNT)
    with pytest.raises(DataLossError, match="the topic was deleted and created again"):
        list(batches)


def test_a_topic_that_has_no_remote_part_any_more_is_read_from_brokers(
    tiering: BrokerThread, peer: Peer, topic: str
) -> None:
    create_topic(peer, topic, **{**TIERED, "local_retention_bytes": -1})
    fill(peer, topic)
    tier = tiering.partition(topic).tier
    assert tier is not None
    wait_until(lambda: (tier.remote.next_offset or 0) > COUNT // 2, "segments are copied", 60)
    assert rows(tiering, topic, 0, COUNT) == expected(0, COUNT)
    off = {"remote.storage.enable": "false", "remote.log.delete.on.disable": "true"}
    assert alter(peer, topic, off)[0] == ErrorCode.NONE
    assert rows(tiering, topic, 0, COUNT) == expected(0, COUNT)


# ---- a store that is wrong


def test_an_object_that_only_the_brokers_see_is_an_error_that_says_so(
    tiering: BrokerThread, peer: Peer, topic: str, store: Path
) -> None:
    tiered(tiering, peer, topic)
    [*logs] = [path for path in objects(store, topic) if path.suffix == ".log"]
    logs[1].unlink()
    with pytest.raises(KafkaError, match="Is this the store that they use") as raised:
        rows(tiering, topic, 0, COUNT)
    assert raised.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert f"file://{store}" in str(raised.value)


def test_wrong_bytes_are_never_rows(tiering: BrokerThread, peer: Peer, topic: str, store: Path) -> None:
    tiered(tiering, peer, topic)
    log = next(path for path in objects(store, topic) if path.suffix == ".log")
    whole = log.read_bytes()
    client = {"default.api.timeout.ms": "300"}
    for damaged in (whole.replace(b"3...", b"4..."), whole[:-1], whole[600:]):
        log.write_bytes(damaged)
        with pytest.raises(KafkaError, match="KAFKA_STORAGE_ERROR"):
            rows(tiering, topic, 0, 20, client=client)
    log.write_bytes(whole)
    assert rows(tiering, topic, 0, 20) == expected(0, 20)


# ---- brokers that cannot say


def test_brokers_without_tiered_storage_are_read_as_ever(tmp_path: Path, topic: str) -> None:
    with broker_thread(tmp_path / "data") as broker, Peer(broker.port) as peer:
        create_topic(peer, topic)
        fill(peer, topic)
        assert rows(broker, topic, 0, COUNT) == expected(0, COUNT)
        admin = PlannerAdmin(f"{HOST}:{broker.port}", client_id="planner", timeout_ms=5_000)
        place = TopicPartition(topic, 0)
        assert admin.remote_segments({place: (0, COUNT)}) == {place: []}
        admin.close()


def test_a_topic_that_is_gone_is_data_loss(tiering: BrokerThread) -> None:
    with pytest.raises(DataLossError, match="there is no such topic or partition any more"):
        rows(tiering, "no-such-topic", 0, 10)


def test_no_store_and_no_secret_is_logged(
    tiering: BrokerThread, peer: Peer, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    tiered(tiering, peer, topic)
    with caplog.at_level(logging.DEBUG, "ottla"):
        rows(tiering, topic, 0, COUNT)
    assert "file://" not in caplog.text
