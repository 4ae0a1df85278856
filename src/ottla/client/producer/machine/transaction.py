"""A transactional producer, as a machine: which requests are due, and what their answers mean (KIP-98, KIP-890).

There are two protocols; the cluster's feature `transaction.version` says which one is spoken.

    up to 1   Every partition and every group is added at the coordinator before the first batch or offset goes
              there. The epoch stays the same from one transaction to the next.
    from 2    Partitions and groups are added by the brokers that get the batches and offsets. The end of each
              transaction raises the epoch, so that nothing of it can become part of the next one.

Rules
- One transaction at a time. A failed transaction can only be aborted; the gravest failure counts.
- The coordinator hears of the end only if it knows of the transaction.
- A request without an answer may be carried out later, when the next transaction is open: a delayed EndTxn would
  commit a part of that one. The same holds for a batch whose fate is unknown. So an epoch in which that happened
  is given up: InitProducerId raises it before the next transaction, unless the end of this one has raised it.
- An end without an answer leaves the transaction open, perhaps. It is aborted before the epoch is raised:
  InitProducerId over an open transaction would fence the producer itself.
- A prepared transaction (two-phase commit, KIP-939) takes nothing more, and is ended only by a decision of the
  application: it is never aborted because of an error. An end without an answer leaves it prepared, to be ended
  again in the same way; `transaction.version` 2 answers a repeated end.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Final

from ottla.client.producer.machine.idempotence import ProducerIdentity
from ottla.client.producer.machine.prepared_transaction import PreparedTransaction, prepared_under
from ottla.client.producer.machine.transaction_errors import Remedy, TransactionFailure
from ottla.errors import ErrorCode
from ottla.model import TopicPartition

# The level of the feature `transaction.version` from which on brokers add partitions by themselves.
IMPLICIT_LEVEL: Final = 2


class Phase(Enum):
    """Where a transactional producer is."""

    UNINITIALISED = "needs a producer id, or a higher epoch, from the coordinator"
    READY = "may begin a transaction"
    IN_TRANSACTION = "takes records and offsets"
    PREPARED = "has a transaction with nothing under way, that the application has to end"
    COMMITTING = "waits until the coordinator has taken the commit"
    ABORTING = "waits until the coordinator has taken the abort"
    ABORTABLE_ERROR = "has a transaction that failed, and can only be aborted"
    FATAL_ERROR = "cannot go on"


_FATAL: Final = "the producer is fenced, or refused for a reason that stays"
TRANSITIONS: Final = {
    (Phase.UNINITIALISED, Phase.READY): "the coordinator granted a producer id and epoch",
    (Phase.UNINITIALISED, Phase.PREPARED): "the coordinator has kept the transaction of the producer before",
    (Phase.READY, Phase.IN_TRANSACTION): "a transaction begins",
    (Phase.IN_TRANSACTION, Phase.PREPARED): "the application prepares, and all records are delivered",
    (Phase.PREPARED, Phase.COMMITTING): "the application commits",
    (Phase.PREPARED, Phase.ABORTING): "the application aborts",
    (
        Phase.IN_TRANSACTION,
        Phase.COMMITTING,
    ): "the application has ended normally, and all records are delivered",
    (Phase.IN_TRANSACTION, Phase.ABORTING): "the application raised, or was cancelled",
    (Phase.IN_TRANSACTION, Phase.ABORTABLE_ERROR): "a record was not delivered, or a request was refused",
    (Phase.ABORTABLE_ERROR, Phase.ABORTING): "the application leaves the transaction",
    (Phase.COMMITTING, Phase.READY): "the coordinator has taken the commit, or knows of no transaction",
    (Phase.COMMITTING, Phase.UNINITIALISED): "an answer was lost",
    (Phase.COMMITTING, Phase.PREPARED): "an answer about a prepared transaction was lost",
    (Phase.COMMITTING, Phase.ABORTABLE_ERROR): "the coordinator refused the commit",
    (Phase.ABORTING, Phase.READY): "the coordinator has taken the abort, or knows of no transaction",
    (Phase.ABORTING, Phase.UNINITIALISED): "an answer was lost, or the fate of a record is unknown",
    (Phase.ABORTING, Phase.PREPARED): "an answer about a prepared transaction was lost",
    (Phase.UNINITIALISED, Phase.FATAL_ERROR): _FATAL,
    (Phase.READY, Phase.FATAL_ERROR): _FATAL,
    (Phase.IN_TRANSACTION, Phase.FATAL_ERROR): _FATAL,
    (Phase.PREPARED, Phase.FATAL_ERROR): _FATAL,
    (Phase.ABORTABLE_ERROR, Phase.FATAL_ERROR): _FATAL,
    (Phase.COMMITTING, Phase.FATAL_ERROR): _FATAL,
    (Phase.ABORTING, Phase.FATAL_ERROR): _FATAL,
}


class TransactionalProducer:
    """The transactions of one producer."""

    def __init__(self) -> None:
        self.phase = Phase.UNINITIALISED
        self.identity: ProducerIdentity | None = None
        self.is_implicit = False  # the protocol from transaction.version 2 on
        self.failure: TransactionFailure | None = None  # of the present transaction
        self.prepared: PreparedTransaction | None = None
        self._added: set[TopicPartition] = set()
        self._wanted: dict[TopicPartition, None] = {}
        self._groups: set[str] = set()
        self._is_adding = False
        self._is_known = False  # to the coordinator, perhaps: the transaction has to be ended there
        self._is_epoch_spent = False
        self.is_end_lost = False  # the present end was sent, and perhaps taken
        self.is_undecided = False  # the end of the last transaction had no answer

    @property
    def is_open(self) -> bool:
        """Whether records and offsets are taken."""
        return self.phase is Phase.IN_TRANSACTION

    @property
    def is_discarded(self) -> bool:
        """Whether the transaction will not be committed, so that no more of it needs to be sent."""
        return self.phase in (Phase.ABORTABLE_ERROR, Phase.ABORTING, Phase.FATAL_ERROR)

    @property
    def is_known(self) -> bool:
        """Whether the coordinator may know of the transaction, and has to be told its end."""
        return self._is_known

    # ---- the producer id

    def initialised(self, identity: ProducerIdentity, kept: PreparedTransaction | None = None) -> None:
        """The coordinator granted a producer id and epoch; `kept` is a transaction that it has left open."""
        self.identity, self._is_epoch_spent, self.is_undecided = identity, False, False
        if kept is None:
            self._go(Phase.READY)
            return
        # Only the protocol of transaction.version 2 keeps transactions.
        self.prepared, self.is_implicit, self._is_known = kept, True, True
        self._go(Phase.PREPARED)

    # ---- a transaction

    def begin(self, transaction_version: int) -> None:
        """Begin a transaction in the protocol of this `transaction.version`."""
        self.is_implicit = transaction_version >= IMPLICIT_LEVEL
        self.failure, self.is_end_lost = None, False
        self._go(Phase.IN_TRANSACTION)

    def admits(self, partition: TopicPartition) -> bool:
        """Whether a batch may go to this partition now; if not, the partition is wanted."""
        if self.phase is not Phase.IN_TRANSACTION:
            return False
        if self.is_implicit:
            self._is_known = True
            return True
        if partition in self._added:
            return True
        self._wanted[partition] = None
        return False

    def take_wanted(self) -> list[TopicPartition]:
        """The partitions to add at the coordinator now; none while others are being added."""
        if self._is_adding or not self._wanted or not self.is_open:
            return []
        wanted = [each for each in self._wanted if each not in self._added]
        self._wanted.clear()
        self._is_adding = bool(wanted)
        return wanted

    def added(self, partitions: Iterable[TopicPartition]) -> None:
        """The coordinator has added partitions: batches may go there."""
        self._added.update(partitions)
        self._is_adding, self._is_known = False, True

    def not_added(self) -> None:
        """The coordinator has not added the partitions that were taken last."""
        self._is_adding = False

    def needs_group(self, group_id: str) -> bool:
        """Whether a group has to be added at the coordinator before its offsets can be sent."""
        if self.is_implicit:
            self._is_known = True
            return False
        return group_id not in self._groups

    def added_group(self, group_id: str) -> None:
        """The coordinator has added a group."""
        self._groups.add(group_id)
        self._is_known = True

    # ---- what goes wrong

    def fail(self, remedy: Remedy, code: ErrorCode, message: str) -> None:
        """Something was refused. In a transaction this means that the transaction cannot be committed."""
        if self.failure is None or remedy > self.failure.remedy:
            self.failure = TransactionFailure(remedy, code, message)
        if remedy is Remedy.UNKNOWN:
            self.undecided()
        elif remedy >= Remedy.RESTART:
            if self.phase is not Phase.FATAL_ERROR:
                self._go(Phase.FATAL_ERROR)
        elif self.phase in (Phase.IN_TRANSACTION, Phase.COMMITTING):
            self._go(Phase.ABORTABLE_ERROR)

    def spend_epoch(self) -> None:
        """A numbered batch was not delivered: the next transaction has to count from 0, in a higher epoch."""
        self._is_epoch_spent = True

    def lost(self) -> None:
        """A request had no answer, and may be carried out at any time: the epoch is given up."""
        self._is_epoch_spent = self._is_known = True
        self.is_end_lost = self.phase in (Phase.COMMITTING, Phase.ABORTING)

    # ---- the end

    def prepare(self) -> PreparedTransaction:
        """All records are delivered: from now on only the application ends the transaction."""
        assert self.identity is not None
        self.prepared = prepared_under(self.identity)
        self._go(Phase.PREPARED)
        return self.prepared

    def unanswered(self) -> None:
        """The end of a prepared transaction had no answer: it has to be told again."""
        self._go(Phase.PREPARED)

    def begin_commit(self) -> None:
        """All records are delivered: the coordinator is asked next, if the transaction is known to it."""
        self._go(Phase.COMMITTING)

    def begin_abort(self) -> None:
        """Nothing more is sent. When nothing is under way any more, the coordinator is asked."""
        self._go(Phase.ABORTING)

    def ended(self, identity: ProducerIdentity | None = None) -> bool:
        """The end is reached; whether the epoch was raised with it, to that of `identity`."""
        is_raised = identity is not None and identity != self.identity
        if is_raised:
            self.identity, self._is_epoch_spent = identity, False
        self._added.clear()
        self._wanted.clear()
        self._groups.clear()
        self._is_adding = self._is_known = False
        self.prepared = None
        self._go(Phase.UNINITIALISED if self._is_epoch_spent else Phase.READY)
        return is_raised

    def undecided(self) -> None:
        """The end had no answer: the transaction may be open, or not."""
        self._is_epoch_spent = self.is_undecided = True
        self.ended()

    def _go(self, phase: Phase) -> None:
        assert (self.phase, phase) in TRANSITIONS, f"{self.phase.name} to {phase.name}"
        self.phase = phase
