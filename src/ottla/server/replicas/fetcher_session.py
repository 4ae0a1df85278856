"""The questions of a follower to one leader: an incremental fetch session (KIP-227) from the asking side.

The first fetch names every partition, each later fetch those whose question changed: the log grew or was
truncated, the leader epoch rose, the log starts later. A partition that backs off is forgotten at the leader
until it may be asked for again; otherwise the leader would read it for nothing.
"""

from collections.abc import Iterator
from typing import Final
from uuid import UUID

from ottla.config import BrokerConfig
from ottla.errors import ErrorCode
from ottla.model import EpochEnd
from ottla.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)
from ottla.replication.fetch_session import INITIAL_EPOCH, NO_SESSION_ID, next_epoch
from ottla.replication.follower import FetchAnswered, FetchFrom, Follower
from ottla.server.partitions.followed_log import FollowedLog
from ottla.server.partitions.hosted_partition import HostedPartition

_SHORTEST_WAIT_MS: Final = 1
# More at once would save few round trips, and would not stay in the processor's cache between the socket and
# the file.
_PARTITION_BYTES: Final = 4 << 20

PartitionKey = tuple[UUID, int]


class Followed:
    """One partition that is fetched: its copy of the leader's log, and the machine that knows what to ask
    for.
    """

    __slots__ = ("_has_failed_append", "asked", "copy", "key", "machine", "partition")

    def __init__(self, partition: HostedPartition) -> None:
        self.partition = partition
        self.copy = FollowedLog(partition)
        self.key: PartitionKey = (partition.topic_id, partition.index)
        self.machine = Follower(partition.replica.node_id)
        # The question that the leader's session holds; None if it holds none.
        self.asked: FetchFrom | None = None
        self._has_failed_append = False

    def append_failed(self) -> bool:
        """The log refused records. Whether it took the ones before, so that the failure is worth a line."""
        is_first, self._has_failed_append = not self._has_failed_append, True
        return is_first

    def appended(self) -> None:
        """The log took records."""
        self._has_failed_append = False


class FetcherSession:
    """The partitions of one lane."""

    def __init__(self, config: BrokerConfig) -> None:
        self._config = config
        self._session_id = NO_SESSION_ID
        self._epoch = INITIAL_EPOCH
        self.followed: dict[PartitionKey, Followed] = {}
        self._moved: dict[Followed, None] = {}
        self._suspended: dict[Followed, None] = {}
        self._forgotten: dict[PartitionKey, None] = {}

    def follow(self, partition: HostedPartition) -> bool:
        """Fetch a partition from whom it follows now. Whether that is news."""
        replica = partition.replica
        key = (partition.topic_id, partition.index)
        followed = self.followed.get(key)
        if followed is None or followed.partition is not partition:
            followed = self.followed[key] = Followed(partition)
        elif followed.machine.leader_epoch == replica.leader_epoch:
            return False
        followed.machine.follow(replica.leader, replica.leader_epoch, is_recovering=replica.is_recovering)
        self._suspended.pop(followed, None)
        self._moved[followed] = None
        return True

    def unfollow(self, partition: HostedPartition) -> None:
        """Do not fetch it any more."""
        followed = self.followed.pop((partition.topic_id, partition.index), None)
        if followed is not None:
            self._leave_out(followed)
            self._suspended.pop(followed, None)

    def is_followed(self, followed: Followed) -> bool:
        """Whether it is still fetched here: it may have another leader, or another lane."""
        return self.followed.get(followed.key) is followed

    def moved(self, followed: Followed) -> None:
        """The next question about it may be another one."""
        if self.is_followed(followed):
            self._moved[followed] = None

    def suspend(self, followed: Followed) -> None:
        """Leave it out until its machine wants to ask again."""
        if self.is_followed(followed):
            self._leave_out(followed)
            self._suspended[followed] = None

    def reset(self) -> None:
        """Start another session, whatever the leader knows of this one."""
        self._epoch = INITIAL_EPOCH
        self._forgotten.clear()
        for followed in self.followed.values():
            followed.asked = None

    def changed(self) -> list[Followed]:
        """The partitions that the next request names."""
        return list(self.followed.values()) if self._epoch == INITIAL_EPOCH else list(self._moved)

    def request(self, broker_epoch: int, max_bytes: int, now_ms: int) -> FetchRequest | None:
        """The next fetch; None if there is nothing to ask for now."""
        self._resume(now_ms)
        topics: dict[UUID, FetchTopic] = {}
        for followed in self.changed():
            asked = followed.machine.next_fetch(followed.partition.log, now_ms)
            if asked is None:
                self.suspend(followed)
            elif asked != followed.asked:
                followed.asked = asked
                topic = topics.setdefault(followed.key[0], FetchTopic(topic_id=followed.key[0]))
                topic.partitions.append(self._wanted(followed, asked))
        self._moved.clear()
        if len(self._suspended) == len(self.followed):
            return None
        return FetchRequest(
            replica_state=ReplicaState(self._config.node.id, broker_epoch),
            max_wait_ms=self._wait_ms(now_ms),
            min_bytes=self._config.replication.fetch_min_bytes,
            max_bytes=max_bytes,
            session_id=self._session_id,
            session_epoch=self._epoch,
            topics=list(topics.values()),
            forgotten_topics_data=self._take_forgotten(),
        )

    def answers(self, response: FetchResponse) -> Iterator[tuple[Followed, FetchAnswered]]:
        """The answer for each partition in a response without an error."""
        self._session_id = response.session_id
        is_kept = response.session_id != NO_SESSION_ID
        self._epoch = next_epoch(self._epoch) if is_kept else INITIAL_EPOCH
        for topic in response.responses:
            for data in topic.partitions:
                followed = self.followed.get((topic.topic_id, data.partition_index))
                if followed is not None and followed.asked is not None:
                    asked = followed.asked
                    if not is_kept:
                        followed.asked = None
                    yield followed, _answered(asked, data)

    def pause_s(self, now_ms: int, longest_s: float) -> float:
        """How long there is nothing to ask for."""
        return min([longest_s, *(max(due_ms - now_ms, 1) / 1000 for due_ms in self._retries())])

    def _resume(self, now_ms: int) -> None:
        for followed in list(self._suspended):
            if followed.machine.next_fetch(followed.partition.log, now_ms) is not None:
                del self._suspended[followed]
                self._moved[followed] = None

    def _retries(self) -> Iterator[int]:
        return (f.machine.retry_at_ms for f in self._suspended if not f.machine.has_failed)

    def _wait_ms(self, now_ms: int) -> int:
        """As long as is allowed, but not beyond the time at which another partition may be asked for
        again.
        """
        longest_ms = self._config.replication.fetch_wait_max_ms
        due_ms = min(self._retries(), default=now_ms + longest_ms)
        return min(longest_ms, max(due_ms - now_ms, _SHORTEST_WAIT_MS))

    def _leave_out(self, followed: Followed) -> None:
        self._moved.pop(followed, None)
        if followed.asked is not None:
            followed.asked = None
            self._forgotten[followed.key] = None

    def _wanted(self, followed: Followed, asked: FetchFrom) -> FetchPartition:
        self._forgotten.pop(followed.key, None)
        return FetchPartition(
            partition=followed.key[1],
            current_leader_epoch=asked.current_leader_epoch,
            fetch_offset=asked.fetch_offset,
            last_fetched_epoch=asked.last_fetched_epoch,
            log_start_offset=asked.log_start_offset,
            # How much of an answer falls to one partition is for the leader to share out.
            partition_max_bytes=max(self._config.replication.fetch_max_bytes, _PARTITION_BYTES),
        )

    def _take_forgotten(self) -> list[ForgottenTopic]:
        forgotten, self._forgotten = self._forgotten, {}
        if self._epoch == INITIAL_EPOCH:
            return []
        topics: dict[UUID, ForgottenTopic] = {}
        for topic_id, index in forgotten:
            topic = topics.setdefault(topic_id, ForgottenTopic(topic_id=topic_id))
            topic.partitions.append(index)
        return list(topics.values())


def _answered(asked: FetchFrom, data: PartitionData) -> FetchAnswered:
    diverging = data.diverging_epoch
    return FetchAnswered(
        asked=asked,
        error=ErrorCode(data.error_code),
        high_watermark=data.high_watermark,
        log_start_offset=data.log_start_offset,
        diverging=EpochEnd(diverging.epoch, diverging.end_offset) if diverging.epoch >= 0 else None,
        records=data.records,
    )
