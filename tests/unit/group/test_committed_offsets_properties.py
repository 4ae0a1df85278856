"""Offsets of a group under random commits, transactions and tombstones, against a model that keeps the whole log.

The model is the definition: of all records of a partition that count (not pending, not aborted) and that no
tombstone follows, the last one in the log is in force. A coordinator finds the same offsets while it writes,
after it has read the log, and after the log was compacted.
"""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from ottla.group.committed_offsets import CommittedOffsets
from ottla.group.records import OffsetCommitValue
from ottla.model import NO_PRODUCER_ID

TOPIC = "t"
PARTITIONS = range(2)
PRODUCERS = (1, 2, 3)


class Entry(NamedTuple):
    """One record of the log, a tombstone (no value), or the marker of a producer (no partition)."""

    producer_id: int
    partition: int | None
    value: int | None = None
    is_commit: bool = False


partitions = st.sampled_from(PARTITIONS)
producers = st.sampled_from(PRODUCERS)
offsets = st.integers(0, 99)
logs = st.lists(
    st.one_of(
        st.builds(Entry, st.just(NO_PRODUCER_ID), partitions, offsets),
        st.builds(Entry, producers, partitions, offsets),
        st.builds(Entry, st.just(NO_PRODUCER_ID), partitions),
        st.builds(Entry, producers, st.none(), st.none(), st.booleans()),
    ),
    max_size=25,
)


def replayed(log: list[Entry]) -> CommittedOffsets:
    found = CommittedOffsets()
    for entry in log:
        if entry.partition is None:
            found.end_transaction(entry.producer_id, is_commit=entry.is_commit)
        elif entry.value is None:
            found.replay(TOPIC, entry.partition, None)
        elif entry.producer_id == NO_PRODUCER_ID:
            found.replay(TOPIC, entry.partition, OffsetCommitValue(entry.value))
        else:
            found.replay_pending(entry.producer_id, TOPIC, entry.partition, OffsetCommitValue(entry.value))
    return found


def outcome(log: list[Entry], position: int) -> bool | None:
    """Whether a record counts; None while its transaction is open."""
    if log[position].producer_id == NO_PRODUCER_ID:
        return True
    later = (entry for entry in log[position:] if entry.producer_id == log[position].producer_id)
    return next((entry.is_commit for entry in later if entry.partition is None), None)


def expected(log: list[Entry], partition: int) -> tuple[int | None, bool]:
    """The offset in force, and whether another one is pending."""
    about = [position for position, entry in enumerate(log) if entry.partition == partition]
    tombstone = max((position for position in about if log[position].value is None), default=-1)
    living = [position for position in about if position > tombstone]
    counting = [log[position].value for position in living if outcome(log, position)]
    is_pending = any(outcome(log, position) is None for position in living)
    return (counting[-1] if counting else None), is_pending


def compacted(log: list[Entry]) -> list[Entry]:
    """The log without what a later record of the same partition replaces, up to the first open transaction."""
    open_ = [p for p, entry in enumerate(log) if entry.partition is not None and outcome(log, p) is None]
    end = min(open_, default=len(log))
    kept = [p for p in range(end) if log[p].partition is None or outcome(log, p)]
    last = {log[p].partition: p for p in kept}
    return [log[p] for p in kept if log[p].partition is None or last[log[p].partition] == p] + log[end:]


def state(found: CommittedOffsets) -> list[tuple[int | None, bool]]:
    values = [found.get(TOPIC, partition) for partition in PARTITIONS]
    return [
        (None if value is None else value.offset, found.is_pending(TOPIC, partition))
        for partition, value in zip(PARTITIONS, values, strict=True)
    ]


@given(logs)
def test_the_last_record_that_counts_is_in_force(log: list[Entry]) -> None:
    found = replayed(log)
    model = [expected(log, partition) for partition in PARTITIONS]
    assert state(found) == model
    assert found.has_pending == any(pending for _, pending in model)
    assert found.is_empty == (not found.partitions())
    assert {partition for _, partition in found.partitions()} == {
        partition
        for partition, (value, pending) in zip(PARTITIONS, model, strict=True)
        if value is not None or pending
    }


@given(logs)
def test_a_compacted_log_gives_the_same_offsets(log: list[Entry]) -> None:
    assert state(replayed(compacted(log))) == state(replayed(log))
