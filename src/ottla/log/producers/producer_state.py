"""The state of each producer in one log: its epoch, its last five batches, its open transaction (PRO-4).

    batch of a client                                   answer
    same epoch, same (first, last) sequence as one of   a duplicate: the offset it got the first time
      the last five batches, or as an older one that
      is found in the log (`producer_lookup`)
    older epoch                                         INVALID_PRODUCER_EPOCH
    newer epoch, first sequence not 0                   OUT_OF_ORDER_SEQUENCE_NUMBER
    same epoch, not the next sequence                   OUT_OF_ORDER_SEQUENCE_NUMBER
    not transactional, inside an open transaction       INVALID_TXN_STATE
    unknown producer                                    accepted with any sequence: its state may have expired

Nothing changes before a write has succeeded: an append works on copies of the entries that it changes
(`Staged`) and installs them afterwards. So several batches of one producer in one append see each other.
"""

from collections import deque
from typing import Final, NamedTuple

from ottla.errors import ErrorCode, KafkaError
from ottla.model import NO_EPOCH, NO_OFFSET, NO_SEQUENCE

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

    def begin_transaction(self, first_offset: int) -> None:
        """Open a transaction whose first record is at `first_offset`, unless one is open."""
        if self.txn_first_offset < 0:
            self.txn_first_offset = first_offset

    def end_transaction(self, coordinator_epoch: int, timestamp: int) -> None:
        """Close the open transaction: a commit or abort marker was written."""
        self.txn_first_offset = NO_OFFSET
        self.coordinator_epoch = coordinator_epoch
        self.last_timestamp = timestamp

    def trim_transaction(self, log_start_offset: int) -> None:
        """Records before `log_start_offset` are deleted: the transaction begins there, or is gone."""
        self.txn_first_offset = log_start_offset if self.last_offset >= log_start_offset else NO_OFFSET


class Incoming(NamedTuple):
    """The producer fields of a batch that has its offsets."""

    producer_id: int
    epoch: int
    is_transactional: bool
    batch: ProducedBatch


class Producers:
    """The producers of one log, by id."""

    __slots__ = ("_entries", "_open_transactions")

    def __init__(self) -> None:
        self._entries: dict[int, ProducerEntry] = {}
        self._open_transactions: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, producer_id: int) -> ProducerEntry | None:
        return self._entries.get(producer_id)

    def items(self) -> list[tuple[int, ProducerEntry]]:
        return list(self._entries.items())

    def install(self, entries: dict[int, ProducerEntry]) -> None:
        """Add or replace these entries."""
        self._entries.update(entries)
        for producer_id, entry in entries.items():
            if entry.txn_first_offset >= 0:
                self._open_transactions[producer_id] = entry.txn_first_offset
            elif self._open_transactions:
                self._open_transactions.pop(producer_id, None)

    def replace(self, other: "Producers") -> None:
        """Have the producers of `other` and no others."""
        self._entries.clear()
        self._open_transactions.clear()
        self.install(dict(other.items()))

    def forget(self, producer_id: int) -> None:
        """Drop one producer: none of its batches is in the log."""
        self._entries.pop(producer_id, None)
        self._open_transactions.pop(producer_id, None)

    @property
    def first_unstable_offset(self) -> int | None:
        """The start of the oldest open transaction, where a read-committed reader stops; None without one."""
        # Every read asks for it, and there is nearly always none.
        return min(self._open_transactions.values()) if self._open_transactions else None

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Drop producers outside a transaction that sent nothing for `expiration_ms`; return how many."""
        before_ms = now_ms - expiration_ms
        silent = [
            producer_id
            for producer_id, entry in self._entries.items()
            if entry.last_timestamp < before_ms and entry.txn_first_offset < 0
        ]
        for producer_id in silent:
            del self._entries[producer_id]
        return len(silent)

    def forget_transactions_before(self, offset: int) -> None:
        """Close transactions whose records are all deleted: a marker for them may never arrive."""
        for producer_id, first_offset in list(self._open_transactions.items()):
            if first_offset < offset:
                entry = self._entries[producer_id].copy()
                entry.trim_transaction(offset)
                self.install({producer_id: entry})


class Staged:
    """The producer changes of one append, before they are installed in the log's `Producers`."""

    __slots__ = ("_producers", "entries")

    def __init__(self, producers: Producers) -> None:
        self._producers = producers
        self.entries: dict[int, ProducerEntry] = {}

    def entry(self, producer_id: int) -> ProducerEntry | None:
        """The staged copy of the producer's state; None if the producer is unknown."""
        entry = self.entries.get(producer_id)
        if entry is None:
            known = self._producers.get(producer_id)
            if known is None:
                return None
            self.entries[producer_id] = entry = known.copy()
        return entry

    def take(self) -> dict[int, ProducerEntry]:
        """Return all changes and clear them here."""
        entries, self.entries = self.entries, {}
        return entries

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
        if incoming.is_transactional:
            entry.begin_transaction(incoming.batch.base_offset)

    def end_transaction(self, producer_id: int, epoch: int, coordinator_epoch: int, timestamp: int) -> None:
        """Record a commit or abort marker, which closes the producer's transaction."""
        entry = self.entry(producer_id)
        if entry is None:
            entry = self.entries[producer_id] = ProducerEntry(epoch)
        elif epoch > entry.epoch:
            entry.begin_epoch(epoch)
        entry.end_transaction(coordinator_epoch, timestamp)


def _check_epoch(incoming: Incoming, entry: ProducerEntry) -> None:
    if incoming.epoch < entry.epoch:
        raise KafkaError(
            ErrorCode.INVALID_PRODUCER_EPOCH,
            f"producer {incoming.producer_id} is at epoch {entry.epoch}; the batch has {incoming.epoch}",
        )


def _check_sequence(incoming: Incoming, entry: ProducerEntry) -> None:
    expected = entry.next_sequence if incoming.epoch == entry.epoch else 0
    if incoming.batch.first_sequence != expected:
        raise KafkaError(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"producer {incoming.producer_id}, epoch {incoming.epoch}: sequence {expected} comes next,"
            f" not {incoming.batch.first_sequence}",
        )
