"""Bugs in the transaction coordinator: `ottla.transaction`, and the shards and markers of `ottla.server.coordinators`."""

from tests.simulation.bugs.bug import Bug, Edit

from ottla.server.coordinators.marker_sender import MarkerSender
from ottla.server.coordinators.marker_writer import MarkerWriter
from ottla.server.coordinators.transaction_questions import TransactionQuestions
from ottla.server.coordinators.transaction_shard import TransactionShard
from ottla.transaction import adding, ending, initialisation
from ottla.transaction.coordinator import TransactionCoordinator
from ottla.transaction.metadata import TransactionMetadata

BUGS = (
    Bug(
        "new_producer_does_not_fence",
        "InitProducerId answers the epoch that the producer before has, too.",
        Edit(
            initialisation.init_producer,
            'changes = {"producer_epoch": metadata.producer_epoch + 1,',
            'changes = {"producer_epoch": metadata.producer_epoch,',
        ),
    ),
    Bug(
        "new_producer_forgets_the_open_transaction",
        "InitProducerId over an open transaction answers at once: nobody ends the transaction.",
        Edit(initialisation.init_producer, "if not metadata.is_at_rest:", "if False:"),
        Edit(
            TransactionMetadata.moved,
            "TRANSITIONS[self.state][event]",
            "TRANSITIONS[self.state].get(event, TransactionState.EMPTY)",
        ),
    ),
    Bug(
        "fenced_producer_initialises",
        "A producer that names an epoch which is out of date gets a new one.",
        Edit(
            initialisation.init_producer, "if is_known and not is_current and not is_repeated:", "if False:"
        ),
    ),
    Bug(
        "repeated_initialisation_is_fenced",
        "A producer whose answer to InitProducerId was lost is fenced when it asks again.",
        Edit(
            initialisation.init_producer,
            "is_repeated = is_known and _is_repeated(metadata, command)",
            "is_repeated = False",
        ),
    ),
    Bug(
        "epoch_of_a_joining_producer_not_checked",
        "Partitions join the transaction of a producer that was fenced.",
        Edit(adding._identified, "if holder_epoch != command.producer_epoch:", "if False:"),
    ),
    Bug(
        "partitions_join_while_markers_are_missing",
        "The next transaction begins before the last one is complete.",
        Edit(adding._identified, "if metadata.is_ending and not is_older:", "if False:"),
        Edit(
            TransactionMetadata.moved,
            "TRANSITIONS[self.state][event]",
            "TRANSITIONS[self.state].get(event, TransactionState.ONGOING)",
        ),
    ),
    Bug(
        "joining_partition_replaces_the_others",
        "Only the partitions of the last request are in the transaction.",
        Edit(
            adding.add_partitions,
            "partitions=metadata.partitions | command.partitions,",
            "partitions=command.partitions,",
        ),
    ),
    Bug(
        "timeout_counts_from_the_last_partition",
        "Every partition that joins extends the time of the transaction.",
        Edit(
            adding.add_partitions,
            "started_ms=metadata.started_ms if is_ongoing else context.now_ms,",
            "started_ms=context.now_ms,",
        ),
    ),
    Bug(
        "every_partition_is_verified",
        "The coordinator verifies partitions that are not in the transaction.",
        Edit(
            adding.verify_partitions,
            "ErrorCode.NONE if partition in metadata.partitions else ErrorCode.TRANSACTION_ABORTABLE",
            "ErrorCode.NONE",
        ),
    ),
    Bug(
        "late_end_ends_the_next_transaction",
        "An EndTxn with the epoch of an earlier transaction ends the present one.",
        Edit(ending._end_of_version_2, "if holder_epoch != command.producer_epoch:", "if False:"),
        Edit(ending._end_of_version_2, "if is_retry and metadata.state in _OUTCOMES:", "if False:"),
    ),
    Bug(
        "repeated_end_is_refused",
        "An EndTxn whose answer was lost is fenced when it is repeated.",
        Edit(ending._end_of_version_2, "is_retry = _is_retry(metadata, command)", "is_retry = False"),
    ),
    Bug(
        "repeated_commit_answers_for_an_abort",
        "A repeated commit is answered as if the transaction had been committed, though it was aborted.",
        Edit(
            ending._end_of_version_2,
            "_check_outcome(metadata, command.is_commit)\n        identity",
            "identity",
        ),
    ),
    Bug(
        "fenced_end_of_version_1",
        "A producer that was fenced ends the transaction of the one that fenced it (transaction version 1).",
        Edit(ending._end_of_version_1, "if holder_epoch != command.producer_epoch:", "if False:"),
    ),
    Bug(
        "epoch_stays_after_the_end",
        "The end of a transaction does not raise the epoch: a late batch becomes part of the next one.",
        Edit(ending._marker_epoch, "return min(last + 1, LAST_EPOCH)", "return last"),
    ),
    Bug(
        "epochs_go_on_to_the_last",
        "A producer is given the epoch that is left for fencing.",
        Edit(
            TransactionMetadata.is_exhausted,
            "self.holder[1] >= LAST_EPOCH - 1",
            "self.holder[1] >= LAST_EPOCH",
        ),
    ),
    Bug(
        "abort_after_a_timeout_does_not_fence",
        "A transaction that took too long is aborted, and its producer may go on under the same epoch.",
        Edit(
            ending.abort_and_fence,
            "producer_epoch=_marker_epoch(metadata),",
            "producer_epoch=metadata.producer_epoch,",
        ),
    ),
    Bug(
        "timeout_aborts_whatever_is_open",
        "The abort of a transaction that took too long hits the next one of the same id.",
        Edit(ending.abort_timed_out, "not is_open or not _is_same(metadata, command)", "not is_open"),
    ),
    Bug(
        "timeout_is_not_looked_at_again",
        "A transaction that began after the look at the time is aborted for the one before (transaction version 1).",
        Edit(
            ending.abort_timed_out,
            "if metadata.started_ms + metadata.timeout_ms >= context.now_ms and not command.is_forced:",
            "if False:",
        ),
    ),
    Bug(
        "decision_forgets_its_partitions",
        "A transaction is complete when it is decided: its partitions get no marker.",
        Edit(
            ending._decided,
            "markers_of(decided, decided.partitions)] if decided.partitions",
            "markers_of(decided, decided.partitions)] if False",
        ),
    ),
    Bug(
        "first_marker_completes",
        "A transaction is complete when the first partition has its marker.",
        Edit(TransactionCoordinator._markers_written, "if left:", "if False:"),
    ),
    Bug(
        "markers_of_an_earlier_transaction_complete",
        "Markers of the transaction before count for the present one.",
        Edit(
            TransactionCoordinator._markers_written,
            "not is_same or not metadata.is_ending",
            "not metadata.is_ending",
        ),
    ),
    Bug(
        "new_coordinator_sends_no_markers",
        "The next coordinator does not go on with transactions whose end is decided.",
        Edit(
            TransactionCoordinator.loaded,
            "for transactional_id, partitions in self._unmarked.items()",
            "for transactional_id, partitions in ()",
        ),
    ),
    Bug(
        "open_transactions_expire",
        "A transactional id is forgotten while its transaction is open.",
        Edit(TransactionCoordinator._expire_ids, "if one.is_at_rest and one.updated_ms", "if one.updated_ms"),
    ),
    Bug(
        "prepared_transactions_time_out",
        "Transactions of two-phase commit are aborted after their timeout.",
        Edit(TransactionCoordinator.timed_out, "and one.timeout_ms != NO_TIMEOUT_MS", ""),
        Edit(
            TransactionCoordinator._allowed,
            "return command._replace(timeout_ms=NO_TIMEOUT_MS)",
            "return command",
        ),
    ),
    Bug(
        "end_is_answered_before_it_is_replicated",
        "The coordinator answers when the decision is in its own log.",
        Edit(TransactionShard._acknowledged, "if self._log.is_acknowledged(end):", "if True:"),
    ),
    Bug(
        "markers_leave_before_the_decision_is_replicated",
        "Markers are sent for a decision that the next coordinator may not know.",
        Edit(
            TransactionShard._send_when_acknowledged, "self._log.when_acknowledged(end, done)", "done(None)"
        ),
    ),
    Bug(
        "former_coordinator_goes_on_sending",
        "A coordinator whose leadership is over goes on sending markers.",
        Edit(
            MarkerSender._route,
            "if self._is_stopped or not sending.owner.is_current:",
            "if self._is_stopped:",
        ),
        Edit(
            TransactionShard._send_when_acknowledged,
            "if not markers or not self.is_current:",
            "if not markers:",
        ),
        Edit(MarkerSender._deliver, "if sending.owner.is_current}", "}"),
    ),
    Bug(
        "refused_marker_counts_as_written",
        "A partition that answered a marker with any error counts as ended.",
        Edit(MarkerSender._settle, "if error in _SETTLED}", "}"),
    ),
    Bug(
        "fenced_coordinator_completes",
        "TRANSACTION_COORDINATOR_FENCED is an answer like any other, and the marker is sent again.",
        Edit(
            MarkerSender._settle,
            "if ErrorCode.TRANSACTION_COORDINATOR_FENCED in errors.values():",
            "if False:",
        ),
    ),
    Bug(
        "partition_without_leader_counts_as_gone",
        "A partition that has no leader at the moment gets no marker.",
        Edit(MarkerSender._route, "if leader is None:", "if leader is None or leader == NO_LEADER:"),
    ),
    Bug(
        "deleted_topic_is_waited_for",
        "A transaction in a topic that was deleted is never complete.",
        Edit(MarkerSender._route, "gone.add(partition)", "waiting.add(partition)"),
    ),
    Bug(
        "marker_of_offsets_passes_by_the_group",
        "A marker for pending offsets is written to the log, and the group does not hear of it.",
        Edit(MarkerWriter.write, "if topic == OFFSETS_TOPIC:", "if False:"),
    ),
    Bug(
        "marker_is_written_when_the_leader_has_it",
        "A marker counts as written before it is replicated.",
        Edit(MarkerWriter.write, "if not missing:", "if True:"),
    ),
    Bug(
        "concurrent_transaction_is_told_at_once",
        "A partition that joins while the last transaction ends is refused instead of asking again.",
        Edit(TransactionQuestions.verify, "if not is_concurrent or not adds or loop", "if True or loop"),
    ),
)
