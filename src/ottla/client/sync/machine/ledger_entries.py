"""The ledger of writers whose transactions cannot be committed by one decision, and how its records are read.

The ledger is a compacted topic of one partition. The key of a record is the name of a writer, its value an `Entry`:
the number of the writer's last batch, and the transactions that have the records of this batch, as long as they are
not known to be committed. An entry is written in a transaction of the process that commits, whose transactional id
is the writer's name. So processes that took the name over earlier cannot write entries any more.

Rules
- A committed entry is the decision to commit its batch. It counts until a later entry of the writer is committed.
- The ledger is read as it is, without waiting for the open transactions of other writers: the markers that follow
  say which entries are committed.
- A record without a value takes the entry back. An operator may write one, with or without a transaction.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from ottla.client.requests.group_commit import MemberTransaction, Progress
from ottla.errors import ErrorCode, KafkaError
from ottla.model import TopicPartition
from ottla.records.batch import BatchView
from ottla.records.control import marker_of

LEDGER: Final = TopicPartition("_ottla_sink_batches", 0)
_VERSION: Final = 1


class Written(NamedTuple):
    """The records of a transaction in one partition: where they begin, and how many there are."""

    first_offset: int
    records_count: int


@dataclass(frozen=True, slots=True)
class Participant:
    """An open transaction that has a part of a batch."""

    transaction: MemberTransaction
    written: Mapping[TopicPartition, Written]


@dataclass(frozen=True, slots=True)
class Entry:
    """The last batch of a writer. `participants` are those that are not known to be committed."""

    progress: Progress
    participants: tuple[Participant, ...] = ()

    def encoded(self) -> bytes:
        participants = [
            [*each.transaction, [[*partition, *written] for partition, written in each.written.items()]]
            for each in self.participants
        ]
        number, owner = self.progress
        fields = {"version": _VERSION, "batch": number, "owner": owner, "open": participants}
        return json.dumps(fields, separators=(",", ":")).encode()


def parsed(value: bytes) -> Entry:
    """The entry that `encoded` has made. Raises KafkaError if it cannot be understood."""
    try:
        fields = json.loads(value)
        if fields["version"] > _VERSION:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION, f"a newer version of Ottla has written to {LEDGER.topic}"
            )
        return Entry(
            Progress(int(fields["batch"]), str(fields["owner"])),
            tuple(
                Participant(
                    MemberTransaction(transactional_id, producer_id, epoch),
                    {TopicPartition(topic, at): Written(*place) for topic, at, *place in written},
                )
                for transactional_id, producer_id, epoch, written in fields["open"]
            ),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise KafkaError(
            ErrorCode.INVALID_RECORD, f"an entry of {LEDGER.topic} cannot be read: {value!r}"
        ) from error


class LedgerReading:
    """Reads the batches of the ledger for one writer, in order."""

    def __init__(self, name: str) -> None:
        self._key = name.encode()
        self._undecided: dict[int, Entry | None] = {}  # by producer id
        self.entry: Entry | None = None

    def take(self, batch: BatchView) -> None:
        """The next batch."""
        if batch.is_control:
            marker = marker_of(batch)
            if marker is not None and batch.producer_id in self._undecided:
                entry = self._undecided.pop(batch.producer_id)
                self.entry = entry if marker.is_commit else self.entry
            return
        for record in batch.records():
            if record.key != self._key:
                continue
            entry = None if record.value is None else parsed(record.value)
            if batch.is_transactional:
                self._undecided[batch.producer_id] = entry
            elif entry is None:
                self.entry = None

    @property
    def is_settled(self) -> bool:
        """Whether the last batch is known: no open transaction may add another one."""
        last = -1 if self.entry is None else self.entry.progress.number
        return all(each is not None and each.progress.number <= last for each in self._undecided.values())
