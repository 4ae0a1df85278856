"""Runs a transaction coordinator as its shell does: a list is the log, a dictionary has the markers."""

from __future__ import annotations

from typing import Any

from ottla.config import TransactionConfig
from ottla.errors import ErrorCode
from ottla.model import TopicPartition
from ottla.transaction.commands import (
    AddPartitions,
    Context,
    EndTransaction,
    InitProducer,
    MarkersWritten,
    ProducerAnswer,
    TransactionKept,
    VerifyPartitions,
)
from ottla.transaction.coordinator import TransactionCoordinator
from ottla.transaction.decision import Markers, NeedsProducerIdError
from ottla.transaction.metadata import TransactionMetadata
from ottla.transaction.records import TransactionRecord

ID = "orders"
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


class Shell:
    """One coordinator, its log, and the markers that it sent."""

    def __init__(self, finalized_version: int = 2, settings: TransactionConfig | None = None) -> None:
        self.finalized_version = finalized_version
        self.now_ms = 1_000_000
        self.log: list[TransactionRecord] = []
        self.unsent: list[Markers] = []
        self.next_producer_id = 1000
        self.is_writable = True
        self._settings = settings or TransactionConfig()
        self.machine = TransactionCoordinator(self._settings)

    def ask(self, command: Any) -> Any:
        """The answer; COORDINATOR_NOT_AVAILABLE while nothing can be written."""
        context = Context(self.now_ms, self.finalized_version)
        try:
            decision = self.machine.command(command, context)
        except NeedsProducerIdError as needed:
            first = self.next_producer_id + 1
            self.next_producer_id += needed.count
            more = tuple(range(first + 1, self.next_producer_id + 1))
            context = context._replace(new_producer_id=first, more_producer_ids=more)
            decision = self.machine.command(command, context)
        if decision.records and not self.is_writable:
            return ProducerAnswer(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        for record in decision.records:
            self.log.append(record)
            self.machine.replay(*record)
        self.unsent += decision.markers
        return decision.response

    def init(
        self, transactional_id: str = ID, producer_id: int = -1, epoch: int = -1, *, timeout_ms: int = 60_000
    ) -> ProducerAnswer:
        answer = self.ask(InitProducer(transactional_id, timeout_ms, producer_id, epoch))
        assert isinstance(answer, ProducerAnswer)
        return answer

    def keep(self, *, is_two_phase: bool = True) -> ProducerAnswer | TransactionKept:
        """A producer takes the id over, and keeps the transaction that is open."""
        command = InitProducer(ID, 60_000, is_two_phase=is_two_phase, keeps_prepared=True)
        answer: ProducerAnswer | TransactionKept = self.ask(command)
        return answer

    def add(self, identity: Any, *partitions: TopicPartition, version: int = 2, of: str = ID) -> ErrorCode:
        command = AddPartitions(of, identity[-2], identity[-1], frozenset(partitions), version)
        error: ErrorCode = self.ask(command)
        return error

    def verify(
        self, identity: Any, *partitions: TopicPartition, of: str = ID
    ) -> dict[TopicPartition, ErrorCode]:
        answer: dict[TopicPartition, ErrorCode] = self.ask(
            VerifyPartitions(of, identity[-2], identity[-1], frozenset(partitions))
        )
        return answer

    def end(self, identity: Any, *, commit: bool, version: int = 2, of: str = ID) -> ProducerAnswer:
        answer: ProducerAnswer = self.ask(EndTransaction(of, identity[-2], identity[-1], commit, version))
        return answer

    def write_markers(self) -> list[Markers]:
        """All partitions take the markers that were sent."""
        sent, self.unsent = self.unsent, []
        for markers in sent:
            self.mark(markers, markers.partitions)
        return sent

    def mark(self, markers: Markers, partitions: frozenset[TopicPartition]) -> None:
        producer_id, producer_epoch = markers.producer_id, markers.producer_epoch
        self.ask(MarkersWritten(markers.transactional_id, producer_id, producer_epoch, partitions))

    def fail_over(self) -> None:
        """Another broker leads: it has the log, and nothing else."""
        self.machine = TransactionCoordinator(self._settings)
        for record in self.log:
            self.machine.replay(*record)
        self.unsent = self.machine.loaded()

    def pass_time(self, ms: int) -> None:
        """Time passes, and the coordinator looks for transactions that took too long."""
        self.now_ms += ms
        for command in self.machine.timed_out(self.now_ms):
            self.ask(command)

    def state(self, transactional_id: str = ID) -> str:
        return self[transactional_id].state.value

    def __getitem__(self, transactional_id: str) -> TransactionMetadata:
        return self.machine.transactions[transactional_id]
