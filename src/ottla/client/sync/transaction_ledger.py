"""The decisions of a writer of many processes, where brokers cannot commit its transactions together.

Such brokers, those of Apache Kafka, commit each transaction by itself. The process that commits writes the decision
to the ledger first (`machine.ledger_entries`), then commits the transactions of the entry one after the other. A
process that comes later finds the decision, and goes on. A transaction that its timeout has aborted in between is
written again: its records are still in the partitions, for readers of uncommitted records.

Rules
- The process that commits has taken the writer's name over, and reads the ledger after that.
- What became of a transaction is asked of its coordinator first. A coordinator that refuses to commit it may have
  aborted it, or has forgotten it; then the marker in the partition tells.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, TypeVar

from ottla.client.cluster.machine import transaction_group as questions
from ottla.client.cluster.machine.conversation import Pause, Steps
from ottla.client.cluster.machine.retries import Inquiry, Patience, settled
from ottla.client.cluster.machine.topic_inquiries import describe_topics, list_offsets
from ottla.client.cluster.machine.transaction_inquiries import describe_producers
from ottla.client.requests.group_commit import MemberTransaction
from ottla.client.requests.metadata import TopicInfo
from ottla.client.requests.offsets import OffsetSpec
from ottla.client.requests.outcomes import succeeded
from ottla.client.sync.blocking_brokers import BlockingBrokers
from ottla.client.sync.machine.ledger_entries import LEDGER, Entry, LedgerReading, Participant, Written
from ottla.client.sync.range_reader import OffsetsLostError, RangeReader, RangeSettings
from ottla.errors import ErrorCode, KafkaError
from ottla.model import TopicPartition
from ottla.records.batch import BatchView
from ottla.records.control import marker_of
from ottla.records.record import Record

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")

_PAUSE_MS: Final = 100
# A batch takes four offsets of the ledger: the decision and its end, each with a marker.
_RECENT: Final = 256
# The coordinator does not have the transaction open: it was ended before, or forgotten.
_NOT_OPEN: Final = frozenset(
    {
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
    }
)


class RecordsGoneError(Exception):
    """Records of a batch that was decided can neither be committed nor read."""


class TransactionLedger:
    """The ledger as the writer `name` sees it. Used by one thread at a time."""

    def __init__(self, brokers: BlockingBrokers, name: str, patience: Patience) -> None:
        self._brokers = brokers
        self._name = name
        self._patience = patience

    # ---- entries

    def describe(self, topic: str) -> TopicInfo | KafkaError:
        """A topic, such as that of the ledger."""
        inquiry = describe_topics(self._brokers.known, [topic])
        return self._brokers.converse(settled(self._brokers.known, inquiry, self._patience))[topic]

    def read(self, *, exists: bool = False) -> Entry | None:
        """The writer's last entry; None before the first one. Waits for a decision that is being written.

        With `exists`, the ledger is known to exist, whatever a broker says that has not heard of it yet.
        """
        for _ in self._pauses():
            try:
                reading = self._reading()
            except KafkaError as error:
                if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    raise
                if not exists:
                    return None
            except OffsetsLostError:
                pass  # compaction has moved the beginning of the log meanwhile
            else:
                if reading.is_settled:
                    return reading.entry
        raise TimeoutError(f"the last batch of '{self._name}' was being decided for too long")

    def _reading(self) -> LedgerReading:
        """The writer's part of the ledger. A writer that has just written is found near its end."""
        start, end = (self._offset(LEDGER, spec) for spec in (OffsetSpec.EARLIEST, OffsetSpec.LATEST))
        for first in dict.fromkeys((max(start, end - _RECENT), start)):
            reading = LedgerReading(self._name)
            for batch in self._batches(LEDGER, first):
                reading.take(batch)
            if reading.entry is not None:
                break
        return reading

    # ---- transactions

    def participants(
        self, records: Mapping[MemberTransaction, Mapping[TopicPartition, int]]
    ) -> tuple[Participant, ...]:
        """The open transactions, with the places of their records. Raises KafkaError(PRODUCER_FENCED) if one of them
        is not open any more.
        """
        partitions = {each for counts in records.values() for each in counts}
        known = self._settled(describe_producers(self._brokers.known, partitions))
        begun = {
            (partition, each.producer_id, each.producer_epoch): each.open_since_offset
            for partition, producers in known.items()
            for each in producers
        }
        found = []
        for transaction, counts in records.items():
            written: dict[TopicPartition, Written] = {}
            for partition, count in counts.items():
                first = begun.get((partition, transaction.producer_id, transaction.producer_epoch))
                if first is None:
                    raise KafkaError(
                        ErrorCode.PRODUCER_FENCED,
                        f"the transaction of {transaction.transactional_id} in {partition} is not open any more",
                    )
                written[partition] = Written(first, count)
            found.append(Participant(transaction, written))
        return tuple(found)

    def commit(self, participants: Iterable[Participant]) -> list[Participant]:
        """Commit the transactions; those that were aborted instead."""
        by_transaction = {each.transaction: each for each in participants}
        known = self._brokers.known
        inquiry = questions.end_each(known, by_transaction, is_commit=True)
        outcomes = self._brokers.converse(settled(known, inquiry, self._patience))
        refused = []
        for transaction, outcome in outcomes.items():
            if outcome is None:
                continue
            if outcome.code not in _NOT_OPEN:
                raise outcome
            refused.append(by_transaction[transaction])
        return [each for each in refused if not self._was_committed(each)]

    def records(self, participant: Participant, partition: TopicPartition) -> Iterator[Record]:
        """The records that a transaction wrote to a partition. Raises RecordsGoneError after those that are there."""
        identity = participant.transaction[1:]
        missing = participant.written[partition].records_count
        for batch in self._of_participant(participant, partition):
            if batch.is_control:
                break
            if (batch.producer_id, batch.producer_epoch) == identity:
                for record in batch.records():
                    missing -= 1
                    yield record
            if missing <= 0:
                return
        raise _gone(participant, partition, f"{missing} of its records were removed, as compaction does")

    def _was_committed(self, participant: Participant) -> bool:
        """What the marker after the records says; waits until there is one.

        The marker has the epoch of the transaction, or the next one: later transactions of the producer have others.
        """
        partition, epoch = min(participant.written), participant.transaction.producer_epoch
        for _ in self._pauses():
            for batch in self._of_participant(participant, partition):
                if batch.is_control and epoch <= batch.producer_epoch <= epoch + 1:
                    marker = marker_of(batch)
                    if marker is not None:
                        return marker.is_commit
        transaction = participant.transaction.transactional_id
        raise TimeoutError(
            f"the transaction of {transaction} is neither committed nor aborted in {partition}"
        )

    def _of_participant(self, participant: Participant, partition: TopicPartition) -> Iterator[BatchView]:
        """The batches of the transaction's producer, from its first record on."""
        producer_id = participant.transaction.producer_id
        try:
            for batch in self._batches(partition, participant.written[partition].first_offset):
                if batch.producer_id == producer_id:
                    yield batch
        except OffsetsLostError as error:
            raise _gone(participant, partition, error.why) from error

    # ---- reading

    def _batches(self, partition: TopicPartition, start: int) -> Iterator[BatchView]:
        """All batches up to the present end, those of open and aborted transactions too. Valid until the next one."""
        end = self._offset(partition, OffsetSpec.LATEST)
        reader = RangeReader(self._brokers, partition, start, end, RangeSettings())
        try:
            while (found := reader.read()) is not None:
                if found.damage is not None:
                    raise found.damage
                for placed in found.batches:
                    yield BatchView(found.records, placed.position)
        finally:
            reader.close()

    def _offset(self, partition: TopicPartition, spec: OffsetSpec) -> int:
        inquiry = list_offsets(self._brokers.known, {partition: spec}, read_committed=False)
        return self._settled(inquiry)[partition].offset

    def _pauses(self) -> Iterator[int]:
        """As many attempts as the patience allows, with a pause between two of them."""
        for attempt in itertools.count():
            yield attempt
            if (attempt + 1) * _PAUSE_MS > self._patience.timeout_ms:
                return
            self._brokers.converse(_paused())

    def _settled(self, inquiry: Inquiry[K, V, T]) -> dict[K, T]:
        outcomes = self._brokers.converse(settled(self._brokers.known, inquiry, self._patience))
        return succeeded(outcomes)


def _paused() -> Steps[None]:
    yield Pause(_PAUSE_MS)


def _gone(participant: Participant, partition: TopicPartition, why: str) -> RecordsGoneError:
    first, count = participant.written[partition]
    return RecordsGoneError(
        f"The transaction of {participant.transaction.transactional_id} was aborted, and its {count} records in "
        f"{partition} from offset {first} on cannot be written again: {why}."
    )
