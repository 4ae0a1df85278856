"""The log of a simulated replica: batches, of which the first so many are flushed.

It is as small as it can be and still do what `ottla.log` does: epochs and producers are the real ones, a power loss cuts what was
not flushed from any batch on. A batch is one object wherever it is: two logs hold the same batch if they hold the same object.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Final, NamedTuple, Protocol

from tests.simulation.world.disk import SimulatedDisk

from ottla.log.producers.producer_state import BATCHES_KEPT, Incoming, ProducedBatch, Producers, Staged
from ottla.log.segments.leader_epochs import LeaderEpochs
from ottla.model import EpochEnd
from ottla.replication.divergence import LogView

NO_PRODUCER: Final = -1
_NO_DISK: Final = SimulatedDisk()  # the epochs are never written: recovery finds them in the batches


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Records with consecutive offsets, written by one leader in one epoch. A value is never written twice."""

    base_offset: int
    leader_epoch: int
    producer_id: int
    base_sequence: int
    values: tuple[int, ...]

    @property
    def end_offset(self) -> int:
        return self.base_offset + len(self.values)

    def __repr__(self) -> str:
        who = f" of {self.producer_id}.{self.base_sequence}" if self.producer_id >= 0 else ""
        return f"<{self.base_offset}..{self.end_offset - 1} in {self.leader_epoch}{who}: {self.values}>"


class Appended(NamedTuple):
    """Where an append is; a duplicate is where it was."""

    base_offset: int
    end_offset: int
    is_duplicate: bool


class ReplicaLog(LogView, Protocol):
    """What a simulated broker does with a log."""

    @property
    def flushed_offset(self) -> int: ...

    @property
    def first_lost_offset(self) -> int | None: ...

    @property
    def batches(self) -> list[Batch]: ...

    @property
    def removable_offset(self) -> int: ...

    def index_of(self, offset: int) -> int: ...

    def read(self, offset: int, upper_offset: int, max_batches: int) -> list[Batch]: ...

    def append(
        self, producer_id: int, base_sequence: int, values: tuple[int, ...], leader_epoch: int
    ) -> Appended: ...

    def append_replicated(self, batches: Sequence[Batch]) -> None: ...

    def truncate(self, offset: int) -> None: ...

    def begin_at(self, offset: int) -> None: ...

    def advance_start(self, offset: int) -> None: ...

    def accept_loss(self) -> None: ...

    def begin_flush(self) -> None: ...

    def end_flush(self) -> None: ...

    def flush(self) -> None: ...

    def close(self) -> None: ...

    def kill(self) -> None: ...

    def crash(self, random: Random) -> None: ...


class BrokerLog:
    """What one replica holds of a partition."""

    first_lost_offset: int | None = None  # what a crash leaves has no holes here

    def __init__(self) -> None:
        self.log_start_offset = 0
        self.log_end_offset = 0
        self.flushed_offset = 0
        self.batches: list[Batch] = []
        self._bases: list[int] = []
        self._flushing_offset = 0
        self.epochs = LeaderEpochs(_NO_DISK, "/epochs")
        self.producers = Producers()

    @property
    def latest_epoch(self) -> int:
        return self.epochs.latest

    def end_offset_for(self, epoch: int) -> EpochEnd:
        return self.epochs.end_offset_for(epoch, self.log_end_offset)

    def index_of(self, offset: int) -> int:
        """Which batch begins at an offset, or is the first behind it."""
        return bisect_left(self._bases, offset)

    def read(self, offset: int, upper_offset: int, max_batches: int) -> list[Batch]:
        """Whole batches from an offset on that end before another."""
        first = self.index_of(offset)
        if first == len(self.batches):
            return []
        found = self.batches[first : first + max_batches]
        while found and found[-1].end_offset > upper_offset:
            found.pop()
        return found

    # ---- appends

    def append(
        self, producer_id: int, base_sequence: int, values: tuple[int, ...], leader_epoch: int
    ) -> Appended:
        """Number what a client sent; KafkaError where its sequence does not fit."""
        batch = Batch(self.log_end_offset, leader_epoch, producer_id, base_sequence, values)
        if producer_id != NO_PRODUCER:
            staged = Staged(self.producers)
            earlier = staged.check(_incoming(batch))
            if earlier is not None:
                return Appended(earlier.base_offset, earlier.last_offset + 1, True)
            self._install(staged, batch)
        self._add(batch)
        return Appended(batch.base_offset, batch.end_offset, False)

    def append_replicated(self, batches: Sequence[Batch]) -> None:
        """Take over what a leader has numbered."""
        for batch in batches:
            if batch.producer_id != NO_PRODUCER:
                self._install(Staged(self.producers), batch)
            self._add(batch)

    def _install(self, staged: Staged, batch: Batch) -> None:
        staged.apply(_incoming(batch))
        self.producers.install(staged.take())

    def _add(self, batch: Batch) -> None:
        if batch.leader_epoch > self.epochs.latest:
            self.epochs.assign(batch.leader_epoch, batch.base_offset)
        self.batches.append(batch)
        self._bases.append(batch.base_offset)
        self.log_end_offset = batch.end_offset

    # ---- cuts

    def truncate(self, offset: int) -> None:
        """Cut the end off, durably. A cut inside a batch takes the whole batch."""
        while self.batches and self.batches[-1].end_offset > offset:
            self.batches.pop()
            self._bases.pop()
        self.log_end_offset = self.batches[-1].end_offset if self.batches else self.log_start_offset
        self.flushed_offset = min(self.flushed_offset, self.log_end_offset)
        self._flushing_offset = min(self._flushing_offset, self.log_end_offset)
        self.epochs.truncate_from_end(self.log_end_offset)
        self._rebuild_producers()

    def begin_at(self, offset: int) -> None:
        """Throw everything away."""
        self.batches, self._bases = [], []
        self.log_start_offset = self.log_end_offset = offset
        self.flushed_offset = self._flushing_offset = offset
        self.epochs.truncate_from_end(0)
        self.producers = Producers()

    def advance_start(self, offset: int) -> None:
        """Retention: forget the batches before an offset. What is known of producers stays, as snapshots keep it."""
        count = self.index_of(offset)
        if count > 0:
            self.log_start_offset = self.batches[count - 1].end_offset
        del self.batches[:count], self._bases[:count]
        self.epochs.truncate_from_start(self.log_start_offset)
        self.flushed_offset = max(self.flushed_offset, self.log_start_offset)
        self._flushing_offset = max(self._flushing_offset, self.log_start_offset)

    @property
    def removable_offset(self) -> int:
        """Up to where retention may go without taking a producer's last batches from replicas that begin anew."""
        seen: dict[int, int] = {}
        offset = self.log_end_offset
        for batch in reversed(self.batches):
            count = seen[batch.producer_id] = seen.get(batch.producer_id, 0) + 1
            if batch.producer_id != NO_PRODUCER and count <= BATCHES_KEPT:
                offset = batch.base_offset
        return offset

    def _rebuild_producers(self) -> None:
        self.producers = Producers()
        for batch in self.batches:
            if batch.producer_id != NO_PRODUCER:
                self._install(Staged(self.producers), batch)

    # ---- the disk

    def begin_flush(self) -> None:
        self._flushing_offset = self.log_end_offset

    def end_flush(self) -> None:
        self.flushed_offset = max(self.flushed_offset, self._flushing_offset)

    def flush(self) -> None:
        self.begin_flush()
        self.end_flush()

    def close(self) -> None:
        """The process stops as it should."""
        self.flush()

    def kill(self) -> None:
        """The process dies and the machine does not: everything is there, and no more flushed than it was."""

    def accept_loss(self) -> None:
        """Nothing is ever missing."""

    def crash(self, random: Random) -> None:
        """A power loss: what was not flushed is gone from any batch on, or from within one."""
        self.truncate(random.randint(self.flushed_offset, self.log_end_offset))
        self.flush()


def _incoming(batch: Batch) -> Incoming:
    last = batch.end_offset - 1
    last_sequence = batch.base_sequence + len(batch.values) - 1
    produced = ProducedBatch(batch.base_sequence, last_sequence, batch.base_offset, last, 0)
    return Incoming(batch.producer_id, 0, False, produced)
