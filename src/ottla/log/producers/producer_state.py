"""What the log remembers of each producer: its epoch, its last five batches, its open transaction (PRO-4).

    batch of a client                                   answer
    same epoch, same (first, last) sequence as one of   a duplicate: the offset it got the first time
      the last five batches, or as an older one that
      is found in the log (recall.py)
    older epoch                                         INVALID_PRODUCER_EPOCH
    newer epoch, first sequence not 0                   OUT_OF_ORDER_SEQUENCE_NUMBER
    same epoch, not the next sequence                   OUT_OF_ORDER_SEQUENCE_NUMBER
    not transactional, inside an open transaction       INVALID_TXN_STATE
    unknown producer                                    taken, whatever its sequence: its state may have expired

Nothing changes before a write has succeeded: an append works on copies of the entries it touches (`Staged`) and
installs them afterwards, so that several batches of one producer in one append see each other.
"""

from collections import deque
from typing import Final, NamedTuple

from ottla.errors import ErrorCode, KafkaError
from ottla.model import NO_EPOCH, NO_OFFSET, NO_SEQUENCE

BATCHES_KEPT: Final = 5  # what Kafka promises: as many requests as an idempotent producer may have in flight
SEQUENCE_MASK: Final = (1 << 31) - 1  # sequences count 0 … 2^31-1 and begin again


class ProducedBatch(NamedTuple):
    """A batch that can be recognised when it is sent again."""

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

    def __init__(self, epoch: int = NO_EPOCH) -> None:
        self.epoch = epoch
        self.is_whole = True  # False: it came from a snapshot, which keeps one batch of the last five
        self.next_sequence = 0
        self.batches: deque[ProducedBatch] = deque(maxlen=BATCHES_KEPT)
        self.last_timestamp = -1
        self.coordinator_epoch = -1
        self.txn_first_offset = NO_OFFSET

    def copy(self) -> "ProducerEntry":
        """The same state, to be changed without changing this one."""
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
        """The batch among the last ones that has exactly these sequences."""
        for batch in self.batches:
            if batch.first_sequence == first_sequence and batch.last_sequence == last_sequence:
                return batch
        return None

    def add(self, batch: ProducedBatch) -> None:
        """The producer's newest batch."""
        self.batches.append(batch)
        self.next_sequence = (batch.last_sequence + 1) & SEQUENCE_MASK
        self.last_timestamp = batch.timestamp

    def recall(self, earlier: list[ProducedBatch]) -> None:
        """Batches before the oldest known one, newest first; as many as there is room for."""
        self.is_whole = True
        self.batches.extendleft(earlier[: BATCHES_KEPT - len(self.batches)])

    def begin_epoch(self, epoch: int) -> None:
        """A newer incarnation of the producer: what the older one sent can no longer be sent again."""
        self.epoch = epoch
        self.is_whole = True
        self.batches.clear()
        self.next_sequence = 0


class Incoming(NamedTuple):
    """What a batch says about its producer, numbered."""

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
        """Make staged entries the truth."""
        self._entries.update(entries)
        for producer_id, entry in entries.items():
            if entry.txn_first_offset >= 0:
                self._open_transactions[producer_id] = entry.txn_first_offset
            elif self._open_transactions:
                self._open_transactions.pop(producer_id, None)

    def forget(self, producer_id: int) -> None:
        """It has sent nothing, as far as this log knows now."""
        self._entries.pop(producer_id, None)
        self._open_transactions.pop(producer_id, None)

    @property
    def first_unstable_offset(self) -> int | None:
        """Where the oldest open transaction begins; a read-committed reader may not pass it."""
        # Every read asks this, and nearly always there is none.
        return min(self._open_transactions.values()) if self._open_transactions else None

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Forget producers that were silent for so long and are outside a transaction; how many."""
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
        """Close transactions whose records are gone: nobody can read them, and no marker may ever come."""
        for producer_id, first_offset in list(self._open_transactions.items()):
            entry = self._entries[producer_id].copy()
            if first_offset < offset:
                entry.txn_first_offset = offset if entry.last_offset >= offset else NO_OFFSET
                self.install({producer_id: entry})


class Staged:
    """The changes of one append, visible to itself and not yet to the log."""

    __slots__ = ("_producers", "entries")

    def __init__(self, producers: Producers) -> None:
        self._producers = producers
        self.entries: dict[int, ProducerEntry] = {}

    def entry(self, producer_id: int) -> ProducerEntry | None:
        """A private copy of the producer's state; None if the producer is unknown."""
        entry = self.entries.get(producer_id)
        if entry is None:
            known = self._producers.get(producer_id)
            if known is None:
                return None
            self.entries[producer_id] = entry = known.copy()
        return entry

    def take(self) -> dict[int, ProducerEntry]:
        """All changes, which are no longer staged then."""
        entries, self.entries = self.entries, {}
        return entries

    def check(self, incoming: Incoming) -> ProducedBatch | None:
        """Whether a client may append this: the earlier batch it repeats, or None; KafkaError if it may not."""
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
        """Take a data batch in, without asking whether it may come (`check` did, or the leader)."""
        entry = self.entry(incoming.producer_id)
        if entry is None:
            entry = self.entries[incoming.producer_id] = ProducerEntry(incoming.epoch)
        elif entry.epoch != incoming.epoch:
            entry.begin_epoch(incoming.epoch)
        entry.add(incoming.batch)
        if incoming.is_transactional and entry.txn_first_offset < 0:
            entry.txn_first_offset = incoming.batch.base_offset

    def end_transaction(self, producer_id: int, epoch: int, coordinator_epoch: int, timestamp: int) -> None:
        """A commit or abort marker closes the producer's transaction."""
        entry = self.entry(producer_id)
        if entry is None:
            entry = self.entries[producer_id] = ProducerEntry(epoch)
        elif epoch > entry.epoch:
            entry.begin_epoch(epoch)
        entry.txn_first_offset = NO_OFFSET
        entry.coordinator_epoch = coordinator_epoch
        entry.last_timestamp = timestamp


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
