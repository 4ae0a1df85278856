"""Retention of a running broker, as clients and operators see it (RET-1, RET-2, RET-6)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.in_process import BrokerThread, broker_thread
from tests.integration.peer import (
    Peer,
    batch,
    create_topic,
    fetch,
    fetch_request,
    list_offset,
    now_ms,
    produce,
    read_all,
)

from ottla.errors import ErrorCode
from ottla.localcluster.waiting import wait_until
from ottla.protocol.apis import ApiKey
from ottla.protocol.messages.topics import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from ottla.records.batch import iter_batches

SETTINGS = {"log.retention.check.interval.ms": "20", "log.segment.delete.delay.ms": "0"}
EARLIEST, LATEST = -2, -1


@pytest.fixture(scope="module")
def retaining(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerThread]:
    """A broker that looks for old segments fifty times a second."""
    with broker_thread(tmp_path_factory.mktemp("retaining") / "data", SETTINGS) as broker:
        yield broker


@pytest.fixture
def peer(retaining: BrokerThread) -> Iterator[Peer]:
    with Peer(retaining.port) as connected:
        yield connected


def fill(peer: Peer, topic: str, count: int = 50, size: int = 500, timestamp: int | None = None) -> None:
    for number in range(count):
        answer = produce(peer, topic, batch(b"%d" % number + b"." * size, timestamp=timestamp))
        assert answer.error_code == 0, answer.error_message


def files(broker: BrokerThread, topic: str, suffix: str) -> list[str]:
    return sorted(
        path.name for path in Path(broker.log(topic).directory).iterdir() if path.name.endswith(suffix)
    )


def test_a_log_is_kept_to_its_size_and_its_start_moves(
    retaining: BrokerThread, peer: Peer, topic: str
) -> None:
    create_topic(peer, topic, segment_bytes=4000, retention_bytes=10_000)
    fill(peer, topic)
    log = retaining.log(topic)
    wait_until(lambda: log.extent.segments.size_bytes < 14_000, "old segments are deleted")
    start = list_offset(peer, topic, EARLIEST).offset
    assert 0 < start == log.log_start_offset
    assert list_offset(peer, topic, LATEST).offset == 50
    assert [value and value.rstrip(b".") for value in read_all(peer, topic, offset=start)] == [
        b"%d" % number for number in range(start, 50)
    ]


def test_a_consumer_whose_offset_is_gone_is_told_so_and_finds_the_earliest_one(
    retaining: BrokerThread, peer: Peer, topic: str
) -> None:
    create_topic(peer, topic, segment_bytes=4000, retention_bytes=10_000)
    fill(peer, topic)
    wait_until(lambda: retaining.log(topic).extent.segments.size_bytes < 14_000, "old segments are deleted")
    assert fetch(peer, topic, 0).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    earliest = list_offset(peer, topic, EARLIEST).offset
    assert earliest == retaining.log(topic).log_start_offset
    answer = fetch(peer, topic, earliest)
    assert (answer.error_code, answer.log_start_offset) == (0, earliest)


def test_when_all_records_are_too_old_the_log_is_empty_and_its_offsets_go_on(
    retaining: BrokerThread, peer: Peer, topic: str
) -> None:
    create_topic(peer, topic, segment_bytes=4000, retention_ms=60_000)
    fill(peer, topic, timestamp=now_ms() - 61_000)
    log = retaining.log(topic)
    wait_until(lambda: log.log_start_offset == 50, "everything is deleted, the active segment after a roll")
    assert len(log.extent.segments) == 1
    assert produce(peer, topic, batch(b"new")).base_offset == 50
    assert read_all(peer, topic, offset=50) == [b"new"]


def test_records_that_are_young_enough_stay_even_in_old_segments(
    retaining: BrokerThread, peer: Peer, topic: str
) -> None:
    create_topic(peer, topic, segment_bytes=4000, retention_ms=60_000)
    old = f"{topic}-old"
    create_topic(peer, old, segment_bytes=4000, retention_ms=60_000)
    fill(peer, topic, count=20)
    fill(peer, old, count=20, timestamp=now_ms() - 61_000)
    wait_until(lambda: retaining.log(old).log_start_offset == 20, "the old ones are deleted")
    assert retaining.log(topic).log_start_offset == 0
    assert len(read_all(peer, topic)) == 20


def test_a_topic_that_is_only_compacted_knows_no_retention(
    retaining: BrokerThread, peer: Peer, topic: str
) -> None:
    settings = {"segment_bytes": 4000, "retention_ms": 1, "retention_bytes": 1}
    create_topic(peer, topic, cleanup_policy="compact", min_cleanable_dirty_ratio=1, **settings)
    deleted = f"{topic}-deleted"
    create_topic(peer, deleted, **settings)
    for name in (topic, deleted):
        fill(peer, name, count=20, timestamp=now_ms() - 1000)
    wait_until(lambda: retaining.log(deleted).log_start_offset == 20, "the other one is deleted")
    assert retaining.log(topic).log_start_offset == 0


def test_deleted_files_are_renamed_first_and_removed_later(
    retaining: BrokerThread, peer: Peer, topic: str
) -> None:
    create_topic(peer, topic, segment_bytes=4000, retention_bytes=10_000, file_delete_delay_ms=600)
    fill(peer, topic)
    wait_until(lambda: bool(files(retaining, topic, ".log.deleted")), "files are renamed")
    gone = {name.removesuffix(".deleted") for name in files(retaining, topic, ".deleted")}
    assert not gone & set(files(retaining, topic, ".log"))
    assert {name.rpartition(".")[2] for name in gone} >= {"log", "index", "timeindex"}
    wait_until(lambda: not files(retaining, topic, ".deleted"), "files are removed")


def test_a_reader_in_the_middle_of_a_deleted_segment_gets_all_of_it(
    retaining: BrokerThread, peer: Peer, topic: str
) -> None:
    create_topic(peer, topic, segment_bytes=8 << 20, retention_ms=60_000)
    stamp = now_ms() - 59_000
    expected = []
    for number in range(16):
        sent = batch(b"%d" % number + b"x" * 500_000, timestamp=stamp)
        assert produce(peer, topic, sent).error_code == 0
        expected.append(bytes(sent[21:]))
    with Peer(retaining.port, receive_buffer_bytes=4096) as slow:
        asked = slow.send(ApiKey.FETCH, 12, fetch_request((topic, 0, 0)))
        log = retaining.log(topic)
        wait_until(lambda: log.log_start_offset == 16, "the segment is deleted")
        wait_until(lambda: not files(retaining, topic, ".deleted"), "its files are removed")
        answered, answer = slow.receive(ApiKey.FETCH, 12)
    assert answered == asked
    found = answer.responses[0].partitions[0]
    assert found.error_code == 0
    assert [bytes(view.view()[21:]) for view in iter_batches(found.records)] == expected
    assert fetch(peer, topic, 3).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_segments_below_a_log_start_that_a_client_set_go_too(
    retaining: BrokerThread, peer: Peer, topic: str
) -> None:
    create_topic(peer, topic, segment_bytes=4000, retention_ms=-1)
    fill(peer, topic)
    segments = len(retaining.log(topic).extent.segments)
    request = DeleteRecordsRequest(
        topics=[
            DeleteRecordsTopic(name=topic, partitions=[DeleteRecordsPartition(partition_index=0, offset=30)])
        ],
        timeout_ms=10_000,
    )
    answer = peer.ask(ApiKey.DELETE_RECORDS, 2, request)
    assert answer.topics[0].partitions[0].low_watermark == 30
    log = retaining.log(topic)
    wait_until(lambda: len(log.extent.segments) < segments, "segments are deleted")
    assert log.extent.segments[0].base_offset <= 30 == log.log_start_offset
    assert (read_all(peer, topic, offset=30)[0] or b"").rstrip(b".") == b"30"
