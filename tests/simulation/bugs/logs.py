"""Bugs in `ottla.log`: appends, producers, epochs, truncations, flushes, opening after a crash."""

from tests.simulation.bugs.bug import Bug, Edit

from ottla.log.directory import LogDirectory
from ottla.log.opening import loading, recovery
from ottla.log.producers import producer_state
from ottla.log.producers.producer_state import ProducerEntry, Staged
from ottla.log.producers.snapshot_files import SnapshotFiles
from ottla.log.segments.extent import Extent
from ottla.log.writing.append import Appender
from ottla.log.writing.durability import Durability
from ottla.log.writing.flush import FlushJob
from ottla.log.writing.replicated import ReplicatedAppender
from ottla.log.writing.truncation import Truncation
from ottla.log.writing.writer import Writer

BUGS = (
    # ---- producers
    Bug(
        "follower_keeps_no_producer_state",
        "A follower that becomes leader does not know which batches it has.",
        Edit(ReplicatedAppender._place, "if producer >= 0:", "if False:"),
        faults=("chase", "reset"),
    ),
    Bug(
        "producer_state_is_not_cut_with_the_log",
        "After a truncation a log still answers duplicates of batches that it does not have.",
        Edit(
            Truncation.truncate_to,
            "if truncated is not None and rewind_producers(segments, self._producers, truncated):\n"
            "            self._snapshots.remove_above(extent.end_offset)\n"
            "        else:\n"
            "            self._load_producers()",
            "pass",
        ),
        faults=("slow-link", "cut-pair", "pause", "chase", "cut"),
    ),
    Bug(
        "producer_snapshot_of_a_longer_log",
        "After a crash a log loads the producer state of records that it lost.",
        Edit(SnapshotFiles.load, "offset <= trusted_up_to and self._read(offset)", "self._read(offset)"),
        faults=("crash-in-write", "power-all"),
    ),
    Bug(
        "duplicate_is_appended_again",
        "A batch that is sent again is not recognised.",
        Edit(Staged.check, "if incoming.epoch == entry.epoch:", "if False:"),
        Edit(Staged.check, "_check_sequence(incoming, entry)", "pass"),
        faults=("reset", "chase"),
    ),
    Bug(
        "gap_in_a_sequence_is_accepted",
        "A batch is taken although the one before it is missing.",
        Edit(
            producer_state._check_sequence,
            "if incoming.batch.first_sequence != expected:",
            "if incoming.batch.first_sequence < expected:",
        ),
        faults=("reset", "chase", "cut"),
    ),
    Bug(
        "gap_in_a_sequence_is_not_waited_for",
        "A batch that came before a refused one is out of order at once.",
        Edit(
            Appender._refusal,
            "return self._gaps.refusal_of(incoming, expected_sequence(incoming, entry)) or refused",
            "return refused",
        ),
        faults=("elect", "kill"),
    ),
    Bug(
        "unknown_producer_begins_anywhere_at_once",
        "The second batch of a new producer is appended although its first one was refused.",
        Edit(Appender._early, "return self._gaps.refusal_of(incoming, 0)", "return None"),
        faults=("elect", "crash-client"),
    ),
    Bug(
        "only_the_last_batch_is_recognised",
        "Of a producer's batches a log recognises one, not five.",
        Edit(
            ProducerEntry.duplicate_of, "for batch in self.batches:", "for batch in list(self.batches)[-1:]:"
        ),
        Edit(Appender._stage, "earlier = sent_before(segments, incoming, entry)", "earlier = None"),
        faults=("reset", "cut-clients", "hold"),
    ),
    # ---- writes
    Bug(
        "failed_write_is_answered_as_success",
        "Batches that the disk refused are answered with their offsets.",
        Edit(
            Appender._with_failure,
            "failure if isinstance(answer, Appended) and answer.base_offset >= end else answer",
            "answer",
        ),
        faults=("full-disk",),
    ),
    Bug(
        "failed_write_is_written_with_the_next",
        "Batches that the disk refused stay collected, and the next append writes them.",
        Edit(Writer.abandon, "self._version = _NEVER_LOADED", "pass"),
        faults=("full-disk",),
    ),
    Bug(
        "batch_after_a_failed_write_is_taken",
        "A new producer's second batch is appended after its first one failed.",
        Edit(Appender.append, "self._interrupted.note(failed, self._producers)", "pass"),
        faults=("full-disk", "crash-client"),
    ),
    Bug(
        "producer_state_is_installed_before_the_write",
        "A batch that the disk refused is answered as a duplicate when it comes again.",
        Edit(
            Writer._append_to_file,
            "active.file.append(self._buffers)",
            "self.staged.install()\n        active.file.append(self._buffers)",
        ),
        faults=("full-disk",),
    ),
    # ---- leader epochs
    Bug(
        "follower_writes_no_epochs",
        "A follower's log does not know where leader epochs begin.",
        Edit(
            ReplicatedAppender._place,
            "if epoch > latest_epoch:",
            "if epoch > latest_epoch and latest_epoch < 0:",
        ),
        faults=("slow-link", "cut-pair", "pause", "chase", "cut"),
    ),
    Bug(
        "epochs_stay_after_a_truncation",
        "A log that was truncated still answers with the epochs of what was removed.",
        Edit(Extent.agree_with_end, "self.leader_epochs.truncate_from_end(end)", "pass"),
        Edit(Extent.check, "assert starts is None or starts <= end, (", "assert True, ("),
        faults=("cut-leader",),
    ),
    # ---- flushes
    Bug(
        "flush_covers_what_came_later",
        "Records that were appended while a flush ran count as flushed.",
        Edit(
            Durability.complete_flush,
            "self.flushed_offset = max(self.flushed_offset, min(job.offset, self._ceiling))",
            "self.flushed_offset = self._extent.end_offset",
        ),
        faults=("power-all", "slow-disk"),
    ),
    Bug(
        "flush_forgets_older_segments",
        "A flush syncs the active segment only, though records before it are not flushed.",
        Edit(FlushJob.__init__, "if segment is not segments.active", "if False"),
        faults=("power-all", "slow-disk"),
    ),
    Bug(
        "flush_forgets_new_names",
        "A flush does not sync the directory in which a segment was created.",
        Edit(FlushJob.run, "self._disk.sync_directory(directory)", "pass"),
    ),
    Bug(
        "flush_under_a_truncation_counts",
        "A flush that ran while the log was truncated covers the records that came after.",
        Edit(Durability.note_truncation, "self._ceiling = min(self._ceiling, end)", "pass"),
        Edit(Durability._check, "assert self.flushed_offset <= end,", "assert True,"),
        faults=("cut-leader", "slow-disk"),
    ),
    # ---- opening
    Bug(
        "torn_tail_is_kept",
        "Bytes of an unfinished write stay at the end of the log after a crash.",
        Edit(recovery.recover_segment, "segment.file.truncate(last.position)", "pass"),
        faults=("crash-in-write",),
    ),
    Bug(
        "recovery_keeps_only_the_last_segment_in_mind",
        "After a crash the segments above the recovery point are not scanned.",
        Edit(loading._recover, "if segment.next_offset > opening.trusted_up_to]", "if False]"),
        faults=("power-all", "crash-in-write"),
    ),
    Bug(
        "hole_is_not_remembered",
        "A log that lost records in the middle does not know that it did.",
        Edit(loading._note_gap, "loss.note(lost)", "pass"),
        Edit(recovery.recover_segment, "loss.note(damages[0].first_offset)", "pass"),
        faults=("power-all", "slow-disk"),
    ),
    Bug(
        "deleted_log_leaves_its_checkpoints",
        "A new log of the same name begins with the checkpoints of the deleted one.",
        Edit(LogDirectory.open_log, "self._forget(key)", "pass"),
        faults=("recreate", "kill"),
    ),
    Bug(
        "log_of_a_deleted_topic_is_served",
        "A topic that was created again is served from the files of the deleted topic.",
        Edit(LogDirectory._keep, "if found in (topic_id, UUID(int=0)):", "if True:"),
        faults=("recreate", "kill", "pause"),
    ),
)
