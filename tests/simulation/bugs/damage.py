"""Bugs in what finds and repairs damaged replicas."""

from tests.simulation.bugs.bug import Bug, Edit, Swap

from ottla.controller.alter_partition import _Alteration
from ottla.controller.image import PartitionImage
from ottla.controller.lost_replicas import _Assignment
from ottla.controller.replica_trust import Return
from ottla.log.producers.producer_rewind import headers_from
from ottla.log.scrubbing.quarantine import set_aside
from ottla.log.scrubbing.segment_check import SegmentCheck
from ottla.replication.partition import PartitionReplica
from ottla.replication.stuck_followers import StuckFollowers
from ottla.server.answers.send_queue import SendQueue, _bytes_of
from ottla.server.partitions.hosting import Hosting
from ottla.server.partitions.scrubbing import Scrubber
from ottla.server.quorum import metadata_log
from ottla.server.quorum.metadata_log import MetadataLog
from ottla.server.replicas import damaged_replicas
from ottla.server.replicas.damaged_replicas import DamagedReplicas
from ottla.server.replicas.fetchers import Fetchers
from ottla.server.replicas.isr_proposals import Isr

BUGS = (
    Bug(
        "damage_is_not_told",
        "A damaged segment that the scrubber finds is kept to itself.",
        Edit(
            Scrubber._read,
            "if check.damage is not None and not log.status.is_closed and check.is_current(log.extent.segments):",
            "if False:",
        ),
    ),
    Bug(
        "checksums_are_not_checked_after_a_gap",
        "The check ends at the first batch that does not follow directly.",
        Edit(SegmentCheck._check, "if placed is None:", "if False:"),
    ),
    Bug(
        "damaged_replica_joins",
        "The controller lets a damaged replica into the ISR.",
        Edit(_Alteration._is_eligible, "if partition.is_damaged_on(member.broker_id):", "if False:"),
    ),
    Bug(
        "damaged_follower_is_proposed",
        "A leader proposes damaged followers, and with them those that could join.",
        Edit(PartitionReplica._follower_fetched, "and event.replica_id not in self._damaged", ""),
    ),
    Bug(
        "last_replica_is_given_up",
        "A damaged replica leaves the ISR although no other can lead.",
        Edit(
            _Assignment._damaged,
            "if elected(partition, self.changes.eligible - {self._node_id}).leader == NO_LEADER:",
            "if False:",
        ),
    ),
    Bug(
        "restart_makes_a_replica_whole",
        "A broker that registers is trusted with its damaged replicas.",
        Edit(Return.has_directory_of, "if known == DAMAGED_DIRECTORY:", "if False:"),
    ),
    Bug(
        "damaged_replica_counts_as_whole",
        "No replica is ever known to be damaged.",
        Edit(PartitionImage.is_damaged_on, "self.directory_of(node_id) == DAMAGED_DIRECTORY", "False"),
    ),
    Bug(
        "segment_is_set_aside_before_its_loss_is_noted",
        "A crash after a segment was set aside leaves a gap that nobody knows of.",
        Edit(set_aside, "extent.note_loss(segment.base_offset)", "pass"),
    ),
    Bug(
        "repair_with_too_few_copies",
        "A damaged replica is truncated although fewer others than min.insync.replicas hold its records.",
        Edit(DamagedReplicas._may_repair, "len(replica.isr) >= wanted and", ""),
    ),
    Bug(
        "repair_without_patience",
        "A disk that refuses to read for a moment has its records fetched again.",
        Swap(damaged_replicas, "_PATIENCE_MS", 0),
    ),
    Bug(
        "repaired_log_is_not_fetched",
        "The fetcher does not hear that a segment was set aside.",
        Edit(DamagedReplicas._set_aside, "self._fetchers.restart(partition)", "pass"),
    ),
    Bug(
        "restarted_fetch_keeps_its_place",
        "A fetcher that should look at a log again goes on where it was.",
        Edit(Fetchers.restart, "self._lanes[place].unfollow(partition)", "pass"),
    ),
    Bug(
        "last_replica_is_forgotten",
        "A damaged replica that could not be spared is not looked at again when it can be.",
        Edit(DamagedReplicas._look_at_followers, "elif len(partition.replica.isr) > 1:", "elif False:"),
    ),
    Bug(
        "stuck_followers_are_left_alone",
        "A leader does not look at records that a follower refuses.",
        Edit(StuckFollowers.look, "stuck.append(offset)", "pass"),
    ),
    Bug(
        "failed_sends_are_not_noted",
        "A range that cannot be read ends the connection, and nobody looks at it.",
        Edit(_bytes_of, "part.note_unread()", "pass"),
        Edit(SendQueue._send_file, "cursor.range.note_unread()", "pass"),
    ),
    Bug(
        "damaged_headers_keep_a_log_from_being_truncated",
        "A truncation reads the headers that it removes, and fails at damaged ones.",
        Edit(headers_from, "except (OSError, CorruptRecord):", "except ZeroDivisionError:"),
    ),
    Bug(
        "damaged_metadata_are_replayed",
        "Nobody looks at the checksums of the metadata log after a clean stop.",
        Edit(metadata_log._whole_batches, "or not batch.crc_is_valid()", ""),
    ),
    Bug(
        "metadata_of_a_node_that_is_alone_are_cut",
        "A node that is alone throws away the metadata behind a damaged record, and starts.",
        Edit(MetadataLog._cut_at_damage, "if not batches and is_alone and not self._voters:", "if False:"),
    ),
    Bug(
        "hole_after_lost_power_is_trusted",
        "A log with damage before whole batches counts as complete when the machine lost its power.",
        Edit(
            Hosting.lost_replicas,
            "is_damaged = hole is not None or (keeps_writes and extent.has_damaged_tail)",
            "is_damaged = keeps_writes and (hole is not None or extent.has_damaged_tail)",
        ),
    ),
    Bug(
        "hanging_flush_is_waited_for",
        "A leader whose flush has not ended for long goes on waiting.",
        Edit(Isr._look_at_flushes, "partition.step(FlushHangs(), now_ms)", "pass"),
    ),
)
