"""One look at all partitions, groups and transactions of a broker.

`look` is a generator that yields after each partition and each offset, so that the event loop can do other work in
between (turns.py). The rows are values: what changes after the look does not change the pages that are made from it.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from ottla.controller.image import PartitionImage, TopicImage
from ottla.errors import KafkaError
from ottla.group.classic import ClassicGroup
from ottla.model import NO_LEADER
from ottla.server.monitoring.subject import Subject
from ottla.server.partitions.hosted_partition import HostedPartition
from ottla.server.partitions.partition_counts import PartitionCounts
from ottla.telemetry.families import Labels
from ottla.telemetry.label_limit import OTHER, LabelLimit
from ottla.transaction.metadata import TransactionState


class PartitionRow(NamedTuple):
    """A partition on this node. `labels` are its topic and index."""

    labels: Labels
    topic: str
    partition: int
    is_leader: bool
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    is_under_min_isr: bool
    start_offset: int
    end_offset: int
    high_watermark: int
    last_stable_offset: int
    lag_records: int
    size_bytes: int
    is_damaged: bool
    refuses_writes: bool

    @property
    def is_under_replicated(self) -> bool:
        """Whether a replica is out of sync; only its leader knows."""
        return self.is_leader and len(self.isr) < len(self.replicas)


class OffsetRow(NamedTuple):
    """A committed offset. The distances are None where the partition has no replica on this node.

    `waiting_ms` is the age of the first record that is not read, `deletable_in_ms` how long retention by age leaves
    it at the least: None where nothing is unread, or nothing is deleted by age.
    """

    labels: Labels
    group: str
    offset: int
    lag_records: int | None
    until_deletion_records: int | None
    waiting_ms: int | None = None
    deletable_in_ms: int | None = None


class UnreadTimes:
    """The timestamps of the first records that groups have not read. An offset that did not move is not looked up
    again: a look-up reads from the log.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[str, str, int], tuple[int, int | None]] = {}
        self._seen: dict[tuple[str, str, int], tuple[int, int | None]] = {}

    def begin(self) -> None:
        """Forget groups that the look before did not see."""
        self._known, self._seen = self._seen, {}

    def timestamp_ms(self, group: str, partition: HostedPartition, offset: int) -> int | None:
        """When the record at a committed offset, or the next one, was written; None if that is not known here."""
        key = group, partition.topic, partition.index
        found = self._known.get(key)
        if found is None or found[0] != offset:
            found = offset, self._looked_up(partition, offset)
        self._seen[key] = found
        return found[1]

    @staticmethod
    def _looked_up(partition: HostedPartition, offset: int) -> int | None:
        try:
            timestamp_ms = partition.log.timestamps.at_offset(offset)
        except KafkaError:
            return None
        return timestamp_ms if timestamp_ms is not None and timestamp_ms >= 0 else None


class GroupRow(NamedTuple):
    """A group that this node coordinates."""

    group: str
    state: str
    members: int
    rebalances: int


class TransactionRow(NamedTuple):
    """A transactional id whose transaction is open or being ended, coordinated by this node."""

    transactional_id: str
    state: str
    open_ms: int
    partitions: int


class Survey:
    """The rows of one look. The limits outlive it: names that had series keep them."""

    def __init__(
        self, subject: Subject, topic_limit: LabelLimit, group_limit: LabelLimit, unread: UnreadTimes
    ) -> None:
        self._subject = subject
        self._unread = unread
        self.topic_limit = topic_limit
        self.group_limit = group_limit
        self.partitions: list[PartitionRow] = []
        self.topics: dict[str, PartitionCounts] = {}
        self.totals = PartitionCounts()
        # Of the whole cluster, by its metadata: partitions without a leader, and with replicas out of sync.
        self.offline: list[str] = []
        self.missing: list[str] = []
        self.preferred_elsewhere = 0
        self.offsets: list[OffsetRow] = []
        self.groups: list[GroupRow] = []
        self.transactions: list[TransactionRow] = []
        self.transactional_ids = 0

    def look(self) -> Iterator[None]:
        """Look at everything."""
        yield from self._look_at_cluster()
        yield from self._look_at_partitions()
        yield from self._look_at_groups()
        yield from self._look_at_transactions()

    def _look_at_cluster(self) -> Iterator[None]:
        weights: dict[str, int] = {}
        for topic in tuple(self._subject.quorum.image.topics_by_name.values()):
            weights[topic.name] = len(topic.partitions)
            for placed in topic.partitions:
                self._look_at_placement(topic, placed)
                yield
        self.topic_limit.admit(weights)

    def _look_at_placement(self, topic: TopicImage, placed: PartitionImage) -> None:
        if placed.leader == NO_LEADER:
            self.offline.append(f"{topic.name}-{placed.index}")
        if len(placed.isr) < len(placed.replicas):
            self.missing.append(f"{topic.name}-{placed.index}")
        if placed.leader != NO_LEADER and placed.replicas and placed.leader != placed.replicas[0]:
            self.preferred_elsewhere += 1

    # Partitions

    def _look_at_partitions(self) -> Iterator[None]:
        hosted = self._subject.partitions
        self.totals.add(hosted.past_counts)
        for partition in hosted:
            if not partition.is_closed:
                self._add_partition(partition)
            yield

    def _add_partition(self, partition: HostedPartition) -> None:
        name = self.topic_limit.label_of(partition.topic)
        self.topics.setdefault(name, PartitionCounts()).add(partition.counts)
        self.totals.add(partition.counts)
        replica, log = partition.replica, partition.log
        labels = (("topic", name), ("partition", str(partition.index) if name is not OTHER else "-1"))
        self.partitions.append(
            PartitionRow(
                labels,
                partition.topic,
                partition.index,
                replica.is_leader,
                replica.leader,
                replica.leader_epoch,
                replica.replicas,
                replica.isr,
                replica.is_leader and replica.is_under_min_isr,
                log.log_start_offset,
                log.log_end_offset,
                replica.high_watermark,
                partition.last_stable_offset,
                partition.lag_records,
                log.extent.segments.size_bytes,
                log.status.is_damaged,
                log.status.refusal is not None or log.status.is_failing,
            )
        )

    # Groups and transactions

    def _look_at_groups(self) -> Iterator[None]:
        groups = [
            group
            for shard in self._subject.services.coordinators.shards
            if shard.is_loaded
            for group in tuple(shard.groups.values())
        ]
        self._unread.begin()
        self.group_limit.admit({group.group_id: max(1, group.offsets.count) for group in groups})
        for group in groups:
            name = self.group_limit.label_of(group.group_id)
            self.groups.append(GroupRow(name, group.state.value, len(group.members), group.rebalances))
            yield
            yield from self._look_at_offsets(name, group)

    def _look_at_offsets(self, name: str, group: ClassicGroup) -> Iterator[None]:
        for topic, index, value in list(group.offsets.items()):
            label = self.topic_limit.label_of(topic)
            number = str(index) if label is not OTHER and name is not OTHER else "-1"
            partition = self._subject.partitions.find(topic, index)
            lag = left = waiting_ms = deletable_in_ms = None
            if partition is not None and not partition.is_closed:
                lag = max(0, partition.replica.high_watermark - value.offset)
                left = value.offset - partition.log_start_offset
                waiting_ms = self._waiting_ms(group.group_id, partition, value.offset)
                deletable_in_ms = _deletable_in_ms(partition, waiting_ms)
            labels = (
                ("consumergroup", name),
                ("topic", label if name is not OTHER else OTHER),
                ("partition", number),
            )
            distances = lag, left, waiting_ms, deletable_in_ms
            self.offsets.append(OffsetRow(labels, name, value.offset, *distances))
            yield

    def _waiting_ms(self, group: str, partition: HostedPartition, offset: int) -> int | None:
        """The age of the first record that a group has not read; 0 where it has read all."""
        if offset >= partition.replica.high_watermark:
            return 0
        # What was deleted unread is counted elsewhere; what is only in an object store is not asked for.
        if offset < partition.log.log_start_offset:
            return None
        timestamp_ms = self._unread.timestamp_ms(group, partition, offset)
        now_ms = self._subject.runtime.clock.wall_ms()
        return None if timestamp_ms is None else max(0, now_ms - timestamp_ms)

    def _look_at_transactions(self) -> Iterator[None]:
        now_ms = self._subject.runtime.clock.wall_ms()
        for shard in self._subject.services.transactions.shards:
            self.transactional_ids += len(shard.transactions)
            for one in tuple(shard.transactions.values()):
                if one.state is TransactionState.ONGOING or one.is_ending:
                    open_ms = max(0, now_ms - one.started_ms)
                    row = TransactionRow(one.transactional_id, one.state.value, open_ms, len(one.partitions))
                    self.transactions.append(row)
                yield


def _deletable_in_ms(partition: HostedPartition, waiting_ms: int | None) -> int | None:
    config = partition.config
    if not waiting_ms or config.retention_ms < 0 or "delete" not in config.cleanup_policy:
        return None
    return max(0, config.retention_ms - waiting_ms)


def extreme(
    rows: Iterable[tuple[Labels, float]], choose: Callable[[float, float], float]
) -> Iterator[tuple[Labels, float]]:
    """Rows with the largest, or the smallest, of those of equal labels, which are beyond a limit, at the end."""
    together: dict[Labels, float] = {}
    for labels, value in rows:
        if labels[-1][1] == "-1" or OTHER in (labels[0][1], labels[-1][1]):
            together[labels] = choose(together.get(labels, value), value)
        else:
            yield labels, value
    yield from together.items()


def summed(rows: Iterable[tuple[Labels, float]]) -> Iterator[tuple[Labels, float]]:
    """Rows with those of equal labels, which are beyond a limit, added up at the end."""
    together: dict[Labels, float] = {}
    for labels, value in rows:
        if labels[-1][1] == "-1" or OTHER in (labels[0][1], labels[-1][1]):
            together[labels] = together.get(labels, 0) + value
        else:
            yield labels, value
    yield from together.items()
