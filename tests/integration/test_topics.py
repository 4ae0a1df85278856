"""Topics from their creation to their end, and what a restart keeps of them (CTL-4, CTL-6, CTL-7, RET-1)."""

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.integration.in_process import BrokerThread, broker_thread
from tests.integration.peer import (
    Peer,
    alter_config,
    batch,
    create_topic,
    delete_topic,
    describe_topic,
    fetch,
    fetch_request,
    list_offset,
    now_ms,
    produce,
    produce_request,
    read_all,
    took_s,
    values_of,
)

from ottla.errors import ErrorCode
from ottla.localcluster.broker_process import running, start_broker
from ottla.localcluster.waiting import wait_until
from ottla.protocol.apis import ApiKey
from ottla.protocol.messages.configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.producer_ids import InitProducerIdRequest
from ottla.protocol.messages.topics import CreatePartitionsRequest, CreatePartitionsTopic

EARLIEST, LATEST = -2, -1


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("topics") / "data"


@pytest.fixture(scope="module")
def served(data: Path) -> Iterator[BrokerThread]:
    settings = {"log.retention.check.interval.ms": "50", "log.segment.delete.delay.ms": "100"}
    with broker_thread(data, settings) as broker:
        yield broker


def topic_settings(peer: Peer, topic: str) -> dict[str, tuple[str, int]]:
    """Value and source of each setting."""
    resource = DescribeConfigsResource(resource_type=2, resource_name=topic, configuration_keys=None)
    answer = peer.ask(ApiKey.DESCRIBE_CONFIGS, 4, DescribeConfigsRequest(resources=[resource])).results[0]
    return {setting.name: (setting.value, setting.config_source) for setting in answer.configs}


def new_producer_id(peer: Peer) -> int:
    answer = peer.ask(ApiKey.INIT_PRODUCER_ID, 4, InitProducerIdRequest(transactional_id=None))
    assert answer.error_code == 0
    producer_id: int = answer.producer_id
    return producer_id


class TestDeletion:
    def test_a_topic_made_anew_has_another_id_and_nothing_of_the_old_one(
        self, peer: Peer, topic: str
    ) -> None:
        old = create_topic(peer, topic)
        produce(peer, old, batch(b"old"))
        delete_topic(peer, topic)
        assert describe_topic(peer, topic).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        new = create_topic(peer, topic)
        assert new != old
        for version in (13, 16, 18):
            assert fetch(peer, old, version=version).error_code == ErrorCode.UNKNOWN_TOPIC_ID
        assert produce(peer, old, batch(b"late")).error_code == ErrorCode.UNKNOWN_TOPIC_ID
        assert read_all(peer, topic) == []
        assert produce(peer, new, batch(b"new")).base_offset == 0

    def test_a_producer_that_goes_on_by_name_finds_the_new_topic(self, peer: Peer, topic: str) -> None:
        create_topic(peer, topic)
        for number in range(3):
            assert produce(peer, topic, batch(b"old")).base_offset == number
        delete_topic(peer, topic)
        assert produce(peer, topic, batch(b"lost")).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        create_topic(peer, topic)
        assert produce(peer, topic, batch(b"new")).base_offset == 0
        assert read_all(peer, topic) == [b"new"]

    def test_a_fetch_under_way_gets_every_byte_of_a_topic_deleted_meanwhile(
        self, served: BrokerThread, peer: Peer, topic: str, data: Path
    ) -> None:
        create_topic(peer, topic, segment_bytes=2_000_000)
        for number in range(12):
            produce(peer, topic, batch(b"%02d" % number + bytes(900_000)))
        with Peer(served.port, receive_buffer_bytes=64 * 1024) as reader:
            reader.send(ApiKey.FETCH, 12, fetch_request((topic, 0, 0)))
            first = reader.socket.recv(100)
            delete_topic(peer, topic)
            assert not (data / f"{topic}-0").exists()
            size = int.from_bytes(first[:4], "big")
            received = len(first) - 4
            while received < size:
                part = reader.socket.recv(1 << 20)
                assert part
                received += len(part)
        assert received == size
        assert size > 1_700_000

    def test_its_directory_goes_and_no_descriptor_stays(
        self, served: BrokerThread, peer: Peer, topic: str, data: Path
    ) -> None:
        def open_files() -> list[str]:
            links = [f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd")]
            return [found for link in links if os.path.islink(link) and topic in (found := os.readlink(link))]

        create_topic(peer, topic, partitions=3)
        produce(peer, topic, batch(b"v"))
        fetch(peer, topic)
        delete_topic(peer, topic)
        wait_until(lambda: not list(data.glob(f"{topic}-*")), "its directories are gone")
        served.call(lambda: None)
        wait_until(lambda: not open_files(), "its files are closed")


class TestGrowth:
    def test_added_partitions_can_be_used_at_once(self, peer: Peer, topic: str) -> None:
        create_topic(peer, topic)
        assert produce(peer, topic, batch(), partition=2).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        wanted = CreatePartitionsTopic(name=topic, count=3, assignments=None)
        answer = peer.ask(ApiKey.CREATE_PARTITIONS, 3, CreatePartitionsRequest(topics=[wanted]))
        assert answer.results[0].error_code == 0
        assert produce(peer, topic, batch(b"v"), partition=2).base_offset == 0
        assert [found.partition_index for found in describe_topic(peer, topic).partitions] == [0, 1, 2]

    @pytest.mark.alone
    def test_a_topic_of_many_partitions_comes_and_goes_without_keeping_others_waiting(
        self, served: BrokerThread, peer: Peer, topic: str
    ) -> None:
        partitions = 150

        def create_and_delete() -> None:
            with Peer(served.port) as creating:
                create_topic(creating, topic, partitions=partitions)
                delete_topic(creating, topic)

        def longest_wait() -> float:
            """The longest wait of another client, as a share of the whole time."""
            work = threading.Thread(target=create_and_delete)
            started = time.perf_counter()
            work.start()
            worst_s = 0.0
            while work.is_alive():
                worst_s = max(worst_s, took_s(lambda: produce(other, f"{topic}-other", batch(b"v"))))
                codes.add(produce(other, topic, batch(b"v"), partition=partitions - 1).error_code)
            work.join()
            return worst_s / (time.perf_counter() - started)

        codes: set[int] = set()
        with Peer(served.port) as other:
            create_topic(other, f"{topic}-other")
            # A hold of the broker's own is in every round, a stall of the machine in one.
            assert min(longest_wait() for _ in range(3)) < 1 / 3
        # Whoever comes too early or too late is told to look again.
        assert codes <= {0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER}

    def test_a_topic_that_is_asked_for_is_created_in_the_background(self, peer: Peer, topic: str) -> None:
        request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=True)
        first = peer.ask(ApiKey.METADATA, 12, request).topics[0]
        assert first.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        wait_until(lambda: describe_topic(peer, topic).error_code == 0, "it is there")
        assert produce(peer, topic, batch(b"v")).base_offset == 0


class TestSettings:
    def test_max_message_bytes_changed_at_run_time_holds_for_the_next_batch(
        self, peer: Peer, topic: str
    ) -> None:
        create_topic(peer, topic)
        assert produce(peer, topic, batch(bytes(1000))).error_code == 0
        alter_config(peer, topic, "max.message.bytes", "500")
        assert produce(peer, topic, batch(bytes(1000))).error_code == ErrorCode.MESSAGE_TOO_LARGE
        assert topic_settings(peer, topic)["max.message.bytes"] == ("500", 1)
        alter_config(peer, topic, "max.message.bytes", "3000000")
        assert produce(peer, topic, batch(bytes(2_000_000))).error_code == 0

    def test_segment_bytes_changed_at_run_time_rolls_the_next_segment(
        self, peer: Peer, topic: str, data: Path
    ) -> None:
        create_topic(peer, topic)
        for _ in range(3):
            produce(peer, topic, batch(bytes(1000)))

        def segments() -> list[str]:
            return sorted(path.name for path in (data / f"{topic}-0").glob("*.log"))

        assert len(segments()) == 1
        alter_config(peer, topic, "segment.bytes", "2000")
        for _ in range(3):
            produce(peer, topic, batch(bytes(1000)))
        assert segments() == [f"{offset:020}.log" for offset in (0, 3, 4, 5)]
        assert len(read_all(peer, topic)) == 6

    def test_retention_ms_deletes_old_segments_and_moves_the_start(
        self, peer: Peer, topic: str, data: Path
    ) -> None:
        create_topic(peer, topic, segment_bytes=2000, retention_ms=-1)
        old = now_ms() - 3_600_000
        for _ in range(4):
            produce(peer, topic, batch(bytes(1500), timestamp=old))
        produce(peer, topic, batch(b"young" * 300))
        assert list_offset(peer, topic, EARLIEST).offset == 0
        alter_config(peer, topic, "retention.ms", "60000")
        wait_until(lambda: list_offset(peer, topic, EARLIEST).offset == 4, "the old segments are gone")
        assert fetch(peer, topic, 0).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert values_of(fetch(peer, topic, 4)) == [b"young" * 300]
        wait_until(
            lambda: [path.name for path in (data / f"{topic}-0").glob("*.log*")] == [f"{4:020}.log"],
            "their files are gone as well",
        )

    def test_retention_bytes_keeps_at_least_so_much(self, peer: Peer, topic: str) -> None:
        create_topic(peer, topic, segment_bytes=2000, retention_bytes=5000)
        for _ in range(10):
            produce(peer, topic, batch(bytes(1500)))
        wait_until(lambda: list_offset(peer, topic, EARLIEST).offset > 0, "old segments are gone")
        kept = 10 - list_offset(peer, topic, EARLIEST).offset
        assert kept * 1500 >= 4500

    def test_an_expired_active_segment_is_rolled_and_deleted(self, peer: Peer, topic: str) -> None:
        create_topic(peer, topic, retention_ms=1000)
        produce(peer, topic, batch(b"old", timestamp=now_ms() - 60_000))
        wait_until(lambda: list_offset(peer, topic, EARLIEST).offset == 1, "the record is gone")
        assert produce(peer, topic, batch(b"young")).base_offset == 1, "offsets are never used again"


def facts(peer: Peer, topics: list[str]) -> dict[str, Any]:
    return {
        name: (
            (found := describe_topic(peer, name)).topic_id,
            len(found.partitions),
            topic_settings(peer, name)["retention.ms"],
        )
        for name in topics
    }


class TestRestart:
    def test_a_clean_restart_keeps_topics_ids_settings_epochs_and_producers(self, tmp_path: Path) -> None:
        data = tmp_path / "data"
        with broker_thread(data) as broker, Peer(broker.port) as peer:
            create_topic(peer, "a", partitions=3, retention_ms=12345)
            create_topic(peer, "b")
            create_topic(peer, "gone")
            delete_topic(peer, "gone")
            alter_config(peer, "b", "retention.ms", "99999")
            producer = new_producer_id(peer)
            records = batch(b"v", producer_id=producer, producer_epoch=0, base_sequence=0)
            produce(peer, "a", bytes(records))
            before = facts(peer, ["a", "b"])
        with broker_thread(data) as broker, Peer(broker.port) as peer:
            assert facts(peer, ["a", "b"]) == before
            assert describe_topic(peer, "gone").error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert describe_topic(peer, "a").partitions[0].leader_epoch == 0
            again = produce(peer, "a", bytes(records))
            assert (again.error_code, again.base_offset) == (0, 0), "a retry across the restart is recognised"
            assert new_producer_id(peer) > producer

    def test_a_crash_keeps_all_that_was_answered_and_raises_the_leader_epoch(self, tmp_path: Path) -> None:
        data = tmp_path / "data"
        producers: list[int] = []
        before: dict[str, Any] = {}
        for crash in range(3):
            broker = start_broker(data)
            with running(broker), Peer(broker.port) as peer:
                if crash:
                    assert facts(peer, list(before)) == before
                    assert describe_topic(peer, "t0").partitions[0].leader_epoch == crash
                    assert read_all(peer, "t0") == [b"%d" % number for number in range(crash)]
                    fenced = fetch(peer, "t0", current_leader_epoch=crash - 1)
                    assert fenced.error_code == ErrorCode.FENCED_LEADER_EPOCH
                create_topic(peer, f"t{crash}", retention_ms=1000 * (crash + 1_000_000))
                before = facts(peer, [f"t{number}" for number in range(crash + 1)])
                produce(peer, "t0", batch(b"%d" % crash))
                producers += [new_producer_id(peer) for _ in range(5)]
                broker.kill()
        assert len(set(producers)) == len(producers), "no producer id is given twice"

    def test_an_idempotent_retry_after_a_crash_is_recognised(self, tmp_path: Path) -> None:
        data = tmp_path / "data"
        records = [
            bytes(batch(b"%d" % number, producer_id=0, producer_epoch=0, base_sequence=number))
            for number in range(5)
        ]
        broker = start_broker(data)
        with running(broker), Peer(broker.port) as peer:
            create_topic(peer, "t")
            for sent in records:
                produce(peer, "t", sent)
            broker.kill()
        with running(start_broker(data)) as again, Peer(again.port) as peer:
            answers = [produce(peer, "t", sent) for sent in records]
            assert [(found.error_code, found.base_offset) for found in answers] == [(0, n) for n in range(5)]
            assert list_offset(peer, "t", LATEST).offset == 5

    def test_a_pipeline_of_commands_is_carried_out_in_its_order(self, peer: Peer, topic: str) -> None:
        ids = []
        for _ in range(10):
            ids.append(create_topic(peer, topic))
            produce_frame = peer.frame(ApiKey.PRODUCE, 9, produce_request(topic, batch(b"v")))
            peer.socket.sendall(produce_frame)
            assert peer.receive(ApiKey.PRODUCE, 9)[1].responses[0].partition_responses[0].base_offset == 0
            delete_topic(peer, topic)
        assert len(set(ids)) == 10
