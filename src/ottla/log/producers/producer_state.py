"""The state of each producer in one log: its epoch, its last five batches, its open transaction (PRO-4).

    batch of a client                                   answer
    same epoch, same (first, last) sequence as one of   a duplicate: the offset it got the first time
      the last five batches, or as an older one that
      is found in the log (`producer_lookup`)
    older epoch                                         INVALID_PRODUCER_EPOCH
    newer epoch, first sequence not 0                   OUT_OF_ORDER_SEQUENCE_NUMBER, after some rounds of
    same epoch, not the next sequence                     sending again (`sequence_gaps`)
    not transactional, inside an open transaction       INVALID_TXN_STATE
    unknown producer                                    accepted with any sequence: its state may have expired.
                                                          One other than 0 after some rounds

    marker of a coordinator                             answer
    older epoch; with transaction version 2 also the    INVALID_PRODUCER_EPOCH
      same epoch, while a transaction is open
    older epoch of the coordinator                      TRANSACTION_COORDINATOR_FENCED
    nothing is open, and producer and coordinator       a duplicate: there is nothing to write
      have these epochs already

Nothing changes before a write has succeeded: an append works on copies of the entries that it changes
(`Staged`) and installs them afterwards. So several batches of one producer in one append see each other.
"""

from collections import deque
from typing import Final, NamedTuple

from ottla.errors import ErrorCode, KafkaError
from ottla.log.producers.transactions import BegunTransaction, EndedTransaction, Transactions, Turn
from ottla.log.producers.verification import Verifications
from ottla.model import NO_EPOCH, NO_OFFSET, NO_SEQUENCE
from ottla.records.control import EndTransactionMarker, TransactionMarker
from ottla.records.index_entries import AbortedEntry

BATCHES_KEPT: Final = 5  # as in Kafka: the number of requests that an idempotent producer may have in flight
SEQUENCE_MASK: Final = (1 << 31) - 1  # sequences count 0 … 2^31-1 and wrap around


class ProducedBatch(NamedTuple):
    """The sequences and offsets of one batch, by which a duplicate is recognised."""

    first_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    timestamp: int


class ProducerEntry:
    """The state of one producer on one partition."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "epoch",
        "is_whole",
        "last_timestamp",
        "next_sequence",
        "txn_first_offset",
    )

    def __init__(
        self,
        epoch: int = NO_EPOCH,
        *,
        is_whole: bool = True,
        last_timestamp: int = -1,
        coordinator_epoch: int = -1,
        txn_first_offset: int = NO_OFFSET,
    ) -> None:
        self.epoch = epoch
        self.is_whole = (
            is_whole  # False: restored from a snapshot, which has only one of the last five batches
        )
        self.next_sequence = 0
        self.batches: deque[ProducedBatch] = deque(maxlen=BATCHES_KEPT)
        self.last_timestamp = last_timestamp
        self.coordinator_epoch = coordinator_epoch
        self.txn_first_offset = txn_first_offset

    def copy(self) -> "ProducerEntry":
        """An independent copy. Every append makes one, hence without the constructor's defaults."""
        copied = ProducerEntry.__new__(ProducerEntry)
        copied.epoch = self.epoch
        copied.is_whole = self.is_whole
        copied.next_sequence = self.next_sequence
        copied.batches = self.batches.copy()
        copied.last_timestamp = self.last_timestamp
        copied.coordinator_epoch = self.coordinator_epoch
        copied.txn_first_offset = self.txn_first_offset
        return copied

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_offset(self) -> int:
        return self.batches[-1].last_offset if self.batches else NO_OFFSET

    @property
    def first_resendable_offset(self) -> int:
        """Where the batches begin that the producer may send again; -1 if it has none.

        Of a producer that was restored from a snapshot only the last batch is known: then every batch counts.
        """
        if not self.batches:
            return NO_OFFSET
        return self.batches[0].base_offset if self.is_whole or len(self.batches) == BATCHES_KEPT else 0

    def duplicate_of(self, first_sequence: int, last_sequence: int) -> ProducedBatch | None:
        """The batch among the last five that has exactly these sequences."""
        for batch in self.batches:
            if batch.first_sequence == first_sequence and batch.last_sequence == last_sequence:
                return batch
        return None

    def add(self, batch: ProducedBatch) -> None:
        """Add the producer's newest batch."""
        self.batches.append(batch)
        self.next_sequence = (batch.last_sequence + 1) & SEQUENCE_MASK
        self.last_timestamp = batch.timestamp

    def recall(self, earlier: list[ProducedBatch]) -> None:
        """Add batches before the oldest known one, newest first, up to five in all."""
        self.is_whole = True
        self.batches.extendleft(earlier[: BATCHES_KEPT - len(self.batches)])

    def begin_epoch(self, epoch: int) -> None:
        """Begin a newer producer epoch: batches of the older one can no longer be sent again."""
        assert epoch != self.epoch, f"epoch {epoch} has begun already"
        self.epoch = epoch
        self.is_whole = True
        self.batches.clear()
        self.next_sequence = 0

    @property
    def has_open_transaction(self) -> bool:
        return self.txn_first_offset >= 0

    def begin_transaction(self, first_offset: int) -> None:
        """Open a transaction whose first record is at `first_offset`."""
        assert self.txn_first_offset < 0, f"a transaction is open since {self.txn_first_offset}"
        self.txn_first_offset = first_offset

    def end_transaction(self, coordinator_epoch: int, timestamp: int) -> None:
        """Close the open transaction: a commit or abort marker was written."""
        self.txn_first_offset = NO_OFFSET
        self.coordinator_epoch = coordinator_epoch
        self.last_timestamp = timestamp

    def forget_transaction(self) -> None:
        """None of the transaction's records is left."""
        self.txn_first_offset = NO_OFFSET


class Incoming(NamedTuple):
    """The producer fields of a batch that has its offsets."""

    producer_id: int
    epoch: int
    is_transactional: bool
    batch: ProducedBatch


class Ending(NamedTuple):
    """A marker at its offset."""

    producer_id: int
    epoch: int
    marker: EndTransactionMarker
    offset: int
    timestamp: int


class _Look(NamedTuple):
    """What a producer had written when somebody looked at it first after that."""

    written: tuple[int, int, int, int]
    at_ms: int


class Producers:
    """The producers of one log, by id, and their transactions."""

    __slots__ = ("_entries", "_looks", "transactions", "verifications")

    def __init__(self) -> None:
        self._entries: dict[int, ProducerEntry] = {}
        self._looks: dict[int, _Look] = {}
        self.transactions = Transactions()
        self.verifications = Verifications()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, producer_id: int) -> ProducerEntry | None:
        return self._entries.get(producer_id)

    def items(self) -> list[tuple[int, ProducerEntry]]:
        return list(self._entries.items())

    def install(self, entries: dict[int, ProducerEntry]) -> None:
        """Add or replace these entries."""
        self._entries.update(entries)

    def restore(self, entries: dict[int, ProducerEntry]) -> None:
        """Have these producers, with their open transactions, and no others."""
        self._entries = entries
        self._looks = {}
        self.transactions = Transactions()
        self.verifications = Verifications()
        begun = [(entry.txn_first_offset, producer_id) for producer_id, entry in entries.items()]
        self.transactions.follow(
            [BegunTransaction(producer_id, first) for first, producer_id in sorted(begun) if first >= 0]
        )

    def follow(self, turns: list[Turn]) -> None:
        """Take over the beginnings and ends of transactions in an append."""
        self.transactions.follow(turns)
        self.verifications.follow(turns)

    def forget(self, producer_id: int) -> None:
        """Drop one producer: none of its batches is in the log."""
        self._entries.pop(producer_id, None)

    def has_ongoing(self, producer_id: int, epoch: int) -> bool:
        """Whether a transaction of this producer is open in this epoch."""
        entry = self._entries.get(producer_id)
        return entry is not None and entry.txn_first_offset >= 0 and entry.epoch == epoch

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Drop producers outside a transaction that sent nothing for `expiration_ms`; return how many."""
        before_ms = now_ms - expiration_ms
        self.verifications.expire(before_ms)
        silent = [
            producer_id
            for producer_id, entry in self._entries.items()
            if self._last_heard_ms(producer_id, entry, now_ms) < before_ms and entry.txn_first_offset < 0
        ]
        for producer_id in silent:
            del self._entries[producer_id]
        self._looks = {known: look for known, look in self._looks.items() if known in self._entries}
        return len(silent)

    def _last_heard_ms(self, producer_id: int, entry: ProducerEntry, now_ms: int) -> int:
        """When a producer last wrote, by the times of such looks at it and of its records.

        The times of its records alone do not tell: a producer may copy records that are years old.
        """
        written = (entry.epoch, entry.last_offset, entry.last_timestamp, entry.txn_first_offset)
        look = self._looks.get(producer_id)
        if look is None or look.written != written:
            look = self._looks[producer_id] = _Look(written, now_ms)
        return max(look.at_ms, entry.last_timestamp)

    def forget_transactions_before(self, offset: int) -> None:
        """Close transactions whose records are all deleted: a marker for them may never arrive."""
        for producer_id, first_offset in self.transactions.open_before(offset):
            entry = self._entries[producer_id]
            if entry.last_offset < offset:
                entry.forget_transaction()
                self.transactions.forget(first_offset)

    def check_marker(self, marker: TransactionMarker) -> bool:
        """Whether a marker must be written; False for a duplicate, KafkaError if it is refused."""
        entry = self._entries.get(marker.producer_id)
        if entry is None:
            return True
        is_open = entry.has_open_transaction
        if marker.producer_epoch < entry.epoch or (
            marker.producer_epoch == entry.epoch and is_open and marker.bumps_epoch
        ):
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {marker.producer_id} is at epoch {entry.epoch}; the marker has {marker.producer_epoch}",
            )
        if marker.coordinator_epoch < entry.coordinator_epoch:
            raise KafkaError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"a coordinator of epoch {entry.coordinator_epoch} has written markers of producer"
                f" {marker.producer_id}; this one has epoch {marker.coordinator_epoch}",
            )
        known = (entry.epoch, entry.coordinator_epoch)
        return is_open or known != (marker.producer_epoch, marker.coordinator_epoch)


class Staged:
    """The producer changes of one append, before they are installed in the log's `Producers`."""

    __slots__ = ("_producers", "aborted", "entries", "turns")

    def __init__(self, producers: Producers) -> None:
        self._producers = producers
        self.entries: dict[int, ProducerEntry] = {}
        self.turns: list[Turn] = []
        self.aborted: list[AbortedEntry] = []
        """The transactions that were aborted: entries for the segment's `.txnindex`."""

    def entry(self, producer_id: int) -> ProducerEntry | None:
        """The staged copy of the producer's state; None if the producer is unknown."""
        entry = self.entries.get(producer_id)
        if entry is None:
            known = self._producers.get(producer_id)
            if known is None:
                return None
            self.entries[producer_id] = entry = known.copy()
        return entry

    def install(self) -> None:
        """Make all changes the state of the log's producers, and clear them here."""
        self._producers.install(self.entries)
        self.entries = {}
        if self.turns:
            self._producers.follow(self.turns)
            self.turns, self.aborted = [], []

    def discard(self) -> None:
        """Clear all changes: the batches that they belong to were refused."""
        self.entries, self.turns, self.aborted = {}, [], []

    def check(self, incoming: Incoming) -> ProducedBatch | None:
        """The earlier batch that this one repeats; None for a new one; KafkaError if it is refused."""
        entry = self.entry(incoming.producer_id)
        if entry is None:
            return None
        batch = incoming.batch
        if incoming.epoch == entry.epoch:
            earlier = entry.duplicate_of(batch.first_sequence, batch.last_sequence)
            if earlier is not None:
                return earlier
        _check_epoch(incoming, entry)
        _check_sequence(incoming, entry)
        if entry.txn_first_offset >= 0 and not incoming.is_transactional:
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE,
                f"producer {incoming.producer_id} has an open transaction and sent a batch outside of it",
            )
        return None

    def apply(self, incoming: Incoming) -> None:
        """Record a data batch whose order was checked before, by `check` or by the leader."""
        entry = self.entry(incoming.producer_id)
        if entry is None:
            entry = self.entries[incoming.producer_id] = ProducerEntry(incoming.epoch)
        elif entry.epoch != incoming.epoch:
            entry.begin_epoch(incoming.epoch)
        entry.add(incoming.batch)
        if incoming.is_transactional and not entry.has_open_transaction:
            entry.begin_transaction(incoming.batch.base_offset)
            self.turns.append(BegunTransaction(incoming.producer_id, incoming.batch.base_offset))

    def end_transaction(self, ending: Ending) -> None:
        """Record a commit or abort marker, which closes the producer's transaction."""
        producer_id = ending.producer_id
        entry = self.entry(producer_id)
        if entry is None:
            entry = self.entries[producer_id] = ProducerEntry(ending.epoch)
        elif ending.epoch > entry.epoch:
            entry.begin_epoch(ending.epoch)
        first_offset = entry.txn_first_offset
        entry.end_transaction(ending.marker.coordinator_epoch, ending.timestamp)
        self.turns.append(EndedTransaction(producer_id, ending.epoch, first_offset, ending.offset))
        if first_offset >= 0 and not ending.marker.is_commit:
            stable = self._last_stable_offset(ending.offset)
            self.aborted.append(AbortedEntry(producer_id, first_offset, ending.offset, stable))

    def _last_stable_offset(self, marker_offset: int) -> int:
        """The start of the oldest transaction that is open after this marker; the next offset without one."""
        installed = self._producers.transactions.first_open_besides(set(self.entries))
        staged = (entry.txn_first_offset for entry in self.entries.values() if entry.has_open_transaction)
        return min((*staged, marker_offset + 1 if installed is None else installed))


def _check_epoch(incoming: Incoming, entry: ProducerEntry) -> None:
    if incoming.epoch < entry.epoch:
        raise KafkaError(
            ErrorCode.INVALID_PRODUCER_EPOCH,
            f"producer {incoming.producer_id} is at epoch {entry.epoch}; the batch has {incoming.epoch}",
        )


def expected_sequence(incoming: Incoming, entry: ProducerEntry | None) -> int:
    """The first sequence of the batch that a producer must send next, in the epoch of `incoming`."""
    return entry.next_sequence if entry is not None and incoming.epoch == entry.epoch else 0


def _check_sequence(incoming: Incoming, entry: ProducerEntry) -> None:
    expected = expected_sequence(incoming, entry)
    if incoming.batch.first_sequence != expected:
        raise KafkaError(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"producer {incoming.producer_id}, epoch {incoming.epoch}: sequence {expected} comes next,"
            f" not {incoming.batch.first_sequence}",
        )
