"""Tiered storage over TCP: closed segments move to an object store and are read back transparently.

Requirements: OPS-6.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from tests.integration.in_process import BrokerThread, broker_thread
from tests.integration.peer import (
    Peer,
    alter_config,
    batch,
    create_topic,
    delete_topic,
    fetch,
    list_offset,
    now_ms,
    produce,
    read_all,
)

from ottla.errors import ErrorCode
from ottla.localcluster.waiting import wait_until
from ottla.protocol.apis import ApiKey
from ottla.protocol.messages.configs import (
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from ottla.protocol.messages.leader_epochs import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from ottla.protocol.messages.topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from ottla.records.batch import iter_batches

EARLIEST, LATEST, MAX_TIMESTAMP = -2, -1, -3
EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING = -4, -5, -6
COUNT = 60
SETTINGS = {
    "log.retention.check.interval.ms": "20",
    "log.segment.delete.delay.ms": "0",
    "remote.log.storage.system.enable": "true",
    "remote.log.manager.task.interval.ms": "20",
    "ottla.remote.read.bytes": "65536",
}
TIERED: dict[str, Any] = {
    "remote_storage_enable": "true",
    "local_retention_bytes": 5000,
    "segment_bytes": 4000,
}


def settings(store: Path) -> dict[str, str]:
    return {**SETTINGS, "ottla.remote.store.url": f"file://{store}"}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tier")


@pytest.fixture(scope="module")
def tiering(tmp_path_factory: pytest.TempPathFactory, store: Path) -> Iterator[BrokerThread]:
    """A broker that copies and deletes fifty times a second."""
    with broker_thread(tmp_path_factory.mktemp("tiering") / "data", settings(store)) as broker:
        yield broker


@pytest.fixture
def peer(tiering: BrokerThread) -> Iterator[Peer]:
    with Peer(tiering.port) as connected:
        yield connected


def value(number: int) -> bytes:
    return b"%d" % number + b"." * 500


def fill(peer: Peer, topic: str, first: int = 0, count: int = COUNT, timestamp: int | None = None) -> None:
    """One batch for each record; record n has the timestamp + n, if one is given."""
    for number in range(first, first + count):
        time = None if timestamp is None else timestamp + number
        answer = produce(peer, topic, batch(value(number), timestamp=time))
        assert answer.error_code == 0, answer.error_message


def tiered(broker: BrokerThread, peer: Peer, topic: str, **more: str | int) -> None:
    """A topic whose older part is in the store only."""
    create_topic(peer, topic, **{**TIERED, **more})
    fill(peer, topic, timestamp=now_ms() - COUNT)
    wait_until(lambda: broker.log(topic).log_start_offset > COUNT // 2, "local segments are deleted")


def objects(store: Path, topic: str) -> list[Path]:
    return sorted(path for path in store.rglob(f"{topic}-*/**/*") if path.is_file())


def numbers(values: list[bytes | None]) -> list[int]:
    return [int((each or b"").rstrip(b".")) for each in values]


def test_old_records_are_read_from_the_store_byte_for_byte(
    tiering: BrokerThread, peer: Peer, topic: str, store: Path
) -> None:
    tiered(tiering, peer, topic)
    assert fetch(peer, topic, 0).log_start_offset == 0
    assert numbers(read_all(peer, topic)) == list(range(COUNT))
    logs = [path for path in objects(store, topic) if path.suffix == ".log"]
    held = b"".join(path.read_bytes() for path in logs)
    found = fetch(peer, topic, 0, partition_max_bytes=len(held))
    assert held.startswith(bytes(found.records or b""))
    assert [each.base_offset for each in iter_batches(held)] == list(range(len(list(iter_batches(held)))))
    assert {path.suffix for path in objects(store, topic)} >= {".log", ".timeindex", ".epochs", ".snapshot"}


def test_special_offsets_tell_what_is_where(tiering: BrokerThread, peer: Peer, topic: str) -> None:
    tiered(tiering, peer, topic)
    assert list_offset(peer, topic, EARLIEST).offset == 0
    assert list_offset(peer, topic, LATEST).offset == COUNT
    # Copying and deleting may still go on.
    before = tiering.log(topic).log_start_offset
    local = list_offset(peer, topic, EARLIEST_LOCAL).offset
    assert before <= local <= tiering.log(topic).log_start_offset
    latest_tiered = list_offset(peer, topic, LATEST_TIERED).offset
    assert local - 1 <= latest_tiered < COUNT
    assert latest_tiered < list_offset(peer, topic, EARLIEST_PENDING).offset < COUNT


def test_timestamps_are_found_in_the_store_and_in_the_local_log(
    tiering: BrokerThread, peer: Peer, topic: str
) -> None:
    start = now_ms() - COUNT
    create_topic(peer, topic, **TIERED)
    fill(peer, topic, timestamp=start)
    wait_until(lambda: tiering.log(topic).log_start_offset > COUNT // 2, "local segments are deleted")
    for number in (0, 1, 7, 20, COUNT // 2, COUNT - 2):
        found = list_offset(peer, topic, start + number)
        assert (found.offset, found.timestamp) == (number, start + number)
        assert found.leader_epoch == 0
    assert list_offset(peer, topic, start + COUNT).offset == -1
    assert list_offset(peer, topic, 5).offset == 0
    assert list_offset(peer, topic, MAX_TIMESTAMP).offset == COUNT - 1


def test_the_largest_timestamp_may_lie_in_the_store(tiering: BrokerThread, peer: Peer, topic: str) -> None:
    create_topic(peer, topic, **TIERED)
    fill(peer, topic, 0, 5)
    far = now_ms() + 1_000_000
    produce(peer, topic, batch(value(5), timestamp=far))
    fill(peer, topic, 6, COUNT)
    wait_until(lambda: tiering.log(topic).log_start_offset > COUNT // 2, "local segments are deleted")
    found = list_offset(peer, topic, MAX_TIMESTAMP)
    assert (found.offset, found.timestamp) == (5, far)


def test_an_offset_below_the_remote_start_is_out_of_range(
    tiering: BrokerThread, peer: Peer, topic: str, store: Path
) -> None:
    tiered(tiering, peer, topic)
    assert delete_before(peer, topic, 20) == (ErrorCode.NONE, 20)
    assert list_offset(peer, topic, EARLIEST).offset == 20
    refused = fetch(peer, topic, 19)
    assert refused.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert numbers(read_all(peer, topic, offset=20)) == list(range(20, COUNT))
    wait_until(
        lambda: all(int(path.name[:20]) >= 14 for path in objects(store, topic)),
        "objects below the start are deleted",
    )


def test_records_can_be_deleted_beyond_the_remote_part(
    tiering: BrokerThread, peer: Peer, topic: str, store: Path
) -> None:
    tiered(tiering, peer, topic)
    assert delete_before(peer, topic, COUNT) == (ErrorCode.NONE, COUNT)
    assert list_offset(peer, topic, EARLIEST).offset == COUNT
    wait_until(lambda: not objects(store, topic), "all objects are deleted")
    fill(peer, topic, COUNT, COUNT)
    wait_until(lambda: tiering.log(topic).log_start_offset > COUNT + 20, "the next ones are copied")
    assert numbers(read_all(peer, topic, offset=COUNT)) == list(range(COUNT, 2 * COUNT))


def delete_before(peer: Peer, topic: str, offset: int) -> tuple[int, int]:
    wanted = DeleteRecordsTopic(topic, [DeleteRecordsPartition(0, offset)])
    answer = peer.ask(ApiKey.DELETE_RECORDS, 2, DeleteRecordsRequest([wanted], 10_000))
    found = answer.topics[0].partitions[0]
    return found.error_code, found.low_watermark


def test_retention_holds_for_the_remote_part_too(
    tiering: BrokerThread, peer: Peer, topic: str, store: Path
) -> None:
    tiered(tiering, peer, topic)
    alter_config(peer, topic, "local.retention.bytes", "4500")
    alter_config(peer, topic, "retention.bytes", "20000")
    wait_until(lambda: list_offset(peer, topic, EARLIEST).offset >= 14, "remote segments are deleted")
    start = list_offset(peer, topic, EARLIEST).offset
    assert start < tiering.log(topic).log_start_offset
    assert numbers(read_all(peer, topic, offset=start)) == list(range(start, COUNT))
    wait_until(
        lambda: min(int(path.name[:20]) for path in objects(store, topic)) == start, "objects are deleted"
    )


def test_records_that_are_too_old_go_from_the_store(
    tiering: BrokerThread, peer: Peer, topic: str, store: Path
) -> None:
    create_topic(peer, topic, **TIERED)
    fill(peer, topic, 0, 30, timestamp=now_ms() - 3_600_000)
    fill(peer, topic, 30, 30)
    wait_until(lambda: tiering.log(topic).log_start_offset > 35, "local segments are deleted")
    alter_config(peer, topic, "retention.ms", "1800000")
    wait_until(lambda: list_offset(peer, topic, EARLIEST).offset >= 24, "remote segments are deleted")
    start = list_offset(peer, topic, EARLIEST).offset
    assert start <= 30
    assert numbers(read_all(peer, topic, offset=start)) == list(range(start, COUNT))


def test_a_deleted_topic_takes_its_objects_along_and_one_of_the_same_name_is_new(
    tiering: BrokerThread, peer: Peer, topic: str, store: Path
) -> None:
    tiered(tiering, peer, topic)
    before = objects(store, topic)
    delete_topic(peer, topic)
    create_topic(peer, topic, **TIERED)
    assert list_offset(peer, topic, LATEST_TIERED).offset == -1
    fill(peer, topic, 100, COUNT)
    wait_until(lambda: not {*before} & {*objects(store, topic)}, "the objects of the old topic are deleted")
    wait_until(lambda: tiering.log(topic).log_start_offset > COUNT // 2, "local segments are deleted")
    assert numbers(read_all(peer, topic)) == list(range(100, 100 + COUNT))


def test_the_epochs_of_remote_records_are_known(tiering: BrokerThread, peer: Peer, topic: str) -> None:
    tiered(tiering, peer, topic)
    wanted = OffsetForLeaderTopic(topic, [OffsetForLeaderPartition(0, -1, 0)])
    request = OffsetForLeaderEpochRequest(replica_id=-1, topics=[wanted])
    answer = peer.ask(ApiKey.OFFSET_FOR_LEADER_EPOCH, 4, request).topics[0].partitions[0]
    assert (answer.leader_epoch, answer.end_offset) == (0, COUNT)


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"cleanup.policy": "compact"}, "unsupported for the compacted topics"),
        ({"local.retention.ms": "10", "retention.ms": "5"}, "cannot exceed retention.ms"),
        ({"local.retention.bytes": "10", "retention.bytes": "5"}, "cannot exceed retention.bytes"),
    ],
)
def test_settings_that_cannot_work_are_refused_in_words(
    peer: Peer, topic: str, config: dict[str, str], reason: str
) -> None:
    configs = [
        CreatableTopicConfig(name, text) for name, text in {"remote.storage.enable": "true", **config}.items()
    ]
    request = CreateTopicsRequest([CreatableTopic(topic, 1, 1, [], configs)], 10_000)
    refused = peer.ask(ApiKey.CREATE_TOPICS, 5, request).topics[0]
    assert refused.error_code == ErrorCode.INVALID_CONFIG
    assert reason in refused.error_message


def test_tiered_storage_is_switched_off_only_together_with_its_records(
    tiering: BrokerThread, peer: Peer, topic: str, store: Path
) -> None:
    tiered(tiering, peer, topic)
    refused = alter(peer, topic, {"remote.storage.enable": "false"})
    assert refused[0] == ErrorCode.INVALID_CONFIG
    assert "remote.log.delete.on.disable" in refused[1]
    assert (
        alter(peer, topic, {"remote.storage.enable": "false", "remote.log.delete.on.disable": "true"})[0] == 0
    )
    wait_until(lambda: not objects(store, topic), "all objects are deleted")
    local = tiering.log(topic).log_start_offset
    assert 0 < local == list_offset(peer, topic, EARLIEST).offset
    assert numbers(read_all(peer, topic, offset=local)) == list(range(local, COUNT))


def alter(peer: Peer, topic: str, config: dict[str, str]) -> tuple[int, str]:
    changes = [IncrementalAlterableConfig(name, 0, text) for name, text in config.items()]
    request = IncrementalAlterConfigsRequest([IncrementalAlterConfigsResource(2, topic, changes)])
    found = peer.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request).responses[0]
    return found.error_code, found.error_message or ""


def test_nothing_is_copied_while_copying_is_disabled(
    tiering: BrokerThread, peer: Peer, topic: str, store: Path
) -> None:
    create_topic(peer, topic, **TIERED, remote_log_copy_disable="true")
    fill(peer, topic)
    assert not objects(store, topic)
    assert tiering.log(topic).log_start_offset == 0
    alter_config(peer, topic, "remote.log.copy.disable", "false")
    wait_until(lambda: tiering.log(topic).log_start_offset > COUNT // 2, "local segments are deleted")
    assert numbers(read_all(peer, topic)) == list(range(COUNT))


def test_a_restarted_broker_knows_what_is_where(tmp_path: Path, topic: str) -> None:
    place = settings(tmp_path / "tier")
    with broker_thread(tmp_path / "data", place) as broker, Peer(broker.port) as peer:
        tiered(broker, peer, topic)
    with broker_thread(tmp_path / "data", place) as broker, Peer(broker.port) as peer:
        assert list_offset(peer, topic, EARLIEST).offset == 0
        assert numbers(read_all(peer, topic)) == list(range(COUNT))


def test_a_store_that_cannot_be_used_stops_neither_writes_nor_reads_of_local_records(
    tmp_path: Path, topic: str
) -> None:
    (tmp_path / "file").write_text("")
    place = settings(tmp_path / "file" / "tier")
    with broker_thread(tmp_path / "data", place) as broker, Peer(broker.port) as peer:
        create_topic(peer, topic, **TIERED)
        fill(peer, topic)
        tier = broker.partition(topic).tier
        assert tier is not None
        wait_until(lambda: "cannot be made" in (tier.problem or ""), "the reason is known")
        assert broker.log(topic).log_start_offset == 0
        assert numbers(read_all(peer, topic)) == list(range(COUNT))


def test_wrong_bytes_are_never_served_and_the_reader_may_try_again(
    tiering: BrokerThread, peer: Peer, topic: str, store: Path
) -> None:
    tiered(tiering, peer, topic)
    first = next(path for path in objects(store, topic) if path.suffix == ".log")
    right = first.read_bytes()
    first.write_bytes(right[:3000] + b"!" + right[3001:])
    assert fetch(peer, topic, 0, max_wait_ms=5000).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    first.write_bytes(right[:-10])
    assert fetch(peer, topic, 0, max_wait_ms=5000).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    first.write_bytes(right)
    wait_until(lambda: fetch(peer, topic, 0, max_wait_ms=5000).error_code == 0, "the store works again")
    assert numbers(read_all(peer, topic)) == list(range(COUNT))


def test_the_layout_is_documented_names_and_nothing_else(
    tiering: BrokerThread, peer: Peer, topic: str, store: Path
) -> None:
    tiered(tiering, peer, topic)
    names = {str(path.relative_to(store)) for path in objects(store, topic)}
    assert all(name.startswith(f"{topic}-") and name.count("/") == 2 for name in names), json.dumps([*names])
    assert {name.split("/")[1] for name in names} == {"0"}


def test_readers_of_committed_records_skip_what_was_aborted_in_the_store(
    tiering: BrokerThread, peer: Peer, topic: str
) -> None:
    create_topic(peer, topic, **TIERED)
    address = f"127.0.0.1:{tiering.port}"
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": address, "transactional.id": topic, "linger.ms": 0}
    )
    producer.init_transactions(15)
    committed: list[int] = []
    for number in range(24):
        producer.begin_transaction()
        for part in range(2):
            producer.produce(topic, value(10 * number + part))
            producer.flush(15)
        if number % 3 == 1:
            producer.abort_transaction(15)
        else:
            producer.commit_transaction(15)
            committed += [10 * number, 10 * number + 1]
    wait_until(lambda: tiering.log(topic).log_start_offset > 30, "local segments are deleted")
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": address, "group.id": topic, "isolation.level": "read_committed"}
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, confluent_kafka.OFFSET_BEGINNING)])
    found: list[int] = []

    def has_all() -> bool:
        message = consumer.poll(0.5)
        if message is not None and message.error() is None:
            found.append(int((message.value() or b"").rstrip(b".")))
        return len(found) >= len(committed)

    wait_until(has_all, "all committed records are read")
    consumer.close()
    assert found == committed
