"""How a partition changes when its brokers come, go or catch up (CTL-3, REP-7).

Rules, whatever the reason for a change:
- A broker that is not eligible (fenced, or about to stop) neither leads nor is in sync, unless no replica in
  sync would be left: then the replicas in sync stay, for they hold the acknowledged records, and the
  partition has no leader.
- The leader stays if it can. Else the first replica, in their order, that is in sync leads; where none in
  sync can, the first eligible leader replica (`eligible_leaders`).
- A replica that cannot be read (`lost_replicas`) is in sync again only after its broker has repaired it.
- The ISR is empty only where no replica is trusted with all committed records (`replica_trust`).
- A replica that is neither leads only where the topic allows it: records that only others hold are lost.
- A move is finished once every added replica is in sync, and as many of those that stay as
  min.insync.replicas asks for, and one of them can lead: the removed ones go. A removed replica may hold the
  second copy of a committed record until then.
- The leader epoch rises with a new leader, with none, and where replicas go.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Any, TypeVar
from uuid import UUID

from ottla.config import TopicConfig
from ottla.controller.config_sources import BrokerSettings
from ottla.controller.decision import Decision
from ottla.controller.delta import changed_partition
from ottla.controller.eligible_leaders import with_eligible_leaders
from ottla.controller.image import (
    UNKNOWN_DIRECTORY,
    ClusterImage,
    PartitionImage,
    ResourceType,
    TopicImage,
)
from ottla.controller.records import (
    NO_LEADER_CHANGE,
    NO_RECOVERY_CHANGE,
    RECOVERED,
    RECOVERING,
    PartitionChangeRecord,
)
from ottla.model import NO_LEADER, TopicPartition

T = TypeVar("T")


def elected(partition: PartitionImage, eligible: AbstractSet[int]) -> PartitionImage:
    """The partition as it has to be if only these brokers may lead: its ISR, and a leader out of it or
    none.
    """
    isr = tuple(node_id for node_id in partition.isr if node_id in eligible)
    if not isr:
        heirs = (node_id for node_id in partition.replicas if node_id in partition.elr)
        heir = next((node_id for node_id in heirs if node_id in eligible), None)
        return replace(partition, leader=NO_LEADER) if heir is None else _led_alone(partition, heir)
    leader = partition.leader
    if leader not in isr:
        leader = next(node_id for node_id in partition.replicas if node_id in isr)
    return replace(partition, isr=isr, leader=leader)


def _led_alone(partition: PartitionImage, leader: int) -> PartitionImage:
    return replace(partition, isr=(leader,), leader=leader)


def uncleanly_elected(
    partition: PartitionImage, eligible: AbstractSet[int], designated: int | None = None
) -> PartitionImage | None:
    """The partition led by the designated replica, or by the first that is there at all; None if none is."""
    candidates = partition.replicas if designated is None else {designated}.intersection(partition.replicas)
    leader = next((node_id for node_id in candidates if node_id in eligible), None)
    return None if leader is None else replace(_led_alone(partition, leader), is_recovering=True)


def finished(partition: PartitionImage, eligible: AbstractSet[int], min_isr: int) -> PartitionImage:
    """The partition with its move finished, if it has come so far. `min_isr` is min.insync.replicas."""
    if not partition.is_moving or not set(partition.adding_replicas) <= set(partition.isr):
        return partition
    isr = tuple(node_id for node_id in partition.isr if node_id not in partition.removing_replicas)
    if len(isr) < max(1, min(min_isr, len(partition.target_replicas))):
        return partition
    moved = elected(
        replace(
            partition,
            replicas=partition.target_replicas,
            isr=isr,
            adding_replicas=(),
            removing_replicas=(),
        ),
        eligible,
    )
    return partition if moved.leader == NO_LEADER else moved


def change_record(
    topic: TopicImage, before: PartitionImage, after: PartitionImage, *, renews_leader: bool = False
) -> PartitionChangeRecord:
    """The changed fields between two versions of a partition, epochs apart; the partition epoch rises in any
    case.
    """
    drops_replicas = before.replicas != after.replicas and not set(before.replicas) <= set(after.replicas)
    names_leader = renews_leader or after.leader != before.leader or drops_replicas
    return PartitionChangeRecord(
        partition_id=before.index,
        topic_id=topic.topic_id,
        isr=_difference(before.isr, after.isr),
        leader=after.leader if names_leader else NO_LEADER_CHANGE,
        replicas=_difference(before.replicas, after.replicas),
        removing_replicas=_difference(before.removing_replicas, after.removing_replicas),
        adding_replicas=_difference(before.adding_replicas, after.adding_replicas),
        leader_recovery_state=_recovery_change(before, after),
        directories=_difference(before.directories, after.directories),
        eligible_leader_replicas=_difference(before.elr, after.elr),
        last_known_elr=_difference(_last_leaders(before), _last_leaders(after)),
    )


def _difference(before: tuple[T, ...], after: tuple[T, ...]) -> list[T] | None:
    return None if before == after else list(after)


def _recovery_change(before: PartitionImage, after: PartitionImage) -> int:
    if before.is_recovering == after.is_recovering:
        return NO_RECOVERY_CHANGE
    return RECOVERING if after.is_recovering else RECOVERED


def _last_leaders(partition: PartitionImage) -> tuple[int, ...]:
    return () if partition.last_known_leader == NO_LEADER else (partition.last_known_leader,)


class PartitionChanges:
    """The changes of partitions that one command decides on. `eligible` are the brokers that may lead
    afterwards.

    `directories` are the log directories of brokers where the image does not have them yet.
    """

    def __init__(
        self,
        image: ClusterImage,
        eligible: AbstractSet[int],
        settings: BrokerSettings,
        directories: Mapping[int, UUID] | None = None,
    ) -> None:
        self.records: list[Any] = []
        self.unclean_elections: list[TopicPartition] = []
        self.waiting: list[TopicPartition] = []
        self.eligible = eligible
        self._image = image
        self._settings = settings
        self._directories = directories or {}
        self._configs: dict[str, TopicConfig] = {}
        self._default_config: TopicConfig | None = None

    def decision(self, before: list[Any], response: Any) -> Decision:
        """These changes, after other records, as the decision of a command."""
        return Decision(
            [*before, *self.records],
            response,
            unclean_elections=tuple(self.unclean_elections),
            waiting=tuple(self.waiting),
        )

    def elect(self, topic: TopicImage, partition: PartitionImage) -> PartitionImage:
        """Bring ISR and leader in step with the eligible brokers; uncleanly where that is the only way and
        allowed.
        """
        after = elected(partition, self.eligible)
        if after.leader == NO_LEADER and self.allows_unclean(topic):
            return self.elect_uncleanly(topic, partition) or self.put(topic, partition, after)
        return self.put(topic, partition, after)

    def elect_uncleanly(
        self, topic: TopicImage, partition: PartitionImage, designated: int | None = None
    ) -> PartitionImage | None:
        """Let the designated replica lead, or any; None, and nothing changed, if it is not there."""
        after = uncleanly_elected(partition, self.eligible, designated)
        if after is None:
            return None
        self.unclean_elections.append(TopicPartition(topic.name, partition.index))
        # From here on the new leader's log counts: what the others hold beyond it is given up.
        others = frozenset(partition.replicas) - {after.leader}
        return self.put(topic, partition, after, renews_leader=True, distrusted=others)

    def distrust(self, topic: TopicImage, partition: PartitionImage, node_id: int) -> None:
        """Remove a replica from ISR and ELR, whether or not there are others."""
        trusted = replace(
            partition,
            isr=tuple(member for member in partition.isr if member != node_id),
            elr=tuple(member for member in partition.elr if member != node_id),
        )
        after = elected(trusted, self.eligible)
        may_lose = after.leader == NO_LEADER and self.allows_unclean(topic)
        if not may_lose or self.elect_uncleanly(topic, partition) is None:
            self.put(topic, partition, after, distrusted={node_id})

    def put(
        self,
        topic: TopicImage,
        before: PartitionImage,
        after: PartitionImage,
        *,
        renews_leader: bool = False,
        renews_epoch: bool = False,
        distrusted: AbstractSet[int] = frozenset(),
    ) -> PartitionImage:
        """Change a partition; what it will be, epochs and all, with a move finished that can be.

        `distrusted` replicas are not eligible to lead afterwards, whether or not they were in sync.
        """
        min_isr = self.config_of(topic).min_insync_replicas
        after = finished(after, self.eligible, min_isr)
        after = replace(after, directories=self._directories_of(before, after))
        # As the leader counts: more than all replicas cannot be in sync.
        after = with_eligible_leaders(before, after, min(min_isr, len(after.replicas)), distrusted)
        if before == after and not renews_leader and not renews_epoch:
            return before
        record = change_record(topic, before, after, renews_leader=renews_leader)
        self.records.append(record)
        if (before.isr or before.elr) and not (after.isr or after.elr):
            self.waiting.append(TopicPartition(topic.name, before.index))
        return changed_partition(before, record)

    def allows_unclean(self, topic: TopicImage) -> bool:
        """Whether the topic may be led by a replica that is not in sync."""
        return self.config_of(topic).unclean_leader_election_enable

    def config_of(self, topic: TopicImage) -> TopicConfig:
        """The settings in force of a topic."""
        overrides = self._image.config_of(ResourceType.TOPIC, topic.name)
        if not overrides:
            # Most topics have no settings of their own, and resolving them takes a while.
            if self._default_config is None:
                self._default_config = self._settings.topic_config({})
            return self._default_config
        config = self._configs.get(topic.name)
        if config is None:
            config = self._configs[topic.name] = self._settings.topic_config(overrides)
        return config

    def _directories_of(self, before: PartitionImage, after: PartitionImage) -> tuple[UUID, ...]:
        returns = any(before.is_damaged_on(member) for member in after.isr)
        if before.replicas == after.replicas and not self._directories and not returns:
            return before.directories
        found = tuple(self._directory_of(before, after, node_id) for node_id in after.replicas)
        return found if any(each != UNKNOWN_DIRECTORY for each in found) else ()

    def _directory_of(self, before: PartitionImage, after: PartitionImage, node_id: int) -> UUID:
        if node_id in self._directories:
            return self._directories[node_id]
        # Only an unclean election trusts a damaged replica.
        if node_id in before.replicas and not (before.is_damaged_on(node_id) and node_id in after.isr):
            return before.directory_of(node_id)
        broker = self._image.brokers.get(node_id)
        return UNKNOWN_DIRECTORY if broker is None else broker.directory
