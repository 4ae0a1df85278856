"""The last stable offset of a partition: of its leader, of its followers, across truncations (EOS-2)."""

from uuid import UUID

import pytest
from tests.simulation.world.disk import SimulatedDisk
from tests.unit.log.batches import NOW_MS, batch
from tests.unit.log.logs import open_log
from tests.unit.log.transactional import sent

from ottla.errors import ErrorCode, KafkaError
from ottla.records.control import TransactionMarker
from ottla.replication.events import Assigned, FollowerFetched
from ottla.replication.partition import READ_COMMITTED, PartitionReplica
from ottla.server.partitions.followed_log import FollowedLog
from ottla.server.partitions.hosted_partition import HostedPartition

LEADER, FOLLOWER = 1, 2
COMMIT = TransactionMarker(producer_id=7, producer_epoch=0, coordinator_epoch=0, is_commit=True)


class Reader:
    """A fetch in a long poll that notes how much it hears of."""

    def __init__(self) -> None:
        self.heard: list[int] = []

    def on_append(self, size_bytes: int) -> None:
        self.heard.append(size_bytes)

    def wake(self) -> None:
        pass


def hosted(node_id: int, *, replicas: tuple[int, ...] = (LEADER, FOLLOWER)) -> HostedPartition:
    replica = PartitionReplica(node_id, 0, min_insync_replicas=1)
    partition = HostedPartition("t", UUID(int=1), 0, open_log(SimulatedDisk()), replica)
    partition.assign(Assigned(LEADER, 3, replicas, replicas, 1), 0)
    return partition


def append(partition: HostedPartition, *batches: bytearray) -> None:
    for outcome in partition.append([memoryview(data) for data in batches], NOW_MS):
        assert not isinstance(outcome, KafkaError)


def fetched(partition: HostedPartition, offset: int) -> None:
    """The follower holds all before `offset`."""
    partition.step(FollowerFetched(FOLLOWER, 0, offset), NOW_MS)


def copied(leader: HostedPartition) -> memoryview:
    found = leader.log.read(0, 1 << 20, upper_offset=leader.log.log_end_offset, at_least_one=True)
    assert found is not None
    return memoryview(bytearray(found.file.read(found.position, found.size)))


def test_a_marker_counts_when_the_followers_have_it() -> None:
    leader, reader = hosted(LEADER), Reader()
    append(leader, batch(2), sent(0), batch(1))
    leader.waiters.add_reader(reader)
    fetched(leader, 4)
    assert (leader.replica.high_watermark, leader.last_stable_offset) == (4, 2)
    assert leader.append_marker(COMMIT, NOW_MS) == 5
    assert leader.last_stable_offset == 2
    assert leader.read(2, 1000, READ_COMMITTED, True) is None
    fetched(leader, 5)
    assert leader.last_stable_offset == 5
    assert reader.heard[-1] > 1 << 40, "a reader that waits for much more than a marker must look again"


def test_a_follower_has_the_same_last_stable_offset() -> None:
    leader, follower = hosted(LEADER), hosted(FOLLOWER)
    append(leader, batch(2), sent(0))
    leader.append_marker(COMMIT, NOW_MS)
    append(leader, sent(1))
    followed = FollowedLog(follower)
    followed.append(copied(leader), NOW_MS)
    followed.leader_high_watermark(3, NOW_MS)
    assert follower.last_stable_offset == 2
    followed.leader_high_watermark(4, NOW_MS)
    assert follower.last_stable_offset == 4
    followed.leader_high_watermark(5, NOW_MS)
    assert follower.last_stable_offset == 4
    # The transaction's last batch is truncated; the ended one is replicated as before.
    followed.truncate(4, NOW_MS)
    assert (follower.replica.high_watermark, follower.last_stable_offset) == (4, 4)
    followed.truncate(3, NOW_MS)
    assert follower.last_stable_offset == 2


def test_the_only_replica_needs_no_other() -> None:
    leader = hosted(LEADER, replicas=(LEADER,))
    append(leader, sent(0))
    assert leader.last_stable_offset == 0
    leader.append_marker(COMMIT, NOW_MS)
    assert leader.last_stable_offset == leader.append_marker(COMMIT, NOW_MS) == 2


def test_a_partition_whose_transactions_are_ended_opens_without_holding_readers_back() -> None:
    log = open_log(SimulatedDisk())
    log.append([memoryview(sent(0))], leader_epoch=0, now_ms=NOW_MS)
    log.append_marker(COMMIT, leader_epoch=0, now_ms=NOW_MS)
    partition = HostedPartition("t", UUID(int=1), 0, log, PartitionReplica(LEADER, 2))
    assert partition.last_stable_offset == 2


def test_a_follower_writes_no_markers() -> None:
    with pytest.raises(KafkaError) as refused:
        hosted(FOLLOWER).append_marker(COMMIT, NOW_MS)
    assert refused.value.code == ErrorCode.NOT_LEADER_OR_FOLLOWER
