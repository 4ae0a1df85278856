"""Bugs planted in the machines that decide: replicas, their followers, the controller."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from ottla.controller import alter_partition, brokers, delta, partition_changes, reassignment, snapshot
from ottla.controller.image import PartitionImage
from ottla.errors import ErrorCode
from ottla.model import NO_LEADER
from ottla.replication.divergence import LogView
from ottla.replication.events import HighWatermarkAdvanced
from ottla.replication.follower import FetchFrom, Follower
from ottla.replication.isr import Isr, ProposeIsr
from ottla.replication.partition import PartitionReplica
from ottla.server.quorum import snapshot_writer

# What is replaced, the attribute's name, and what stands there instead.
Patches = list[tuple[Any, str, Any]]


# ---- the watermark


def watermark_without_isr() -> Patches:
    def advance(self: PartitionReplica) -> list[Any]:
        if self.log_end_offset <= self.high_watermark:
            return []
        self.high_watermark = self.log_end_offset
        return [HighWatermarkAdvanced(self.log_end_offset)]

    return [(PartitionReplica, "_advance", advance)]


def watermark_of_the_committed_isr() -> Patches:
    """A proposed member does not count until the controller has agreed."""

    def propose(self: Isr, proposal: ProposeIsr) -> None:
        self.pending = proposal

    def count_members(self: PartitionReplica) -> None:
        for replica_id, follower in self.followers.items():
            follower.is_counted = replica_id in self.isr
            follower.is_joining = False

    original = PartitionReplica._is_in_sync

    def is_in_sync(self: PartitionReplica, replica_id: int, now_ms: int) -> bool:
        follower = self.followers[replica_id]
        is_close = follower.log_end_offset >= max(self.high_watermark, self.leader_epoch_start_offset)
        return original(self, replica_id, now_ms) or (replica_id not in self.isr and is_close)

    return [
        (Isr, "propose", propose),
        (PartitionReplica, "_count_members", count_members),
        (PartitionReplica, "_is_in_sync", is_in_sync),
    ]


def lost_answer_counts_as_a_refusal() -> Patches:
    original = Isr.failed

    def failed(self: Isr, error: ErrorCode, now_ms: int) -> bool:
        return original(self, ErrorCode.INELIGIBLE_REPLICA, now_ms)

    return [(Isr, "failed", failed)]


def removed_members_do_not_count() -> Patches:
    """A member that is to leave the ISR is not waited for any more, before the controller has agreed."""

    def propose(self: Isr, proposal: ProposeIsr) -> None:
        self.pending = proposal
        self.maximal = frozenset(proposal.isr)

    return [(Isr, "propose", propose)]


def watermark_of_a_follower_is_the_leaders() -> Patches:
    def leader_high_watermark(self: PartitionReplica, high_watermark: int) -> list[Any]:
        if self.leader == self.node_id or high_watermark <= self.high_watermark:
            return []
        self.high_watermark = high_watermark
        return [HighWatermarkAdvanced(high_watermark)]

    return [(PartitionReplica, "_leader_high_watermark", leader_high_watermark)]


def reads_beyond_the_watermark() -> Patches:
    def readable_up_to(self: PartitionReplica, isolation_level: int, unstable: int | None) -> int:
        return self.log_end_offset

    return [(PartitionReplica, "readable_up_to", readable_up_to)]


# ---- followers


def fenced_leader_epoch_not_checked() -> Patches:
    """A leader answers followers of other epochs, and a follower takes the answers."""

    def fetch_error(self: PartitionReplica, current_leader_epoch: int) -> ErrorCode:
        return ErrorCode.NONE if self.leader == self.node_id else ErrorCode.NOT_LEADER_OR_FOLLOWER

    def is_current(self: Follower, asked: FetchFrom, log: LogView) -> bool:
        return asked.fetch_offset == log.log_end_offset

    return [(PartitionReplica, "fetch_error", fetch_error), (Follower, "_is_current", is_current)]


def expansion_before_it_has_caught_up() -> Patches:
    original = PartitionReplica._is_in_sync

    def is_in_sync(self: PartitionReplica, replica_id: int, now_ms: int) -> bool:
        is_new = replica_id not in self.isr and self.followers[replica_id].log_end_offset >= 0
        return is_new or original(self, replica_id, now_ms)

    return [(PartitionReplica, "_is_in_sync", is_in_sync)]


def expansion_below_the_epochs_start() -> Patches:
    """A follower joins when it has what this leader knows to be committed, which may be less than what is."""
    original = PartitionReplica._is_in_sync

    def is_in_sync(self: PartitionReplica, replica_id: int, now_ms: int) -> bool:
        follower = self.followers[replica_id]
        is_close = replica_id not in self.isr and follower.log_end_offset >= self.high_watermark
        return is_close or original(self, replica_id, now_ms)

    return [(PartitionReplica, "_is_in_sync", is_in_sync)]


# ---- the controller


def isr_change_without_compare_and_set() -> Patches:
    original = alter_partition._Alteration._error

    def error(self: Any, partition: PartitionImage, proposal: Any) -> ErrorCode:
        newest = replace(
            proposal, partition_epoch=partition.partition_epoch, leader_epoch=partition.leader_epoch
        )
        return original(self, replace(partition, leader=self._leader), newest)

    return [(alter_partition._Alteration, "_error", error)]


def broker_epoch_of_a_member_not_checked() -> Patches:
    def is_eligible(self: Any, partition: PartitionImage, member: Any) -> bool:
        return member.broker_id in self.changes.eligible

    return [(alter_partition._Alteration, "_is_eligible", is_eligible)]


def unclean_restart_kept_in_the_isr() -> Patches:
    return [(brokers, "_distrust", lambda image, node_id, changes: None)]


def election_outside_of_the_isr() -> Patches:
    original = partition_changes.elected

    def elected(partition: PartitionImage, eligible: Any) -> PartitionImage:
        after = original(partition, eligible)
        present = [node_id for node_id in partition.replicas if node_id in eligible]
        if after.leader == NO_LEADER and present:
            return replace(partition, isr=(present[0],), leader=present[0])
        return after

    modules = (partition_changes, brokers, alter_partition, reassignment)
    return [(module, "elected", elected) for module in modules]


def move_ends_before_the_new_replicas_are_in_sync() -> Patches:
    def finished(partition: PartitionImage, eligible: Any) -> PartitionImage:
        if not partition.is_moving:
            return partition
        target = partition.target_replicas
        isr = tuple(node_id for node_id in partition.isr if node_id in target) or target[:1]
        moved = replace(partition, replicas=target, isr=isr, adding_replicas=(), removing_replicas=())
        return partition_changes.elected(moved, eligible)

    return [(partition_changes, "finished", finished)]


def new_leader_in_the_old_epoch() -> Patches:
    original = delta.changed_partition

    def changed_partition(partition: PartitionImage, change: Any) -> PartitionImage:
        return replace(original(partition, change), leader_epoch=partition.leader_epoch)

    return [
        (delta, "changed_partition", changed_partition),
        (partition_changes, "changed_partition", changed_partition),
    ]


def snapshot_forgets_who_is_in_sync() -> Patches:
    original = snapshot.snapshot_records

    def snapshot_records(image: Any) -> Iterator[Any]:
        for record in original(image):
            yield replace(record, isr=list(record.replicas)) if hasattr(record, "isr") else record

    return [(snapshot_writer, "snapshot_records", snapshot_records)]


MACHINE_BUGS: tuple[Callable[[], Patches], ...] = (
    watermark_without_isr,
    watermark_of_the_committed_isr,
    lost_answer_counts_as_a_refusal,
    removed_members_do_not_count,
    watermark_of_a_follower_is_the_leaders,
    reads_beyond_the_watermark,
    fenced_leader_epoch_not_checked,
    expansion_before_it_has_caught_up,
    expansion_below_the_epochs_start,
    isr_change_without_compare_and_set,
    broker_epoch_of_a_member_not_checked,
    unclean_restart_kept_in_the_isr,
    election_outside_of_the_isr,
    move_ends_before_the_new_replicas_are_in_sync,
    new_leader_in_the_old_epoch,
    snapshot_forgets_who_is_in_sync,
)
