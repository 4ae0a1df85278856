"""Offsets by time and by epoch, and records deleted on request (STO-8, STO-7)."""

import pytest
from tests.integration.in_process import BrokerThread
from tests.integration.peer import (
    Peer,
    batch,
    create_topic,
    fetch,
    list_offset,
    now_ms,
    produce,
    read_all,
    values_of,
)

from ottla.errors import ErrorCode
from ottla.protocol.apis import APIS, ApiKey
from ottla.protocol.messages.leader_epochs import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from ottla.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from ottla.protocol.messages.topics import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from ottla.replication.events import Assigned

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = range(-1, -7, -1)
VERSIONS = range(APIS[ApiKey.LIST_OFFSETS].min_version, APIS[ApiKey.LIST_OFFSETS].max_version + 1)
# From which version on a special timestamp is a question: the KIPs that brought them (734, 405, 1005, 1023).
FIRST_VERSIONS = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}


def found(peer: Peer, topic: str, timestamp: int, version: int = 11) -> tuple[int, int, int]:
    answer = list_offset(peer, topic, timestamp, version=version)
    return answer.error_code, answer.timestamp, answer.offset


def delete_records(peer: Peer, topic: str, offset: int, partition: int = 0) -> DeleteRecordsPartitionResult:
    wanted = DeleteRecordsTopic(
        name=topic, partitions=[DeleteRecordsPartition(partition_index=partition, offset=offset)]
    )
    answer = peer.ask(ApiKey.DELETE_RECORDS, 2, DeleteRecordsRequest(topics=[wanted]))
    result: DeleteRecordsPartitionResult = answer.topics[0].partitions[0]
    return result


def epoch_end(
    peer: Peer, topic: str, epoch: int, *, current: int = -1, version: int = 4, partition: int = 0
) -> tuple[int, int, int]:
    wanted = OffsetForLeaderTopic(
        topic=topic,
        partitions=[
            OffsetForLeaderPartition(partition=partition, current_leader_epoch=current, leader_epoch=epoch)
        ],
    )
    answer = peer.ask(
        ApiKey.OFFSET_FOR_LEADER_EPOCH, version, OffsetForLeaderEpochRequest(replica_id=-1, topics=[wanted])
    )
    end: EpochEndOffset = answer.topics[0].partitions[0]
    return end.error_code, end.leader_epoch, end.end_offset


class TestListOffsets:
    def test_the_special_times(self, peer: Peer, topic: str) -> None:
        create_topic(peer, topic)
        base = now_ms() - 10_000
        for step in (0, 3, 1, 2):
            produce(peer, topic, batch(b"a", b"b", timestamp=base + step))
        delete_records(peer, topic, 1)
        assert found(peer, topic, LATEST) == (0, -1, 8)
        assert found(peer, topic, EARLIEST) == (0, -1, 1)
        assert found(peer, topic, MAX_TIMESTAMP) == (0, base + 3, 2)
        assert found(peer, topic, EARLIEST_LOCAL) == (0, -1, 1)
        assert found(peer, topic, LATEST_TIERED) == (0, -1, -1)
        assert found(peer, topic, EARLIEST_PENDING_UPLOAD) == (0, -1, -1)
        assert found(peer, topic, -7)[0] == ErrorCode.UNSUPPORTED_VERSION

    def test_the_special_times_of_an_empty_log(self, peer: Peer, topic: str) -> None:
        create_topic(peer, topic)
        assert found(peer, topic, LATEST) == (0, -1, 0)
        assert found(peer, topic, EARLIEST) == (0, -1, 0)
        assert found(peer, topic, MAX_TIMESTAMP) == (0, -1, -1)
        assert found(peer, topic, 0) == (0, -1, -1)

    def test_the_first_record_at_or_after_a_time(self, peer: Peer, topic: str) -> None:
        create_topic(peer, topic, segment_bytes=500)
        base = now_ms() - 100_000
        for step in range(20):
            produce(peer, topic, batch(b"a", b"b", b"c" * 50, timestamp=base + 100 * step))
        assert found(peer, topic, 0) == (0, base, 0)
        assert found(peer, topic, base) == (0, base, 0)
        assert found(peer, topic, base + 1) == (0, base + 100, 3)
        assert found(peer, topic, base + 1900) == (0, base + 1900, 57)
        assert found(peer, topic, base + 1901) == (0, -1, -1), "nothing so late, and no error"

    @pytest.mark.parametrize("version", VERSIONS)
    def test_a_special_time_is_known_from_its_version_on(self, peer: Peer, topic: str, version: int) -> None:
        create_topic(peer, topic)
        for timestamp, first_version in FIRST_VERSIONS.items():
            code = found(peer, topic, timestamp, version)[0]
            expected = ErrorCode.NONE if version >= first_version else ErrorCode.UNSUPPORTED_VERSION
            assert (timestamp, code) == (timestamp, expected)

    def test_the_leader_epoch_is_told_and_asked_for(self, peer: Peer, topic: str) -> None:
        create_topic(peer, topic)
        assert list_offset(peer, topic, LATEST).leader_epoch == 0
        produce(peer, topic, batch(b"v"))
        assert list_offset(peer, topic, EARLIEST, epoch=0).leader_epoch == 0
        unknown = list_offset(peer, topic, LATEST, epoch=3)
        assert (unknown.error_code, unknown.offset) == (ErrorCode.UNKNOWN_LEADER_EPOCH, -1)

    def test_unknown_and_repeated_partitions(self, peer: Peer, topic: str) -> None:
        create_topic(peer, topic)
        assert found(peer, "nowhere", LATEST) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)
        twice = ListOffsetsTopic(
            name=topic,
            partitions=[
                ListOffsetsPartition(partition_index=0, timestamp=time) for time in (LATEST, EARLIEST)
            ],
        )
        answer = peer.ask(ApiKey.LIST_OFFSETS, 7, ListOffsetsRequest(replica_id=-1, topics=[twice]))
        codes = [one.error_code for one in answer.topics[0].partitions]
        assert set(codes) == {ErrorCode.INVALID_REQUEST}


class TestDeleteRecords:
    def test_records_before_the_offset_are_gone_for_every_reader(self, peer: Peer, topic: str) -> None:
        create_topic(peer, topic)
        for number in range(5):
            produce(peer, topic, batch(b"%d" % number))
        deleted = delete_records(peer, topic, 3)
        assert (deleted.error_code, deleted.low_watermark) == (0, 3)
        assert fetch(peer, topic, 2).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert read_all(peer, topic, offset=3) == [b"3", b"4"]

    def test_a_batch_that_is_deleted_in_part_is_still_sent_whole(self, peer: Peer, topic: str) -> None:
        create_topic(peer, topic)
        produce(peer, topic, batch(b"a", b"b", b"c"))
        delete_records(peer, topic, 1)
        assert values_of(fetch(peer, topic, 1)) == [b"a", b"b", b"c"], "clients skip what is before"

    def test_minus_one_means_up_to_the_high_watermark(self, peer: Peer, topic: str) -> None:
        create_topic(peer, topic)
        produce(peer, topic, batch(b"a", b"b"))
        assert delete_records(peer, topic, -1).low_watermark == 2
        assert found(peer, topic, EARLIEST) == found(peer, topic, LATEST) == (0, -1, 2)
        assert produce(peer, topic, batch(b"c")).base_offset == 2

    def test_what_is_gone_already_is_no_error(self, peer: Peer, topic: str) -> None:
        create_topic(peer, topic)
        produce(peer, topic, batch(b"a", b"b"))
        delete_records(peer, topic, 2)
        for offset in (0, 1, 2):
            again = delete_records(peer, topic, offset)
            assert (again.error_code, again.low_watermark) == (0, 2)

    @pytest.mark.parametrize("offset", [3, 1 << 60, -2])
    def test_an_offset_that_does_not_exist_is_out_of_range(self, peer: Peer, topic: str, offset: int) -> None:
        create_topic(peer, topic)
        produce(peer, topic, batch(b"a", b"b"))
        refused = delete_records(peer, topic, offset)
        assert (refused.error_code, refused.low_watermark) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)

    def test_a_compacted_topic_keeps_its_records(self, peer: Peer, topic: str) -> None:
        create_topic(peer, topic, cleanup_policy="compact")
        produce(peer, topic, batch(b"a"))
        assert delete_records(peer, topic, -1).error_code == ErrorCode.POLICY_VIOLATION

    def test_an_internal_topic_keeps_its_records(self, peer: Peer) -> None:
        create_topic(peer, "__share_group_state")
        refused = delete_records(peer, "__share_group_state", -1)
        assert refused.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION

    def test_an_unknown_partition_is_said_to_be_unknown(self, peer: Peer) -> None:
        assert delete_records(peer, "nowhere", 0).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class TestOffsetForLeaderEpoch:
    def test_where_epochs_end(self, served: BrokerThread, peer: Peer, topic: str) -> None:
        create_topic(peer, topic)
        produce(peer, topic, batch(b"a", b"b"))
        log = served.log(topic)
        served.call(lambda: log.append([memoryview(batch(b"c"))], leader_epoch=4, now_ms=now_ms()))
        assert epoch_end(peer, topic, 0) == (0, 0, 2)
        assert epoch_end(peer, topic, 3) == (0, 0, 2), "the largest epoch not above the asked one"
        assert epoch_end(peer, topic, 4) == (0, 4, 3)
        assert epoch_end(peer, topic, 5) == (0, -1, -1), "unknown"
        for version in (2, 3):
            assert epoch_end(peer, topic, 0, version=version) == (0, 0, 2)

    def test_the_current_epoch_is_checked(self, peer: Peer, topic: str) -> None:
        create_topic(peer, topic)
        assert epoch_end(peer, topic, 0, current=0)[0] == 0
        assert epoch_end(peer, topic, 0, current=1)[0] == ErrorCode.UNKNOWN_LEADER_EPOCH
        assert epoch_end(peer, "nowhere", 0)[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def test_the_epoch_of_an_empty_log_ends_where_it_began(self, peer: Peer, topic: str) -> None:
        create_topic(peer, topic)
        assert epoch_end(peer, topic, 0) == (0, 0, 0)

    def test_an_epoch_that_no_record_has_yet_is_known(
        self, served: BrokerThread, peer: Peer, topic: str
    ) -> None:
        """A broker that crashed leads again under a new epoch, and may be asked before anything is
        produced.
        """
        create_topic(peer, topic)
        produce(peer, topic, batch(b"a", b"b"))
        partition = served.partition(topic)
        later = Assigned(leader=1, leader_epoch=7, isr=(1,), replicas=(1,))
        served.call(lambda: partition.assign(later, now_ms()))
        assert epoch_end(peer, topic, 7) == (0, 7, 2)
        assert epoch_end(peer, topic, 5) == (0, 0, 2)
        assert epoch_end(peer, topic, 0) == (0, 0, 2)
        assert epoch_end(peer, topic, 8) == (0, -1, -1)
        assert fetch(peer, topic, 2, last_fetched_epoch=7).error_code == 0
