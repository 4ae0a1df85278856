"""Bugs in tiered storage: the machine that knows what is where, copies, retention and reads."""

from tests.simulation.bugs.bug import Bug, Edit

from ottla.controller import alter_remote_log
from ottla.controller.remote_log import RemoteLog
from ottla.controller.remote_log_records import RemoteLogsDelta
from ottla.controller.snapshot import snapshot_records
from ottla.log.tiers.batch_run import whole_batches
from ottla.log.tiers.segment_copy import SegmentCopy, verify
from ottla.server import housekeeping
from ottla.server.apis import offsets
from ottla.server.partitions.tiered_part import TieredPart
from ottla.server.tiers.cold_reads import ColdReads
from ottla.server.tiers.leader_work import LeaderWork

BUGS = (
    Bug(
        "copy_is_not_read_back",
        "A store that kept something else is believed.",
        Edit(SegmentCopy._copy, "verify(store, name, written)", "pass"),
    ),
    Bug(
        "copy_is_compared_by_its_size_only",
        "A store that kept other bytes is believed.",
        Edit(verify, "if position != written.size_bytes or crc != written.crc:", "if False:"),
    ),
    Bug(
        "local_segments_go_before_they_are_copied",
        "Local retention does not ask what the store holds.",
        Edit(
            housekeeping._local_limits,
            "max(in_store, partition.log.log_start_offset)",
            "partition.high_watermark.value",
        ),
    ),
    Bug(
        "batches_of_the_store_are_not_checked",
        "Wrong bytes of a store are served.",
        Edit(whole_batches, "or not batch.crc_is_valid()", ""),
    ),
    Bug(
        "epochs_of_the_store_are_not_checked",
        "A changed leader epoch, which no checksum covers, is served.",
        Edit(whole_batches, "if not bounds.has_epoch(epoch, batch.base_offset):", "if False:"),
    ),
    Bug(
        "former_leader_changes_the_remote_log",
        "A leader of an older epoch is not refused.",
        Edit(alter_remote_log._led_topic, "if request.leader_epoch < partition.leader_epoch:", "if False:"),
    ),
    Bug(
        "copy_of_a_former_leader_is_finished",
        "A new leader finishes what it has not written.",
        Edit(alter_remote_log._finish_copy, "or begun.leader_epoch != request.leader_epoch", ""),
    ),
    Bug(
        "remote_log_with_a_gap",
        "A segment that does not follow the last one is copied.",
        Edit(
            alter_remote_log._start_copy,
            "not segment.base_offset <= tiered < segment.next_offset",
            "False",
        ),
    ),
    Bug(
        "deleted_records_come_back",
        "The start of the remote log is not remembered.",
        Edit(RemoteLog.started_at, "start_offset=offset,", "start_offset=self.start_offset,"),
    ),
    Bug(
        "unfinished_copy_is_trusted",
        "A segment may be read, and deleted locally, as soon as its copy has begun.",
        Edit(RemoteLogsDelta.set_segment, "log.with_copying(segment)", "log.with_copied(segment)"),
    ),
    Bug(
        "copy_that_was_given_up_is_forgotten",
        "Objects of a copy that another leader began stay in the store for ever.",
        Edit(RemoteLog.given_up, "deleting=(*self.deleting, self.copying)", "deleting=self.deleting"),
    ),
    Bug(
        "deleted_topic_forgets_its_objects",
        "The objects of a deleted topic stay in the store for ever.",
        Edit(RemoteLog.abandoned, "deleting=(*given_up.deleting, *given_up.segments)", "deleting=()"),
    ),
    Bug(
        "snapshot_forgets_the_store",
        "After a snapshot nobody knows what the store holds.",
        Edit(snapshot_records, "yield from remote_log_records(image.remote_logs)", "pass"),
    ),
    Bug(
        "aborted_transactions_of_the_store_are_not_told",
        "A reader of committed records gets aborted ones from the store.",
        Edit(ColdReads._with_aborted, "found.append(entry)", "pass"),
    ),
    Bug(
        "other_history_is_agreed_with",
        "Records of the store that this log never had let local ones go.",
        Edit(TieredPart._agrees, "is_held = segment.next_offset <= self._log.log_end_offset", "return True"),
    ),
    Bug(
        "copy_goes_on_under_a_former_leaders_id",
        "A leader goes on with a copy that it did not begin, and can never finish it.",
        Edit(
            LeaderWork._begun,
            "if begun is not None and (begun.base_offset, begun.next_offset, begun.leader_epoch) == wanted:",
            "if begun is not None:",
        ),
    ),
    Bug(
        "records_are_deleted_here_only",
        "DeleteRecords does not tell the controller: the store still has the records.",
        Edit(offsets._delete_remote, "await tiers.changes.advance_start(partition, offset)", "pass"),
    ),
    Bug(
        "remote_part_is_kept_for_ever",
        "Retention deletes nothing in the store.",
        Edit(LeaderWork._retain, "if plan.log_start_offset > start:", "if False:"),
    ),
)
