"""Bugs in `ottla.controller`: decisions about brokers, leaders, ISR and moves."""

from tests.simulation.bugs.bug import Bug, Edit

from ottla.controller import alter_partition, brokers, delta, partition_changes, producer_ids, snapshot
from ottla.controller.replica_trust import Return
from ottla.server.quorum.snapshot_writer import SnapshotWriter

_ALTERATION = alter_partition._Alteration
# A story's metadata does not grow to the usual size of a snapshot.
_SMALL_SNAPSHOTS = Edit(
    SnapshotWriter.is_due, "self._grown_bytes >= self._max_bytes", "self._grown_bytes >= 3000"
)

BUGS = (
    Bug(
        "isr_change_without_compare_and_set",
        "The controller carries out proposals of older leaders and of older partition epochs.",
        Edit(_ALTERATION._error, "if proposal.leader_epoch < partition.leader_epoch:", "if False:"),
        Edit(_ALTERATION._error, "if partition.leader != self._leader:", "if False:"),
        Edit(_ALTERATION._error, "if proposal.partition_epoch < partition.partition_epoch:", "if False:"),
        Edit(
            _ALTERATION._error,
            "    return self._members_error(partition, _members(proposal))",
            "    return self._members_error(replace(partition, leader=self._leader), _members(proposal))",
        ),
        faults=("cut-leader",),
    ),
    Bug(
        "proposal_of_an_older_partition_epoch",
        "The controller carries out a proposal that was made before its last decision.",
        Edit(_ALTERATION._error, "if proposal.partition_epoch < partition.partition_epoch:", "if False:"),
        faults=("cut-leader",),
    ),
    Bug(
        "broker_epoch_of_a_member_not_checked",
        "A broker that restarted joins an ISR by what its former life held.",
        Edit(
            _ALTERATION._is_eligible,
            "return member.broker_epoch == self._image.brokers[member.broker_id].epoch",
            "return True",
        ),
        faults=("wipe", "hold"),
    ),
    Bug(
        "unclean_restart_kept_in_the_isr",
        "A broker that lost power, and with it perhaps its tail, stays in sync.",
        Edit(
            Return.is_trusted_with,
            "return self._keeps_writes or flushes or len(partition.replicas) == 1",
            "return True",
        ),
        faults=("power-unflushed",),
    ),
    Bug(
        "lost_disk_is_trusted",
        "A broker that comes back with another directory is trusted with what the lost one held.",
        Edit(Return.has_directory_of, "return not self._log_dirs or known in self._log_dirs", "return True"),
        faults=("wipe-any",),
    ),
    Bug(
        "unclean_restart_counts_as_clean",
        "The epoch of the last clean stop is not compared.",
        Edit(
            Return.__init__,
            "former is not None and former.epoch == request.previous_broker_epoch",
            "former is not None",
        ),
        faults=("power-unflushed",),
    ),
    Bug(
        "election_outside_of_the_isr",
        "Where no member of the ISR is there, any replica leads.",
        Edit(
            partition_changes.elected,
            "(node_id for node_id in partition.replicas if node_id in partition.elr)",
            "iter(partition.replicas)",
        ),
        faults=("cut-leader",),
    ),
    Bug(
        "move_ends_before_the_new_replicas_are_in_sync",
        "A reassignment drops the old replicas at once.",
        Edit(
            partition_changes.finished,
            "if not partition.is_moving or not set(partition.adding_replicas) <= set(partition.isr):",
            "if not partition.is_moving:",
        ),
        Edit(
            partition_changes.finished,
            "if len(isr) < max(1, min(min_isr, len(partition.target_replicas))):\n        return partition",
            "if not isr:\n        isr = partition.target_replicas[:1]",
        ),
        faults=("reassign", "kill"),
    ),
    Bug(
        "new_leader_in_the_old_epoch",
        "An election does not raise the leader epoch.",
        Edit(delta.changed_partition, "partition.leader_epoch + names_leader", "partition.leader_epoch"),
        faults=("kill",),
    ),
    Bug(
        "leader_that_left_the_isr_leads_on",
        "A leader that is not in the ISR any more is not replaced.",
        Edit(partition_changes.elected, "if leader not in isr:", "if leader not in partition.replicas:"),
        faults=("cut-leader",),
    ),
    Bug(
        "snapshot_forgets_who_is_in_sync",
        "A snapshot of the metadata has every replica in the ISR.",
        Edit(snapshot._partition_record, "isr=list(partition.isr)", "isr=list(partition.replicas)"),
        _SMALL_SNAPSHOTS,
        faults=("kill", "kill-two", "kill-all"),
    ),
    Bug(
        "snapshot_forgets_the_leader_epoch",
        "A snapshot of the metadata begins leader epochs at 0 again.",
        Edit(snapshot._partition_record, "leader_epoch=partition.leader_epoch", "leader_epoch=0"),
        _SMALL_SNAPSHOTS,
        faults=("kill", "chase", "kill-all"),
    ),
    Bug(
        "crashed_leader_goes_on_in_its_epoch",
        "A broker that restarts while it leads alone goes on in its former leader epoch.",
        Edit(brokers._readmit, "elif partition.leader == node_id and not back.is_clean:", "elif False:"),
        faults=("power-all", "slow-disk", "power"),
    ),
    Bug(
        "producer_ids_are_given_twice",
        "Two brokers get the same block of producer ids.",
        Edit(producer_ids.allocate_producer_ids, "start + PRODUCER_ID_BLOCK)", "start)"),
        faults=("crash-client", "kill"),
    ),
    Bug(
        "leader_that_steps_down_is_broken",
        "A leader that does not reach its followers is taken for one with a broken log when they turn out to be dead.",
        Edit(_ALTERATION.answers, "frozenset() if is_whole else", ""),
    ),
)
