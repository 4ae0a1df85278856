"""A disk that is full or fails: writes are refused with a clear error, reads go on, nothing acknowledged is
lost (STO-11).
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.in_process import BrokerThread, broker_thread
from tests.integration.peer import (
    Peer,
    batch,
    create_topic,
    delete_topic,
    describe_topic,
    fetch,
    produce,
    produce_request,
    read_all,
    took_s,
    values_of,
)
from tests.integration.troubled_disk import TroubledDisk

from ottla.errors import ErrorCode
from ottla.localcluster.waiting import wait_until
from ottla.protocol.apis import ApiKey
from ottla.protocol.messages.topics import CreatableTopic, CreateTopicsRequest

CLEAN_MARK = ".kafka_cleanshutdown"


@pytest.fixture
def disk() -> Iterator[TroubledDisk]:
    troubled = TroubledDisk()
    yield troubled
    troubled.may_sync.set()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def served(disk: TroubledDisk, data: Path) -> Iterator[BrokerThread]:
    with broker_thread(data, disk=disk) as broker:
        yield broker


def in_topic(topic: str) -> str:
    return f"/{topic}-"


class TestFullDisk:
    def test_writes_are_refused_reads_go_on_and_writes_go_on_when_there_is_room(
        self, served: BrokerThread, peer: Peer, topic: str, disk: TroubledDisk, data: Path
    ) -> None:
        create_topic(peer, topic)
        kept: list[bytes | None] = [b"%d" % number for number in range(20)]
        for value in kept[:10]:
            assert produce(peer, topic, batch(value or b"")).error_code == 0
        disk.is_full = lambda path: in_topic(topic) in path
        for _ in range(3):
            refused = produce(peer, topic, batch(b"lost"))
            assert (refused.error_code, refused.base_offset) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
            assert "No space left on device" in (refused.error_message or "")
            assert read_all(peer, topic) == kept[:10]
        disk.is_full = lambda path: False
        offsets = [produce(peer, topic, batch(value or b"")).base_offset for value in kept[10:]]
        assert offsets == list(range(10, 20))
        assert read_all(peer, topic) == kept
        served.stop()
        with broker_thread(data) as again, Peer(again.port) as reading:
            assert read_all(reading, topic) == kept

    def test_a_broker_that_cannot_write_does_not_say_that_a_later_offset_does_not_exist(
        self, peer: Peer, topic: str, disk: TroubledDisk
    ) -> None:
        """Another broker may lead by now, and have it: a consumer would begin anew by its reset policy."""
        create_topic(peer, topic)
        produce(peer, topic, batch(b"a"))
        disk.is_full = lambda path: in_topic(topic) in path
        produce(peer, topic, batch(b"lost"))
        assert fetch(peer, topic, 5).error_code == ErrorCode.OFFSET_NOT_AVAILABLE
        assert values_of(fetch(peer, topic, 0)) == [b"a"]
        disk.is_full = lambda path: False
        assert produce(peer, topic, batch(b"b")).base_offset == 1
        assert fetch(peer, topic, 5).error_code == ErrorCode.OFFSET_OUT_OF_RANGE

    def test_other_partitions_and_the_rest_of_a_pipeline_are_not_harmed(
        self, peer: Peer, topic: str, disk: TroubledDisk
    ) -> None:
        create_topic(peer, topic, partitions=2)
        disk.is_full = lambda path: f"/{topic}-0/" in path
        frames = b"".join(
            peer.frame(ApiKey.PRODUCE, 9, produce_request(topic, batch(b"v"), partition=number % 2))
            for number in range(10)
        )
        peer.socket.sendall(frames)
        answers = [peer.receive(ApiKey.PRODUCE, 9)[1].responses[0].partition_responses[0] for _ in range(10)]
        assert [(answer.index, answer.error_code) for answer in answers] == [
            (0, ErrorCode.KAFKA_STORAGE_ERROR),
            (1, ErrorCode.NONE),
        ] * 5

    def test_an_idempotent_producer_that_tries_again_leaves_no_gap_and_no_double(
        self, peer: Peer, topic: str, disk: TroubledDisk
    ) -> None:
        create_topic(peer, topic)

        def send(sequence: int) -> int:
            records = batch(b"%d" % sequence, producer_id=4000, producer_epoch=0, base_sequence=sequence)
            code: int = produce(peer, topic, records).error_code
            return code

        assert send(0) == 0
        disk.is_full = lambda path: in_topic(topic) in path
        assert [send(1), send(1)] == [ErrorCode.KAFKA_STORAGE_ERROR] * 2
        disk.is_full = lambda path: False
        assert [send(1), send(1), send(2)] == [0, 0, 0]
        assert read_all(peer, topic) == [b"0", b"1", b"2"]

    def test_a_segment_that_cannot_be_begun_is_begun_later(
        self, peer: Peer, topic: str, disk: TroubledDisk
    ) -> None:
        create_topic(peer, topic, segment_bytes=4096)
        produce(peer, topic, batch(bytes(3000)))
        produce(peer, topic, batch(b"small"))
        disk.is_full = lambda path: in_topic(topic) in path
        assert produce(peer, topic, batch(bytes(3000))).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert values_of(fetch(peer, topic)) == [bytes(3000), b"small"]
        disk.is_full = lambda path: False
        assert produce(peer, topic, batch(b"next")).base_offset == 2
        assert produce(peer, topic, batch(bytes(3000))).base_offset == 3
        assert read_all(peer, topic) == [bytes(3000), b"small", b"next", bytes(3000)]

    def test_metadata_that_cannot_be_written_changes_nothing_and_can_be_tried_again(
        self, served: BrokerThread, peer: Peer, topic: str, disk: TroubledDisk, data: Path
    ) -> None:
        disk.is_full = lambda path: "/__cluster_metadata-0/" in path
        wanted = CreatableTopic(name=topic, num_partitions=1, replication_factor=1)
        answer = peer.ask(ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest(topics=[wanted]))
        assert answer.topics[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert describe_topic(peer, topic).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        disk.is_full = lambda path: False
        topic_id = create_topic(peer, topic)
        assert produce(peer, topic, batch(b"v")).error_code == 0
        served.stop()
        with broker_thread(data) as again, Peer(again.port) as reading:
            assert describe_topic(reading, topic).topic_id == topic_id
            assert read_all(reading, topic) == [b"v"]

    def test_a_topic_whose_directory_could_not_be_made_is_there_once_there_is_room(
        self, peer: Peer, topic: str, disk: TroubledDisk
    ) -> None:
        disk.is_full = lambda path: in_topic(topic) in path
        wanted = CreatableTopic(name=topic, num_partitions=1, replication_factor=1)
        peer.ask(ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest(topics=[wanted]))
        assert produce(peer, topic, batch(b"v")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        disk.is_full = lambda path: False
        wait_until(lambda: produce(peer, topic, batch(b"v")).error_code == 0, "the topic can be written")
        assert read_all(peer, topic) == [b"v"]


class TestFailingSync:
    def test_a_partition_whose_fsync_failed_refuses_writes_and_the_others_go_on(
        self, peer: Peer, topic: str, disk: TroubledDisk, caplog: pytest.LogCaptureFixture
    ) -> None:
        other = f"other-{topic}"
        for name in (topic, other):
            create_topic(peer, name, flush_messages=1)
            assert produce(peer, name, batch(b"first")).error_code == 0
        disk.fails_sync = lambda path: f"/{topic}-0/" in path
        for _ in range(3):
            refused = produce(peer, topic, batch(b"second"))
            assert refused.error_code == ErrorCode.KAFKA_STORAGE_ERROR
            assert produce(peer, other, batch(b"second")).error_code == 0
        assert values_of(fetch(peer, topic))[0] == b"first"
        assert f"{topic}-0 refuses writes" in caplog.text

    def test_a_failed_fsync_is_never_tried_again_and_does_not_keep_the_broker_busy(
        self, served: BrokerThread, peer: Peer, topic: str, disk: TroubledDisk
    ) -> None:
        create_topic(peer, topic, flush_messages=1)
        disk.fails_sync = lambda path: f"/{topic}-0/" in path and path.endswith(".log")
        assert produce(peer, topic, batch(b"v")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        # The kernel would now say yes, although it may have dropped what it could not write.
        disk.fails_sync = lambda path: False
        tried = disk.syncs_of(topic)
        for _ in range(3):
            assert produce(peer, topic, batch(b"v")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert disk.syncs_of(topic) == tried
        assert took_s(served.stop) < 2

    def test_requests_of_one_connection_to_healthy_partitions_are_answered_well(
        self, peer: Peer, topic: str, disk: TroubledDisk
    ) -> None:
        create_topic(peer, topic, partitions=2, flush_messages=1)
        disk.fails_sync = lambda path: f"/{topic}-0/" in path
        frames = b"".join(
            peer.frame(ApiKey.PRODUCE, 9, produce_request(topic, batch(b"v"), partition=number % 2))
            for number in range(4)
        )
        peer.socket.sendall(frames)
        answers = [peer.receive(ApiKey.PRODUCE, 9)[1].responses[0].partition_responses[0] for _ in range(4)]
        assert [answer.error_code for answer in answers] == [ErrorCode.KAFKA_STORAGE_ERROR, 0] * 2

    def test_after_a_restart_the_log_is_scanned_and_takes_writes_again(
        self, served: BrokerThread, peer: Peer, topic: str, disk: TroubledDisk, data: Path
    ) -> None:
        create_topic(peer, topic, flush_messages=1)
        produce(peer, topic, batch(b"first"))
        disk.fails_sync = lambda path: f"/{topic}-0/" in path
        produce(peer, topic, batch(b"unknown"))
        served.stop()
        assert not (data / CLEAN_MARK).exists()
        with broker_thread(data) as again, Peer(again.port) as reading:
            assert read_all(reading, topic)[0] == b"first"
            assert produce(reading, topic, batch(b"later")).error_code == 0

    def test_metadata_whose_fsync_failed_is_refused_from_then_on_in_words(
        self, peer: Peer, topic: str, disk: TroubledDisk
    ) -> None:
        create_topic(peer, topic)
        disk.fails_sync = lambda path: "/__cluster_metadata-0/" in path
        for _ in range(2):
            wanted = CreatableTopic(name=f"{topic}-new", num_partitions=1, replication_factor=1)
            answer = peer.ask(ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest(topics=[wanted]))
            assert answer.topics[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert produce(peer, topic, batch(b"v")).error_code == 0, "records are no metadata"

    def test_a_topic_deleted_in_the_middle_of_an_fsync_is_no_trouble(
        self,
        served: BrokerThread,
        peer: Peer,
        topic: str,
        disk: TroubledDisk,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        create_topic(peer, topic, flush_messages=1)
        with Peer(served.port) as waiting:
            disk.holds_sync = lambda path: f"/{topic}-0/" in path and path.endswith(".log")
            disk.may_sync.clear()
            waiting.send(ApiKey.PRODUCE, 9, produce_request(topic, batch(b"v")))
            wait_until(lambda: disk.syncs_of(topic) > 0, "the fsync has begun")
            delete_topic(peer, topic)
            _, answer = waiting.receive(ApiKey.PRODUCE, 9)
            disk.may_sync.set()
        refused = answer.responses[0].partition_responses[0]
        assert refused.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        create_topic(peer, topic, flush_messages=1)
        assert produce(peer, topic, batch(b"v")).base_offset == 0
        assert "refuses writes" not in caplog.text
