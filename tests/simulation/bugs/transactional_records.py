"""Bugs around the records of transactions: in a partition's log, among a group's offsets, in producers and readers."""

from tests.simulation.bugs.bug import Bug, Edit

from ottla.client.producer.machine import transaction_errors
from ottla.client.producer.machine.transaction import TransactionalProducer
from ottla.client.producer.transactions import Transactions as ProducerTransactions
from ottla.group.committed_offsets import CommittedOffsets
from ottla.log.producers.producer_state import Producers, Staged
from ottla.log.producers.transactions import Transactions
from ottla.log.producers.verification import Verification, Verifications
from ottla.log.segments.transaction_index import TransactionIndex
from ottla.log.writing.append import Appender
from ottla.records.aborted_transactions import AbortedTransactions
from ottla.server.apis.produce_verification import Claim, Verdict

BUGS = (
    Bug(
        "marker_below_the_watermark_is_not_waited_for",
        "Readers of committed records go on when the leader has the marker, before it is replicated.",
        Edit(
            Transactions.follow,
            "self._producers[turn.first_offset] = _ENDED",
            "del self._producers[turn.first_offset]",
        ),
        Edit(Transactions.follow, "self._ended.append(turn)", "pass"),
    ),
    Bug(
        "replicated_marker_at_the_watermark",
        "A marker counts as replicated when the high watermark has reached it, not passed it.",
        Edit(
            Transactions.replicated_to,
            "ended[0].marker_offset < high_watermark",
            "ended[0].marker_offset <= high_watermark",
        ),
    ),
    Bug(
        "transaction_is_not_told_when_it_begins",
        "Readers of committed records do not wait for a transaction that is open.",
        Edit(Staged.apply, "self.turns.append(BegunTransaction(", "(BegunTransaction("),
    ),
    Bug(
        "commit_is_indexed_as_aborted",
        "Transactions that were committed are named as aborted.",
        Edit(
            Staged.end_transaction,
            "if first_offset >= 0 and not ending.marker.is_commit:",
            "if first_offset >= 0:",
        ),
    ),
    Bug(
        "abort_is_not_indexed",
        "Readers of committed records are not told of aborted transactions.",
        Edit(Staged.end_transaction, "if first_offset >= 0 and not ending.marker.is_commit:", "if False:"),
    ),
    Bug(
        "stable_offset_of_an_abort_is_its_end",
        "The entry of an aborted transaction says that nothing older was open, and the search ends too early.",
        Edit(
            Staged._last_stable_offset,
            "return min((*staged, marker_offset + 1 if installed is None else installed))",
            "return marker_offset + 1",
        ),
    ),
    Bug(
        "marker_does_not_raise_the_epoch",
        "After a marker of a newer epoch the partition still takes batches of the older one.",
        Edit(Staged.end_transaction, "elif ending.epoch > entry.epoch:", "elif False:"),
    ),
    Bug(
        "marker_of_an_older_epoch_is_written",
        "A marker of an epoch that is out of date ends the transaction of the present one.",
        Edit(Producers.check_marker, "if marker.producer_epoch < entry.epoch or (", "if ("),
    ),
    Bug(
        "former_coordinators_marker_is_written",
        "The epoch of the coordinator in a marker is not looked at.",
        Edit(Producers.check_marker, "if marker.coordinator_epoch < entry.coordinator_epoch:", "if False:"),
    ),
    Bug(
        "late_marker_ends_the_next_transaction",
        "A marker with the epoch of the transaction that is open ends it, though each transaction has its own epoch.",
        Edit(
            Producers.check_marker,
            "marker.producer_epoch == entry.epoch and is_open and marker.bumps_epoch",
            "False",
        ),
    ),
    Bug(
        "producer_in_a_transaction_expires",
        "A silent producer is forgotten while its transaction is open.",
        Edit(Producers.expire, "and entry.txn_first_offset < 0", ""),
    ),
    Bug(
        "batch_outside_the_transaction_is_taken",
        "A producer writes without a transaction while its transaction is open.",
        Edit(Staged.check, "if entry.txn_first_offset >= 0 and not incoming.is_transactional:", "if False:"),
    ),
    Bug(
        "marker_keeps_a_verification",
        "A verification survives the marker that ended its transaction, and a late batch begins a transaction without end.",
        Edit(Verifications.follow, "if not is_next:", "if isinstance(turn, BegunTransaction):"),
    ),
    Bug(
        "marker_ends_the_next_verification",
        "The marker of the last transaction ends the verification of the next one.",
        Edit(Verifications.follow, "if not is_next:", "if True:"),
    ),
    Bug(
        "any_verification_is_good",
        "A batch presents an answer about another transaction of its producer.",
        Edit(
            Appender._unverified,
            "if verification is None or verification not in presented:",
            "if verification is None:",
        ),
    ),
    Bug(
        "verified_batches_in_any_order",
        "A later batch begins the transaction while an earlier one still waits for the coordinator.",
        Edit(Appender._unverified, "if sequence > lowest:", "if False:"),
    ),
    Bug(
        "lowest_sequence_is_the_first_seen",
        "Batches that wait for the same answer do not lower the sequence that must come first.",
        Edit(Verification.note, "self.lowest_sequence = min(self.lowest_sequence, sequence)", "pass"),
    ),
    Bug(
        "ongoing_in_any_epoch",
        "A batch of another epoch than that of the open transaction needs no verification.",
        Edit(
            Claim.is_ongoing, "has_ongoing(self.producer_id, self.epoch)", "get(self.producer_id) is not None"
        ),
    ),
    Bug(
        "refused_batches_are_appended",
        "The coordinator's refusal of a partition is not looked at.",
        Edit(Verdict.append, "refused = [self.refused.get((partition, place))", "refused = [None"),
    ),
    Bug(
        "search_for_aborted_ends_at_the_first",
        "The search for aborted transactions ends with the first entry that begins above the range.",
        Edit(
            TransactionIndex.find,
            "if entry.last_stable_offset >= upper_offset:",
            "if entry.first_offset >= upper_offset:",
        ),
    ),
    Bug(
        "pending_offset_wins_over_a_later_commit",
        "An offset of a transaction takes the place of one that was committed later.",
        Edit(
            CommittedOffsets._put_in_force, "if pending is not None and pending.place < place:", "if False:"
        ),
    ),
    Bug(
        "aborted_offsets_count",
        "Offsets of an aborted transaction are in force.",
        Edit(
            CommittedOffsets.end_transaction, "if is_commit and value is not None:", "if value is not None:"
        ),
    ),
    Bug(
        "tombstone_leaves_what_is_pending",
        "A deleted offset comes back with the marker of a transaction.",
        Edit(CommittedOffsets._forget, "held.pop((topic, partition), None)", "pass"),
    ),
    Bug(
        "pending_offsets_are_stable",
        "A consumer that asks for stable offsets is told one that an open transaction may change.",
        Edit(CommittedOffsets.is_pending, "return bool(self._pending) and", "return False and"),
    ),
    Bug(
        "reader_skips_to_the_end_of_the_answer",
        "A reader of committed records skips what a producer wrote after its aborted transaction.",
        Edit(AbortedTransactions.hides, "self._open.discard(", "(lambda _: None)("),
    ),
    Bug(
        "epoch_is_kept_after_a_lost_answer",
        "A producer goes on in an epoch in which a request had no answer.",
        Edit(
            TransactionalProducer.lost,
            "self._is_epoch_spent = self._is_known = True",
            "self._is_known = True",
        ),
    ),
    Bug(
        "lost_commit_is_aborted",
        "A commit without an answer is told to the application as aborted.",
        Edit(ProducerTransactions._commit, "if passes and machine.is_end_lost:", "if False:"),
    ),
    Bug(
        "undecided_transaction_is_left_open",
        "A producer whose commit had no answer raises its epoch without ending the transaction first.",
        Edit(ProducerTransactions._initialise, "if machine.is_undecided:", "if False:"),
    ),
    Bug(
        "commit_without_a_flush",
        "A transaction is committed before its records are delivered.",
        Edit(ProducerTransactions._end, "await self._flush()", "pass"),
    ),
    Bug(
        "failed_record_is_committed",
        "A transaction is committed though one of its records was not delivered.",
        Edit(ProducerTransactions._fail_batch, "if self._machine.phase is not Phase.ABORTING:", "if False:"),
    ),
    Bug(
        "partitions_of_the_last_transaction_are_added",
        "A producer of transaction version 1 does not add partitions that the transaction before had.",
        Edit(TransactionalProducer.ended, "self._added.clear()", "pass"),
    ),
    Bug(
        "fenced_producer_tries_again",
        "A producer that was fenced is told that its transaction can be run again.",
        Edit(transaction_errors.remedy_of_request, "if code in _FENCED:", "if False:"),
    ),
)
