"""Bugs planted in the machines of a cluster and in the shells around them, to see that the simulation finds them.

Each is a mistake that somebody could make, or has made; it is put in with a patch and taken out again. Nothing of this is in
`src`. Where the shell is simulated (`tests/simulation`), the mistake is one that the broker's own shell could make.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from tests.simulation import metadata as metadata_shell
from tests.simulation import raft_mutations
from tests.simulation import replica as replica_shell
from tests.simulation.broker import Broker
from tests.simulation.broker_log import Appended, Batch, BrokerLog
from tests.simulation.fetching import Fetcher
from tests.simulation.metadata import Metadata
from tests.simulation.replica import HostedPartition

from ottla.controller import (
    alter_partition,
    brokers,
    delta,
    partition_changes,
    reassignment,
    snapshot,
)
from ottla.controller.image import PartitionImage
from ottla.errors import ErrorCode
from ottla.model import NO_LEADER, EpochEnd
from ottla.replication.divergence import LogView
from ottla.replication.events import HighWatermarkAdvanced
from ottla.replication.follower import FetchFrom, Follower
from ottla.replication.isr import Isr, ProposeIsr
from ottla.replication.partition import PartitionReplica

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
    """What is proposed does not count until it is committed."""

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


def no_epoch_check_on_a_followers_fetch() -> Patches:
    def judge_fetch(
        log: LogView, leader_epoch: int, fetch_offset: int, last_fetched_epoch: int
    ) -> EpochEnd | ErrorCode:
        if fetch_offset > log.log_end_offset:
            return EpochEnd(last_fetched_epoch, log.log_end_offset)
        return ErrorCode.NONE if fetch_offset >= log.log_start_offset else ErrorCode.OFFSET_OUT_OF_RANGE

    return [(replica_shell, "judge_fetch", judge_fetch)]


def fenced_leader_epoch_not_checked() -> Patches:
    """A leader answers followers of other epochs, and a follower takes the answers."""

    def fetch_error(self: PartitionReplica, current_leader_epoch: int) -> ErrorCode:
        return ErrorCode.NONE if self.leader == self.node_id else ErrorCode.NOT_LEADER_OR_FOLLOWER

    def is_current(self: Follower, asked: FetchFrom, log: LogView) -> bool:
        return asked.fetch_offset == log.log_end_offset

    return [(PartitionReplica, "fetch_error", fetch_error), (Follower, "_is_current", is_current)]


def truncation_by_watermark() -> Patches:
    """As Kafka did before KIP-101: a follower of a new leader cuts its log at its own watermark."""
    original = HostedPartition.assigned

    def assigned(self: HostedPartition, image: PartitionImage, min_isr: int) -> None:
        epoch = self.replica.leader_epoch
        original(self, image, min_isr)
        if self.replica.leader_epoch > epoch and not self.replica.is_leader:
            self._broker.checks.truncates(self, self.replica.high_watermark)
            self.log.truncate(self.replica.high_watermark)
            self._log_moved()

    return [(HostedPartition, "assigned", assigned)]


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


def follower_keeps_no_producer_state() -> Patches:
    def append_replicated(self: BrokerLog, batches: list[Batch]) -> None:
        for batch in batches:
            self._add(batch)

    return [(BrokerLog, "append_replicated", append_replicated)]


def producer_state_is_not_cut_with_the_log() -> Patches:
    return [(BrokerLog, "_rebuild_producers", lambda self: None)]


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
    return [(brokers, "_readmit", lambda image, back, changes: None)]


def clean_stop_is_remembered_for_ever() -> Patches:
    """The mark of a clean stop is not taken away when the broker starts."""
    started, registered = Broker.started, Broker._registered

    def remembering(self: Broker, answer: Any) -> None:
        registered(self, answer)
        if self.epoch >= 0 and self._node.disk.clean_epoch >= 0:
            self._node.disk.clean_epoch = self.epoch

    def keeping(self: Broker) -> None:
        clean_epoch = self._node.disk.clean_epoch
        started(self)
        self._node.disk.clean_epoch = clean_epoch

    return [(Broker, "started", keeping), (Broker, "_registered", remembering)]


def election_outside_of_the_isr() -> Patches:
    original = partition_changes.elected

    def elected(partition: PartitionImage, eligible: Any) -> PartitionImage:
        after = original(partition, eligible)
        present = [node_id for node_id in partition.replicas if node_id in eligible]
        if after.leader == NO_LEADER and present:
            return replace(partition, isr=(present[0],), leader=present[0])
        return after

    return [
        (module, "elected", elected) for module in (partition_changes, brokers, alter_partition, reassignment)
    ]


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


# ---- the shells


def acknowledged_before_the_watermark() -> Patches:
    return [(HostedPartition, "_may_acknowledge", lambda self, end_offset: True)]


def duplicate_acknowledged_at_once() -> Patches:
    """A batch that is sent again is known already: why wait?"""
    original = HostedPartition._append

    def append(self: HostedPartition, *outgoing: Any) -> Appended:
        appended = original(self, *outgoing)
        return appended._replace(end_offset=0) if appended.is_duplicate else appended

    return [(HostedPartition, "_append", append)]


def acknowledged_in_a_later_epoch() -> Patches:
    """A leader that lost its leadership and has it again answers those who still wait from before."""
    return [(HostedPartition, "_fail_waiters", lambda self: None)]


def leads_before_it_is_registered() -> Patches:
    """A broker that starts believes what its metadata said before it died."""
    original = Broker.image_changed

    def image_changed(self: Broker, before: Any, after: Any) -> None:
        registered = after.brokers.get(self.node_id)
        if registered is not None and not self.is_admitted:
            self.incarnation_id, mine = registered.incarnation_id, self.incarnation_id
            original(self, before, after)
            self.incarnation_id = mine
            self.is_admitted = True
        else:
            original(self, before, after)

    return [(Broker, "image_changed", image_changed)]


def decides_before_it_is_established() -> Patches:
    """A new controller decides before it has replayed what its predecessor committed."""

    def is_active(self: Metadata) -> bool:
        replica = self._node.member.running
        return replica is not None and replica.is_leader

    return [(Metadata, "is_active", property(is_active))]


def answers_before_it_is_committed() -> Patches:
    """The controller answers when a decision is appended, not when it is committed."""
    original = Metadata._append

    def append(self: Metadata, command: Any, records: list[Any], response: Any, answered: Any) -> None:
        original(self, command, records, response, lambda answer: None)
        answered(response)

    return [(Metadata, "_append", append)]


def follower_asks_before_it_has_flushed() -> Patches:
    original = Fetcher.go

    def go(self: Fetcher) -> None:
        with patch.object(HostedPartition, "has_to_flush", False):
            original(self)

    return [(Fetcher, "go", go)]


def leader_counts_what_it_has_not_flushed() -> Patches:
    return [(HostedPartition, "durable_offset", None)]


def snapshot_forgets_who_is_in_sync() -> Patches:
    original = snapshot.snapshot_records

    def snapshot_records(image: Any) -> Iterator[Any]:
        for record in original(image):
            yield replace(record, isr=list(record.replicas)) if hasattr(record, "isr") else record

    return [(metadata_shell, "snapshot_records", snapshot_records)]


_MUTATIONS: tuple[Callable[[], Patches], ...] = (
    watermark_without_isr,
    watermark_of_the_committed_isr,
    lost_answer_counts_as_a_refusal,
    removed_members_do_not_count,
    watermark_of_a_follower_is_the_leaders,
    reads_beyond_the_watermark,
    no_epoch_check_on_a_followers_fetch,
    truncation_by_watermark,
    expansion_before_it_has_caught_up,
    expansion_below_the_epochs_start,
    follower_keeps_no_producer_state,
    producer_state_is_not_cut_with_the_log,
    isr_change_without_compare_and_set,
    unclean_restart_kept_in_the_isr,
    clean_stop_is_remembered_for_ever,
    election_outside_of_the_isr,
    move_ends_before_the_new_replicas_are_in_sync,
    new_leader_in_the_old_epoch,
    acknowledged_before_the_watermark,
    duplicate_acknowledged_at_once,
    acknowledged_in_a_later_epoch,
    leads_before_it_is_registered,
    decides_before_it_is_established,
    answers_before_it_is_committed,
    follower_asks_before_it_has_flushed,
    leader_counts_what_it_has_not_flushed,
    snapshot_forgets_who_is_in_sync,
    raft_mutations.vote_not_persisted,
    raft_mutations.watermark_without_majority,
)
MUTATIONS: Mapping[str, Callable[[], Patches]] = {mutation.__name__: mutation for mutation in _MUTATIONS}

# Which seed found it first, when it was last looked for: `python -m tests.simulation.cluster_run --bugs`.
FOUND_BY: Mapping[str, int] = {
    "watermark_without_isr": 0,
    "watermark_of_the_committed_isr": 4,
    "lost_answer_counts_as_a_refusal": 30,
    "removed_members_do_not_count": 0,
    "watermark_of_a_follower_is_the_leaders": 0,
    "reads_beyond_the_watermark": 0,
    "no_epoch_check_on_a_followers_fetch": 0,
    "truncation_by_watermark": 0,
    "expansion_before_it_has_caught_up": 0,
    "expansion_below_the_epochs_start": 69,
    "follower_keeps_no_producer_state": 0,
    "producer_state_is_not_cut_with_the_log": 12,
    "isr_change_without_compare_and_set": 34,
    "unclean_restart_kept_in_the_isr": 0,
    "clean_stop_is_remembered_for_ever": 0,
    "election_outside_of_the_isr": 0,
    "move_ends_before_the_new_replicas_are_in_sync": 5,
    "new_leader_in_the_old_epoch": 0,
    "acknowledged_before_the_watermark": 0,
    "duplicate_acknowledged_at_once": 0,
    "acknowledged_in_a_later_epoch": 14,
    "leads_before_it_is_registered": 1,
    "decides_before_it_is_established": 0,
    "answers_before_it_is_committed": 2,
    "follower_asks_before_it_has_flushed": 0,
    "leader_counts_what_it_has_not_flushed": 0,
    "snapshot_forgets_who_is_in_sync": 2,
    "vote_not_persisted": 0,
    "watermark_without_majority": 0,
}

# These need a message that comes so late that two elections, or a whole restart, lie between: thousands of stories do not have it.
RARE_MUTATIONS: Mapping[str, Callable[[], Patches]] = {
    mutation.__name__: mutation
    for mutation in (fenced_leader_epoch_not_checked, broker_epoch_of_a_member_not_checked)
}


@contextmanager
def planted(name: str) -> Iterator[None]:
    """The cluster with one bug in it."""
    with ExitStack() as stack:
        for target, attribute, replacement in {**MUTATIONS, **RARE_MUTATIONS}[name]():
            stack.enter_context(patch.object(target, attribute, replacement))
        yield
