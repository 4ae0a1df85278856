"""Requests to the coordinator as it receives them, and the decisions it returns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ottla.config import GroupConfig
from ottla.group.records import GroupRecord
from ottla.group.timers import Timer, Timers


class GroupRequestContext(NamedTuple):
    """The context of a request: `ticket` is any value by which the shell finds the caller that waits for the
    answer.
    """

    version: int
    client_id: str
    client_host: str
    ticket: Any


class Transaction(NamedTuple):
    """The open transaction that records are written within, by its producer."""

    producer_id: int
    producer_epoch: int


class Decision(NamedTuple):
    """Records to append and replay, and the answers to give once they are committed.

    Without a `response` the request is deferred: a later decision has it among its `completions`, under its
    ticket. The records may be appended as several batches, in their order; with a `transaction` the batches
    are transactional ones of its producer. `notes` are sentences for a log.
    """

    records: Sequence[GroupRecord]
    response: Any
    completions: Sequence[tuple[Any, Any]] = ()
    notes: Sequence[str] = ()
    transaction: Transaction | None = None


class Parked(NamedTuple):
    """A request that waits for others: whom to answer, and in which version."""

    ticket: Any
    version: int


class Turn:
    """One command, or one deadline: the time at which it happens, and what comes of it."""

    __slots__ = (
        "_transaction",
        "completions",
        "new_member_id",
        "notes",
        "now_ms",
        "records",
        "settings",
        "timers",
    )

    def __init__(
        self, now_ms: int, settings: GroupConfig, timers: Timers, new_member_id: Callable[[str], str]
    ) -> None:
        self.now_ms = now_ms
        self.settings = settings
        self.timers = timers
        self.new_member_id = new_member_id
        self.records: list[GroupRecord] = []
        self.completions: list[tuple[Any, Any]] = []
        self.notes: list[str] = []
        self._transaction: Transaction | None = None

    def write_within(self, transaction: Transaction) -> None:
        """The records of this turn belong to a transaction."""
        self._transaction = transaction

    def after(self, timer: Timer, delay_ms: int, action: Callable[[Turn], None]) -> None:
        """Set a timer. Never for this very moment: a timer without delay would be due again without end."""
        self.timers.set(timer, self.now_ms + max(delay_ms, 1), action)

    def answer(self, parked: Parked, response: Any) -> None:
        """Answer a request that was deferred."""
        self.completions.append((parked.ticket, response))

    def decision(self, response: Any = None, ticket: Any = None) -> Decision:
        """All of it. If the request was deferred and then answered in the same turn, that is its response."""
        if response is None:
            for number, (answered, completion) in enumerate(self.completions):
                if ticket is not None and answered == ticket:
                    del self.completions[number]
                    response = completion
                    break
        return Decision(self.records, response, self.completions, self.notes, self._transaction)
